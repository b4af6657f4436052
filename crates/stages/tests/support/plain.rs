//! Files by plain system calls.

use std::ffi::CString;
use std::io::Error;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a call returned: its value, or the number of its error.
pub type Value = Result<u64, i32>;

/// What a program can do with files. Descriptors are the system's own.
pub trait System {
    fn root(&self) -> &Path;
    fn open(&self, name: &str, flags: i32, mode: u32) -> Result<RawFd, i32>;
    fn close(&self, fd: RawFd) -> Value;
    fn dup(&self, fd: RawFd) -> Result<RawFd, i32>;
    /// Reads into parts, at an offset or at the position.
    fn read(&self, fd: RawFd, parts: &mut [Vec<u8>], at: Option<i64>) -> Value;
    /// Writes parts, at an offset or at the position.
    fn write(&self, fd: RawFd, parts: &[Vec<u8>], at: Option<i64>) -> Value;
    fn seek(&self, fd: RawFd, offset: i64, whence: i32) -> Value;
    fn truncate(&self, fd: RawFd, length: i64) -> Value;
    fn allocate(&self, fd: RawFd, mode: i32, offset: i64, length: i64) -> Value;
    fn sync(&self, fd: RawFd, data_only: bool) -> Value;
    /// The size, and the number of links.
    fn fstat(&self, fd: RawFd) -> Result<(u64, u64), i32>;
    fn stat(&self, name: &str) -> Result<(u64, u64), i32>;
    fn statx(&self, name: &str) -> Result<(u64, u64), i32>;
    fn rename(&self, from: &str, to: &str) -> Value;
    fn unlink(&self, name: &str) -> Value;
    fn truncate_name(&self, name: &str, length: i64) -> Value;
    fn copy_range(&self, ends: [(RawFd, Option<i64>); 2], length: usize) -> Value;
    fn send_file(&self, from: (RawFd, Option<i64>), to: RawFd, length: usize) -> Value;
    fn set_append(&self, fd: RawFd, append: bool) -> Value;
    /// Others begin to see the file.
    fn share(&self, fd: RawFd);
    /// What a process does before it is copied.
    fn before_fork(&self);
    /// Whatever is held back goes to storage.
    fn settle(&self);
}

/// The plain system.
#[derive(Debug)]
pub struct Plain {
    root: PathBuf,
}

impl Plain {
    pub fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }
}

/// The path of a name.
pub fn path(root: &Path, name: &str) -> (PathBuf, CString) {
    let absolute = root.join(name);
    let text = CString::new(absolute.as_os_str().as_bytes()).unwrap();
    (absolute, text)
}

pub fn value(result: i64) -> Value {
    if result < 0 {
        return Err(Error::last_os_error().raw_os_error().unwrap());
    }
    Ok(result as u64)
}

pub fn vectors(parts: &mut [Vec<u8>]) -> Vec<libc::iovec> {
    let vector = |part: &mut Vec<u8>| libc::iovec {
        iov_base: part.as_mut_ptr().cast(),
        iov_len: part.len(),
    };
    parts.iter_mut().map(vector).collect()
}

fn of_stat(stat: &libc::stat) -> (u64, u64) {
    (stat.st_size as u64, stat.st_nlink)
}

// SAFETY (of all calls below): pointers are to things that outlive the call; descriptors are
// checked by the kernel.
#[allow(clippy::undocumented_unsafe_blocks)]
impl System for Plain {
    fn root(&self) -> &Path {
        &self.root
    }

    fn open(&self, name: &str, flags: i32, mode: u32) -> Result<RawFd, i32> {
        let (_, text) = path(&self.root, name);
        value(unsafe { libc::open(text.as_ptr(), flags, mode) }.into()).map(|fd| fd as RawFd)
    }

    fn close(&self, fd: RawFd) -> Value {
        value(unsafe { libc::close(fd) }.into())
    }

    fn dup(&self, fd: RawFd) -> Result<RawFd, i32> {
        value(unsafe { libc::dup(fd) }.into()).map(|fd| fd as RawFd)
    }

    fn read(&self, fd: RawFd, parts: &mut [Vec<u8>], at: Option<i64>) -> Value {
        let vectors = vectors(parts);
        value(unsafe {
            match (&vectors[..], at) {
                ([one], None) => libc::read(fd, one.iov_base, one.iov_len),
                ([one], Some(at)) => libc::pread(fd, one.iov_base, one.iov_len, at),
                (all, None) => libc::readv(fd, all.as_ptr(), all.len() as i32),
                (all, Some(at)) => libc::preadv(fd, all.as_ptr(), all.len() as i32, at),
            }
        } as i64)
    }

    fn write(&self, fd: RawFd, parts: &[Vec<u8>], at: Option<i64>) -> Value {
        let mut parts = parts.to_vec();
        let vectors = vectors(&mut parts);
        value(unsafe {
            match (&vectors[..], at) {
                ([one], None) => libc::write(fd, one.iov_base, one.iov_len),
                ([one], Some(at)) => libc::pwrite(fd, one.iov_base, one.iov_len, at),
                (all, None) => libc::writev(fd, all.as_ptr(), all.len() as i32),
                (all, Some(at)) => libc::pwritev(fd, all.as_ptr(), all.len() as i32, at),
            }
        } as i64)
    }

    fn seek(&self, fd: RawFd, offset: i64, whence: i32) -> Value {
        value(unsafe { libc::lseek(fd, offset, whence) })
    }

    fn truncate(&self, fd: RawFd, length: i64) -> Value {
        value(unsafe { libc::ftruncate(fd, length) }.into())
    }

    fn allocate(&self, fd: RawFd, mode: i32, offset: i64, length: i64) -> Value {
        value(unsafe { libc::fallocate(fd, mode, offset, length) }.into())
    }

    fn sync(&self, fd: RawFd, data_only: bool) -> Value {
        value(unsafe { if data_only { libc::fdatasync(fd) } else { libc::fsync(fd) } }.into())
    }

    fn fstat(&self, fd: RawFd) -> Result<(u64, u64), i32> {
        let mut stat = unsafe { std::mem::zeroed() };
        value(unsafe { libc::fstat(fd, &raw mut stat) }.into()).map(|_| of_stat(&stat))
    }

    fn stat(&self, name: &str) -> Result<(u64, u64), i32> {
        let (_, text) = path(&self.root, name);
        let mut stat = unsafe { std::mem::zeroed() };
        value(unsafe { libc::stat(text.as_ptr(), &raw mut stat) }.into()).map(|_| of_stat(&stat))
    }

    fn statx(&self, name: &str) -> Result<(u64, u64), i32> {
        self.stat(name)
    }

    fn rename(&self, from: &str, to: &str) -> Value {
        let [(_, from), (_, to)] = [from, to].map(|name| path(&self.root, name));
        value(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) }.into())
    }

    fn unlink(&self, name: &str) -> Value {
        let (_, text) = path(&self.root, name);
        value(unsafe { libc::unlink(text.as_ptr()) }.into())
    }

    fn truncate_name(&self, name: &str, length: i64) -> Value {
        let (_, text) = path(&self.root, name);
        value(unsafe { libc::truncate(text.as_ptr(), length) }.into())
    }

    fn copy_range(&self, ends: [(RawFd, Option<i64>); 2], length: usize) -> Value {
        let [(from, mut source), (to, mut sink)] = ends;
        let pointer =
            |at: &mut Option<i64>| at.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let (source, sink) = (pointer(&mut source), pointer(&mut sink));
        value(unsafe { libc::copy_file_range(from, source, to, sink, length, 0) } as i64)
    }

    fn send_file(&self, from: (RawFd, Option<i64>), to: RawFd, length: usize) -> Value {
        let mut at = from.1;
        let at = at.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        value(unsafe { libc::sendfile(to, from.0, at, length) } as i64)
    }

    fn set_append(&self, fd: RawFd, append: bool) -> Value {
        let flags = if append { libc::O_APPEND } else { 0 };
        value(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }.into())
    }

    fn share(&self, _: RawFd) {}

    fn before_fork(&self) {}

    fn settle(&self) {}
}
