//! The file mode creation mask of the process.
//!
//! No system call only reads it, and setting it for a moment would be visible to other threads: it
//! is read from `/proc`.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::fs::{Mode, OFlags};
use striate_process::lock::lock;
use striate_stack::descriptors::high;

/// Asks for the mask. It keeps the file of `/proc` open.
#[derive(Debug, Default)]
pub(crate) struct Umask(Mutex<Option<OwnedFd>>);

impl Umask {
    /// The mask of the process, now; `None` if it cannot be known.
    pub(crate) fn now(&self) -> Option<u32> {
        let mut status = lock(&self.0);
        if status.is_none() {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let opened = rustix::fs::open("/proc/self/status", flags, Mode::empty()).ok()?;
            *status = Some(high(opened));
        }
        let mut text = [0; 128];
        let length = rustix::io::pread(status.as_ref()?, &mut text[..], 0).ok()?;
        parse(&text[..length])
    }

    /// This is another process.
    pub(crate) fn start_anew(&self) {
        *lock(&self.0) = None;
    }
}

/// Finds the line that says `Umask: 0022`.
fn parse(text: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_it() {
        assert_eq!(parse(b"Name:\tcat\nUmask:\t0027\nState:\tR\n"), Some(0o27));
        assert_eq!(parse(b"Name:\tcat\n"), None);
        assert!(Umask::default().now().is_some());
    }
}
