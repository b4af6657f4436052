//! [`Progress`]: how far a long operation is, and a flag that stops it.
//!
//! It is shared by the thread that works and by the one that shows the progress. The operation
//! looks at the flag for each record or block; a stopped one returns early, and its caller asks
//! [`Progress::is_stopped`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub struct Progress {
    stop: Arc<AtomicBool>,
    phase: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// One that ends when a flag is set.
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Something begins, with so much to do.
    pub fn begin(&self, phase: &'static str, total: u64) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.total.store(total, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    /// So much more is done.
    pub fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// The flag that is set when it is to end.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What is being done, how much of it is done, and how much there is.
    pub fn now(&self) -> (&'static str, u64, u64) {
        let phase = *self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        (phase, self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
