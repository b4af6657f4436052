//! [`AnnouncedCall`]: a rank's part in a collective write without a rendezvous; `call_order.rs`
//! says why it is announced.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use striate_comm::Comm;

use super::WriteBehind;
use super::call_order::{CALLS, Conflicts};
use crate::FileError;

/// How long an independent call waits for ranks that have not come to the collective calls before
/// it.
const CATCH_UP: Duration = Duration::from_millis(10);

/// Calls by which a rank may be ahead of another one where nothing waits, and at least.
const AHEAD: u64 = 64;
const AHEAD_AT_LEAST: u64 = 8;

/// A rank's announcement, until it has written what it announced.
#[derive(Debug)]
pub(crate) struct AnnouncedCall<'a> {
    write_behind: &'a WriteBehind,
    /// Bytes that later calls have written, and that this one must leave out.
    pub(crate) overwritten: Vec<Range<u64>>,
}

impl Drop for AnnouncedCall<'_> {
    fn drop(&mut self) {
        self.write_behind.shared.call_logs().0[self.write_behind.rank].finish();
        self.write_behind.shared.notify();
    }
}

impl WriteBehind {
    /// Calls by which this rank may be ahead of another one, if all write as much as it does. Small
    /// writes that wait must fit into the windows; else these are written before they are full.
    fn ahead(&self, len: u64) -> u64 {
        if !Self::accepts(len) {
            return AHEAD;
        }
        let of_all = len * self.shared.ranks() as u64;
        (self.shared.windows_len() / of_all).clamp(AHEAD_AT_LEAST, CALLS)
    }

    /// Whether all other ranks have finished a call. Their logs are read only if that is not known
    /// yet.
    fn others_have_finished(&self, call: u64) -> bool {
        if self.finished_by_others.load(Ordering::Relaxed) < call {
            let now = self.shared.call_logs().finished_by_others(self.rank);
            self.finished_by_others.store(now, Ordering::Relaxed);
        }
        self.finished_by_others.load(Ordering::Relaxed) >= call
    }

    /// Whether no rank has yet to come to calls that this one has finished, as in calls of this
    /// rank alone.
    pub(super) fn no_rank_is_late(&self) -> bool {
        let own = &self.shared.call_logs().0[self.rank];
        own.is_idle() || self.others_have_finished(own.announced() - 1)
    }

    /// Announces what this rank writes in a call without a rendezvous, and waits until it may
    /// write.
    pub(crate) fn announce(
        &self,
        comm: &dyn Comm,
        call: u64,
        range: Range<u64>,
    ) -> Result<AnnouncedCall<'_>, FileError> {
        let call_logs = self.shared.call_logs();
        let ahead = self.ahead(range.end - range.start);
        if !self.others_have_finished(call.saturating_sub(ahead)) {
            // Far enough not to wait again in each of the next calls.
            let enough = call.saturating_sub(ahead * 3 / 4);
            self.wait_for_ranks(comm, || self.others_have_finished(enough))?;
        }
        let Conflicts { overwritten, writing } = call_logs.announce(self.rank, call, range);
        let announced = AnnouncedCall { write_behind: self, overwritten };
        if !writing.is_empty() {
            self.wait_until(|| {
                writing.iter().all(|(other, call)| call_logs.0[*other].has_finished(*call))
            })?;
        }
        Ok(announced)
    }

    /// The same for a rank that writes only some bytes of the range. Other ranks would leave out
    /// all of it, so none of them may be at an earlier call.
    pub(crate) fn announce_span(
        &self,
        comm: &dyn Comm,
        call: u64,
        span: Range<u64>,
    ) -> Result<AnnouncedCall<'_>, FileError> {
        self.wait_for_ranks(comm, || self.others_have_finished(call - 1))?;
        self.announce(comm, call, span)
    }

    /// Waits for ranks that have not come to this call, but not for long: they may be waiting for
    /// something else.
    pub(crate) fn wait_for_late_ranks(&self, call: u64) {
        let (start, mut wait) = (Instant::now(), self.begin_wait());
        while !self.others_have_finished(call) && start.elapsed() < CATCH_UP {
            wait.step();
        }
    }
}
