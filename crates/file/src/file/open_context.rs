//! [`OpenContext`]: ranks that have met, and stay together from file to file.
//!
//! Most of what it takes to open a file is that the ranks find each other: a communicator of their own, and memory
//! in common. None of it depends on the file. So who opens one file after the other can keep it.

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;

use crate::rendezvous::Rendezvous;
use crate::{ErrorKind, File, FileError, Hints, Mode};

/// Ranks that have met. A file has its party for itself; it gives it back when it is closed.
#[derive(Debug)]
pub struct OpenContext {
    comm: Arc<dyn Comm>,
    meeting: Rendezvous,
}

impl OpenContext {
    /// The ranks of a communicator. Collective.
    pub fn new(comm: &Arc<dyn Comm>) -> Result<Self, FileError> {
        Ok(Self { comm: Arc::clone(comm), meeting: Rendezvous::new(comm.as_ref())? })
    }

    /// The ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// [`File::open`] for these ranks. If there is no file, the party is given back, unless the ranks could not reach
    /// each other. Collective.
    pub fn open(
        mut self,
        path: impl AsRef<Path>,
        mode: Mode,
        hints: &Hints,
    ) -> (Result<File, FileError>, Option<Self>) {
        self.meeting.begin_anew(self.comm.as_ref());
        let opened = File::open_at(&self.comm, &mut self.meeting, path.as_ref(), mode, hints);
        let is_kept = opened.as_ref().is_err_and(|error| error.kind() != ErrorKind::Comm);
        (opened, is_kept.then_some(self))
    }
}

impl File {
    /// [`File::close`], which gives back the ranks that had it open, for another file. It does not if a collective call
    /// has failed: what is left of that may still be on its way between them. Collective.
    pub fn close_into_context(mut self) -> (Result<(), FileError>, Option<OpenContext>) {
        let closed = self.close_together();
        let is_kept = closed.is_ok() && !self.meeting.failed && self.is_idle();
        let party = OpenContext { comm: Arc::clone(&self.comm), meeting: self.meeting.clone() };
        (closed, is_kept.then_some(party))
    }
}
