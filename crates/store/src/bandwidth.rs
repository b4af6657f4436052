//! [`Bandwidth`]: a limit of bytes per second, first come, first served.
//!
//! Bytes wait in a queue that moves at this rate. So the rate may change at any time, also for
//! bytes that are already waiting. The queue is integer arithmetic on times passed to it, which
//! makes it testable without a clock; [`Bandwidth`] is the queue with a clock.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Parts of a byte that the queue counts in: a link of 1 byte per second lets one pass per
/// nanosecond.
const PARTS: u128 = 1_000_000_000;

/// Bytes that have passed and bytes that wait.
#[derive(Clone, Debug)]
struct Queue {
    /// Bytes per second, not 0; any number if there is none.
    rate: Option<u64>,
    /// For how long the link saves what it could have let pass while nothing came.
    slack: Duration,
    /// The time of which `passed` is said.
    at: Instant,
    /// Parts of bytes that have passed since the beginning, and those that may pass as soon as
    /// they come.
    passed: u128,
    /// Parts of bytes that have come since the beginning.
    come: u128,
}

/// The end of some bytes in the queue.
#[derive(Clone, Copy, Debug)]
struct End(u128);

impl Queue {
    fn new(rate: Option<u64>, slack: Duration, now: Instant) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), slack, at: now, passed: 0, come: 0 }
    }

    /// Lets pass what could until now.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        self.passed = match self.rate {
            None => self.come,
            Some(rate) => {
                let within = |time: Duration| time.as_nanos().saturating_mul(u128::from(rate));
                let most = self.come.saturating_add(within(self.slack));
                self.passed.saturating_add(within(elapsed)).min(most)
            }
        };
        self.at += elapsed;
    }

    fn join(&mut self, bytes: u64, now: Instant) -> End {
        self.advance(now);
        self.come += u128::from(bytes) * PARTS;
        End(self.come)
    }

    /// How long it takes from now on until all before the end has passed.
    fn left(&mut self, end: End, now: Instant) -> Duration {
        self.advance(now);
        let Some(rate) = self.rate else { return Duration::ZERO };
        let nanoseconds = end.0.saturating_sub(self.passed).div_ceil(u128::from(rate));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn set_rate(&mut self, rate: Option<u64>, now: Instant) {
        self.advance(now);
        self.rate = rate.map(|rate| rate.max(1));
    }
}

/// A link of so many bytes per second, which all its users share.
///
/// ```
/// use striate_store::Bandwidth;
/// let link = Bandwidth::new(Some(64 << 20));
/// link.pass(64 << 10); // takes a millisecond
/// link.set_limit(None);
/// link.pass(1 << 40); // takes no time
/// ```
#[derive(Debug)]
pub struct Bandwidth {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Bandwidth {
    /// A link that lets no more than so many bytes per second pass (`None`: any).
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self::with_slack(bytes_per_second, Duration::ZERO)
    }

    /// As [`Bandwidth::new`], for users that do something else between their bytes: after a rest,
    /// as many bytes as pass in the time `slack` pass at once.
    pub fn with_slack(bytes_per_second: Option<u64>, slack: Duration) -> Self {
        let queue = Queue::new(bytes_per_second, slack, Instant::now());
        Self { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    /// Bytes per second at most.
    pub fn limit(&self) -> Option<u64> {
        self.queue().rate
    }

    /// Changes the limit, also for bytes that wait.
    pub fn set_limit(&self, bytes_per_second: Option<u64>) {
        self.queue().set_rate(bytes_per_second, Instant::now());
        self.changed.notify_all();
    }

    /// Waits until so many bytes have passed, after those that came before.
    pub fn pass(&self, bytes: u64) {
        let mut queue = self.queue();
        // Most links have no limit, and need not look at the clock.
        if queue.rate.is_none() || bytes == 0 {
            return;
        }
        let end = queue.join(bytes, Instant::now());
        loop {
            let left = queue.left(end, Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn bytes_pass_in_their_order_at_the_rate() {
        let start = Instant::now();
        let mut queue = Queue::new(Some(100), Duration::ZERO, start);
        let first = queue.join(50, start);
        let second = queue.join(100, start);
        assert_eq!(queue.left(first, start), seconds(0.5));
        assert_eq!(queue.left(second, start), seconds(1.5));
        assert_eq!(queue.left(first, start + seconds(0.75)), Duration::ZERO);
        assert_eq!(queue.left(second, start + seconds(0.75)), seconds(0.75));
    }

    #[test]
    fn what_was_not_used_is_lost() {
        let start = Instant::now();
        let mut queue = Queue::new(Some(100), Duration::ZERO, start);
        queue.join(100, start);
        let later = start + seconds(60.0);
        let end = queue.join(100, later);
        assert_eq!(queue.left(end, later), seconds(1.0));
    }

    #[test]
    fn a_short_rest_costs_nothing() {
        let start = Instant::now();
        let mut queue = Queue::new(Some(100), seconds(0.5), start);
        let end = queue.join(100, start);
        assert_eq!(queue.left(end, start), seconds(1.0));
        // As if these bytes had come when the earlier ones had passed.
        let end = queue.join(100, start + seconds(1.25));
        assert_eq!(queue.left(end, start + seconds(1.25)), seconds(0.75));
        let end = queue.join(100, start + seconds(60.0));
        assert_eq!(queue.left(end, start + seconds(60.0)), seconds(0.5));
        queue.join(1, start + seconds(61.0));
        queue.set_rate(Some(10), start + seconds(70.0));
        let end = queue.join(100, start + seconds(80.0));
        assert_eq!(queue.left(end, start + seconds(80.0)), seconds(9.5));
    }

    #[test]
    fn a_new_limit_counts_for_what_waits() {
        let start = Instant::now();
        let mut queue = Queue::new(Some(100), Duration::ZERO, start);
        let end = queue.join(100, start);
        queue.set_rate(Some(10), start + seconds(0.5));
        assert_eq!(queue.left(end, start + seconds(0.5)), seconds(5.0));
        queue.set_rate(Some(1000), start + seconds(1.5));
        assert_eq!(queue.left(end, start + seconds(1.5)), seconds(0.04));
        queue.set_rate(None, start + seconds(1.51));
        assert_eq!(queue.left(end, start + seconds(1.51)), Duration::ZERO);
    }

    #[test]
    fn no_number_is_too_large() {
        let start = Instant::now();
        for rate in [Some(0), Some(1), Some(u64::MAX), None] {
            let mut queue = Queue::new(rate, seconds(0.01), start);
            let end = queue.join(u64::MAX, start);
            queue.left(end, start);
            queue.advance(start + Duration::from_secs(1 << 32));
            queue.left(end, start);
        }
    }

    #[test]
    fn whoever_waits_notices_that_the_limit_is_gone() {
        let link = Bandwidth::new(Some(1));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| link.pass(1 << 30));
            while link.queue().come == 0 {
                std::thread::yield_now();
            }
            assert_eq!(link.limit(), Some(1));
            link.set_limit(None);
            waits.join().unwrap();
        });
        link.pass(u64::MAX);
        assert_eq!(link.limit(), None);
    }

    /// Against a link that lets a byte pass after the other.
    #[test]
    fn as_a_link_that_is_looked_at_byte_by_byte() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let start = Instant::now();
            let mut queue = Queue::new(Some(1), Duration::ZERO, start);
            let (mut now, mut waiting, mut rate) = (0, 0u64, 1);
            for _ in 0..30 {
                let (pause, bytes) = (random(4), random(20));
                for _ in 0..pause {
                    waiting = waiting.saturating_sub(rate);
                }
                now += pause;
                let at = start + Duration::from_secs(now);
                if random(3) == 0 {
                    rate = 1 + random(6);
                    queue.set_rate(Some(rate), at);
                }
                let end = queue.join(bytes, at);
                waiting += bytes;
                let expected = (waiting * 1_000_000_000).div_ceil(rate);
                assert_eq!(queue.left(end, at), Duration::from_nanos(expected));
            }
        }
    }
}
