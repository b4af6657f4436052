//! [`Buffers`]: the memory for data of all requests, with a common limit.
//!
//! A request holds one or two chunks while it is carried out, whatever its size. When all are
//! taken, requests wait for each other, and fail when that takes too long.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use striate_wire::limits::MAX_DATA;
use striate_wire::{Failure, FailureCode};

/// Bytes of a chunk: those of the longest data frame.
pub const CHUNK: usize = MAX_DATA as usize;

/// How long a request waits for memory.
const PATIENCE: Duration = Duration::from_secs(20);

/// A limited number of chunks.
#[derive(Debug)]
pub struct Buffers {
    chunks: Mutex<Chunks>,
    freed: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct Chunks {
    idle: Vec<Box<[u8]>>,
    taken: usize,
}

impl Buffers {
    /// Chunks of `limit` bytes together, but at least four.
    pub fn new(limit: usize) -> Self {
        let most = (limit / CHUNK).max(4);
        Self { chunks: Mutex::default(), freed: Condvar::new(), most }
    }

    /// `N` chunks at once, so that two requests never wait for each other with one each.
    pub fn take<const N: usize>(&self) -> Result<[Chunk<'_>; N], Failure> {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |chunks: &mut Chunks| chunks.taken + N > self.most;
        let (mut chunks, waited) = self
            .freed
            .wait_timeout_while(chunks, PATIENCE, full)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let text = format!(
                "no memory for data within {} s: too many requests at once",
                PATIENCE.as_secs()
            );
            return Err(Failure::new(FailureCode::Busy, text));
        }
        chunks.taken += N;
        let bytes: [Option<Box<[u8]>>; N] = std::array::from_fn(|_| chunks.idle.pop());
        drop(chunks);
        // New ones are made outside of the lock.
        Ok(bytes.map(|bytes| {
            let bytes = bytes.unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
            Chunk { bytes, from: self }
        }))
    }

    /// Bytes that are taken now.
    pub fn taken(&self) -> u64 {
        (self.chunks.lock().unwrap_or_else(PoisonError::into_inner).taken * CHUNK) as u64
    }
}

/// [`CHUNK`] bytes, given back when dropped. They hold what earlier requests left in them.
#[derive(Debug)]
pub struct Chunk<'b> {
    bytes: Box<[u8]>,
    from: &'b Buffers,
}

impl Deref for Chunk<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Chunk<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        let mut chunks = self.from.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.taken -= 1;
        chunks.idle.push(std::mem::take(&mut self.bytes));
        drop(chunks);
        self.from.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_limited_and_used_again() {
        let buffers = Buffers::new(0);
        let [mut one, _two, _three] = buffers.take().unwrap();
        one[0] = 7;
        assert_eq!(buffers.taken(), 3 * CHUNK as u64);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| buffers.take::<2>().map(|[chunk, _]| chunk[0]));
            drop(one);
            assert_eq!(waits.join().unwrap().unwrap(), 7);
        });
    }
}
