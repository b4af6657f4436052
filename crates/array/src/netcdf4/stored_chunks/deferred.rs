//! [`DeferredChunks`]: what a rank has written independently to stored chunks since all ranks met.
//!
//! A chunk that one write covers, or several together, is encoded at once. Of the others the
//! elements are kept as records ([`super::element_records`]). Both wait in memory up to a limit,
//! and beyond it in the rank's arenas in the file, where only addresses remain of them. Writes of
//! the rank to one chunk are in the order of the program: what is encoded is older than the
//! records.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use striate_hdf5::write::{ArenaSpace, StoredChunk};

use super::super::chunk_cache::ChunkKey;

/// The independent writes of this rank that other ranks do not know of.
#[derive(Debug, Default)]
pub(in crate::netcdf4) struct DeferredChunks {
    pub(super) chunks: BTreeMap<ChunkKey, DeferredChunk>,
    /// Bytes of them in memory.
    pub(super) memory: u64,
    pub(super) space: ArenaSpace,
}

/// The writes to one chunk.
#[derive(Debug, Default)]
pub(super) struct DeferredChunk {
    /// What has all elements.
    pub(super) whole: Option<WholeChunk>,
    /// What was written after that.
    pub(super) records: ElementRecords,
}

/// An encoded chunk.
#[derive(Debug)]
pub(super) enum WholeChunk {
    InMemory { bytes: Vec<u8>, filter_mask: u32 },
    InArena(StoredChunk),
}

/// Records of a chunk: those in the arena come first.
#[derive(Debug, Default)]
pub(super) struct ElementRecords {
    /// Address and bytes.
    pub(super) in_arena: Vec<(u64, u64)>,
    pub(super) in_memory: Vec<u8>,
    /// Different elements that the records had when they were merged last.
    pub(super) merged: u64,
    /// Elements of the records since, with repetitions.
    pub(super) added: u64,
}

impl ElementRecords {
    pub(super) fn bytes(&self) -> u64 {
        self.in_memory.len() as u64 + self.in_arena.iter().map(|(_, len)| len).sum::<u64>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_memory.is_empty() && self.in_arena.is_empty()
    }
}

impl WholeChunk {
    fn memory(&self) -> u64 {
        match self {
            Self::InMemory { bytes, .. } => bytes.len() as u64,
            Self::InArena(_) => 0,
        }
    }
}

impl DeferredChunks {
    /// How many chunks wait; at least one if the rank has taken space, or kept some.
    pub(super) fn count(&self) -> u64 {
        let has_space = self.has_arenas() || self.space.has_free();
        (self.chunks.len() as u64).max(u64::from(has_space))
    }

    /// Whether the rank has taken space of which the others do not know.
    pub(in crate::netcdf4) const fn has_arenas(&self) -> bool {
        self.space.is_placed()
    }

    /// Forgets the writes to a chunk, and its space.
    pub(super) fn remove(&mut self, key: &ChunkKey) {
        let Some(old) = self.chunks.remove(key) else { return };
        if let Some(whole) = &old.whole {
            self.memory -= whole.memory();
            if let WholeChunk::InArena(stored) = whole {
                self.space.free(stored.address.0, stored.size.into());
            }
        }
        self.memory -= old.records.in_memory.len() as u64;
        for (address, len) in old.records.in_arena {
            self.space.free(address, len);
        }
    }

    /// An encoded chunk replaces what was written before.
    pub(super) fn set_whole(&mut self, key: ChunkKey, bytes: Vec<u8>, filter_mask: u32) {
        self.remove(&key);
        self.memory += bytes.len() as u64;
        let whole = Some(WholeChunk::InMemory { bytes, filter_mask });
        self.chunks.insert(key, DeferredChunk { whole, ..DeferredChunk::default() });
    }

    /// One record replaces all of a chunk.
    pub(super) fn set_records(&mut self, key: &ChunkKey, record: Vec<u8>, elements: u64) {
        let Some(chunk) = self.chunks.get_mut(key) else { return };
        for (address, len) in chunk.records.in_arena.drain(..) {
            self.space.free(address, len);
        }
        self.memory -= chunk.records.in_memory.len() as u64;
        self.memory += record.len() as u64;
        chunk.records.in_memory = record;
        (chunk.records.merged, chunk.records.added) = (elements, 0);
    }

    /// Appends records of a chunk.
    pub(super) fn push(&mut self, key: &ChunkKey, records: &[u8], elements: u64) {
        let chunk = match self.chunks.entry(key.clone()) {
            Entry::Occupied(old) => old.into_mut(),
            Entry::Vacant(new) => new.insert(DeferredChunk::default()),
        };
        chunk.records.in_memory.extend_from_slice(records);
        chunk.records.added += elements;
        self.memory += records.len() as u64;
    }

    /// The encoded chunk, if there is one.
    pub(super) fn whole(&self, key: &ChunkKey) -> Option<&WholeChunk> {
        self.chunks.get(key)?.whole.as_ref()
    }
}
