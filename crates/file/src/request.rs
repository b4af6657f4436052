//! [`Request`]: a nonblocking call.
//!
//! An independent call is carried out by one of a few threads. A collective one makes progress, in
//! the order in which such calls were started, whenever this rank makes a call that waits, or
//! [`crate::File::progress`]: never on another thread, since MPI may not be called from there. The
//! buffer belongs to the request until it is waited for, so the program cannot touch it meanwhile.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::FileError;

/// The result of a call: its buffer, and the bytes it moved.
pub(crate) type Done<B> = (B, Result<u64, FileError>);

/// A call under way; give it to [`crate::File::wait`].
#[derive(Debug)]
#[must_use = "a request is complete only when it has been waited for"]
pub struct Request<B> {
    pub(crate) slot: Arc<ResultSlot<B>>,
    pub(crate) collective: bool,
}

/// Where a call puts its result.
#[derive(Debug)]
pub(crate) struct ResultSlot<B> {
    done: Mutex<Option<Done<B>>>,
    filled: Condvar,
}

impl<B> ResultSlot<B> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { done: Mutex::new(None), filled: Condvar::new() })
    }

    pub(crate) fn fill(&self, done: Done<B>) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        self.filled.notify_all();
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for a result that is certain to come: a thread works on it.
    pub(crate) fn take(&self) -> Done<B> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match done.take() {
                Some(result) => return result,
                None => done = self.filled.wait(done).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<B> Request<B> {
    /// A call that is complete already.
    pub(crate) fn done(buffer: B, done: Result<u64, FileError>) -> Self {
        let slot = ResultSlot::new();
        slot.fill((buffer, done));
        Self { slot, collective: false }
    }

    /// Whether [`crate::File::wait`] would return at once.
    pub fn is_complete(&self) -> bool {
        self.slot.is_filled()
    }
}
