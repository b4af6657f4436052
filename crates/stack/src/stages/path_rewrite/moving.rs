//! Files go to their destination.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::place::Directory;

/// How files are called that are being copied: they are hidden.
pub(crate) const PREFIX: &str = ".striate-move-";

/// Bytes are copied in pieces of this size, where the kernel does not copy by itself.
const PIECE: usize = 1 << 20;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A file that only needs its name to be at its destination.
#[derive(Debug)]
pub(crate) enum Ready {
    /// A copy, in the directory of the destination, under this name.
    Copy(CString),
    /// Itself, on the same file system.
    Itself,
}

/// Brings the bytes to the file system of the destination, and makes them durable.
pub(crate) fn prepare(fast: &Path, directory: &Arc<Directory>) -> Result<Ready, Errno> {
    let source = File::open(fast).map_err(|error| errno(&error))?;
    let data = source.metadata().map_err(|error| errno(&error))?;
    if data.dev() == directory.identity().0 {
        rustix::fs::fsync(&source)?;
        return Ok(Ready::Itself);
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = rustix::process::getpid().as_raw_nonzero();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let name = format!("{PREFIX}{process}-{}-{number}", time.tv_nsec);
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let copy = rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR)?;
    let copied = fill(&source, &File::from(copy), &data);
    if let Err(error) = copied {
        let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
        return Err(errno(&error));
    }
    Ok(Ready::Copy(name))
}

fn fill(source: &File, copy: &File, data: &std::fs::Metadata) -> io::Result<()> {
    copy_data(source, copy, data.len())?;
    let mode = Mode::from_raw_mode(data.mode() & 0o7777);
    // Whose it is can only be said by some; else it is ours, as a new file would be.
    let _ =
        rustix::fs::fchown(copy, Some(Uid::from_raw(data.uid())), Some(Gid::from_raw(data.gid())));
    rustix::fs::fchmod(copy, mode)?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(data.atime(), data.atime_nsec()),
        last_modification: time(data.mtime(), data.mtime_nsec()),
    };
    rustix::fs::futimens(copy, &times)?;
    copy.sync_all()
}

/// Copies bytes, and keeps the holes.
pub(crate) fn copy_data(source: &File, copy: &File, length: u64) -> io::Result<()> {
    copy.set_len(length)?;
    let mut at = 0;
    let mut piece = Vec::new();
    while at < length {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start)).unwrap_or(length).min(length);
        at = start;
        while at < end {
            at += copy_piece(source, copy, at, end - at, &mut piece)?;
        }
        if end <= start {
            break;
        }
    }
    Ok(())
}

fn copy_piece(
    source: &File,
    copy: &File,
    at: u64,
    length: u64,
    piece: &mut Vec<u8>,
) -> io::Result<u64> {
    let (mut from, mut to) = (at, at);
    let most = usize::try_from(length).unwrap_or(usize::MAX);
    if let Ok(count @ 1..) =
        rustix::fs::copy_file_range(source, Some(&mut from), copy, Some(&mut to), most)
    {
        return Ok(count as u64);
    }
    piece.resize(PIECE.min(most), 0);
    let count = source.read_at(piece, at)?;
    if count == 0 {
        return Err(io::Error::other("a file became shorter while it was moved"));
    }
    copy.write_all_at(&piece[..count], at)?;
    Ok(count as u64)
}

/// Gives a file that is ready its name at the destination, in place of what is there.
pub(crate) fn commit(
    ready: &Ready,
    fast: &Path,
    directory: &Directory,
    name: &CStr,
) -> Result<(), Errno> {
    match ready {
        Ready::Copy(copy) => {
            rustix::fs::renameat(directory, copy.as_c_str(), directory, name)?;
            let _ = std::fs::remove_file(fast);
        }
        Ready::Itself => rustix::fs::renameat(rustix::fs::CWD, fast, directory, name)?,
    }
    // The name has to be durable before the journal goes.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory.as_fd(), c".", flags, Mode::empty());
    if let Ok(opened) = opened {
        rustix::fs::fsync(opened)?;
    }
    Ok(())
}

/// Gives up a file that is ready: it is out of date.
pub(crate) fn give_up(ready: &Ready, directory: &Directory) {
    if let Ready::Copy(copy) = ready {
        let _ = rustix::fs::unlinkat(directory, copy.as_c_str(), AtFlags::empty());
    }
}

/// The error of the system behind one of the library.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
