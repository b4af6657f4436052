//! [`BarrierElision`]: how ranks that do not meet for their collective calls come together again.
//!
//! Ranks that never need anybody stop to meet (`collective.rs`). One that would rather do the next call together with the others, because
//! its part has become one of many pieces, cannot just go to a meeting: the others are at other calls, and would not
//! come. So all count their calls in memory that they share, each in a line of its own, before they look whether somebody has
//! *asked*. Who asks says so, looks how far the others are, and then says from which call on all meet: the one behind the
//! last that anybody has begun. Because one writes before it looks and the other looks after it wrote, a rank that has not seen the
//! question is among those that were looked at, and whoever has seen it waits for the answer. So all come to the same call.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use striate_comm::{Comm, CommError, NodeMemory};

/// Calls by which a rank may be ahead of another, so that one who asks does not do many more alone.
const AHEAD: u64 = 256;

/// Somebody has asked, and is looking how far the others are.
const ASKED: u64 = u64::MAX;

/// How long somebody lets others run before he sleeps between two looks, and how long he sleeps.
const LET_RUN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(100);

/// A number in a line of its own; zero at first, as fresh memory is.
#[repr(C, align(64))]
struct CallCounter(AtomicU64);

/// Bytes of memory that so many ranks must have in common: the call to meet from, and the last call of each.
pub(crate) const fn memory_for(ranks: usize) -> usize {
    (ranks + 1) * size_of::<CallCounter>()
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct BarrierElision {
    memory: NodeMemory,
    at: usize,
    rank: usize,
    ranks: usize,
    /// Calls so far, and those at the last meeting. All ranks have the same.
    calls: u64,
    met: u64,
    /// A call that all ranks have begun, as far as this one has looked.
    seen: u64,
}

impl BarrierElision {
    /// In memory of `memory_for` from `at` on, which is zero.
    pub(crate) fn new(memory: NodeMemory, at: usize, rank: usize, ranks: usize) -> Self {
        assert!(at.is_multiple_of(64) && memory.len() >= at + memory_for(ranks), "the lines fit");
        Self { memory, at, rank, ranks, calls: 0, met: 0, seen: 0 }
    }

    fn lines(&self) -> &[CallCounter] {
        let first = self.memory.as_ptr().as_ptr().wrapping_add(self.at).cast();
        // SAFETY: they lie in the memory, at a multiple of 64 from the start of a page, and all of them is atomic.
        unsafe { std::slice::from_raw_parts(first, self.ranks + 1) }
    }

    fn meet_from(&self) -> &AtomicU64 {
        &self.lines()[0].0
    }

    fn begun(&self) -> impl Iterator<Item = &AtomicU64> {
        self.lines()[1..].iter().map(|line| &line.0)
    }

    /// Makes everything as it was at first: all ranks do, before they meet for another file.
    pub(crate) fn begin_anew(&mut self) {
        (self.calls, self.met, self.seen) = (0, 0, 0);
        if self.rank == 0 {
            self.lines().iter().for_each(|line| line.0.store(0, Ordering::SeqCst));
        }
    }

    /// Begins a call for which nobody would meet; whether it stays so. All ranks are told the same.
    pub(crate) fn stays(&mut self, comm: &dyn Comm) -> Result<bool, CommError> {
        self.calls += 1;
        let call = self.calls;
        if self.seen + AHEAD < call {
            self.seen = wait_for(comm, || {
                let last = self.begun().map(|begun| begun.load(Ordering::Relaxed)).enumerate();
                let least = last.filter(|(rank, _)| *rank != self.rank).map(|(_, call)| call).min();
                let least = least.unwrap_or(call);
                // Long enough not to wait for each of the next calls.
                (least + AHEAD / 2 >= call).then_some(least)
            })?;
        }
        self.lines()[1 + self.rank].0.store(call, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.meet_from().load(Ordering::Acquire) {
            ASKED => {
                let from = wait_for(comm, || {
                    Some(self.meet_from().load(Ordering::Acquire)).filter(|&from| from != ASKED)
                })?;
                Ok(call < from)
            }
            // What was asked before the last meeting is settled.
            from => Ok(call < from || from <= self.met),
        }
    }

    /// Asks for a meeting: after the call that has begun, as soon as all can come.
    pub(crate) fn ask(&self) {
        let before = self.meet_from().load(Ordering::Acquire);
        let is_settled = before <= self.met;
        if !is_settled
            || self
                .meet_from()
                .compare_exchange(before, ASKED, Ordering::SeqCst, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        fence(Ordering::SeqCst);
        let last = self.begun().map(|begun| begun.load(Ordering::Acquire)).max();
        self.meet_from().store(last.unwrap_or(0) + 1, Ordering::Release);
    }

    /// All have met.
    pub(crate) const fn have_met(&mut self) {
        self.met = self.calls;
    }
}

/// Looks until there is something, as long as all ranks are there.
fn wait_for<T>(comm: &dyn Comm, look: impl Fn() -> Option<T>) -> Result<T, CommError> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::yield_now();
        if start.elapsed() > LET_RUN {
            comm.health()?;
            std::thread::sleep(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use striate_comm::Threads;

    use super::*;

    /// Ranks that ask now and then, whenever they please, and are late as they please, meet at the same calls.
    #[test]
    fn all_come_to_the_same_meetings() {
        for ranks in 2..5 {
            let met = Threads::new(ranks)
                .try_run(|comm| {
                    let memory = comm.node_memory(memory_for(ranks))?;
                    let memory = memory.expect("threads share all memory");
                    let mut apart = BarrierElision::new(memory, 0, comm.rank(), ranks);
                    let mut meetings = Vec::new();
                    let mut draw = 7 + comm.rank() as u64;
                    for call in 0..20_000 {
                        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        if (draw >> 33).is_multiple_of(500) {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                        if !apart.stays(comm.as_ref())? {
                            comm.barrier()?;
                            apart.have_met();
                            meetings.push(call);
                        } else if (draw >> 40).is_multiple_of(100) {
                            apart.ask();
                        }
                    }
                    Ok::<_, CommError>(meetings)
                })
                .unwrap();
            assert!(met.iter().all(|one| *one == met[0]), "{ranks} ranks");
            assert!(met[0].len() > 50, "they met {} times", met[0].len());
        }
    }

    #[test]
    fn nobody_gets_far_ahead() {
        let calls = AtomicU64::new(0);
        Threads::new(2)
            .try_run(|comm| {
                let memory = comm.node_memory(memory_for(2))?.expect("threads share all memory");
                let mut apart = BarrierElision::new(memory, 0, comm.rank(), 2);
                for call in 1..=1000 {
                    if comm.rank() == 0 {
                        assert!(apart.stays(comm.as_ref())?);
                        calls.store(call, Ordering::SeqCst);
                        continue;
                    }
                    if call % 200 == 1 {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    let ahead = calls.load(Ordering::SeqCst).saturating_sub(call - 1);
                    assert!(ahead <= AHEAD, "{ahead} at {call}");
                    assert!(apart.stays(comm.as_ref())?);
                }
                Ok::<_, CommError>(())
            })
            .unwrap();
    }
}
