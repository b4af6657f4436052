//! [`CallLogs`]: what ranks write in collective calls without a rendezvous, so that later calls
//! win.
//!
//! Without a rendezvous a rank may be some calls ahead of another one. If the late rank came to
//! bytes that a later call has written, and overwrote them, the file would hold what no order of
//! calls leaves there. So each rank announces its bytes before it writes them, and then looks at
//! what the others have announced. If a later call of another rank has announced some of its bytes,
//! it leaves them out; if an earlier call is still writing some of them, it waits for that. All
//! ranks wait for earlier calls only, so there is no cycle of waits.
//!
//! There is no lock: the log of a rank is written by that rank alone. Of two ranks that announce at
//! the same time at least one sees the other, because both look after they have announced. If the
//! earlier call sees the later one, it leaves its bytes out; if it does not, the later one sees it,
//! and waits. A rank waits before it is more than [`CALLS`] ahead of another one, so no entry is
//! overwritten that a rank still has to look at.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Calls by which a rank can be ahead.
pub(super) const CALLS: u64 = 256;

/// Bytes of a file that a call writes.
#[repr(C)]
#[derive(Default)]
struct AnnouncedRange {
    start: AtomicU64,
    end: AtomicU64,
}

impl AnnouncedRange {
    fn set(&self, range: &Range<u64>) {
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
    }

    /// The announced range, if it overlaps this one.
    fn overlap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        (start < range.end && range.start < end).then_some(start..end)
    }
}

/// The last calls of a rank; zero at first, as fresh memory is.
#[repr(C, align(64))]
pub(super) struct CallLog {
    /// The last call it has announced.
    call: AtomicU64,
    /// The last call it has finished.
    finished: AtomicU64,
    entries: [AnnouncedRange; CALLS as usize],
}

/// What there is to conflicts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Conflicts {
    /// Bytes that later calls have written or will write.
    pub(super) overwritten: Vec<Range<u64>>,
    /// Ranks to wait for, and the calls in which they write.
    pub(super) writing: Vec<(usize, u64)>,
}

impl CallLog {
    fn entry(&self, call: u64) -> &AnnouncedRange {
        &self.entries[(call % CALLS) as usize]
    }

    /// Whether it has finished this call.
    pub(super) fn has_finished(&self, call: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= call
    }

    /// The last call it has announced.
    pub(super) fn announced(&self) -> u64 {
        self.call.load(Ordering::Acquire)
    }

    /// Whether it is not in a call.
    pub(super) fn is_idle(&self) -> bool {
        self.has_finished(self.announced())
    }

    pub(super) fn finish(&self) {
        self.finished.store(self.call.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// The logs of all ranks.
#[derive(Clone, Copy)]
pub(super) struct CallLogs<'a>(pub(super) &'a [CallLog]);

impl CallLogs<'_> {
    /// The last call that all ranks but this one have finished; for a single rank, all calls.
    pub(super) fn finished_by_others(self, rank: usize) -> u64 {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != rank);
        others
            .map(|(_, call_log)| call_log.finished.load(Ordering::Acquire))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Announces what `rank` writes in `call`, which is one more than its last one. All others have
    /// finished the call that was [`CALLS`] before: none of them still looks at the entry that this
    /// one replaces.
    pub(super) fn announce(self, rank: usize, call: u64, range: Range<u64>) -> Conflicts {
        let mine = &self.0[rank];
        mine.entry(call).set(&range);
        mine.call.store(call, Ordering::Release);
        // The announcement comes before the look: see the module.
        fence(Ordering::SeqCst);
        let mut conflicts = Conflicts::default();
        for (other, call_log) in self.0.iter().enumerate().filter(|(other, _)| *other != rank) {
            let last = call_log.call.load(Ordering::Acquire);
            if last < call {
                if !call_log.has_finished(last) && call_log.entry(last).overlap(&range).is_some() {
                    conflicts.writing.push((other, last));
                }
                continue;
            }
            let later = (call + 1..=last).filter_map(|later| call_log.entry(later).overlap(&range));
            conflicts.overwritten.extend(later);
        }
        conflicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_logs<const RANKS: usize>() -> [CallLog; RANKS] {
        std::array::from_fn(|_| CallLog {
            call: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            entries: std::array::from_fn(|_| AnnouncedRange::default()),
        })
    }

    #[test]
    fn later_calls_are_left_out_and_earlier_ones_waited_for() {
        let all = call_logs::<3>();
        let call_logs = CallLogs(&all);
        assert_eq!(call_logs.announce(0, 1, 0..10), Conflicts::default());
        all[0].finish();
        assert_eq!(call_logs.announce(0, 2, 5..15), Conflicts::default());
        // Rank 0 is still writing, but in a later call.
        let late = call_logs.announce(1, 1, 0..20);
        assert_eq!(
            (late.overwritten.len(), &late.overwritten[0], late.writing.len()),
            (1, &(5..15), 0)
        );
        // Calls with the same number do not wait for each other; rank 1 is still in an earlier one.
        let writing = vec![(1, 1)];
        assert_eq!(call_logs.announce(2, 2, 0..20), Conflicts { overwritten: vec![], writing });
        assert!(all[0].has_finished(1) && !all[0].has_finished(2) && !all[1].has_finished(1));
        all[1].finish();
        assert!(all[1].has_finished(1));
        // Ranges that do not overlap do not conflict, nor does a call without bytes.
        assert_eq!(call_logs.announce(1, 2, 20..30), Conflicts::default());
        all[1].finish();
        assert_eq!(call_logs.announce(1, 3, 0..0), Conflicts::default());
    }

    #[test]
    fn a_late_rank_finds_all_that_were_ahead() {
        let all = call_logs::<2>();
        let call_logs = CallLogs(&all);
        for call in 1..=CALLS {
            assert!(call_logs.finished_by_others(0) + CALLS >= call);
            assert_eq!(call_logs.announce(0, call, call..call + 1), Conflicts::default());
            all[0].finish();
        }
        assert_eq!(call_logs.finished_by_others(0), 0);
        assert_eq!(call_logs.announce(1, 1, 0..1000).overwritten.len() as u64, CALLS - 1);
        assert_eq!(call_logs.finished_by_others(0), 0, "it has not finished its call");
        all[1].finish();
        assert_eq!((call_logs.finished_by_others(0), call_logs.finished_by_others(1)), (1, CALLS));
    }
}
