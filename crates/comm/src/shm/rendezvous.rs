//! [`NodeRendezvous`]: a barrier in shared memory at which each rank shows the others a record of
//! fixed length.
//!
//! It is an allgather that costs two atomic additions and one wait. A rank says whether its record
//! carries anything; if none does, the records are not read, which is the common case of a barrier.
//!
//! There are two sets of records, for even and odd rendezvous: a rank that has left one rendezvous
//! may arrive at the next while others still read, but not at the one after it, since that needs
//! all ranks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Backoff, BackoffPolicy, EventCount, Section, Waiter};
use crate::cores::available_cores;
use crate::error::CommError;

/// How long a rank yields its core before it sleeps where ranks share cores, and where each has its
/// own, which does nothing else meanwhile.
const YIELD_SHARED_CORE: Duration = Duration::from_micros(200);
const YIELD_OWN_CORE: Duration = Duration::from_millis(2);

impl BackoffPolicy {
    /// Of ranks that exchange data through shared memory alone, as many as given.
    pub fn of_ranks(ranks: usize) -> Self {
        let has_own_core = ranks <= available_cores();
        Self::shared_memory(if has_own_core { YIELD_OWN_CORE } else { YIELD_SHARED_CORE })
    }
}

#[repr(C, align(64))]
struct RendezvousHeader {
    event: EventCount,
    /// Rendezvous that are complete; wraps.
    complete: AtomicU32,
    /// Ranks that have arrived at the next one.
    arrived: AtomicU32,
    /// Ranks whose record carries something, in even rendezvous and in odd ones.
    carrying: [AtomicU32; 2],
}

/// The rendezvous of the ranks of a node, with records of `RECORD` bytes; see the module.
#[derive(Debug)]
pub struct NodeRendezvous<const RECORD: usize> {
    section: Section,
    ranks: usize,
    backoff: Backoff,
}

impl<const RECORD: usize> NodeRendezvous<RECORD> {
    /// Bytes of memory that a rendezvous of so many ranks takes.
    pub const fn bytes(ranks: usize) -> usize {
        size_of::<RendezvousHeader>() + 2 * ranks * RECORD
    }

    /// In a section of at least [`NodeRendezvous::bytes`] zeroed bytes, which all ranks share.
    ///
    /// # Panics
    ///
    /// If the section is too short.
    pub fn new(section: Section, ranks: usize) -> Self {
        assert!(section.len() >= Self::bytes(ranks), "the rendezvous fits its memory");
        Self { section, ranks, backoff: Backoff::new(BackoffPolicy::of_ranks(ranks)) }
    }

    fn header(&self) -> &RendezvousHeader {
        // SAFETY: it lies at the start of the section, which is aligned to a cache line, and all of
        // it is atomic.
        unsafe { self.section.as_ptr().cast().as_ref() }
    }

    fn record(&self, set: usize, rank: usize) -> *mut [u8; RECORD] {
        assert!(rank < self.ranks, "ranks are numbered from 0");
        let offset = size_of::<RendezvousHeader>() + (set * self.ranks + rank) * RECORD;
        self.section.as_ptr().as_ptr().wrapping_add(offset).cast()
    }

    /// Waits for all ranks at rendezvous `number`, which each counts from 0. Returns their records,
    /// or `None` if no record `carries` anything. Collective over the ranks of the node.
    pub fn exchange(
        &self,
        rank: usize,
        number: u64,
        record: &[u8; RECORD],
        carries: bool,
        waiter: Waiter<'_>,
    ) -> Result<Option<Vec<[u8; RECORD]>>, CommError> {
        let set = (number % 2) as usize;
        // SAFETY: inside of the section; only this rank writes its record, and no rank reads it
        // before this rendezvous is complete.
        unsafe { self.record(set, rank).write(*record) };
        let RendezvousHeader { event, complete, arrived, carrying } = self.header();
        if carries {
            carrying[set].fetch_add(1, Ordering::Relaxed);
        }
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.ranks as u32 {
            arrived.store(0, Ordering::Relaxed);
            // Of the last rendezvous: all ranks have left it, and none has arrived at the next.
            carrying[1 - set].store(0, Ordering::Relaxed);
            complete.fetch_add(1, Ordering::Release);
            event.notify();
        } else {
            // No rank is a whole turn of the counter ahead.
            let is_complete = || complete.load(Ordering::Acquire) != number as u32;
            self.backoff.wait_for(event, waiter, || is_complete().then_some(()))?;
        }
        if carrying[set].load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        // SAFETY: all records of this rendezvous are written, and not replaced before all ranks
        // have arrived at the next.
        Ok(Some((0..self.ranks).map(|rank| unsafe { self.record(set, rank).read() }).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Threads;

    /// Ranks that arrive in any order read the records of the rendezvous they are at, and no
    /// others.
    #[test]
    fn each_rank_reads_the_records_of_its_rendezvous() {
        for ranks in [1, 2, 5] {
            Threads::new(ranks)
                .try_run(|comm| {
                    let len = NodeRendezvous::<8>::bytes(ranks);
                    let memory = comm.node_memory(len)?.expect("threads share all memory");
                    let rendezvous = NodeRendezvous::<8>::new(memory.section(0, len), ranks);
                    let mut draw = comm.rank() as u64;
                    for number in 0..2000_u64 {
                        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        if (draw >> 33).is_multiple_of(100) {
                            std::thread::sleep(Duration::from_micros(20));
                        }
                        let record = (number * 100 + comm.rank() as u64).to_le_bytes();
                        let carrying = |rank: usize| (number / 3).is_multiple_of(rank as u64 + 2);
                        let (rank, waiter) = (comm.rank(), Waiter::Rank(comm.as_ref()));
                        let all =
                            rendezvous.exchange(rank, number, &record, carrying(rank), waiter)?;
                        assert_eq!(all.is_some(), (0..ranks).any(carrying), "{number}");
                        for (rank, record) in all.iter().flatten().enumerate() {
                            assert_eq!(u64::from_le_bytes(*record), number * 100 + rank as u64);
                        }
                    }
                    Ok::<_, CommError>(())
                })
                .unwrap();
        }
    }
}
