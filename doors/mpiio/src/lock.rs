//! [`Lock`]: exclusion that costs next to nothing in programs that call MPI from one thread at a time.
//!
//! Such a program has told MPI so when it initialised it, with any level below `MPI_THREAD_MULTIPLE`, and MPI relies
//! on it, too. Where the system call of a small read takes a quarter of a microsecond, the two atomic exchanges of a
//! mutex are a good part of what we add to it.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;

use mpi::ffi;

use crate::constants as mpi_constants;

/// A value that one call has at a time.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    /// Who has it among threads that may come at the same time.
    turn: Mutex<()>,
    /// Whether a call has it.
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one guard at a time leads to the value, whatever thread has it: the mutex sees to that, or the program has
// promised it.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    _turn: Option<MutexGuard<'a, ()>>,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        let (turn, is_taken) = (Mutex::new(()), AtomicBool::new(false));
        Self { turn, is_taken, value: UnsafeCell::new(value) }
    }

    /// Waits until nobody has it.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if is_one_thread_at_a_time() && !self.is_taken.load(Ordering::Acquire) {
            return self.guard(None);
        }
        self.in_turn()
    }

    fn in_turn(&self) -> Guard<'_, T> {
        // A call that panicked has told so; what it left is as good as after an error.
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Only a broken promise leads here: the other thread does not look at the mutex.
        while self.is_taken.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.guard(Some(turn))
    }

    /// The value, unless a call has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (!self.is_taken.load(Ordering::Acquire)).then(|| self.guard(Some(turn)))
    }

    #[inline]
    fn guard<'a>(&'a self, turn: Option<MutexGuard<'a, ()>>) -> Guard<'a, T> {
        self.is_taken.store(true, Ordering::Relaxed);
        Guard { lock: self, _turn: turn }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.is_taken.store(false, Ordering::Release);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has a guard, as said above.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// Whether the program has promised to call MPI from one thread at a time.
#[inline]
fn is_one_thread_at_a_time() -> bool {
    static PROMISED: OnceLock<bool> = OnceLock::new();
    *PROMISED.get_or_init(|| {
        let (mut is_initialised, mut level) = (0, mpi_constants::THREAD_MULTIPLE);
        // SAFETY: both addresses are those of numbers, and the second function is called where it may be.
        let known = unsafe {
            ffi::MPI_Initialized(&raw mut is_initialised) == mpi_constants::SUCCESS
                && is_initialised != 0
                && ffi::MPI_Query_thread(&raw mut level) == mpi_constants::SUCCESS
        };
        // Sessions have levels of their own, of which nothing is known here.
        known && level < mpi_constants::THREAD_MULTIPLE
    })
}
