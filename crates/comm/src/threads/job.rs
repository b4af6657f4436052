//! [`Job`]: what all communicators of a run share: the mailboxes, and which ranks have ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mailbox::Mailbox;
use crate::task::Tasks;

/// A rank that has ended.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// Its rank in the job.
    pub(super) rank: usize,
    /// The reason if it failed; `None` if its body returned a value.
    pub(super) failure: Option<String>,
}

/// The state of a run.
#[derive(Debug)]
pub(super) struct Job {
    /// By rank in the job.
    pub(super) mailboxes: Vec<Mailbox>,
    /// By rank in the job.
    pub(super) tasks: Vec<Arc<Tasks>>,
    /// Whether ranks can get node memory.
    pub(super) node_memory: bool,
    /// In the order in which they ended.
    ends: Mutex<Vec<End>>,
    /// Whether there are any; healthy jobs need not take the lock.
    any_end: AtomicBool,
    groups: AtomicU64,
}

impl Job {
    /// Of ranks with these tasks.
    pub(super) fn new(tasks: Vec<Arc<Tasks>>, node_memory: bool) -> Self {
        Self {
            mailboxes: tasks.iter().map(|_| Mailbox::default()).collect(),
            tasks,
            node_memory,
            ends: Mutex::default(),
            any_end: AtomicBool::new(false),
            groups: AtomicU64::new(0),
        }
    }

    /// A number for a new group.
    pub(super) fn number_group(&self) -> u64 {
        self.groups.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a rank has ended, and wakes all others.
    pub(super) fn end(&self, rank: usize, failure: Option<String>) {
        self.ends().push(End { rank, failure });
        self.any_end.store(true, Ordering::Release);
        for mailbox in &self.mailboxes {
            mailbox.wake();
        }
    }

    /// The first end for which `wanted` returns something.
    pub(super) fn find_end<R>(&self, wanted: impl FnMut(&End) -> Option<R>) -> Option<R> {
        if self.any_end.load(Ordering::Acquire) {
            self.ends().iter().find_map(wanted)
        } else {
            None
        }
    }

    /// The rank that failed first.
    pub(super) fn first_failure(&self) -> Option<usize> {
        self.find_end(|end| end.failure.is_some().then_some(end.rank))
    }

    fn ends(&self) -> MutexGuard<'_, Vec<End>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
