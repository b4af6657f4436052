//! [`BarrierElision`]: when ranks skip the rendezvous of a collective call, and how they come back
//! to it.
//!
//! A collective call begins with a rendezvous at which ranks propose what they want to do together.
//! Where programs make one contiguous request per rank and call, no rank proposes anything, call
//! after call, and the rendezvous costs more than the requests. So after [`IDLE_BEFORE`] such calls
//! in the same direction the next [`FIRST_ELIDED`] calls skip it; then there is one rendezvous, and
//! if again no rank proposes anything, twice as many skip it, up to [`MOST_ELIDED`]. All ranks
//! count the same calls, so all skip the same ones.
//!
//! A rank whose access is better carried out together with others (its part now has many pieces)
//! can request a rendezvous. It cannot just wait at one: the other ranks are at other calls. So all
//! ranks count the calls that they begin in shared memory, each in a cache line of its own,
//! *before* they look whether a rendezvous is requested. The rank that requests one marks that,
//! looks how far the others are, and then writes from which call on all ranks wait: the one after
//! the last that any rank has begun. Because one writes before it looks and the other looks after
//! it wrote, a rank that has not seen the request is among those that were looked at, and a rank
//! that has seen it waits for the number of the call. So all ranks wait at the same call.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use striate_comm::shm::{Backoff, BackoffPolicy, Counters, Section};
use striate_comm::{Comm, CommError};

use crate::Direction;

/// Calls in a row, in one direction and without a proposal, after which the rendezvous is skipped.
const IDLE_BEFORE: u32 = 4;

/// Calls in a row that skip the rendezvous, at first and at most. Without shared memory no rank
/// could request one, and it stays at the first.
const FIRST_ELIDED: u32 = 64;
const MOST_ELIDED: u32 = 4096;

/// Calls by which a rank may be ahead of another one, so that a rank that requests a rendezvous
/// soon gets it.
const AHEAD: u64 = 256;

/// A rank has requested a rendezvous, and is looking how far the others are.
const REQUESTED: u64 = u64::MAX;

const BACKOFF: BackoffPolicy = BackoffPolicy {
    yield_for: Duration::from_micros(200),
    burst: 0,
    sleep: Duration::from_micros(100),
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct BarrierElision {
    calls: Option<SharedCalls>,
    /// The direction of the last collective calls.
    direction: Direction,
    /// Calls of it so far, one after the other, in which no rank proposed anything.
    idle: u32,
    /// Calls of it to come that skip the rendezvous, and how many that will be the next time.
    remaining: u32,
    next: u32,
    /// Whether calls have skipped it since the last rendezvous.
    elided_last: bool,
    /// Writes so far that have skipped it.
    writes: u64,
}

impl BarrierElision {
    /// Bytes of shared memory for so many ranks.
    pub(crate) const fn bytes(ranks: usize) -> usize {
        SharedCalls::bytes(ranks)
    }

    /// For this rank; in a section of that many zeroed bytes, if the ranks share memory.
    pub(crate) fn new(section: Option<Section>, rank: usize, ranks: usize) -> Self {
        Self {
            calls: section.map(|section| SharedCalls::new(section, rank, ranks)),
            direction: Direction::Read,
            idle: 0,
            remaining: 0,
            next: FIRST_ELIDED,
            elided_last: false,
            writes: 0,
        }
    }

    /// The same for a nonblocking call, which goes on beside others. All ranks begin such calls
    /// alike.
    pub(crate) fn for_task(&mut self) -> Self {
        self.remaining = 0;
        Self { idle: 0, ..self.clone() }
    }

    /// Makes it as it was at first. All ranks do, before they open the next file.
    pub(crate) fn reset(&mut self) {
        (self.elided_last, self.writes, self.idle) = (false, 0, 0);
        (self.remaining, self.next) = (0, FIRST_ELIDED);
        if let Some(calls) = &mut self.calls {
            calls.reset();
        }
    }

    /// A call of this direction may skip the rendezvous and no rank has proposed anything; or
    /// (`None`) it was another. All ranks say the same.
    pub(crate) fn record_call(&mut self, idle: Option<Direction>) {
        self.idle = match idle {
            None => 0,
            Some(direction) if direction == self.direction => self.idle.saturating_add(1),
            Some(_) => 1,
        };
        self.direction = idle.unwrap_or(self.direction);
        if self.idle < IDLE_BEFORE {
            self.next = FIRST_ELIDED;
        } else {
            self.remaining = self.next;
            if self.calls.is_some() {
                self.next = (2 * self.remaining).min(MOST_ELIDED);
            }
        }
    }

    /// Whether this collective call skips the rendezvous. All ranks get the same answer.
    pub(crate) fn elides(
        &mut self,
        comm: &dyn Comm,
        direction: Direction,
    ) -> Result<bool, CommError> {
        if self.remaining == 0 || self.direction != direction {
            return Ok(false);
        }
        if let Some(calls) = &mut self.calls
            && !calls.begin(comm)?
        {
            self.remaining = 0;
            return Ok(false);
        }
        self.remaining -= 1;
        self.writes += u64::from(direction.is_write());
        self.elided_last = true;
        Ok(true)
    }

    /// For a rank that should have proposed something in this call: the next calls do not skip the
    /// rendezvous.
    pub(crate) fn request_rendezvous(&self) {
        if let Some(calls) = &self.calls {
            calls.request_rendezvous();
        }
    }

    /// Whether ranks may still be at a call that must come before a call of this direction.
    pub(crate) fn must_catch_up(&self, direction: Direction) -> bool {
        self.elided_last && (direction.is_write() || self.direction.is_write())
    }

    /// The number of the last write that skipped the rendezvous, if ranks may still be at it.
    pub(crate) fn last_elided_write(&self) -> Option<u64> {
        (self.elided_last && self.direction.is_write()).then_some(self.writes)
    }

    /// A rendezvous begins.
    pub(crate) const fn begin_rendezvous(&mut self) {
        (self.remaining, self.elided_last) = (0, false);
    }

    /// All ranks were at the rendezvous.
    pub(crate) fn end_rendezvous(&mut self) {
        if let Some(calls) = &mut self.calls {
            calls.end_rendezvous();
        }
    }
}

/// The number from which on all ranks wait, in front of the numbers of the calls that each has
/// begun last.
const WAIT_FROM: usize = 0;

/// The calls that ranks begin without a rendezvous, in shared memory.
#[derive(Clone, Debug)]
struct SharedCalls {
    counters: Counters,
    rank: usize,
    /// Calls so far, and at the last rendezvous. All ranks have the same.
    begun: u64,
    at_rendezvous: u64,
    /// A call that all other ranks have begun, as far as this one has looked.
    begun_by_others: u64,
}

impl SharedCalls {
    const fn bytes(ranks: usize) -> usize {
        Counters::bytes(1 + ranks)
    }

    fn new(section: Section, rank: usize, ranks: usize) -> Self {
        let counters = Counters::new(section, 1 + ranks);
        Self { counters, rank, begun: 0, at_rendezvous: 0, begun_by_others: 0 }
    }

    fn wait_from(&self) -> &AtomicU64 {
        self.counters.get(WAIT_FROM)
    }

    /// The calls that the ranks have begun last.
    fn of_ranks(&self) -> impl Iterator<Item = &AtomicU64> {
        self.counters.iter().skip(1)
    }

    fn reset(&mut self) {
        (self.begun, self.at_rendezvous, self.begun_by_others) = (0, 0, 0);
        if self.rank == 0 {
            self.counters.reset();
        }
    }

    /// Begins a call that would skip the rendezvous; returns whether it does.
    fn begin(&mut self, comm: &dyn Comm) -> Result<bool, CommError> {
        let backoff = Backoff::new(BACKOFF);
        self.begun += 1;
        let call = self.begun;
        if self.begun_by_others + AHEAD < call {
            self.begun_by_others = backoff.poll(comm, || {
                let all = self.of_ranks().map(|begun| begun.load(Ordering::Relaxed)).enumerate();
                let others = all.filter(|(rank, _)| *rank != self.rank).map(|(_, call)| call);
                let least = others.min().unwrap_or(call);
                // Far enough not to wait again in each of the next calls.
                (least + AHEAD / 2 >= call).then_some(least)
            })?;
        }
        self.counters.get(1 + self.rank).store(call, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.wait_from().load(Ordering::Acquire) {
            REQUESTED => {
                let from = backoff.poll(comm, || {
                    let from = self.wait_from().load(Ordering::Acquire);
                    (from != REQUESTED).then_some(from)
                })?;
                Ok(call < from)
            }
            // A request from before the last rendezvous is fulfilled.
            from => Ok(call < from || from <= self.at_rendezvous),
        }
    }

    /// Requests a rendezvous after the call that has begun, at the first call that all ranks can
    /// wait at.
    fn request_rendezvous(&self) {
        let before = self.wait_from().load(Ordering::Acquire);
        let is_fulfilled = before <= self.at_rendezvous;
        if !is_fulfilled
            || self
                .wait_from()
                .compare_exchange(before, REQUESTED, Ordering::SeqCst, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        fence(Ordering::SeqCst);
        let last = self.of_ranks().map(|begun| begun.load(Ordering::Acquire)).max();
        self.wait_from().store(last.unwrap_or(0) + 1, Ordering::Release);
    }

    const fn end_rendezvous(&mut self) {
        self.at_rendezvous = self.begun;
    }
}

#[cfg(test)]
mod tests {
    use striate_comm::Threads;

    use super::*;

    fn shared_calls(comm: &dyn Comm) -> Result<SharedCalls, CommError> {
        let len = SharedCalls::bytes(comm.size());
        let memory = comm.node_memory(len)?.expect("threads share all memory");
        Ok(SharedCalls::new(memory.section(0, len), comm.rank(), comm.size()))
    }

    /// Ranks that request a rendezvous at any time, and are late at any time, wait at the same
    /// calls.
    #[test]
    fn all_ranks_wait_at_the_same_calls() {
        for ranks in 2..5 {
            let waited = Threads::new(ranks)
                .try_run(|comm| {
                    let mut calls = shared_calls(comm.as_ref())?;
                    let mut waited = Vec::new();
                    let mut draw = 7 + comm.rank() as u64;
                    for call in 0..20_000 {
                        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        if (draw >> 33).is_multiple_of(500) {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                        if !calls.begin(comm.as_ref())? {
                            comm.barrier()?;
                            calls.end_rendezvous();
                            waited.push(call);
                        } else if (draw >> 40).is_multiple_of(100) {
                            calls.request_rendezvous();
                        }
                    }
                    Ok::<_, CommError>(waited)
                })
                .unwrap();
            assert!(waited.iter().all(|one| *one == waited[0]), "{ranks} ranks");
            assert!(waited[0].len() > 50, "they waited {} times", waited[0].len());
        }
    }

    #[test]
    fn no_rank_gets_far_ahead() {
        let made = AtomicU64::new(0);
        Threads::new(2)
            .try_run(|comm| {
                let mut calls = shared_calls(comm.as_ref())?;
                for call in 1..=1000 {
                    if comm.rank() == 0 {
                        assert!(calls.begin(comm.as_ref())?);
                        made.store(call, Ordering::SeqCst);
                        continue;
                    }
                    if call % 200 == 1 {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    let ahead = made.load(Ordering::SeqCst).saturating_sub(call - 1);
                    assert!(ahead <= AHEAD, "{ahead} at {call}");
                    assert!(calls.begin(comm.as_ref())?);
                }
                Ok::<_, CommError>(())
            })
            .unwrap();
    }
}
