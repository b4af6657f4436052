//! [`Accounting`]: what the calls of a rank have cost, and how the last one was carried out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_comm::task::in_task;
use striate_layout::characteristics::Method;
use striate_store::Counts;

use crate::access::FileSide;
use crate::usage::Clock;
use crate::{CallReport, Direction, Stats, Usage};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    pub(super) stats: Stats,
    pub(super) usage: Usage,
    /// The time that the store has taken, if that is measured.
    pub(super) clock: Option<Arc<Clock>>,
    pub(super) last: Option<CallReport>,
}

/// How a two-phase call was carried out.
pub(super) struct TwoPhaseReport {
    /// The kind of its file domains.
    pub(super) domains: &'static str,
    /// Whether ranks shared memory.
    pub(super) in_memory: bool,
    /// Bytes that were handed to other ranks.
    pub(super) resent: u64,
}

/// When a collective call began, and the time that the store had taken then.
pub(super) struct CallTimer {
    start: Instant,
    io: Duration,
}

impl Accounting {
    /// For a nonblocking call, which adds its time to the same clock.
    pub(super) fn for_task(&self) -> Self {
        Self { clock: self.clock.clone(), ..Self::default() }
    }

    #[inline]
    fn record(&mut self, report: CallReport) {
        self.stats += report.stats;
        self.usage.count(report.method);
        self.last = Some(report);
    }

    /// One contiguous request of so many bytes, of which so many were moved.
    #[inline]
    pub(super) fn record_contiguous(&mut self, wanted: u64, moved: u64) {
        let stats = Stats {
            calls: 1,
            wanted,
            accessed: moved,
            operations: 1,
            regions: 1,
            ..Stats::default()
        };
        self.record(CallReport { method: Method::Posix, domains: None, in_memory: None, stats });
    }

    /// A write that waits in the windows of write-behind.
    pub(super) fn record_buffered(&mut self, bytes: u64) {
        let stats = Stats { calls: 1, wanted: bytes, resent: bytes, ..Stats::default() };
        let (method, in_memory) = (Method::TwoPhase, Some(true));
        self.record(CallReport { method, domains: None, in_memory, stats });
    }

    /// A call that the store has counted.
    pub(super) fn record_call(
        &mut self,
        direction: Direction,
        side: &FileSide,
        method: Method,
        counts: Counts,
        two_phase: Option<&TwoPhaseReport>,
    ) {
        let mut stats = cost_of(direction, side.len(), counts);
        stats.resent = two_phase.map_or(0, |report| report.resent);
        if matches!(method, Method::Datatype | Method::List) {
            // The store counts none of them, or their pieces.
            stats.regions = side.regions();
        }
        self.record(CallReport {
            method,
            domains: two_phase.map(|report| report.domains),
            in_memory: two_phase.map(|report| report.in_memory),
            stats,
        });
    }

    /// Begins to measure a collective call, if times are measured. A nonblocking one is not: it
    /// takes as long as the program lets it.
    pub(super) fn start_timer(&self) -> Option<CallTimer> {
        let clock = self.clock.as_ref().filter(|_| !in_task())?;
        Some(CallTimer { start: Instant::now(), io: clock.elapsed() })
    }

    /// Adds the time of a collective call outside of the store.
    pub(super) fn stop_timer(&mut self, timer: Option<CallTimer>) {
        if let (Some(timer), Some(clock)) = (timer, &self.clock) {
            let io = clock.elapsed().saturating_sub(timer.io);
            self.usage.exchange += timer.start.elapsed().saturating_sub(io);
        }
    }
}

/// What a call cost, from the requests that the store has counted.
pub(super) fn cost_of(direction: Direction, wanted: u64, counts: Counts) -> Stats {
    let (forward, back) = match direction {
        Direction::Write => (counts.write, counts.read),
        Direction::Read => (counts.read, counts.write),
    };
    Stats {
        calls: 1,
        wanted,
        accessed: forward.bytes,
        operations: forward.operations,
        read_back: back.bytes,
        read_backs: back.operations,
        resent: 0,
        regions: forward.regions,
    }
}
