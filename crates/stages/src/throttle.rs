//! **throttle**: requests take as long as on slower storage.
//!
//! A request takes `latency` plus the time that its bytes take at `bandwidth`, or its real time if
//! that is longer. Latencies of concurrent requests overlap; their bytes share the bandwidth.
//!
//! The wait uses no processor time of the program: it is a sleep with the smallest timer slack. A
//! wake-up still takes some tens of microseconds. So a thread that waits alone wakes up a little
//! early and spins for the rest; if several wait, all sleep to the end, and are late by that.

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Deserialize;
use striate_calls::{Kind, Kinds};
use striate_process::lock::lock;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{Classification, Next, Op, Outcome, Stage};
use toml::Table;

use crate::options;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Both,
    interference: Interference::OneOperation,
    state: State::Stateless,
    meaning: Meaning::Kept,
};

/// What storage is asked for, when it is elsewhere.
const REQUESTS: Kinds = Kinds::of(&[
    Kind::Open,
    Kind::Close,
    Kind::Read,
    Kind::Write,
    Kind::Sync,
    Kind::Truncate,
    Kind::Allocate,
    Kind::Stat,
    Kind::Rename,
    Kind::Unlink,
    Kind::MakeDirectory,
    Kind::ReadDirectory,
    Kind::CopyRange,
    Kind::SendFile,
]);

/// From so long before the end on, a thread that waits alone waits awake: to be woken up takes
/// about that long.
const AWAKE: Duration = Duration::from_micros(50);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThrottleOptions {
    latency: Option<String>,
    bandwidth: Option<String>,
    kinds: Option<Vec<String>>,
}

/// The stage.
#[derive(Debug)]
pub(super) struct Throttle {
    kinds: Kinds,
    latency: Duration,
    /// Bytes in a second.
    bandwidth: Option<u64>,
    /// When the bytes that are on their way will have passed.
    free: Mutex<Option<Instant>>,
    /// How many threads wait now. A replay has a stage for each process that it acts out: each is
    /// alone then, as it was.
    waiting: AtomicUsize,
}

impl Throttle {
    /// Makes one from its table in a configuration.
    pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
        let options: ThrottleOptions = options::read(table)?;
        let latency = options.latency.as_deref().map(options::duration).transpose()?;
        let bandwidth = options.bandwidth.as_deref().map(|text| {
            let size = text.strip_suffix("/s").unwrap_or(text).trim();
            options::size("bandwidth", size)
        });
        let bandwidth = bandwidth.transpose()?;
        if latency.is_none() && bandwidth.is_none() {
            return Err("set latency, bandwidth or both".into());
        }
        if bandwidth == Some(0) {
            return Err("a bandwidth of 0 would block all data".into());
        }
        let kinds = options.kinds.as_deref().map_or(Ok(REQUESTS), options::kinds)?;
        let latency = latency.unwrap_or_default();
        let (free, waiting) = (Mutex::new(None), AtomicUsize::new(0));
        Ok(Box::new(Self { kinds, latency, bandwidth, free, waiting }))
    }

    /// When a request that began at `start` and moved so many bytes has been answered.
    fn answered(&self, start: Instant, bytes: u64) -> Instant {
        let passed = match self.bandwidth {
            Some(bandwidth) if bytes > 0 => {
                let time = Duration::from_secs_f64(bytes as f64 / bandwidth as f64);
                let mut free = lock(&self.free);
                let passed = free.map_or(start, |free| free.max(start)) + time;
                *free = Some(passed);
                passed
            }
            _ => start,
        };
        passed + self.latency
    }
}

impl Stage for Throttle {
    fn kinds(&self) -> Kinds {
        self.kinds
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let start = Instant::now();
        let kind = op.action.kind();
        let outcome = next.call(op);
        let moves = matches!(kind, Kind::Read | Kind::Write | Kind::CopyRange | Kind::SendFile);
        let end = self.answered(start, if moves { outcome.unwrap_or(0) } else { 0 });
        wait_until(end, &self.waiting);
        outcome
    }
}

/// Waits, as one of so many. It is never early.
fn wait_until(end: Instant, waiting: &AtomicUsize) {
    let alone = waiting.fetch_add(1, Ordering::Relaxed) == 0;
    let awake = if alone { AWAKE } else { Duration::ZERO };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match left.checked_sub(awake) {
            Some(asleep) if !asleep.is_zero() => sleep(asleep),
            _ => std::hint::spin_loop(),
        }
    }
    waiting.fetch_sub(1, Ordering::Relaxed);
}

/// Sleeps as precisely as the kernel can. It ends early if a signal comes.
fn sleep(time: Duration) {
    // The kernel may otherwise be late by the slack of the thread, 50 µs for most. It belongs to
    // the program.
    let slack = current_timer_slack().ok().and_then(NonZeroU64::new);
    if slack.is_some() {
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
    }
    let now = clock_gettime(ClockId::Monotonic);
    let end = Timespec::try_from(time).ok().and_then(|time| now.checked_add(time));
    if let Some(end) = end {
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &end);
    }
    if slack.is_some() {
        let _ = set_current_timer_slack(slack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(latency: u64, bandwidth: Option<u64>) -> Throttle {
        let latency = Duration::from_micros(latency);
        let (free, waiting) = (Mutex::new(None), AtomicUsize::new(0));
        Throttle { kinds: REQUESTS, latency, bandwidth, free, waiting }
    }

    #[test]
    fn latencies_pass_together_and_bytes_one_after_the_other() {
        let start = Instant::now();
        let after = |micros| start + Duration::from_micros(micros);
        let slow = throttle(200, Some(1_000_000));
        assert_eq!(slow.answered(start, 0), after(200));
        assert_eq!(slow.answered(start, 50), after(250));
        assert_eq!(slow.answered(start, 50), after(300));
        assert_eq!(slow.answered(after(10), 0), after(210));
        // After a pause the line is free.
        assert_eq!(slow.answered(after(1000), 100), after(1300));
        let near = throttle(200, None);
        assert_eq!(near.answered(start, 1 << 30), after(200));
    }

    #[test]
    fn waits_are_never_early_and_leave_the_slack_of_the_thread_alone() {
        let slack = NonZeroU64::new(70_000);
        let waiting = AtomicUsize::new(0);
        let wait = |micros| {
            set_current_timer_slack(slack).unwrap();
            let end = Instant::now() + Duration::from_micros(micros);
            wait_until(end, &waiting);
            assert!(Instant::now() >= end);
            assert_eq!(current_timer_slack().unwrap(), 70_000);
        };
        for micros in [0, 1, 49, 200] {
            wait(micros);
        }
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..20).for_each(|round| wait(thread * 40 + round)));
            }
        });
    }

    #[test]
    fn options_are_checked() {
        let build = |text: &str| Throttle::build(toml::from_str(text).unwrap());
        for right in
            ["latency = '200us'", "bandwidth = '100 MiB/s'", "latency='1ms'\nkinds=['read']"]
        {
            assert!(build(right).is_ok(), "{right}");
        }
        for wrong in
            ["", "latency = '200'", "bandwidth = '0'", "latency='1ms'\nkinds=['reads']", "x = 1"]
        {
            assert!(build(wrong).is_err(), "{wrong}");
        }
    }
}
