//! Copies of whole files: bytes, holes, permissions and times.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use rustix::process::Resource;
use striate_stack::descriptors::high;

use super::claim::Base;
use super::journal::FormerDestination;
use super::moving::path_by;

/// Bytes are copied in pieces of this size, where the kernel does not copy by itself.
const PIECE: usize = 1 << 20;

/// Makes a file all that another is, and makes it durable. `there` is what stands at the
/// destination: permissions and owner that it was given meanwhile are those that count.
pub(crate) fn fill(
    source: &File,
    copy: &File,
    there: Option<(&FormerDestination, &Stat)>,
) -> io::Result<()> {
    let data = source.metadata()?;
    copy.set_len(0)?;
    copy_data(source, copy, data.len())?;
    give(copy, &data, there)?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(data.atime(), data.atime_nsec()),
        last_modification: time(data.mtime(), data.mtime_nsec()),
    };
    rustix::fs::futimens(copy, &times)?;
    copy.sync_all()
}

/// Gives a file the permissions and the owner that it is to have.
pub(crate) fn give(
    file: &File,
    data: &std::fs::Metadata,
    there: Option<(&FormerDestination, &Stat)>,
) -> io::Result<()> {
    let (mode, user, group) = match there {
        Some((was, now)) if was.was_given(now) => (now.st_mode, now.st_uid, now.st_gid),
        _ => (data.mode(), data.uid(), data.gid()),
    };
    Ok(set_rights(file.as_fd(), mode, (user, group))?)
}

/// Gives an open file permissions and an owner; the owner first, so that it is never open to others
/// than it is meant for.
pub(crate) fn set_rights(
    file: BorrowedFd<'_>,
    mode: u32,
    (user, group): (u32, u32),
) -> Result<(), Errno> {
    let now = rustix::fs::fstat(file)?;
    if (now.st_uid, now.st_gid) != (user, group) {
        rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    let mode = Mode::from_raw_mode(mode & 0o7777);
    if Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode & 0o7777) != mode {
        rustix::fs::fchmod(file, mode)?;
    }
    Ok(())
}

/// Copies a file that is at its destination, to a name at the fast place that is not taken for the
/// file, and makes the copy durable. `stat` is what the file was; if it is something else
/// afterwards, the copy is not one.
pub(crate) fn fetch(handle: BorrowedFd<'_>, stat: &Stat, base: &Base) -> io::Result<()> {
    let length = stat.st_size as u64;
    if rustix::process::getrlimit(Resource::Fsize).current.is_some_and(|most| most < length) {
        // The process would get a signal.
        return Err(Errno::FBIG.into());
    }
    let path = path_by(handle)?;
    let open = |more| {
        rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC | more, Mode::empty())
    };
    // Only the owner may leave the time of access as it is.
    let source = open(OFlags::NOATIME).or_else(|_| open(OFlags::empty()))?;
    let source = File::from(high(source));
    // A killed process may have left it.
    let _ = std::fs::remove_file(base.fetched());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let copy = rustix::fs::open(base.fetched(), flags, Mode::RUSR | Mode::WUSR)?;
    let copy = File::from(high(copy));
    let owner = (stat.st_uid, stat.st_gid);
    set_rights(copy.as_fd(), stat.st_mode, owner)?;
    copy_data(&source, &copy, length)?;
    // To write takes some permissions away.
    set_rights(copy.as_fd(), stat.st_mode, owner)?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec as _),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec as _),
    };
    rustix::fs::futimens(&copy, &times)?;
    copy.sync_all()?;
    let (was, now) = (FormerDestination::new(stat), rustix::fs::fstat(&source)?);
    if was.is_same(&now) && !was.was_given(&now) { Ok(()) } else { Err(Errno::AGAIN.into()) }
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
