//! [`EventCount`]: a counter of changes that ranks sleep on.
//!
//! A waiter reads the counter, looks whether its condition holds, and sleeps only if the counter is
//! still the same. A change between the look and the sleep therefore wakes it at once, and no lock
//! is needed around the condition.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use super::futex;

/// Changes so far, and how many waiters sleep until the next one. All zeros are its initial state.
#[repr(C)]
#[derive(Debug, Default)]
pub struct EventCount {
    changes: AtomicU32,
    sleepers: AtomicU32,
}

impl EventCount {
    /// Changes so far; wraps.
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Counts a change, after it was made, and wakes all sleepers.
    pub fn notify(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.changes);
        }
    }

    /// Counts a change only if there are sleepers, and wakes them: cheaper than
    /// [`EventCount::notify`] where changes are many and waiters look at the condition itself while
    /// they do not sleep.
    pub fn notify_sleepers(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.changes.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.changes);
        }
    }

    /// Sleeps until there is a change after `seen`, at most for `limit`.
    pub fn sleep(&self, seen: u32, limit: Duration) {
        self.register();
        if self.changes() == seen {
            futex::wait(&self.changes, seen, limit);
        }
        self.unregister();
    }

    /// Makes the caller one of the sleepers before it looks for the last time; see
    /// [`EventCount::notify_sleepers`].
    pub(super) fn register(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }

    /// [`EventCount::sleep`] for a caller that is registered.
    pub(super) fn sleep_registered(&self, seen: u32, limit: Duration) {
        futex::wait(&self.changes, seen, limit);
    }

    pub(super) fn unregister(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waiters that sleep, or are about to.
    pub fn sleepers(&self) -> u32 {
        self.sleepers.load(Ordering::SeqCst)
    }
}
