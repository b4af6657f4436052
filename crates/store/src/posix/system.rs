//! System calls that move bytes, continued until the work is done.
//!
//! [`System`] is a descriptor and the loop around each call: short transfers go on where they
//! ended, interruptions are retried, the end of the file is distinguished from both.
//! [`SystemFaults`] sits below that loop, so that tests can make the system behave as badly as it
//! may.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nix::libc;
use nix::sys::uio::{pread, pwrite};

/// The system calls that a [`SystemFaults`] sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SystemCall {
    /// A read, alone or as one part of a batch.
    Read,
    /// A write, alone or as one part of a batch.
    Write,
    /// The reservation of space.
    Allocate,
    /// Making data durable.
    Sync,
    /// Setting up a ring for batches.
    RingSetup,
}

/// What shall happen instead of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervention {
    /// Nothing: the call is made.
    Proceed,
    /// The call is made for at most so many bytes, and at least one.
    Shorten(usize),
    /// The call is not made and fails with this error number.
    Fail(i32),
}

/// Decides, call by call, how the system misbehaves. For tests.
pub trait SystemFaults: Debug + Send + Sync {
    /// Asked before a call for `len` bytes at `offset` is made.
    fn before(&self, call: SystemCall, offset: u64, len: usize) -> Intervention;
}

/// An open file and what may go wrong with it.
#[derive(Debug)]
pub(super) struct System {
    pub(super) file: File,
    faults: Option<Arc<dyn SystemFaults>>,
    /// Transfers come in multiples of this; a transfer that does not has reached the end of the
    /// file.
    unit: usize,
}

impl System {
    pub(super) fn new(file: File, faults: Option<Arc<dyn SystemFaults>>, unit: usize) -> Self {
        Self { file, faults, unit }
    }

    /// For how many bytes the next call may be made.
    #[inline]
    pub(super) fn permitted(&self, call: SystemCall, offset: u64, len: usize) -> io::Result<usize> {
        let Some(faults) = &self.faults else { return Ok(len) };
        match faults.before(call, offset, len) {
            Intervention::Proceed => Ok(len),
            Intervention::Shorten(to) => Ok((to / self.unit * self.unit).max(self.unit).min(len)),
            Intervention::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Fills `buffer`; returns less only at the end of the file.
    #[inline]
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.repeat(SystemCall::Read, offset, 0, buffer.len(), |done, len| {
            // Not by way of std: a frame less above the call was faster here, perhaps because
            // returns are not predicted after it.
            Ok(pread(&self.file, &mut buffer[done..done + len], (offset + done as u64) as i64)?)
        })
    }

    /// Writes all of `buffer`.
    #[inline]
    pub(super) fn write(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        let all = buffer.len();
        self.repeat(SystemCall::Write, offset, 0, all, |done, len| {
            Ok(pwrite(&self.file, &buffer[done..done + len], (offset + done as u64) as i64)?)
        })?;
        Ok(())
    }

    /// Makes `call` (given what is done and what is to be done) until `all` bytes are done or the
    /// end of the file is met.
    #[inline]
    pub(super) fn repeat(
        &self,
        kind: SystemCall,
        offset: u64,
        mut done: usize,
        all: usize,
        mut call: impl FnMut(usize, usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        while done < all {
            let made = self
                .permitted(kind, offset + done as u64, all - done)
                .and_then(|len| call(done, len));
            match made {
                Ok(0) if kind == SystemCall::Write => return Err(io::ErrorKind::WriteZero.into()),
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    if kind == SystemCall::Read && self.met_end(n) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Whether a read of so many bytes has met the end of the file for sure.
    pub(super) fn met_end(&self, got: usize) -> bool {
        got == 0 || self.unit > 1 && !got.is_multiple_of(self.unit)
    }

    /// One vectored call.
    ///
    /// # Safety
    ///
    /// The vectors point to memory that may be read (for a write) or written (for a read) for the
    /// duration of the call, and that nothing else accesses then.
    pub(super) unsafe fn vectored(
        &self,
        call: SystemCall,
        vectors: &[libc::iovec],
        offset: u64,
    ) -> io::Result<usize> {
        let (fd, at) = (self.file.as_raw_fd(), offset as libc::off_t);
        let moved = match (call, vectors) {
            // SAFETY: the caller's.
            (SystemCall::Write, [one]) => unsafe {
                libc::pwrite(fd, one.iov_base, one.iov_len, at)
            },
            // SAFETY: the caller's.
            (_, [one]) => unsafe { libc::pread(fd, one.iov_base, one.iov_len, at) },
            // SAFETY: the caller's.
            (SystemCall::Write, _) => unsafe {
                libc::pwritev(fd, vectors.as_ptr(), vectors.len() as i32, at)
            },
            // SAFETY: the caller's.
            _ => unsafe { libc::preadv(fd, vectors.as_ptr(), vectors.len() as i32, at) },
        };
        if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(moved as usize) }
    }
}
