//! [`Spin`]: a lock for a few instructions, which may be held during a `fork`.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A lock without an owner: it is let go in the copy of a process as in the process itself.
#[derive(Debug)]
pub(crate) struct Spin<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock has the value.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Does something with the value.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        /// Lets go even when `act` does not return.
        struct Held<'a>(&'a AtomicBool);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        self.hold();
        let _held = Held(&self.locked);
        // SAFETY: the lock is held.
        act(unsafe { &mut *self.value.get() })
    }

    /// Takes the lock until [`Spin::let_go`].
    #[inline]
    pub(crate) fn hold(&self) {
        let mut tries = 0_u32;
        while self.locked.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries < 100 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// See [`Spin::hold`].
    pub(crate) fn let_go(&self) {
        self.locked.store(false, Ordering::Release);
    }
}
