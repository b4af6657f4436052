//! The two directions of a stream: what is read ahead, and what is written from many places.
//!
//! [`Input`] holds a little more than the header that was asked for, since small frames mostly come
//! in groups and each would cost a read otherwise. Payloads take what was read ahead and then come
//! straight into the caller's memory; only the beginning of one is ever copied.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use crate::checksum::Checksum;

/// Bytes that are read ahead at most.
const AHEAD: usize = 4096;

/// Bytes that were read and not yet asked for.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; AHEAD].into_boxed_slice(), start: 0, end: 0 }
    }

    /// What was read and not yet asked for.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next `N` bytes, or none if the stream ended before the first of them.
    ///
    /// What came before an error, a time-out for instance, stays for the next call.
    pub(crate) fn next<const N: usize>(
        &mut self,
        stream: &mut impl Read,
    ) -> io::Result<Option<[u8; N]>> {
        const { assert!(N <= AHEAD) }
        loop {
            if let Some(bytes) = self.waiting().first_chunk() {
                let bytes = *bytes;
                self.start += N;
                return Ok(Some(bytes));
            }
            if self.fill(stream)? == 0 {
                return if self.waiting().is_empty() { Ok(None) } else { Err(cut_off()) };
            }
        }
    }

    /// Reads once, after what is waiting.
    fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let free = &mut self.buffer[self.end..];
        let count = retried(|| stream.read(free))?;
        self.end += count;
        Ok(count)
    }

    /// Fills all parts, which are empty afterwards; returns the checksum of what came.
    pub(crate) fn read_parts(
        &mut self,
        stream: &mut impl Read,
        mut parts: &mut [IoSliceMut<'_>],
    ) -> io::Result<u32> {
        let mut crc = Checksum::new();
        IoSliceMut::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let count = if self.start < self.end {
                let count = self.waiting().read_vectored(parts)?;
                self.start += count;
                count
            } else {
                retried(|| stream.read_vectored(parts))?
            };
            if count == 0 {
                return Err(cut_off());
            }
            // While the bytes are still in the processor's caches.
            add(&mut crc, parts, count);
            IoSliceMut::advance_slices(&mut parts, count);
        }
        Ok(crc.finish())
    }

    /// Passes over the next `len` bytes.
    pub(crate) fn skip(&mut self, stream: &mut impl Read, mut len: usize) -> io::Result<()> {
        loop {
            let count = len.min(self.waiting().len());
            self.start += count;
            len -= count;
            if len == 0 {
                return Ok(());
            }
            if self.fill(stream)? == 0 {
                return Err(cut_off());
            }
        }
    }
}

/// Continues the checksum over the first `count` bytes of the parts.
fn add(crc: &mut Checksum, parts: &[IoSliceMut<'_>], mut count: usize) {
    for part in parts {
        let here = count.min(part.len());
        crc.add(&part[..here]);
        count -= here;
        if count == 0 {
            break;
        }
    }
}

/// Writes all slices, in as few writes as the stream allows.
pub(crate) fn write_all(stream: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match retried(|| stream.write_vectored(slices))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut slices, count),
        }
    }
    stream.flush()
}

/// Tries again after an interruption by a signal.
fn retried<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn cut_off() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the stream ended in the middle of a frame")
}
