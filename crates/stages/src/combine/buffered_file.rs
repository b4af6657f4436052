//! [`BufferedFile`]: a small file in memory or in the log that does not exist in the file system
//! yet.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use rustix::time::ClockId;
use striate_process::reopen::Identity;
use striate_stack::{OpenFile, StatInto};

use super::container::Container;
use super::log::{Log, LogPosition, errno};
use crate::dentry::{DentryKey, Directory};

/// What the stage leaves with an open file that stands for a buffered one.
#[derive(Debug)]
pub(super) struct CombineHandle {
    /// Which buffered file.
    pub(super) id: u64,
    /// The descriptor that the program got at first.
    pub(super) opened: AtomicI32,
    /// Whether it is a real file by now: then the stage has nothing to do with it any more.
    materialized: AtomicBool,
}

impl CombineHandle {
    pub(super) fn new(id: u64, opened: RawFd) -> Self {
        Self { id, opened: AtomicI32::new(opened), materialized: AtomicBool::new(false) }
    }

    pub(super) fn is_materialized(&self) -> bool {
        self.materialized.load(Ordering::Acquire)
    }

    pub(super) fn set_materialized(&self) {
        self.materialized.store(true, Ordering::Release);
    }
}

/// Where the bytes of a file are.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory: it is being written.
    Memory(Vec<u8>),
    /// In the log.
    Stored(LogPosition),
    /// In a container that another process, or this one, has left.
    InContainer(Arc<Container>, LogPosition),
}

/// Flags of a `stat` that the kernel knows.
const KNOWN: i32 = libc::AT_SYMLINK_NOFOLLOW
    | libc::AT_NO_AUTOMOUNT
    | libc::AT_EMPTY_PATH
    | libc::AT_STATX_FORCE_SYNC
    | libc::AT_STATX_DONT_SYNC;

/// Whether a `stat` refers to an existing file: otherwise the kernel returns the error.
pub(super) fn is_answerable(flags: i32, into: &StatInto<'_>) -> bool {
    let both = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
    let known = flags & !KNOWN == 0 && flags & both != both;
    let reserved = matches!(into, StatInto::Statx { mask, .. } if *mask >> 31 != 0);
    known && !reserved
}

/// Seconds and nanoseconds.
pub(super) type Time = (i64, u32);

/// The time as the kernel notes it with files: coarse, so that files made one after the other stay
/// in order.
pub(super) fn file_time() -> Time {
    let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec as u32)
}

/// A file that the program has made, which storage does not know of.
#[derive(Debug)]
pub(super) struct BufferedFile {
    /// Its name; none if it was removed while it is open.
    pub(super) key: Option<DentryKey>,
    pub(super) name: CString,
    pub(super) directory: Arc<Directory>,
    pub(super) content: Content,
    /// The entry of the log that has its state at the last close, if there is one.
    pub(super) stored: Option<LogPosition>,
    /// Whether it has changed since.
    pub(super) changed: bool,
    /// Whether a container has an entry of that name as well, which has to be taken back.
    pub(super) kept: bool,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    /// Device and inode, as long as it is buffered.
    pub(super) identity: Identity,
    /// Whether the program has seen the number: then it must not change.
    pub(super) told: bool,
    pub(super) born: Time,
    pub(super) modified: Time,
    pub(super) touched: Time,
    pub(super) handles: Vec<Weak<OpenFile>>,
}

impl BufferedFile {
    /// How long it is.
    pub(super) fn size(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::Stored(at) | Content::InContainer(_, at) => at.length,
        }
    }

    /// How much of the program's memory it takes.
    pub(super) fn in_memory(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Its bytes.
    pub(super) fn bytes<'a>(&'a self, log: Option<&'a Log>) -> Result<Cow<'a, [u8]>, Errno> {
        match &self.content {
            Content::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Content::Stored(at) => log.ok_or(Errno::IO)?.bytes(*at),
            Content::InContainer(container, at) => {
                container.read_at(*at).map(Cow::Owned).map_err(|error| errno(&error))
            }
        }
    }

    /// Its bytes, to be changed.
    pub(super) fn bytes_mut(&mut self, log: Option<&Log>) -> Result<&mut Vec<u8>, Errno> {
        if !matches!(self.content, Content::Memory(_)) {
            let bytes = self.bytes(log)?.into_owned();
            self.content = Content::Memory(bytes);
        }
        match &mut self.content {
            Content::Memory(bytes) => Ok(bytes),
            _ => Err(Errno::IO),
        }
    }

    /// Notes that its bytes have changed.
    pub(super) fn note_change(&mut self) {
        self.changed = true;
        self.modified = file_time();
        self.touched = self.modified;
    }

    /// Whether it is open.
    pub(super) fn is_open(&self) -> bool {
        !self.handles.is_empty()
    }

    /// Its name in C.
    pub(super) fn c_name(&self) -> &CStr {
        &self.name
    }

    /// Answers a `stat`.
    pub(super) fn stat(&mut self, into: &mut StatInto<'_>) {
        let blocks = self.size().div_ceil(4096) as i64 * 8;
        let size = self.size() as i64;
        let mode = libc::S_IFREG | self.mode;
        let links = u32::from(self.key.is_some());
        let (device, inode) = self.identity;
        self.told = true;
        match into {
            StatInto::Stat(stat) => {
                // SAFETY: a structure of numbers.
                **stat = unsafe { std::mem::zeroed() };
                stat.st_dev = device;
                stat.st_ino = inode;
                stat.st_mode = mode;
                stat.st_nlink = links.into();
                (stat.st_uid, stat.st_gid) = self.owner;
                stat.st_size = size;
                stat.st_blksize = 4096;
                stat.st_blocks = blocks;
                (stat.st_atime, stat.st_atime_nsec) = (self.modified.0, self.modified.1.into());
                (stat.st_mtime, stat.st_mtime_nsec) = (self.modified.0, self.modified.1.into());
                (stat.st_ctime, stat.st_ctime_nsec) = (self.touched.0, self.touched.1.into());
            }
            StatInto::Statx { buffer, .. } => {
                // SAFETY: as above.
                **buffer = unsafe { std::mem::zeroed() };
                buffer.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
                buffer.stx_blksize = 4096;
                buffer.stx_nlink = links;
                (buffer.stx_uid, buffer.stx_gid) = self.owner;
                buffer.stx_mode = mode as u16;
                buffer.stx_ino = inode;
                buffer.stx_size = size as u64;
                buffer.stx_blocks = blocks as u64;
                buffer.stx_dev_major = libc::major(device);
                buffer.stx_dev_minor = libc::minor(device);
                for (time, (seconds, nanoseconds)) in [
                    (&mut buffer.stx_atime, self.modified),
                    (&mut buffer.stx_mtime, self.modified),
                    (&mut buffer.stx_ctime, self.touched),
                    (&mut buffer.stx_btime, self.born),
                ] {
                    (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds);
                }
            }
        }
    }
}
