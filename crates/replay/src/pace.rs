//! [`Pace`]: when calls begin.
//!
//! With [`Timing::Think`] every thread has a simulated *clock*, which advances by the duration of
//! its calls in the replay and by the recorded time between them. The *drift* of a thread is the
//! difference of its clock from the recording: its next call begins later by that much. Where a
//! thread was started by or waited for another thread, it takes over that drift, and a call that
//! depends on another begins when that has ended by its clock. The overhead of the replay between
//! calls (planning, dispatching, a sleep that ends late, corrections of files) is on no clock, so
//! that it does not add up: after it, calls begin at once until the replay has caught up with the
//! clocks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::options::Timing;
use crate::order::CallPoint;
use crate::progress::Progress;

/// Of so many tasks of a worker it is remembered when they ended.
const REMEMBERED: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    timing: Timing,
    /// When the first call began in the recording.
    first: u64,
    zero: OnceLock<Instant>,
    /// Of each recorded thread.
    drifts: Vec<AtomicI64>,
    /// Of each worker, when its last tasks ended by the clocks.
    ends: Vec<[AtomicU64; REMEMBERED]>,
    /// When the last of all ended.
    last: AtomicU64,
}

/// When a call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartTime {
    /// By the clock of its thread: nanoseconds since the replay began.
    pub(crate) clock: u64,
    /// When it may begin; `None`: at once.
    pub(crate) moment: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(timing: Timing, first: u64, threads: usize, workers: usize) -> Self {
        let drifts = (0..threads).map(|_| AtomicI64::new(0)).collect();
        let workers = if matches!(timing, Timing::Think) { workers } else { 0 };
        let ends = (0..workers).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        Self { timing, first, zero: OnceLock::new(), drifts, ends, last: AtomicU64::new(0) }
    }

    /// When the replay began: now, if it has not.
    pub(crate) fn zero(&self) -> Instant {
        *self.zero.get_or_init(Instant::now)
    }

    /// Whether threads have clocks.
    pub(crate) const fn thinks(&self) -> bool {
        matches!(self.timing, Timing::Think)
    }

    /// A time of the recording by the clock of a thread.
    fn clock(&self, time: u64, thread: usize) -> u64 {
        let drift = self.drifts.get(thread).map_or(0, |drift| drift.load(Ordering::SeqCst));
        time.saturating_sub(self.first).saturating_add_signed(drift)
    }

    /// When a call begins that began at a time of the recording, and not before `floor` by the
    /// clocks.
    pub(crate) fn begin(&self, start: u64, thread: usize, floor: u64) -> StartTime {
        let since = start.saturating_sub(self.first);
        let since = match self.timing {
            Timing::AsFast => {
                self.zero();
                return StartTime { clock: 0, moment: None };
            }
            Timing::AsRecorded => since,
            Timing::Scale(factor) => (since as f64 * factor) as u64,
            Timing::Think => self.clock(start, thread).max(floor),
        };
        let moment = self.zero().checked_add(Duration::from_nanos(since));
        StartTime { clock: since, moment }
    }

    /// A call of a thread has ended by its clock, which ended at a time of the recording.
    pub(crate) fn ended(&self, end: u64, thread: usize, clock: u64) {
        if let Some(drift) = self.drifts.get(thread).filter(|_| self.thinks()) {
            let since = end.saturating_sub(self.first);
            drift.store(clock.cast_signed().wrapping_sub(since.cast_signed()), Ordering::SeqCst);
            self.last.fetch_max(clock, Ordering::Relaxed);
        }
    }

    /// Adds time that a thread has spent outside calls, after a call that ended at a time of the
    /// recording. Returns the new time of its clock.
    pub(crate) fn delayed(&self, end: u64, thread: usize, took: u64) -> u64 {
        if let Some(drift) = self.drifts.get(thread).filter(|_| self.thinks()) {
            drift.fetch_add(took.cast_signed(), Ordering::SeqCst);
        }
        self.clock(end, thread)
    }

    /// The same for the end of a process, which is the last that is on the clock.
    pub(crate) fn ended_process(&self, end: u64, thread: usize, took: u64) -> u64 {
        let clock = self.delayed(end, thread, took);
        self.last.fetch_max(clock, Ordering::Relaxed);
        clock
    }

    /// A worker has done so many tasks, of which the last ended now by the clocks.
    pub(crate) fn note(&self, (worker, count): CallPoint, clock: u64) {
        if let Some(ends) = self.ends.get(worker as usize) {
            ends[count as usize % REMEMBERED].store(clock, Ordering::SeqCst);
        }
    }

    /// When a task that is done ended by the clocks; 0 if that is forgotten.
    pub(crate) fn end_of(&self, (worker, count): CallPoint, progress: &Progress) -> u64 {
        let Some(ends) = self.ends.get(worker as usize) else { return 0 };
        let clock = ends[count as usize % REMEMBERED].load(Ordering::SeqCst);
        // The worker may be in the middle of the task after those that it has done.
        let later = progress.done(worker).saturating_sub(count) as usize;
        if later + 1 < REMEMBERED { clock } else { 0 }
    }

    /// When the last of all ended by the clocks.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_recording() {
        let at = |timing, start| {
            let pace = Pace::new(timing, 1000, 1, 1);
            let begin = pace.begin(start, 0, 0);
            begin.moment.map(|moment| (moment - pace.zero()).as_nanos())
        };
        assert_eq!(at(Timing::AsRecorded, 3000), Some(2000));
        assert_eq!(at(Timing::Scale(0.5), 3000), Some(1000));
        assert_eq!(at(Timing::AsFast, 3000), None);
        assert_eq!(at(Timing::Think, 3000), Some(2000));
        let pace = Pace::new(Timing::Think, 0, 1, 1);
        pace.ended(u64::MAX / 4, 0, 5);
        // It is far ahead of the recording, and stays so.
        assert_eq!(pace.begin(1000, 0, 0), StartTime { clock: 0, moment: Some(pace.zero()) });
    }

    #[test]
    fn clocks_go_on_by_what_calls_take() {
        let pace = Pace::new(Timing::Think, 1000, 2, 2);
        // From 1000 to 1500 in the recording; here it takes 200.
        let begin = pace.begin(1000, 0, 0).clock;
        assert_eq!(begin, 0);
        pace.ended(1500, 0, begin + 200);
        // What came 300 later still does.
        assert_eq!(pace.begin(1800, 0, 0).clock, 500);
        // Another thread has its own clock, and a call waits for what it has to wait for.
        assert_eq!(pace.begin(1800, 1, 0).clock, 800);
        assert_eq!(pace.begin(1800, 1, 900).clock, 900);
        // What stages do at the end of a process is on the clock.
        assert_eq!(pace.ended_process(1500, 0, 50), 250);
        assert_eq!((pace.begin(1800, 0, 0).clock, pace.last()), (550, 250));
    }

    #[test]
    fn ends_are_remembered_for_a_while() {
        let (pace, progress) = (Pace::new(Timing::Think, 0, 1, 1), Progress::new(1));
        for count in 1..=100 {
            pace.note((0, count), count * 10);
            progress.complete(0);
        }
        assert_eq!(pace.end_of((0, 100), &progress), 1000);
        assert_eq!(pace.end_of((0, 60), &progress), 600);
        assert_eq!(pace.end_of((0, 3), &progress), 0);
        assert_eq!(pace.end_of((7, 3), &progress), 0);
    }
}
