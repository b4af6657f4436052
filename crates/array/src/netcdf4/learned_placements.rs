//! What a rank tells others of the places in a file, and what it learns of those in another's.
//!
//! Ranks that write a file together have the same plan. A rank that only accesses the file by
//! itself has the plan of the last commit, and learns what the others have placed since.

use striate_hdf5::write::{ChunkBox, Placement as VariablePlacement, StoredChunk};

use super::Netcdf4State;
use super::chunk_cache::ChunkKey;

impl Netcdf4State {
    /// The chunks, except for those in boxes, that have got another place since the last call. The
    /// first call begins to note them.
    pub(crate) fn moved_chunks(&mut self) -> Vec<(ChunkKey, StoredChunk)> {
        let logged = self.plan.logged_chunks();
        let variable_of =
            |plan_number: usize| self.numbers.iter().position(|&number| number == plan_number);
        let chunk = |(number, place): (usize, Vec<u64>)| {
            let key = (variable_of(number)?, place);
            let stored = self.stored_chunk(&key)?;
            Some((key, stored))
        };
        logged.into_iter().filter_map(chunk).collect()
    }

    /// The boxes of a variable, if they hold all its chunks.
    pub(crate) fn boxes(&self, variable: usize) -> Option<&[ChunkBox]> {
        match self.placement(variable) {
            Some(VariablePlacement::Chunked(chunks)) if chunks.is_computed() => {
                Some(chunks.boxes())
            }
            _ => None,
        }
    }

    /// Somebody else has placed a chunk.
    pub(crate) fn learn_chunk(&mut self, key: &ChunkKey, stored: StoredChunk) {
        if let Some(&number) = self.numbers.get(key.0) {
            self.plan.learn_chunk(number, &key.1, stored);
            self.cache.remove(key);
        }
    }

    /// Somebody else has all chunks of a variable in these boxes.
    pub(crate) fn learn_boxes(&mut self, variable: usize, boxes: &[ChunkBox]) {
        if let Some(&number) = self.numbers.get(variable) {
            self.plan.learn_boxes(number, boxes);
            self.cache.remove_variable(variable);
        }
    }

    /// Somebody else has made an unlimited dimension longer.
    pub(crate) fn learn_length(&mut self, dimension: u32, length: u64) {
        self.plan.learn_length(dimension as usize, length);
    }
}
