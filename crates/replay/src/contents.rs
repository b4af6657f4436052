//! Generated contents of files: each byte is a function of the path and the offset.
//!
//! A recording has no contents. The byte at an offset of a file is always the same, whichever call
//! writes it and in which order, so that files can be compared after replays with different stacks.
//! All bytes are parts of one pattern, so that most writes need no copy. [`WorkerBuffer`] is the
//! memory of a worker for what it reads and writes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A prime, so that offsets that programs use meet all of it.
const PERIOD: usize = 1_048_573;

/// What direct transfers want.
const ALIGNMENT: usize = 4096;

/// Memory that all workers have together for what they read and write, as far as that goes.
const MOST_TOGETHER: usize = 1 << 30;

/// Memory that one of them has, at least and at most. Longer transfers use it over and over.
const OF_ONE: (usize, usize) = (4 << 20, 64 << 20);

/// Memory that a worker has.
static LIMIT: AtomicUsize = AtomicUsize::new(OF_ONE.1);

/// From now on there are so many workers.
pub(crate) fn limit_memory(workers: usize) {
    let limit = (MOST_TOGETHER / workers.max(1)).clamp(OF_ONE.0, OF_ONE.1);
    LIMIT.store(limit, Ordering::Relaxed);
}

/// Where in the pattern a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase(u64);

impl Phase {
    /// That of a path.
    pub(crate) fn of(path: &Path) -> Self {
        let bytes = AsRef::<OsStr>::as_ref(path).as_bytes();
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash % PERIOD as u64)
    }

    fn at(self, offset: u64) -> usize {
        ((self.0 + offset % PERIOD as u64) % PERIOD as u64) as usize
    }

    /// Fills memory with what is at an offset.
    pub(crate) fn fill(self, mut offset: u64, mut into: &mut [u8]) {
        while !into.is_empty() {
            let count = into.len().min(PERIOD);
            let at = self.at(offset);
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&pattern()[at..at + count]);
            (into, offset) = (later, offset.wrapping_add(count as u64));
        }
    }
}

/// Two periods, so that what is no longer than one is there in one piece.
fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(2 * PERIOD);
        bytes.resize_with(PERIOD, || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        });
        bytes.extend_from_within(..);
        bytes
    })
}

/// The memory of a worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerBuffer {
    memory: Vec<u8>,
}

impl WorkerBuffer {
    /// Memory to be filled or written, where direct transfers may take it: as much as there may be.
    pub(crate) fn memory(&mut self, length: usize) -> &mut [u8] {
        let length = length.min(LIMIT.load(Ordering::Relaxed));
        let needed = length + ALIGNMENT;
        if self.memory.len() < needed {
            self.memory.resize(needed, 0);
        }
        let skipped = self.memory.as_ptr().align_offset(ALIGNMENT);
        &mut self.memory[skipped..skipped + length]
    }

    /// What a write takes; the beginning of it if there may not be as much memory. The caller
    /// writes it repeatedly then.
    pub(crate) fn bytes(
        &mut self,
        phase: Phase,
        offset: u64,
        length: usize,
        direct: bool,
    ) -> &[u8] {
        if length <= PERIOD && !direct {
            let at = phase.at(offset);
            return &pattern()[at..at + length];
        }
        let room = self.memory(length);
        phase.fill(offset, room);
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_follows_from_path_and_offset() {
        let [a, b] = ["/a", "/b"].map(|path| Phase::of(Path::new(path)));
        assert_ne!(a, b);
        let mut whole = vec![0; 3 * PERIOD];
        a.fill(5, &mut whole);
        let mut buffer = WorkerBuffer::default();
        for (offset, length, direct) in
            [(5, 10, false), (100, PERIOD, false), (9, 2 * PERIOD, true)]
        {
            let from = offset as usize - 5;
            let bytes = buffer.bytes(a, offset, length, direct);
            assert!(bytes == &whole[from..from + length]);
            assert!(!direct || bytes.as_ptr().align_offset(ALIGNMENT) == 0);
        }
    }
}
