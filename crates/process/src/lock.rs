//! [`Lock`]: a mutex that costs nearly nothing while no other thread can contend.
//!
//! Every write of a program passes two locks, and an uncontended mutex still takes two atomic
//! operations (16 ns together on some machines). The C library knows whether the process has a
//! second thread ([`SingleThreaded`]), and an MPI program may have promised that its threads call
//! one at a time; then plain loads and stores are enough ([`Uncontended`]).
//!
//! It is here because two libraries without anything else in common use it: the stages, and the
//! MPI-IO library.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::Timespec;
use rustix::thread::futex;

use crate::single_thread::is_single_threaded;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and another thread waits for it.
const AWAITED: u32 = 2;

/// How long a waiting thread sleeps at most before it tries again: no wake-up comes where the
/// promise was broken.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Knows whether another thread can contend for a lock while this one holds it.
///
/// # Safety
///
/// While it says that none can, none does. It may say so until another thread begins, and not
/// again.
pub unsafe trait Uncontended {
    /// Whether none can.
    fn is_uncontended() -> bool;
}

/// The C library, which knows whether there is another thread.
#[derive(Debug, Default)]
pub struct SingleThreaded;

// SAFETY: the C library takes it back before another thread begins.
unsafe impl Uncontended for SingleThreaded {
    #[inline]
    fn is_uncontended() -> bool {
        is_single_threaded()
    }
}

/// A value that one thread at a time can have.
#[derive(Debug, Default)]
pub struct Lock<T, A = SingleThreaded> {
    state: AtomicU32,
    value: UnsafeCell<T>,
    uncontended: PhantomData<fn() -> A>,
}

// SAFETY: only the thread that holds the lock accesses the value, one at a time.
unsafe impl<T: Send, A: Uncontended> Sync for Lock<T, A> {}

impl<T, A: Uncontended> Lock<T, A> {
    /// A lock that is free.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
            uncontended: PhantomData,
        }
    }

    /// Waits for it.
    #[inline]
    pub fn lock(&self) -> Locked<'_, T, A> {
        if !self.take() {
            self.wait();
        }
        Locked { lock: self }
    }

    /// Takes it if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Locked<'_, T, A>> {
        self.take().then(|| Locked { lock: self })
    }

    #[inline]
    fn take(&self) -> bool {
        if A::is_uncontended() {
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
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, Some(&NAP));
        }
    }
}

/// While it lives, no other thread has the value.
#[derive(Debug)]
pub struct Locked<'l, T, A: Uncontended = SingleThreaded> {
    lock: &'l Lock<T, A>,
}

impl<T, A: Uncontended> Deref for Locked<'_, T, A> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, A: Uncontended> DerefMut for Locked<'_, T, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, A: Uncontended> Drop for Locked<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        let state = &self.lock.state;
        if A::is_uncontended() {
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

/// Locks a mutex, also one whose holder panicked: what these mutexes protect is never half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let (count, alone) = (Lock::<_>::new(0u64), Lock::<_>::new(()));
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
