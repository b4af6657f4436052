//! [`Pace`]: when calls begin.
//!
//! With [`Timing::Think`] a thread that is ahead or behind stays so: its *drift* is how much later than in the
//! recording its last call ended, and the next begins by that much later. Where a thread was started or waited for
//! another, that one's drift counts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::options::Timing;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    timing: Timing,
    /// When the first call began in the recording.
    first: u64,
    zero: OnceLock<Instant>,
    /// Of each recorded thread.
    drifts: Vec<AtomicI64>,
}

impl Pace {
    pub(crate) fn new(timing: Timing, first: u64, threads: usize) -> Self {
        let drifts = (0..threads).map(|_| AtomicI64::new(0)).collect();
        Self { timing, first, zero: OnceLock::new(), drifts }
    }

    /// When the replay began: now, if it has not.
    pub(crate) fn zero(&self) -> Instant {
        *self.zero.get_or_init(Instant::now)
    }

    /// Whether drifts of other threads matter.
    pub(crate) const fn thinks(&self) -> bool {
        matches!(self.timing, Timing::Think)
    }

    /// When a call begins that began at a time of the recording; `None`: at once.
    pub(crate) fn begin(&self, start: u64, thread: usize) -> Option<Instant> {
        let since = start.saturating_sub(self.first);
        let since = match self.timing {
            Timing::AsFast => return None,
            Timing::AsRecorded => since,
            Timing::Scale(factor) => (since as f64 * factor) as u64,
            Timing::Think => {
                let drift = self.drifts.get(thread).map_or(0, |drift| drift.load(Ordering::SeqCst));
                since.saturating_add_signed(drift)
            }
        };
        self.zero().checked_add(Duration::from_nanos(since))
    }

    /// A call of a thread has ended, which ended at a time of the recording.
    pub(crate) fn ended(&self, end: u64, thread: usize) {
        if self.thinks()
            && let Some(drift) = self.drifts.get(thread)
        {
            let now = self.zero().elapsed().as_nanos() as i64;
            drift.store(now - end.saturating_sub(self.first) as i64, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_recording() {
        let at = |timing, start| {
            let pace = Pace::new(timing, 1000, 1);
            pace.begin(start, 0).map(|begin| (begin - pace.zero()).as_nanos())
        };
        assert_eq!(at(Timing::AsRecorded, 3000), Some(2000));
        assert_eq!(at(Timing::Scale(0.5), 3000), Some(1000));
        assert_eq!(at(Timing::AsFast, 3000), None);
        assert_eq!(at(Timing::Think, 3000), Some(2000));
        let pace = Pace::new(Timing::Think, 0, 1);
        pace.ended(u64::MAX / 4, 0);
        // It is far ahead of the recording, and stays so.
        assert_eq!(pace.begin(1000, 0), Some(pace.zero()));
    }
}
