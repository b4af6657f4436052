//! Byte-range locks of open file descriptions, and a table for the threads that share one.
//!
//! The system's locks exclude other open files, in this process and in other processes, but not the
//! threads that use the same handle: those exclude each other by a [`RangeTable`] first. Waiting is
//! by asking again, ever more slowly, and ends at a limit: a wait inside the system could last for
//! ever if its holder never ends.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::PosixFile;
use crate::error::{Cause, Operation, StoreError};
use crate::range_table::{EmptyLock, RangeTable, check_range};
use crate::store::{Lock, LockKind};

/// Attempts without sleep: most locks are held for less than a sleep lasts.
const QUICK_ATTEMPTS: u32 = 32;
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
const LONGEST_SLEEP: Duration = Duration::from_millis(5);

/// Ranges that threads of this handle hold, and how long to wait for other locks.
#[derive(Debug)]
pub(super) struct Locks {
    table: RangeTable,
    limit: Duration,
}

impl Locks {
    pub(super) fn new(limit: Duration) -> Self {
        Self { table: RangeTable::default(), limit }
    }
}

/// Whether the file's system has locks at all, as far as it says.
pub(super) fn are_supported(file: &impl AsFd) -> bool {
    let mut question = record(&(0..1), libc::F_WRLCK);
    !matches!(
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut question)),
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::ENOLCK | Errno::EOPNOTSUPP)
    )
}

fn record(range: &Range<u64>, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.start as libc::off_t,
        l_len: (range.end - range.start) as libc::off_t,
        l_pid: 0,
    }
}

/// A held range.
#[derive(Debug)]
struct PosixLock<'f> {
    file: &'f PosixFile,
    id: u64,
}

impl Lock for PosixLock<'_> {}

impl Drop for PosixLock<'_> {
    fn drop(&mut self) {
        self.file.locks.table.leave(self.id, |part| {
            // Unlocking does not wait and has nothing to report: the lock goes with the
            // descriptor at the latest.
            let _ =
                fcntl(&self.file.system.file, FcntlArg::F_OFD_SETLK(&record(&part, libc::F_UNLCK)));
        });
    }
}

/// Locks a range of the file.
pub(super) fn lock(
    file: &PosixFile,
    range: Range<u64>,
    kind: LockKind,
) -> Result<Box<dyn Lock + '_>, StoreError> {
    let fail = |cause| {
        let error = StoreError::new(Operation::Lock, file.label(), cause);
        error.at(range.start, range.end.saturating_sub(range.start))
    };
    check_range(&range).map_err(|what| fail(Cause::Malformed(what)))?;
    if range.is_empty() {
        return Ok(Box::new(EmptyLock));
    }
    let begin = Instant::now();
    let limit = file.locks.limit;
    let timed_out = || fail(Cause::TimedOut(limit));
    let id = file.locks.table.enter(range.clone(), kind, limit).ok_or_else(timed_out)?;
    // From here on, an early return leaves the table.
    let held = PosixLock { file, id };
    let wanted = record(
        &range,
        match kind {
            LockKind::Shared => libc::F_RDLCK,
            LockKind::Exclusive => libc::F_WRLCK,
        },
    );
    let mut attempts = 0;
    let mut pause = SHORTEST_SLEEP;
    loop {
        match fcntl(&file.system.file, FcntlArg::F_OFD_SETLK(&wanted)) {
            Ok(_) => return Ok(Box::new(held)),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                if begin.elapsed() >= limit {
                    return Err(timed_out());
                }
                attempts += 1;
                if attempts <= QUICK_ATTEMPTS {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_SLEEP);
                }
            }
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::ENOLCK | Errno::EOPNOTSUPP) => {
                let why = "its file system has no locks (on Lustre: mount with -o flock)";
                return Err(fail(Cause::Unsupported(why.to_owned())));
            }
            Err(errno) => {
                return Err(fail(Cause::System(io::Error::from_raw_os_error(errno as i32))));
            }
        }
    }
}
