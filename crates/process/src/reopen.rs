//! Files that a process made, closed and opens again by name, if the name still leads to the same
//! inode.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Device and inode.
pub type Identity = (u64, u64);

/// Opens a file to write to it that this process has made and closed, if it is still the same: in a
/// directory of others another one, or a link, may have taken its place.
pub fn open_again(path: &Path, made: Identity) -> std::io::Result<std::fs::File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&opened)?;
    if (found.st_dev, found.st_ino) == made { Ok(opened.into()) } else { Err(Errno::STALE.into()) }
}

/// What a file is that was made just now.
pub fn identity(file: impl AsFd) -> std::io::Result<Identity> {
    let found = rustix::fs::fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}
