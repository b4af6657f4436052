//! Notices: calls that stages learn of and that the door makes itself (`mmap`, `opendir`, `chmod`
//! …).
//!
//! A door announces such a call before it makes it ([`Stack::announce`](crate::Stack::announce)),
//! so that stages write out what they buffer, and reports its result afterwards
//! ([`Stack::completed`](crate::Stack::completed)), which stages record or count. A notice that is
//! passed by [`Stack::call`](crate::Stack::call) alone has no result.

use std::cell::Cell;
use std::path::Path;

use striate_calls::{Detail, Function};

use crate::op::{Op, Outcome};

thread_local! {
    /// The function whose notice passes through the stack now, and whose result follows.
    static ANNOUNCED: Cell<Option<Function>> = const { Cell::new(None) };
}

/// Whether the result of a call of this function is reported later.
pub fn result_follows(function: Function) -> bool {
    ANNOUNCED.get() == Some(function)
}

/// While it lives, a result follows.
#[derive(Debug)]
pub(crate) struct Announcing(Option<Function>);

impl Announcing {
    pub(crate) fn new(function: Function) -> Self {
        Self(ANNOUNCED.replace(Some(function)))
    }
}

impl Drop for Announcing {
    fn drop(&mut self) {
        ANNOUNCED.set(self.0);
    }
}

/// A call that stages were notified of and that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    /// What stages say to it: an error keeps it from being made.
    pub outcome: Outcome,
    /// When stages were notified, in ticks.
    pub began: u64,
    /// When they were done with it.
    pub made: u64,
}

impl Announced {
    /// A call that is about to be made and that stages are notified of only afterwards.
    pub fn unannounced() -> Self {
        let now = striate_process::clock::now();
        Self { outcome: Ok(0), began: now, made: now }
    }

    /// Notices that could not be delivered to stages.
    pub const fn failed() -> Self {
        Self { outcome: Err(rustix::io::Errno::IO), began: 0, made: 0 }
    }
}

/// A call that stages were notified of and that has been made.
#[derive(Debug)]
pub struct Completed<'c, 'a> {
    /// As it was announced.
    pub op: &'c Op<'a>,
    /// What else it said.
    pub detail: &'c Detail<&'c Path>,
    /// What came of it.
    pub outcome: Outcome,
    /// When it began and ended, in ticks. For the first stage what the others had to do counts as
    /// well.
    pub times: (u64, u64),
}
