//! [`NodeState`]: what the ranks that opened a file share in the memory of their node, and where it
//! lies.
//!
//! If all ranks are on one node, one piece of shared memory holds everything that they synchronise
//! by, one section behind the other. It is made once per open context and used by one file after
//! the other. (The windows of two-phase are memory of their own, made when a call first needs
//! them.)

use striate_comm::shm::{Counters, NodeRendezvous, Section};
use striate_comm::{Comm, CommError, NodeMemory};

use crate::rendezvous::PROPOSAL_LEN;
use crate::sieve_exclusion::SieveExclusion;
use crate::write_behind::{BarrierElision, SlotMemory, WriteBehind};

/// Numbers that a file's shared pointer needs.
pub(crate) const POINTERS: usize = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct NodeState {
    memory: NodeMemory,
    ranks: usize,
    pub(crate) rendezvous: NodeRendezvous<PROPOSAL_LEN>,
    pub(crate) sieve_exclusion: SieveExclusion,
    pub(crate) pointers: Counters,
}

/// Where the sections begin, in bytes.
struct SectionOffsets {
    sieve_exclusion: usize,
    pointers: usize,
    barrier_elision: usize,
    write_behind: usize,
    end: usize,
}

impl SectionOffsets {
    const fn new(ranks: usize) -> Self {
        let sieve_exclusion = NodeRendezvous::<PROPOSAL_LEN>::bytes(ranks).next_multiple_of(64);
        let pointers = sieve_exclusion + SieveExclusion::bytes(ranks);
        let barrier_elision = pointers + Counters::bytes(POINTERS);
        let write_behind = barrier_elision + BarrierElision::bytes(ranks);
        let end = write_behind + SlotMemory::of(ranks).table;
        Self { sieve_exclusion, pointers, barrier_elision, write_behind, end }
    }
}

impl NodeState {
    /// For ranks of one node; `None` if they are on several, or there is no such memory.
    /// Collective.
    pub(crate) fn new(comm: &dyn Comm) -> Result<Option<Self>, CommError> {
        let ranks = comm.size();
        if ranks == 1 || comm.nodes().iter().any(|&node| node != 0) {
            return Ok(None);
        }
        let at = SectionOffsets::new(ranks);
        let memory = comm.node_memory_with_spare(at.end, SlotMemory::of(ranks).windows)?;
        Ok(memory.map(|memory| {
            let section = |from: usize, to: usize| memory.section(from, to - from);
            Self {
                rendezvous: NodeRendezvous::new(section(0, at.sieve_exclusion), ranks),
                sieve_exclusion: SieveExclusion::new(
                    section(at.sieve_exclusion, at.pointers),
                    ranks,
                ),
                pointers: Counters::new(section(at.pointers, at.barrier_elision), POINTERS),
                ranks,
                memory,
            }
        }))
    }

    /// The section of barrier elision.
    pub(crate) fn barrier_elision(&self) -> Section {
        let at = SectionOffsets::new(self.ranks);
        self.memory.section(at.barrier_elision, at.write_behind - at.barrier_elision)
    }

    /// The section of write-behind; its windows are the spare part of the memory.
    pub(crate) fn write_behind(&self) -> Section {
        let at = SectionOffsets::new(self.ranks);
        self.memory.section(at.write_behind, at.end - at.write_behind)
    }

    /// Clears what the last file has left. For one rank, while none uses it: writes under way have
    /// ended.
    pub(crate) fn reset(&self) {
        self.pointers.reset();
        self.sieve_exclusion.reset();
        WriteBehind::reset(&self.write_behind(), self.ranks);
    }
}
