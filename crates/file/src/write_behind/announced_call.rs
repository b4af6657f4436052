//! [`AnnouncedCall`]: a rank's part in collective calls for which nobody meets; `order.rs` says why.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use striate_comm::Comm;

use super::call_order::{CALLS, Conflicts};
use super::{Wait, WriteBehind};
use crate::FileError;

/// How long a rank that goes on alone lets others come on to where it is.
const CATCH_UP: Duration = Duration::from_millis(10);

/// Calls by which a rank may be ahead of another where nothing waits, and at least.
const AHEAD: u64 = 64;
const AT_LEAST: u64 = 8;

/// A rank's announcement, until it has written what it announced.
#[derive(Debug)]
pub(crate) struct AnnouncedCall<'a> {
    behind: &'a WriteBehind,
    /// What later calls have written.
    pub(crate) taken: Vec<Range<u64>>,
}

impl Drop for AnnouncedCall<'_> {
    fn drop(&mut self) {
        self.behind.shared.call_logs().0[self.behind.rank].finish();
        self.behind.shared.notify();
    }
}

impl WriteBehind {
    /// Calls by which this rank may be ahead of another, if all write as much as it does. What waits of small ones must fit
    /// into the windows; else they are written before they are whole.
    fn ahead(&self, len: u64) -> u64 {
        if !Self::is_for(len) {
            return AHEAD;
        }
        let of_all = len * self.shared.ranks as u64;
        (self.shared.windows_len() / of_all).clamp(AT_LEAST, CALLS)
    }

    /// Whether all other ranks have done with a call. They are looked at only if it is not known yet.
    fn others_have_done(&self, call: u64) -> bool {
        if self.others_done.load(Ordering::Relaxed) < call {
            let now = self.shared.call_logs().done_by_others(self.rank);
            self.others_done.store(now, Ordering::Relaxed);
        }
        self.others_done.load(Ordering::Relaxed) >= call
    }

    /// Whether no rank has yet to come to calls that this one has done with, as in calls that nobody else makes.
    pub(super) fn nobody_is_late(&self) -> bool {
        let mine = &self.shared.call_logs().0[self.rank];
        mine.is_idle() || self.others_have_done(mine.announced() - 1)
    }

    /// Announces what this rank writes in a call for which nobody meets, and waits until it is its turn.
    pub(crate) fn announce(
        &self,
        comm: &dyn Comm,
        call: u64,
        range: Range<u64>,
    ) -> Result<AnnouncedCall<'_>, FileError> {
        let call_logs = self.shared.call_logs();
        let ahead = self.ahead(range.end - range.start);
        if !self.others_have_done(call.saturating_sub(ahead)) {
            // Long enough not to wait for each of the next calls.
            let enough = call.saturating_sub(ahead * 3 / 4);
            self.wait_for_ranks(comm, || self.others_have_done(enough))?;
        }
        let Conflicts { taken, writing } = call_logs.announce(self.rank, call, range);
        let turn = AnnouncedCall { behind: self, taken };
        if !writing.is_empty() {
            self.wait_until(|| {
                writing.iter().all(|(other, call)| call_logs.0[*other].has_done(*call))
            })?;
        }
        Ok(turn)
    }

    /// The same for a rank that cannot say exactly which bytes of the range it writes. Others would leave out all of
    /// them, so nobody may be left behind.
    pub(crate) fn announce_roughly(
        &self,
        comm: &dyn Comm,
        call: u64,
        range: Range<u64>,
    ) -> Result<AnnouncedCall<'_>, FileError> {
        self.wait_for_ranks(comm, || self.others_have_done(call - 1))?;
        self.announce(comm, call, range)
    }

    /// Lets ranks that are late come on to this call, but not for long: they may wait for something else.
    pub(crate) fn let_catch_up(&self, call: u64) {
        let (start, mut wait) = (Instant::now(), Wait::new(self));
        while !self.others_have_done(call) && start.elapsed() < CATCH_UP {
            wait.let_run();
        }
    }
}
