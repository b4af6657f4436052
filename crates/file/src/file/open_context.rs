//! [`OpenContext`]: the communicator and shared memory of ranks, reused from file to file.
//!
//! Most of the time that opening a file takes is spent on a communicator of its own and on shared
//! memory. Neither depends on the file. So a program that opens one file after the other can keep
//! them.

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;

use crate::rendezvous::Rendezvous;
use crate::{ErrorKind, File, FileError, Hints, Mode};

/// Ranks that can open a file at once. An open file has its context for itself, and gives it back
/// when it is closed.
#[derive(Debug)]
pub struct OpenContext {
    comm: Arc<dyn Comm>,
    rendezvous: Rendezvous,
}

impl OpenContext {
    /// Of the ranks of a communicator. Collective.
    pub fn new(comm: &Arc<dyn Comm>) -> Result<Self, FileError> {
        Ok(Self { comm: Arc::clone(comm), rendezvous: Rendezvous::new(comm.as_ref())? })
    }

    /// The ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// [`File::open`] for these ranks. If it fails, the context is given back, unless the ranks
    /// could not reach each other. Collective.
    pub fn open(
        mut self,
        path: impl AsRef<Path>,
        mode: Mode,
        hints: &Hints,
    ) -> (Result<File, FileError>, Option<Self>) {
        self.rendezvous.reset_for_next_file(self.comm.as_ref());
        let opened = File::open_with(&self.comm, &mut self.rendezvous, path.as_ref(), mode, hints);
        let is_reusable = opened.as_ref().is_err_and(|error| error.kind() != ErrorKind::Comm);
        (opened, is_reusable.then_some(self))
    }
}

impl File {
    /// [`File::close`], which gives back the context of the ranks, for another file. It does not if
    /// a collective call has failed: messages of that call may still be under way between them.
    /// Collective.
    pub fn close_into_context(mut self) -> (Result<(), FileError>, Option<OpenContext>) {
        let closed = self.close_collective();
        let rendezvous = self.collective.rendezvous.clone();
        let is_reusable = closed.is_ok() && !rendezvous.failed && self.pending.is_empty();
        let context = OpenContext { comm: Arc::clone(&self.handle.comm), rendezvous };
        (closed, is_reusable.then_some(context))
    }
}
