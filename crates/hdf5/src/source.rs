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

    /// The bytes from an offset on, if they are in memory: metadata is then decoded where it is,
    /// and nothing is kept in blocks.
    fn in_memory(&self, _offset: u64, _length: u64) -> Option<&[u8]> {
        None
    }
}

impl Source for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = self.in_memory(offset, buffer.len() as u64);
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let begin = usize::try_from(offset).ok()?;
        self.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        self.as_slice().length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buffer)
    }

    fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]> {
        self.as_slice().in_memory(offset, length)
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

            fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]> {
                (**self).in_memory(offset, length)
            }
        }
    )*};
}

forward!(&T, Box<T>, Rc<T>, Arc<T>);
