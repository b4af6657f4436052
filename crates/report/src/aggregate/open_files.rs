//! [`OpenFiles`]: how each open file is used, from its open to its close.

use std::collections::HashMap;

use striate_trace::TracedFile;

use super::access_pattern::{AccessOrder, Streams};
use super::indicators::{BLOCK, SMALL, WASTE, WINDOW};
use crate::model::Transfers;

/// Open files that are followed at a time; if a program leaves more open, those used longest ago
/// are given up.
const MOST: usize = 16_384;
/// Blocks of a file that write-back is taken to hold at a time.
const HELD: usize = 16;

/// The process that opened a file, and its number there. The second is the process's number, which
/// is another one's if its opener is not recorded.
pub(crate) type Key = (u32, u32, u64);

/// A file that a process of the recording opened.
pub(crate) fn key(owner: usize, file: &TracedFile) -> Key {
    (owner as u32, file.opener, file.number)
}

/// How an open file was used.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenFile {
    /// When it was used last, in calls.
    pub(crate) used: u64,
    /// It was empty when it was opened.
    pub(crate) fresh: bool,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_written: u64,
    /// Time of its open, and of its writes.
    pub(crate) open_ns: u64,
    pub(crate) write_ns: u64,
    pub(crate) small_writes: Transfers,
    /// Writes that would be left with write-back.
    pub(crate) blocks: u64,
    held: [u64; HELD],
    next_held: usize,
    pub(crate) writes_since_sync: u64,
    pub(crate) syncs: u64,
    pub(crate) reading: Streams,
    pub(crate) writing: Streams,
    /// Where the window that read-ahead would have ends.
    window: Option<(u64, u64)>,
}

impl OpenFile {
    /// A write; counts the blocks that write-back would make of small ones.
    pub(crate) fn wrote(&mut self, offset: u64, length: u64, time_ns: u64) -> AccessOrder {
        self.writes += 1;
        self.bytes_written += length;
        self.write_ns += time_ns;
        self.writes_since_sync += 1;
        if length < SMALL {
            self.small_writes.add(length, time_ns);
            let block = offset / BLOCK + 1;
            if !self.held.contains(&block) {
                self.blocks += 1;
                self.held[self.next_held] = block;
                self.next_held = (self.next_held + 1) % HELD;
            }
        }
        self.writing.next(offset, length)
    }

    /// Data was made durable; how many writes there were before it.
    pub(crate) fn synced(&mut self) -> u64 {
        self.syncs += 1;
        self.held = [0; HELD];
        std::mem::take(&mut self.writes_since_sync)
    }

    /// A read. Whether it is a small one that read-ahead could foresee, and whether that begins a
    /// window.
    pub(crate) fn read(&mut self, offset: u64, length: u64) -> (AccessOrder, Option<bool>) {
        self.reads += 1;
        let follows = self.reading.next(offset, length);
        let foreseen = match follows {
            AccessOrder::Sequential => true,
            AccessOrder::Strided(stride) => stride <= length.saturating_mul(WASTE),
            AccessOrder::First | AccessOrder::Random => false,
        };
        if length >= SMALL || !foreseen {
            return (follows, None);
        }
        let begins = !self.window.is_some_and(|(from, until)| (from..until).contains(&offset));
        if begins {
            // It may run backward.
            self.window = Some((offset.saturating_sub(WINDOW / 2), offset.saturating_add(WINDOW)));
        }
        (follows, Some(begins))
    }

    /// Whether it was made, written with a few bytes at once, and nothing else.
    pub(crate) fn is_small_file(&self) -> bool {
        self.fresh
            && self.reads == 0
            && self.syncs == 0
            && (1..=SMALL).contains(&self.bytes_written)
            && self.writes <= 16
    }
}

/// The files that are open.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    by_key: HashMap<Key, OpenFile>,
    clock: u64,
}

impl OpenFiles {
    /// A file, which is new if it was not known.
    pub(crate) fn get(&mut self, key: Key) -> &mut OpenFile {
        self.clock += 1;
        let used = self.clock;
        let file = self.by_key.entry(key).or_default();
        file.used = used;
        file
    }

    /// Files to be given up because there are too many.
    pub(crate) fn too_many(&mut self) -> Vec<OpenFile> {
        if self.by_key.len() <= MOST {
            return Vec::new();
        }
        let mut used: Vec<u64> = self.by_key.values().map(|file| file.used).collect();
        let half = used.len() / 2;
        let limit = *used.select_nth_unstable(half).1;
        self.by_key.extract_if(|_, file| file.used <= limit).map(|(_, file)| file).collect()
    }

    /// A file was closed, or opened again under the number of one whose close was not seen.
    pub(crate) fn take(&mut self, key: Key) -> Option<OpenFile> {
        self.by_key.remove(&key)
    }

    /// All that are left.
    pub(crate) fn take_all(&mut self) -> Vec<OpenFile> {
        self.by_key.drain().map(|(_, file)| file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_that_write_back_would_write() {
        let mut file = OpenFile::default();
        for n in 0..2048u64 {
            file.wrote(n * 1024, 1024, 1);
        }
        assert_eq!((file.blocks, file.small_writes.calls), (2, 2048));
        // Every sync writes out what is held.
        let mut file = OpenFile::default();
        for n in 0..10u64 {
            file.wrote(n * 1024, 1024, 1);
            assert_eq!(file.synced(), 1);
        }
        assert_eq!(file.blocks, 10);
    }

    #[test]
    fn windows_are_those_that_read_ahead_would_read() {
        let mut file = OpenFile::default();
        let begun = (0..4096u64).filter(|n| file.read(n * 4096, 4096).1 == Some(true)).count();
        assert_eq!(begun, 4);
        // Too far apart to be read together.
        let mut file = OpenFile::default();
        assert!((0..100u64).all(|n| file.read(n << 20, 4096).1.is_none()));
    }

    #[test]
    fn files_that_are_left_open_do_not_pile_up() {
        let mut files = OpenFiles::default();
        let mut given_up = 0;
        for n in 0..100_000 {
            files.get((0, 1, n));
            given_up += files.too_many().len();
        }
        assert!(files.by_key.len() <= MOST);
        assert_eq!(files.by_key.len() + given_up, 100_000);
    }
}
