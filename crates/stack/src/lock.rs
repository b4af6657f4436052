//! [`Lock`]: a mutual exclusion that costs next to nothing while the process has one thread.
//!
//! Every write of a program passes two locks, and one that nobody contends still takes two atomic operations
//! (16 ns together on some machines). The C library knows whether there is another thread at all; where there
//! is none, plain loads and stores do.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use crate::gate::is_only_thread;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody waits for it.
const AWAITED: u32 = 2;

/// A value that one thread at a time can have.
#[derive(Debug, Default)]
pub(crate) struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only who holds the lock gets at the value, one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub(crate) const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for it.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        if !self.take() {
            self.wait();
        }
        Locked { lock: self }
    }

    /// Takes it if nobody has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, T>> {
        self.take().then(|| Locked { lock: self })
    }

    #[inline]
    fn take(&self) -> bool {
        if is_only_thread() {
            let free = self.state.load(Ordering::Relaxed) == FREE;
            if free {
                self.state.store(HELD, Ordering::Relaxed);
            }
            return free;
        }
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..100 {
            if self.state.load(Ordering::Relaxed) == FREE && self.take() {
                return;
            }
            std::hint::spin_loop();
        }
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }
}

/// While it lives, nobody else has the value.
#[derive(Debug)]
pub(crate) struct Locked<'l, T> {
    lock: &'l Lock<T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let state = &self.lock.state;
        if is_only_thread() {
            state.store(FREE, Ordering::Relaxed);
        } else if state.swap(FREE, Ordering::Release) == AWAITED {
            wake(state);
        }
    }
}

#[cold]
fn wake(state: &AtomicU32) {
    let _ = futex::wake(state, futex::Flags::PRIVATE, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let (count, alone) = (Lock::new(0u64), Lock::new(()));
        drop(alone.lock());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..20_000 {
                        let mut count = count.lock();
                        let before = *count;
                        if n % 1000 == 0 {
                            std::thread::yield_now();
                        }
                        *count = before + 1;
                    }
                });
            }
        });
        assert_eq!(*count.lock(), 160_000);
        let held = count.lock();
        assert!(count.try_lock().is_none());
        drop(held);
        assert!(count.try_lock().is_some());
    }
}
