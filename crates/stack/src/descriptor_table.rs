//! Descriptor tables of threads that belong to a stage: [`leave_table`], [`SharedDescriptor`].
//!
//! The kernel answers an open with the lowest free descriptor. A thread of a stage that opens files
//! while the program runs would take numbers that the program gets without the stage, if only for a
//! moment: after `close(1)` and `open` another file would be standard output. So such a thread
//! leaves the program's table ([`leave_table`]). It fetches descriptors of the program's table
//! ([`SharedDescriptor`]) when it needs them, and the program's threads close them.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use striate_process::lock::lock;

thread_local! {
    /// Whether this thread has a table of its own.
    static HAS_OWN_TABLE: Cell<bool> = const { Cell::new(false) };
}

/// Descriptors of the program's table that a thread apart does not need any more.
static UNUSED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Gives this thread a table of its own, with nothing in it. `sample` is a descriptor of the
/// program's table: an error if such cannot be fetched from here. The thread ends then.
pub fn leave_table(sample: RawFd) -> Result<(), Errno> {
    // SAFETY: a call without memory. From here on no number means what it meant to this thread,
    // which has none of them.
    let left = unsafe {
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE)
    };
    if left != 0 {
        return Err(Errno::NOSYS);
    }
    HAS_OWN_TABLE.set(true);
    fetch(sample).map(drop)
}

/// A descriptor of the program's table, in this thread's own.
fn fetch(number: RawFd) -> Result<OwnedFd, Errno> {
    let process = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty())
}

/// Closes what threads apart have left.
pub fn close_unused() {
    if !HAS_OWN_TABLE.get() {
        for number in std::mem::take(&mut *lock(&UNUSED)) {
            // SAFETY: its owner has left it here.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// A descriptor of a stage that threads of the program and threads apart use.
#[derive(Debug)]
pub struct SharedDescriptor {
    descriptor: ManuallyDrop<OwnedFd>,
    /// Whether it is in the table of a thread apart.
    in_own_table: bool,
}

impl SharedDescriptor {
    /// A descriptor in the table of this thread.
    pub fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor: ManuallyDrop::new(descriptor), in_own_table: HAS_OWN_TABLE.get() }
    }

    /// As this thread knows it.
    pub fn local(&self) -> Result<LocalDescriptor<'_>, Errno> {
        if self.in_own_table == HAS_OWN_TABLE.get() {
            Ok(LocalDescriptor::Same(self.descriptor.as_fd()))
        } else {
            fetch(self.descriptor.as_raw_fd()).map(LocalDescriptor::Fetched)
        }
    }

    /// The number in the table that it is in.
    pub fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl Drop for SharedDescriptor {
    fn drop(&mut self) {
        if self.in_own_table == HAS_OWN_TABLE.get() {
            // SAFETY: it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.descriptor) };
        } else {
            lock(&UNUSED).push(self.descriptor.as_raw_fd());
        }
    }
}

/// A descriptor in the table of this thread.
#[derive(Debug)]
pub enum LocalDescriptor<'s> {
    /// It is the same.
    Same(BorrowedFd<'s>),
    /// It is another one of the same open file.
    Fetched(OwnedFd),
}

impl AsFd for LocalDescriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Same(descriptor) => *descriptor,
            Self::Fetched(descriptor) => descriptor.as_fd(),
        }
    }
}

/// Whether this thread has a table of its own.
pub fn has_own_table() -> bool {
    HAS_OWN_TABLE.get()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;
    use crate::descriptors::high;

    #[test]
    fn a_thread_apart_uses_files_of_the_program_and_takes_none_of_its_numbers() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"bytes").unwrap();
        let shared = SharedDescriptor::new(high(file.try_clone().unwrap().into()));
        let number = shared.number();
        std::thread::spawn(move || {
            if leave_table(shared.number()).is_err() {
                // Not everywhere it may be done.
                return;
            }
            let local = std::fs::File::from(rustix::io::dup(shared.local().unwrap()).unwrap());
            assert!(std::os::fd::AsRawFd::as_raw_fd(&local) < 8);
            (&local).rewind().unwrap();
            let mut bytes = Vec::new();
            (&local).read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, b"bytes");
        })
        .join()
        .unwrap();
        assert!(rustix::io::fcntl_getfd(crate::descriptors::borrow(number)).is_ok());
        close_unused();
        assert!(rustix::io::fcntl_getfd(crate::descriptors::borrow(number)).is_err());
    }
}
