//! [`Identity`]: device, inode number and birth time of a file; and its attributes, by `statx`.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::io::Errno;

/// Device, inode and birth time, which distinguishes a reused inode number from the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) born: (i64, u32),
}

impl Identity {
    pub(crate) fn of(about: &libc::statx) -> Self {
        let born = if about.stx_mask & libc::STATX_BTIME == 0 {
            (0, 0)
        } else {
            (about.stx_btime.tv_sec, about.stx_btime.tv_nsec)
        };
        let device = libc::makedev(about.stx_dev_major, about.stx_dev_minor);
        Self { device, inode: about.stx_ino, born }
    }
}

/// What is asked for.
pub(crate) const WANTED: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;

/// A place for an answer.
pub(crate) fn empty() -> libc::statx {
    // SAFETY: all of it are numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// What is at a name, itself, even if it is a link.
pub(crate) fn at_name(directory: impl AsFd, name: &CStr) -> Result<libc::statx, Errno> {
    ask(directory, name, libc::AT_SYMLINK_NOFOLLOW)
}

/// What a descriptor stands for.
pub(crate) fn at_descriptor(descriptor: impl AsFd) -> Result<libc::statx, Errno> {
    ask(descriptor, c"", libc::AT_EMPTY_PATH)
}

fn ask(directory: impl AsFd, name: &CStr, flags: i32) -> Result<libc::statx, Errno> {
    let mut about = empty();
    let directory = directory.as_fd().as_raw_fd();
    // SAFETY: the name and the buffer for the answer are valid.
    let asked = unsafe { libc::statx(directory, name.as_ptr(), flags, WANTED, &raw mut about) };
    if asked == 0 { Ok(about) } else { Err(last_error()) }
}

/// Why the last call of the C library failed.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The sort of file.
pub(crate) fn kind_of(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The attributes of a node.
pub(crate) fn attributes(number: u64, about: &libc::statx) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: about.stx_size,
        blocks: about.stx_blocks,
        atime: time(about.stx_atime),
        mtime: time(about.stx_mtime),
        ctime: time(about.stx_ctime),
        crtime: time(about.stx_btime),
        kind: kind_of(about.stx_mode.into()),
        perm: about.stx_mode & 0o7777,
        nlink: about.stx_nlink,
        uid: about.stx_uid,
        gid: about.stx_gid,
        rdev: libc::makedev(about.stx_rdev_major, about.stx_rdev_minor) as u32,
        blksize: about.stx_blksize,
        flags: 0,
    }
}

fn time(stamp: libc::statx_timestamp) -> SystemTime {
    let nanoseconds = Duration::from_nanos(stamp.tv_nsec.into());
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let start = if stamp.tv_sec < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    start.and_then(|start| start.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_stay_there() {
        let stamp = |seconds, nanoseconds| {
            // SAFETY: all of it are numbers.
            let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
            (stamp.tv_sec, stamp.tv_nsec) = (seconds, nanoseconds);
            time(stamp)
        };
        assert_eq!(stamp(5, 7), UNIX_EPOCH + Duration::new(5, 7));
        assert_eq!(stamp(-1, 0), UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(stamp(-1, 999_999_999), UNIX_EPOCH - Duration::from_nanos(1));
    }

    #[test]
    fn a_file_is_itself_by_name_and_by_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), "x").unwrap();
        let open = |path: &std::path::Path| std::fs::File::open(path).unwrap();
        let by_name = at_name(open(directory.path()), c"f").unwrap();
        let by_descriptor = at_descriptor(open(&directory.path().join("f"))).unwrap();
        assert_eq!(Identity::of(&by_name), Identity::of(&by_descriptor));
        assert_eq!(at_name(open(directory.path()), c"g").unwrap_err(), Errno::NOENT);
    }
}
