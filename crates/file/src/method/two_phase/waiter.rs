//! [`Waiter`]: who waits in a ring of windows.

use striate_comm::task::{in_task, pause};
use striate_comm::{Comm, CommError};

/// Who waits, and so what it asks and whom it lets on meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum Waiter<'a> {
    /// A rank, which may have other things to do.
    Rank(&'a dyn Comm),
    /// A helper thread: the communicator is the rank's own, whose error makes the rank abandon the call.
    Helper,
}

impl Waiter<'_> {
    pub(super) fn health(self) -> Result<(), CommError> {
        match self {
            Self::Rank(comm) => comm.health(),
            Self::Helper => Ok(()),
        }
    }

    /// Lets others get on, if there is something that can; returns whether.
    pub(super) fn pause(self, looks: u32) -> Result<bool, CommError> {
        match self {
            Self::Rank(comm) if in_task() || !comm.tasks().is_empty() => {
                pause(comm.tasks(), looks)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
