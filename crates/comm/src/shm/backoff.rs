//! [`Backoff`]: how a rank waits for something in shared memory: it yields its core for a while,
//! then sleeps.
//!
//! The rank that is waited for often runs on the same core, or is done within microseconds; to
//! sleep and be woken costs more than most waits. So a waiter first yields. If what it waits for
//! takes longer, it sleeps on an [`EventCount`] (or naps, where there is none), for a bounded time,
//! so that it notices a rank that died.
//!
//! Waits whose condition changes with the event use [`Backoff::wait_for`]; loops that do other work
//! between two looks use [`Backoff::begin`] and one [`Wait::step`] after each look that found
//! nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::EventCount;
use crate::comm::Comm;
use crate::error::CommError;
use crate::task::{in_task, pause};

/// A yield that takes so long did not go to another rank, which has little to do: another program
/// wants the core. A waiter that only yields gets it back after a whole time slice each time, one
/// that sleeps is woken before.
const LONG_YIELD: Duration = Duration::from_millis(1);

/// Waits after such a yield in which the rank sleeps at once.
const CROWDED_WAITS: u32 = 256;

/// The durations of a [`Backoff`].
#[derive(Clone, Copy, Debug)]
pub struct BackoffPolicy {
    /// How long a waiter yields its core before it sleeps.
    pub yield_for: Duration,
    /// Yields between two looks grow to two to the power of this: a waiter that looks all the time
    /// takes the cache lines that it looks at from the ranks that write them.
    pub burst: u32,
    /// How long a waiter sleeps, at most, before it looks again.
    pub sleep: Duration,
}

impl BackoffPolicy {
    /// Of a wait in which the ranks exchange data through shared memory alone.
    pub const fn shared_memory(yield_for: Duration) -> Self {
        Self { yield_for, burst: 0, sleep: Duration::from_millis(50) }
    }
}

/// What waits.
#[derive(Clone, Copy)]
pub enum Waiter<'a> {
    /// A rank: its tasks get on while it waits, and a rank that died ends the wait with an error.
    Rank(&'a dyn Comm),
    /// A helper thread of a rank. It must not use the communicator; the rank signals it when to
    /// give up.
    HelperThread,
}

impl Waiter<'_> {
    fn health(self) -> Result<(), CommError> {
        match self {
            Self::Rank(comm) => comm.health(),
            Self::HelperThread => Ok(()),
        }
    }

    /// Lets other tasks of the rank run, if there are any; returns whether.
    fn run_tasks(self, looks: u32) -> Result<bool, CommError> {
        match self {
            Self::Rank(comm) if in_task() || !comm.tasks().is_empty() => {
                pause(comm.tasks(), looks)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// How a rank waits; see the module.
#[derive(Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    /// Waits to come in which this rank sleeps at once.
    crowded: AtomicU32,
}

impl Backoff {
    /// With these durations.
    pub const fn new(policy: BackoffPolicy) -> Self {
        Self { policy, crowded: AtomicU32::new(0) }
    }

    /// Calls `attempt` until it returns something. All that it depends on is followed by a
    /// [`EventCount::notify`].
    pub fn wait_for<T>(
        &self,
        event: &EventCount,
        waiter: Waiter<'_>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, CommError> {
        let mut looks = 0;
        loop {
            let seen = event.changes();
            if let Some(result) = attempt() {
                return Ok(result);
            }
            if waiter.run_tasks(looks)? {
                looks = looks.saturating_add(1);
            } else if self.yield_until_change(event, seen) {
                continue;
            } else {
                event.sleep(seen, self.policy.sleep);
            }
            if let Err(error) = waiter.health() {
                // A rank that has ended may have done its part before.
                return attempt().ok_or(error);
            }
        }
    }

    /// Yields the core until there is a change after `seen`, as long as the policy allows; returns
    /// whether there is.
    fn yield_until_change(&self, event: &EventCount, seen: u32) -> bool {
        let crowded = self.crowded.load(Ordering::Relaxed);
        if crowded > 0 {
            self.crowded.store(crowded - 1, Ordering::Relaxed);
            return false;
        }
        let start = Instant::now();
        let mut last = start;
        loop {
            std::thread::yield_now();
            let now = Instant::now();
            if now.duration_since(last) >= LONG_YIELD {
                self.crowded.store(CROWDED_WAITS, Ordering::Relaxed);
            }
            if event.changes() != seen {
                return true;
            }
            if now.duration_since(start) >= self.policy.yield_for {
                return false;
            }
            last = now;
        }
    }

    /// Begins a wait of several steps. It sleeps on `event`, of which
    /// [`EventCount::notify_sleepers`] is enough, or naps where there is none.
    pub const fn begin<'a>(&'a self, event: Option<&'a EventCount>) -> Wait<'a> {
        let policy = &self.policy;
        Wait { policy, event, since: None, burst: 0, has_slept: false, sleeping: None }
    }

    /// Calls `attempt` until it returns something, where no event signals changes.
    pub fn poll<T>(
        &self,
        comm: &dyn Comm,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, CommError> {
        let mut wait = self.begin(None);
        loop {
            if let Some(found) = attempt() {
                return Ok(found);
            }
            wait.step();
            if wait.is_long() {
                comm.health()?;
            }
        }
    }
}

/// A wait under way; see [`Backoff::begin`].
#[derive(Debug)]
pub struct Wait<'a> {
    policy: &'a BackoffPolicy,
    event: Option<&'a EventCount>,
    since: Option<Instant>,
    /// Yields of the next step, as a power of two.
    burst: u32,
    has_slept: bool,
    /// Changes of the event at the last look, once the waiter sleeps instead of yielding. It is
    /// registered as a sleeper before it looks for the last time, so that the change it waits for
    /// is counted.
    sleeping: Option<u32>,
}

impl Wait<'_> {
    /// Yields or sleeps once. Called after a look that found nothing, and followed by another look.
    pub fn step(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        match self.sleeping {
            None => {
                (0..1 << self.burst).for_each(|_| std::thread::yield_now());
                self.burst = (self.burst + 1).min(self.policy.burst);
            }
            Some(seen) => {
                match self.event {
                    Some(event) => event.sleep_registered(seen, self.policy.sleep),
                    None => std::thread::sleep(self.policy.sleep),
                }
                self.has_slept = true;
            }
        }
        if self.is_long() {
            if let (None, Some(event)) = (self.sleeping, self.event) {
                event.register();
            }
            self.sleeping = Some(self.event.map_or(0, EventCount::changes));
        }
    }

    /// Whether the wait takes longer than that.
    pub fn is_over(&self, time: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() > time)
    }

    /// Whether the waiter has yielded for as long as it was to, and sleeps from now on.
    pub fn is_long(&self) -> bool {
        self.is_over(self.policy.yield_for)
    }

    /// Whether the waiter has slept, and other ranks so had all the time that they needed.
    pub const fn has_slept(&self) -> bool {
        self.has_slept
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let (Some(_), Some(event)) = (self.sleeping, self.event) {
            event.unregister();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: BackoffPolicy = BackoffPolicy {
        yield_for: Duration::from_micros(200),
        burst: 4,
        sleep: Duration::from_millis(1),
    };

    #[test]
    fn a_wait_yields_before_it_sleeps() {
        let (backoff, event) = (Backoff::new(POLICY), EventCount::default());
        let mut wait = backoff.begin(Some(&event));
        // On a busy machine the first yield may already take longer than all of them are meant to,
        // since the core was used by another program; however long that was, it was not a sleep.
        while wait.sleeping.is_none() {
            assert_eq!(event.sleepers(), 0, "it only yields");
            wait.step();
        }
        assert!(wait.is_long() && !wait.has_slept());
        assert_eq!(event.sleepers(), 1, "it is registered before it looks for the last time");
        wait.step();
        assert!(wait.has_slept());
        drop(wait);
        assert_eq!(event.sleepers(), 0);
    }

    #[test]
    fn a_change_ends_a_wait() {
        let event = EventCount::default();
        let flag = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let backoff = Backoff::new(BackoffPolicy::shared_memory(POLICY.yield_for));
                    let set = || (flag.load(Ordering::SeqCst) > 0).then_some(7);
                    assert_eq!(backoff.wait_for(&event, Waiter::HelperThread, set), Ok(7));
                });
            }
            std::thread::sleep(Duration::from_millis(2));
            flag.store(1, Ordering::SeqCst);
            event.notify();
        });
        assert_eq!((event.sleepers(), event.changes()), (0, 1));
        event.notify_sleepers();
        assert_eq!(event.changes(), 1, "no waiter sleeps");
    }
}
