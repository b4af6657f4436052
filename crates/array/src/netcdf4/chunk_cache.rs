//! [`ChunkCache`]: decoded chunks of a dataset that were read in part, within a limit of bytes.
//!
//! A program that reads a filtered variable row by row would decode each chunk once per row. The
//! chunk that was not used for the longest time makes room.

use std::collections::HashMap;

/// A chunk: the number of its variable, and its place in the grid, which stays the same when the
/// grid grows.
pub(super) type ChunkKey = (usize, Vec<u64>);

/// Decoded chunks.
#[derive(Debug)]
pub(super) struct ChunkCache {
    limit: u64,
    bytes: u64,
    clock: u64,
    chunks: HashMap<ChunkKey, CachedChunk>,
}

#[derive(Debug)]
struct CachedChunk {
    bytes: Vec<u8>,
    used: u64,
}

impl ChunkCache {
    /// An empty cache of at most that many bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0, clock: 0, chunks: HashMap::new() }
    }

    pub(super) fn get(&mut self, key: &ChunkKey) -> Option<&[u8]> {
        self.clock += 1;
        let found = self.chunks.get_mut(key)?;
        found.used = self.clock;
        Some(&found.bytes)
    }

    pub(super) fn insert(&mut self, key: ChunkKey, bytes: Vec<u8>) {
        let len = bytes.len() as u64;
        if len > self.limit {
            return;
        }
        self.remove(&key);
        while self.bytes + len > self.limit {
            let oldest = self.chunks.iter().min_by_key(|(_, chunk)| chunk.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.remove(&oldest);
        }
        self.clock += 1;
        self.bytes += len;
        self.chunks.insert(key, CachedChunk { bytes, used: self.clock });
    }

    /// Forgets all chunks of a variable.
    pub(super) fn remove_variable(&mut self, variable: usize) {
        let keys: Vec<ChunkKey> =
            self.chunks.keys().filter(|key| key.0 == variable).cloned().collect();
        for key in &keys {
            self.remove(key);
        }
    }

    /// Forgets a chunk that was written.
    pub(super) fn remove(&mut self, key: &ChunkKey) {
        if let Some(chunk) = self.chunks.remove(key) {
            self.bytes -= chunk.bytes.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_what_was_used_stays() {
        let mut cache = ChunkCache::new(100);
        for number in 0..10 {
            cache.insert((0, vec![number]), vec![number as u8; 30]);
            assert!(cache.bytes <= 100);
            assert!(cache.get(&(0, vec![0])).is_some(), "used in every round");
        }
        assert_eq!(cache.chunks.len(), 3);
        cache.insert((1, vec![0]), vec![0; 101]);
        assert!(cache.get(&(1, vec![0])).is_none());
        cache.remove(&(0, vec![0]));
        assert!(cache.get(&(0, vec![0])).is_none());
        assert_eq!(cache.bytes, 60);
        cache.insert((2, vec![5]), vec![0; 40]);
        cache.remove_variable(0);
        assert_eq!(cache.bytes, 40);
    }
}
