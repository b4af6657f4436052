//! Locks: of threads, and of files by processes that serve mounts.
//!
//! Locks of threads are taken even if a thread panicked while it held them: the data they protect
//! is never left inconsistent.

use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::FlockOperation;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another process holds the lock of a file (`flock`), which ends with the process.
pub(crate) fn is_locked(file: &File) -> bool {
    let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_err();
    if !locked {
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }
    locked
}
