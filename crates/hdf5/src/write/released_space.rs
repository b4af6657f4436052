//! [`ReleasedSpace`]: the space of chunks that were written again elsewhere, until it can be used.

use std::collections::BTreeSet;

use super::chunk_tree::StoredChunk;
use super::free_list::FreeList;
use crate::model::Address;

/// Space that the next state of a file does not need, while one on storage still may.
///
/// Chunks that no commit has seen are free at once. Those of a commit are free when a later one is
/// done. What was in the file when it was opened is never used again: there may be more in the file
/// than the plan knows of.
#[derive(Clone, Debug)]
pub(crate) struct ReleasedSpace {
    /// Where space that was taken by this plan begins.
    begin: u64,
    /// The chunks since the last commit began.
    new: BTreeSet<Address>,
    /// Address and bytes of what a state on storage may refer to.
    waiting: Vec<(u64, u64)>,
}

impl ReleasedSpace {
    pub(crate) const fn new(begin: u64) -> Self {
        Self { begin, new: BTreeSet::new(), waiting: Vec::new() }
    }

    /// A chunk has got its place.
    pub(crate) fn new_chunk(&mut self, address: Address) {
        self.new.insert(address);
    }

    /// A chunk has got another place.
    pub(crate) fn release(&mut self, old: StoredChunk, free: &mut FreeList) {
        let block = (old.address.0, u64::from(old.size));
        if self.new.remove(&old.address) {
            free.add(block.0, block.1);
        } else if old.address.0 >= self.begin {
            self.waiting.push(block);
        }
    }

    /// A commit refers to all chunks that there are.
    pub(crate) fn begin_commit(&mut self) {
        self.new.clear();
    }

    /// The last commit is the only state on storage.
    pub(crate) fn commit_done(&mut self, free: &mut FreeList) {
        for (address, bytes) in self.waiting.drain(..) {
            free.add(address, bytes);
        }
    }
}
