//! [`Turn`]: a rank's part in collective calls for which nobody meets; `order.rs` says why.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use striate_comm::Comm;
use striate_store::StoreError;

use super::books::Books;
use super::order::{self, Heed};
use super::{Behind, LET_RUN};
use crate::FileError;

/// How long a rank that goes on alone lets others come on to where it is.
const CATCH_UP: Duration = Duration::from_millis(10);

/// A rank's announcement, until it has written what it announced.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    behind: &'a Behind,
    /// What later calls have written.
    pub(crate) taken: Vec<Range<u64>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.behind.shared.with(|books| books.trails[self.behind.rank].finish());
        self.behind.shared.notify();
    }
}

impl Behind {
    /// Announces what this rank writes in a call for which nobody meets, and waits until it is its turn.
    pub(crate) fn announce(&self, call: u64, range: Range<u64>) -> Result<Turn<'_>, StoreError> {
        let Heed { taken, writing } =
            self.shared.with(|books| order::announce(books.trails, self.rank, call, range));
        let turn = Turn { behind: self, taken };
        if !writing.is_empty() {
            self.wait_until(|books| {
                writing.iter().all(|(other, call)| books.trails[*other].has_done(*call))
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
    ) -> Result<Turn<'_>, FileError> {
        self.wait_for_ranks(comm, |books| {
            let mut all = books.trails.iter().enumerate();
            all.all(|(rank, trail)| rank == self.rank || trail.has_done(call - 1))
        })?;
        Ok(self.announce(call, range)?)
    }

    /// Lets ranks that are late come on to this call, but not for long: they may wait for something else.
    pub(crate) fn let_catch_up(&self, call: u64) {
        let start = Instant::now();
        let has_come = |books: &mut Books<'_>| books.trails.iter().all(|one| one.has_done(call));
        while !self.shared.with(has_come) && start.elapsed() < CATCH_UP {
            let seen = self.shared.head().changes.load(Ordering::SeqCst);
            std::thread::yield_now();
            if start.elapsed() > LET_RUN {
                self.shared.sleep(seen, Duration::from_millis(1));
            }
        }
    }
}
