//! [`Source`]: bytes at offsets, which is all that reading needs of a file.

use std::fs::File as StdFile;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes at offsets.
///
/// # Contract
///
/// The length and the bytes do not change while a file is read. `read_at` fills the whole buffer or
/// fails; it is only called for bytes within the length. Calls are few and large where the format
/// allows it: metadata is asked for in blocks, data in chunks.
pub trait Source {
    /// How many bytes there are.
    fn length(&self) -> io::Result<u64>;

    /// Fills a buffer with the bytes from an offset on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Source for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let begin = usize::try_from(offset).ok();
        let end = begin.and_then(|begin| begin.checked_add(buffer.len()));
        let bytes = begin.zip(end).and_then(|(begin, end)| self.get(begin..end));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        self.as_slice().length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl Source for StdFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<T: Source + ?Sized> Source for $pointer {
            fn length(&self) -> io::Result<u64> {
                (**self).length()
            }

            fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
                (**self).read_at(offset, buffer)
            }
        }
    )*};
}

forward!(&T, Box<T>, Rc<T>, Arc<T>);
