//! [`SieveExclusion`]: keeps plain writes of ranks of a node out of the read-modify-write of
//! another rank's sieve.
//!
//! A sieved write locks its window, so every other write would have to lock its range as well,
//! which costs more than a small write. But most files are never sieved. So plain writes go without
//! a lock until a rank of the node begins to sieve; each counts its writes under way in a cache
//! line of its own. A rank that sieves first says so, for the rest of the file's life, and then
//! waits until the writes that began without a lock are over.

use std::sync::atomic::Ordering;

use striate_comm::CommError;
use striate_comm::shm::{Backoff, BackoffPolicy, Counters, Section, Waiter};

/// The counter that says whether a rank has ever sieved; those of the ranks come behind it.
const SIEVING: usize = 0;

/// See the module.
#[derive(Debug)]
pub(crate) struct SieveExclusion {
    counters: Counters,
    backoff: Backoff,
}

impl SieveExclusion {
    /// Bytes of shared memory for so many ranks.
    pub(crate) const fn bytes(ranks: usize) -> usize {
        Counters::bytes(1 + ranks)
    }

    /// In a section of that many zeroed bytes.
    pub(crate) fn new(section: Section, ranks: usize) -> Self {
        let backoff = Backoff::new(BackoffPolicy::of_ranks(ranks));
        Self { counters: Counters::new(section, 1 + ranks), backoff }
    }

    /// A write of this rank without a lock, if no rank sieves.
    pub(crate) fn begin_unlocked(&self, rank: usize) -> Option<UnlockedWrite<'_>> {
        let write = UnlockedWrite { exclusion: self, rank };
        self.counters.get(1 + rank).fetch_add(1, Ordering::SeqCst);
        // Dropping it ends it.
        (self.counters.get(SIEVING).load(Ordering::SeqCst) == 0).then_some(write)
    }

    /// From now on every write takes a lock; waits for those that began without.
    pub(crate) fn begin_sieving(&self, waiter: Waiter<'_>) -> Result<(), CommError> {
        self.counters.get(SIEVING).store(1, Ordering::SeqCst);
        let all_over = || self.counters.iter().skip(1).all(|n| n.load(Ordering::SeqCst) == 0);
        self.backoff.wait_for(self.counters.event(), waiter, || all_over().then_some(()))
    }

    /// Forgets that the last file was sieved. For one rank, while none uses it.
    pub(crate) fn reset(&self) {
        self.counters.get(SIEVING).store(0, Ordering::SeqCst);
    }
}

/// A write without a lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnlockedWrite<'a> {
    exclusion: &'a SieveExclusion,
    rank: usize,
}

impl Drop for UnlockedWrite<'_> {
    fn drop(&mut self) {
        let counters = &self.exclusion.counters;
        counters.get(1 + self.rank).fetch_sub(1, Ordering::SeqCst);
        if counters.get(SIEVING).load(Ordering::SeqCst) != 0 {
            counters.event().notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sieve_waits_for_unlocked_writes_and_forbids_more() {
        let len = SieveExclusion::bytes(2);
        let memory = striate_comm::alone().node_memory(len).unwrap().unwrap();
        let exclusion = SieveExclusion::new(memory.section(0, len), 2);
        let write = exclusion.begin_unlocked(1).expect("no rank sieves yet");
        std::thread::scope(|scope| {
            let sieve = scope.spawn(|| exclusion.begin_sieving(Waiter::HelperThread));
            while exclusion.begin_unlocked(0).is_some() {
                std::thread::yield_now();
            }
            assert!(!sieve.is_finished(), "a write is still under way");
            drop(write);
            sieve.join().unwrap().unwrap();
        });
        assert!(exclusion.begin_unlocked(1).is_none());
        exclusion.reset();
        assert!(exclusion.begin_unlocked(1).is_some());
    }
}
