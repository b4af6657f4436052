//! [`Locks`]: locks of a recorded process on parts of files.
//!
//! Such a lock belongs to a process, and ends when that closes any descriptor of the file. Here all
//! recorded processes are one. So each of them has a separate descriptor for the locks of a file,
//! and the locks belong to that descriptor (`F_OFD_SETLK`): they exclude each other as between the
//! recorded processes.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use striate_stack::{OpenFile, Outcome};

/// See the module.
#[derive(Debug, Default)]
pub(in super::super) struct Locks(Mutex<HashMap<(u64, u64), OwnedFd>>);

/// What is locked how, as it was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    command: i32,
    sort: i32,
    whence: i32,
    start: i64,
    length: i64,
}

impl Lock {
    /// Of the numbers of a record.
    pub(super) const fn recorded([command, how, start, length]: [u64; 4]) -> Self {
        Self {
            command: command as i32,
            sort: how as u16 as i32,
            whence: (how >> 16) as u16 as i32,
            start: start.cast_signed(),
            length: length.cast_signed(),
        }
    }

    const fn waits(self) -> bool {
        matches!(self.command, libc::F_SETLKW | libc::F_OFD_SETLKW)
    }

    const fn belongs_to_process(self) -> bool {
        matches!(self.command, libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK)
    }

    fn apply(self, descriptor: BorrowedFd<'_>, position: i64) -> Outcome {
        let asks = matches!(self.command, libc::F_GETLK | libc::F_OFD_GETLK);
        // What was asked for has been written over by the answer.
        let free = asks && self.sort == libc::F_UNLCK;
        let sort = if free { libc::F_WRLCK } else { self.sort };
        let (whence, start) = match self.whence {
            libc::SEEK_CUR => (libc::SEEK_SET, self.start.saturating_add(position)),
            whence => (whence, self.start),
        };
        // SAFETY: plain numbers, for which zeros will do.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = sort as libc::c_short;
        lock.l_whence = whence as libc::c_short;
        (lock.l_start, lock.l_len) = (start, self.length);
        let command = if asks { libc::F_OFD_GETLK } else { libc::F_OFD_SETLK };
        // SAFETY: the descriptor is open, and the structure lives as long as the call.
        let done = unsafe { libc::fcntl(descriptor.as_raw_fd(), command, &raw mut lock) };
        if done < 0 { Err(last_error()) } else { Ok(0) }
    }
}

/// The error of the call before.
pub(super) fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Tries until it succeeds, the patience is over, or the replay is stopped.
pub(super) fn until_free(
    waits: bool,
    stop: &AtomicBool,
    patience: Duration,
    operation: impl Fn() -> Outcome,
) -> Outcome {
    let (begin, mut pause) = (Instant::now(), Duration::from_micros(50));
    loop {
        let outcome = operation();
        let busy = matches!(outcome, Err(Errno::AGAIN | Errno::ACCESS));
        let gives_up = stop.load(Ordering::Relaxed) || begin.elapsed() > patience;
        if !(busy && waits) || gives_up {
            return outcome;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn identity(file: &OpenFile) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(file.descriptor()?)?;
    Ok((stat.st_dev, stat.st_ino))
}

impl Locks {
    fn all(&self) -> MutexGuard<'_, HashMap<(u64, u64), OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks, unlocks or asks.
    pub(super) fn lock(
        &self,
        file: &OpenFile,
        lock: Lock,
        stop: &AtomicBool,
        patience: Duration,
    ) -> Outcome {
        let position = rustix::fs::tell(file.descriptor()?).unwrap_or(0) as i64;
        if !lock.belongs_to_process() {
            let descriptor = file.descriptor()?;
            return until_free(lock.waits(), stop, patience, || lock.apply(descriptor, position));
        }
        // The descriptor that is locked by can do both.
        if lock.command != libc::F_GETLK {
            let denied = lock.sort == libc::F_RDLCK && !file.is_readable()
                || lock.sort == libc::F_WRLCK && !file.is_writable();
            if denied {
                return Err(Errno::BADF);
            }
        }
        let descriptor = self.descriptor(file)?;
        until_free(lock.waits(), stop, patience, || lock.apply(descriptor.as_fd(), position))
    }

    /// The descriptor that a file is locked by.
    fn descriptor(&self, file: &OpenFile) -> Result<OwnedFd, Errno> {
        let identity = identity(file)?;
        let mut all = self.all();
        if let std::collections::hash_map::Entry::Vacant(place) = all.entry(identity) {
            let path = format!("/proc/self/fd/{}", file.raw_descriptor());
            let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
            place.insert(open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY))?);
        }
        let descriptor = all.get(&identity).ok_or(Errno::BADF)?;
        rustix::io::fcntl_dupfd_cloexec(descriptor, 3)
    }

    /// A descriptor of a file is closed: all locks of the process on it end.
    pub(super) fn closes(&self, file: &OpenFile) {
        let mut all = self.all();
        if !all.is_empty()
            && let Ok(identity) = identity(file)
        {
            all.remove(&identity);
        }
    }
}
