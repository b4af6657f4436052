//! Resource limits of this process: file size (`RLIMIT_FSIZE`) and number of descriptors
//! (`RLIMIT_NOFILE`).
//!
//! The kernel answers a write beyond the limit of file sizes with fewer bytes, or with `EFBIG` and
//! a signal that ends the program. A stage that buffers forwards such a write, so that the kernel
//! answers for the file that the program means. A file of a stage's own (a log, a trace) must not
//! reach the limit at all: the signal would hit the program.
//!
//! Asking the kernel at every write would cost as much as the write that is saved. The limit is
//! read when a stack is built, when files are opened, and by doors when the program changes it
//! ([`refresh`]); before such a change, what is buffered is written out, because it was answered
//! under the old limit. A limit that another process sets (`prlimit`) is noticed at the next open.
//!
//! The limit of descriptors is a limit of numbers: a descriptor above it stays open. So descriptors
//! of stages get numbers above it, as far as the process may raise it ([`with_more_descriptors`]),
//! and a program at its limit loses none.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

static FILE_SIZE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Files of this process may be as long as this; `u64::MAX` if there is no limit.
#[inline]
pub fn file_size() -> u64 {
    FILE_SIZE.load(Ordering::Relaxed)
}

/// Asks the kernel for the limits. Returns that of file sizes.
pub fn refresh() -> u64 {
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    FILE_SIZE.store(limit, Ordering::Relaxed);
    limit
}

/// Whether a file of a stage's own may be as long as this: to go beyond the limit would end the
/// program.
pub fn admit(length: u64) -> std::io::Result<()> {
    if length > file_size() {
        return Err(rustix::io::Errno::FBIG.into());
    }
    Ok(())
}

/// Does something while this process may have as many descriptors as it is allowed to ask for.
pub fn with_more_descriptors<T>(act: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    let more = Rlimit { current: before.maximum, maximum: before.maximum };
    let raised = before.current != before.maximum && setrlimit(Resource::Nofile, more).is_ok();
    let done = act();
    // Not if the program has set another one meanwhile.
    if raised && getrlimit(Resource::Nofile) == more {
        let _ = setrlimit(Resource::Nofile, before);
    }
    done
}
