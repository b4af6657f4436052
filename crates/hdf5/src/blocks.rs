//! [`Blocks`]: metadata is read in blocks, which are kept for a while.
//!
//! Structures of metadata are small, refer to each other and mostly lie together; to a store that
//! is far away each request costs more than its bytes. A bounded number of blocks is kept, the one
//! that was not used for longest gives way. Long reads pass by the cache.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Source;

/// Bytes of a block.
const BLOCK: u64 = 64 << 10;
/// The most blocks that are kept.
const KEPT: usize = 128;
/// Reads of at least this many bytes are not kept.
const LONG: u64 = 4 * BLOCK;

/// A source with a cache in front of it.
#[derive(Debug)]
pub(crate) struct Blocks<S> {
    source: S,
    length: u64,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    blocks: HashMap<u64, Kept>,
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    used: u64,
    bytes: Arc<[u8]>,
}

/// What the decoders need of [`Blocks`], whatever is below.
pub(crate) trait Fetch {
    /// Bytes of the file.
    fn length(&self) -> u64;

    /// Metadata, through the cache. The caller has checked that the bytes are there.
    fn metadata(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Metadata that is in memory, without a copy.
    fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]>;

    /// Data, past the cache.
    fn data(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl<S> Blocks<S> {
    pub(crate) const fn source(&self) -> &S {
        &self.source
    }
}

impl<S: Source> Blocks<S> {
    pub(crate) fn new(source: S) -> io::Result<Self> {
        let length = source.length()?;
        Ok(Self { source, length, cache: Mutex::default() })
    }

    fn block(&self, number: u64) -> io::Result<Arc<[u8]>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clock += 1;
        let clock = cache.clock;
        if let Some(kept) = cache.blocks.get_mut(&number) {
            kept.used = clock;
            return Ok(Arc::clone(&kept.bytes));
        }
        drop(cache);
        let begin = number * BLOCK;
        let mut bytes = vec![0; BLOCK.min(self.length - begin) as usize];
        self.source.read_at(begin, &mut bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.blocks.len() >= KEPT {
            let oldest = cache.blocks.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(&number, _)| number) {
                cache.blocks.remove(&oldest);
            }
        }
        cache.blocks.insert(number, Kept { used: clock, bytes: Arc::clone(&bytes) });
        Ok(bytes)
    }
}

impl<S: Source> Fetch for Blocks<S> {
    fn length(&self) -> u64 {
        self.length
    }

    fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]> {
        self.source.in_memory(offset, length)
    }

    fn metadata(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if let Some(bytes) = self.in_memory(offset, buffer.len() as u64) {
            buffer.copy_from_slice(bytes);
            return Ok(());
        }
        if buffer.len() as u64 >= LONG {
            return self.source.read_at(offset, buffer);
        }
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let block = self.block(at / BLOCK)?;
            let begin = (at % BLOCK) as usize;
            let part = (block.len() - begin).min(buffer.len() - done);
            buffer[done..done + part].copy_from_slice(&block[begin..begin + part]);
            done += part;
        }
        Ok(())
    }

    fn data(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.source.read_at(offset, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Counting(Vec<u8>, RefCell<Vec<(u64, usize)>>);

    impl Source for Counting {
        fn length(&self) -> io::Result<u64> {
            self.0.length()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.1.borrow_mut().push((offset, buffer.len()));
            self.0.read_at(offset, buffer)
        }
    }

    #[test]
    fn small_reads_share_blocks_and_long_ones_pass_by() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|i| (i / 7) as u8).collect();
        let blocks = Blocks::new(Counting(bytes.clone(), RefCell::default())).unwrap();
        let read = |offset: usize, count: usize| {
            let mut buffer = vec![0; count];
            blocks.metadata(offset as u64, &mut buffer).unwrap();
            assert_eq!(buffer, bytes[offset..offset + count]);
        };
        for offset in 0..1000 {
            read(offset * 60, 50);
        }
        assert_eq!(*blocks.source.1.borrow(), [(0, 65536)]);
        read(65530, 20);
        read(999_990, 10);
        read(100, 300_000);
        let expected = [(0, 65536), (65536, 65536), (983_040, 16960), (100, 300_000)];
        assert_eq!(*blocks.source.1.borrow(), expected);
    }
}
