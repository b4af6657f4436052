//! [`StartupStderr`]: standard error, as long as it is the one that the process started with.
//!
//! Programs close it, and the next file they open has its number: what is said must not go there.

use crate::standard_error::write_without_signal;

/// Where a stage says something to people.
#[derive(Debug)]
pub struct StartupStderr {
    /// Device and inode.
    place: Option<(u64, u64)>,
}

impl StartupStderr {
    /// What standard error is now.
    pub fn new() -> Self {
        Self { place: place() }
    }

    /// Says something, if that is still the same. Nobody is told if it cannot be said.
    pub fn say(&self, text: &str) {
        if !text.is_empty() && self.place.is_some() && self.place == place() {
            write_without_signal(text.as_bytes());
        }
    }
}

fn place() -> Option<(u64, u64)> {
    // SAFETY: it is only asked what it is.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    rustix::fs::fstat(descriptor).ok().map(|stat| (stat.st_dev, stat.st_ino))
}
