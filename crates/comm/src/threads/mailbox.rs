//! [`Mailbox`]: where a rank waits, and where other ranks put what it waits for.
//!
//! Messages are matched with receives as MPI does it: by sender and tag, in the order in which the
//! receives were posted, whatever the order in which they are waited for.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::CommError;
use crate::task::{Tasks, in_task, pause};

/// Identifies what a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// The source of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    /// Number of the group.
    pub(super) group: u64,
    /// The sender's rank in the group.
    pub(super) from: usize,
    pub(super) tag: u32,
}

/// The outcome of a collective; the same for all ranks.
pub(super) type Outcome = Result<Arc<dyn Any + Send + Sync>, CommError>;

/// The mailbox of a rank, which serves all its communicators.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

/// What has arrived and what is expected.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    tickets: u64,
    /// Messages that are matched with a receive.
    messages: HashMap<Ticket, Vec<u8>>,
    /// Collectives that are complete.
    outcomes: HashMap<Ticket, Outcome>,
    /// Receives and messages that are not matched yet, by source.
    queues: HashMap<Source, MatchQueue>,
}

/// At most one of the lists has entries.
#[derive(Debug, Default)]
struct MatchQueue {
    posted: VecDeque<Ticket>,
    unexpected: VecDeque<Vec<u8>>,
}

impl Inbox {
    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// The message for a receive, if it exists.
    pub(super) fn take_message(&mut self, ticket: Ticket) -> Option<Vec<u8>> {
        self.messages.remove(&ticket)
    }

    /// The outcome of a collective, if it is complete.
    pub(super) fn take_outcome(&mut self, ticket: Ticket) -> Option<Outcome> {
        self.outcomes.remove(&ticket)
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // No code that could panic runs under the lock half-way through a change.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket for the outcome of a collective.
    pub(super) fn ticket(&self) -> Ticket {
        self.lock().ticket()
    }

    /// Posts a receive.
    pub(super) fn post(&self, source: Source) -> Ticket {
        let inbox = &mut *self.lock();
        let ticket = inbox.ticket();
        let queue = inbox.queues.entry(source).or_default();
        if let Some(message) = queue.unexpected.pop_front() {
            inbox.messages.insert(ticket, message);
        } else {
            queue.posted.push_back(ticket);
        }
        inbox.forget_empty(source);
        ticket
    }

    /// Cancels a receive, and drops its message if that has arrived.
    pub(super) fn cancel(&self, source: Source, ticket: Ticket) {
        let inbox = &mut *self.lock();
        inbox.messages.remove(&ticket);
        if let Some(queue) = inbox.queues.get_mut(&source) {
            queue.posted.retain(|posted| *posted != ticket);
        }
        inbox.forget_empty(source);
    }

    /// Puts a message, for the receive that matches it.
    pub(super) fn put_message(&self, source: Source, message: Vec<u8>) {
        let inbox = &mut *self.lock();
        let queue = inbox.queues.entry(source).or_default();
        if let Some(ticket) = queue.posted.pop_front() {
            inbox.messages.insert(ticket, message);
            self.changed.notify_all();
        } else {
            queue.unexpected.push_back(message);
        }
        inbox.forget_empty(source);
    }

    /// Puts the outcome of a collective.
    pub(super) fn put_outcome(&self, ticket: Ticket, outcome: Outcome) {
        self.lock().outcomes.insert(ticket, outcome);
        self.changed.notify_all();
    }

    /// Waits until `ready` returns something, or `broken` knows that it will not; the rank's tasks
    /// run meanwhile.
    pub(super) fn wait<R>(
        &self,
        tasks: &Tasks,
        mut ready: impl FnMut(&mut Inbox) -> Option<R>,
        mut broken: impl FnMut() -> Option<CommError>,
    ) -> Result<R, CommError> {
        let mut inbox = self.lock();
        let mut looks = 0;
        loop {
            // In this order, so that what a rank sent before it ended still counts.
            let fault = broken();
            if let Some(found) = ready(&mut inbox) {
                return Ok(found);
            }
            if let Some(error) = fault {
                return Err(error);
            }
            if in_task() || !tasks.is_empty() {
                drop(inbox);
                pause(tasks, looks)?;
                looks = looks.saturating_add(1);
                inbox = self.lock();
                // What arrived meanwhile has woken no waiter.
                continue;
            }
            inbox = self.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What `ready` returns now, or the error of `broken` if that knows that there will be nothing.
    pub(super) fn look<R>(
        &self,
        ready: impl FnOnce(&mut Inbox) -> Option<R>,
        broken: impl FnOnce() -> Option<CommError>,
    ) -> Result<Option<R>, CommError> {
        // In this order, as in `wait`.
        let fault = broken();
        match (ready(&mut self.lock()), fault) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Makes the rank that sleeps here look again.
    pub(super) fn wake(&self) {
        // Taking the lock orders this after the look of a rank that is about to sleep.
        drop(self.lock());
        self.changed.notify_all();
    }
}

impl Inbox {
    /// Removes an empty entry.
    fn forget_empty(&mut self, source: Source) {
        if self.queues.get(&source).is_some_and(|q| q.posted.is_empty() && q.unexpected.is_empty())
        {
            self.queues.remove(&source);
        }
    }
}
