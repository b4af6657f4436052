//! A stream that transfers a few bytes at a time.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};

/// Transfers between 1 and `most` bytes at a time, and is interrupted now and then.
pub(crate) struct Trickle<S> {
    pub inner: S,
    pub most: usize,
    pub random: u64,
}

impl<S> Trickle<S> {
    fn next(&mut self) -> io::Result<usize> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if self.random.is_multiple_of(11) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(1 + (self.random >> 20) as usize % self.most)
    }
}

impl<S: Read> Read for Trickle<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room = parts.iter().map(|part| part.len()).sum();
        let mut bytes = vec![0; self.next()?.min(room)];
        let count = self.inner.read(&mut bytes)?;
        let places = parts.iter_mut().flat_map(|part| part.iter_mut());
        places.zip(&bytes[..count]).for_each(|(place, &byte)| *place = byte);
        Ok(count)
    }
}

impl<S: Write> Write for Trickle<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let most = self.next()?;
        let bytes: Vec<u8> =
            parts.iter().flat_map(|part| part.iter()).take(most).copied().collect();
        self.inner.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
