//! [`StartupStderr`]: standard error, as long as it is the file that the process started with.
//!
//! A program that closes descriptor 2 gets that number for the next file it opens: messages must
//! not go there.

use crate::standard_error::write_without_signal;

/// Where stages write messages for users.
#[derive(Debug)]
pub struct StartupStderr {
    /// Device and inode.
    place: Option<(u64, u64)>,
}

impl StartupStderr {
    /// Remembers what standard error is now.
    pub fn capture() -> Self {
        Self { place: place() }
    }

    /// Writes a message, if it is still the same file. A failure to write is ignored.
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
