//! [`Task`]: what a worker does next.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};

use striate_recording::ProcessIndex;
use striate_trace::Record;

use crate::fix::Fix;
use crate::namespace::FileId;
use crate::order::CallPoints;

/// A call, with all that its worker has to know.
#[derive(Debug)]
pub(crate) struct Call {
    /// The record.
    pub(crate) record: Record,
    /// Its number in the recording.
    pub(crate) number: u64,
    /// The recorded thread.
    pub(crate) thread: usize,
    /// The thread whose drift counts.
    pub(crate) anchor: usize,
    /// The file of the call, and that which bytes are copied to.
    pub(crate) files: [Option<FileId>; 2],
    /// Corrections before the call.
    pub(crate) fixes: Vec<Fix>,
    /// The old name, if a second one is made.
    pub(crate) link: Option<PathBuf>,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum TaskKind {
    /// A process begins.
    Start {
        /// Its parent, if that is recorded and goes on.
        parent: Option<ProcessIndex>,
        /// Threads that go on later by what the parent has to write out first, and when their last
        /// calls ended: that of the parent, and the one whose drift the process begins
        /// with.
        later: [Option<(usize, u64)>; 2],
    },
    /// A call.
    Call(Box<Call>),
    /// A process ends: the thread with the last call, and when that ended.
    End(usize, u64),
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) struct Task {
    /// For which process.
    pub(crate) process: ProcessIndex,
    /// What has to be done before.
    pub(crate) after: CallPoints,
    /// What.
    pub(crate) what: TaskKind,
}

/// Tasks that wait for their worker.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<(VecDeque<Task>, bool)>,
    filled: Condvar,
}

impl Inbox {
    /// Adds a task.
    pub(crate) fn put(&self, task: Task) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0.push_back(task);
        if state.0.len() == 1 {
            self.filled.notify_one();
        }
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.filled.notify_one();
    }

    /// All that is there, when there is something; nothing at the end.
    pub(crate) fn take(&self) -> VecDeque<Task> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0.is_empty() && !state.1 {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.0)
    }
}
