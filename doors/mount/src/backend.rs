//! [`Backend`]: the file system that a mount shows.
//!
//! There are two: a source directory below a stack of stages
//! ([`SourceFs`](crate::source_fs::SourceFs)) and a directory of I/O servers
//! ([`ServerFs`](crate::server_fs::ServerFs)). [`Requests`](crate::requests::Requests) turns
//! requests of the kernel into calls of this trait, whose functions have the names of FUSE's
//! operations. Nodes and handles are identified by the numbers that the kernel uses.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackingId, FileAttr, FopenFlags, KernelConfig, Request, TimeOrNow};
use rustix::io::Errno;

/// A name in a directory: the directory's node and the name.
pub(crate) type NameIn<'a> = (u64, &'a OsStr);

/// The permissions of a new file: what the caller asks for, and the mask (`umask`) that it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMode {
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// Attributes that are to be changed (`setattr`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttributeChange {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

/// An open file, as the kernel is answered.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) handle: u64,
    pub(crate) flags: FopenFlags,
    /// The file that the kernel reads and writes itself (passthrough).
    pub(crate) backing: Option<Arc<BackingId>>,
}

/// Registers a descriptor with the kernel, for passthrough.
pub(crate) type Register<'a> = &'a dyn Fn(&OwnedFd) -> std::io::Result<BackingId>;

/// Data to be written, with how the kernel says that it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
    /// `O_…`, as the descriptor has them now.
    pub(crate) flags: i32,
    /// Whether the data comes from the page cache: it was written to a mapping.
    pub(crate) from_page_cache: bool,
    /// Whether set-user-id and set-group-id bits have to go.
    pub(crate) drops_privileges: bool,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryEntry<'a> {
    pub(crate) number: u64,
    /// The offset at which the listing goes on after it.
    pub(crate) next: u64,
    pub(crate) kind: fuser::FileType,
    pub(crate) name: &'a OsStr,
}

/// Space and limits of a file system (`statfs`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free_blocks: u64,
    pub(crate) available_blocks: u64,
    pub(crate) files: u64,
    pub(crate) free_files: u64,
    pub(crate) block_size: u32,
    pub(crate) longest_name: u32,
    pub(crate) fragment_size: u32,
}

/// The answer to a question for extended attributes.
#[derive(Debug)]
pub(crate) enum XattrAnswer {
    /// How many bytes there are, where the caller has given no buffer.
    Length(u32),
    Value(Vec<u8>),
}

/// The file system that a mount shows.
///
/// # Contract
///
/// * Functions are called by several threads at a time, each within [`Backend::while_running`],
///   except `forget`.
/// * A node that `lookup`, `mknod`, `mkdir`, `symlink`, `link` or `create` returns counts as known
///   to the kernel once more, until `forget` takes that back.
/// * `flush` comes at each close of a descriptor, which waits for the answer; `release` once for
///   each handle, later.
/// * What a backend does not have it leaves to the defaults, which are answers that the kernel
///   remembers (`ENOSYS`), or errors that programs expect of such a file system.
pub(crate) trait Backend: std::fmt::Debug + Send + Sync + 'static {
    /// Tells the kernel what is wanted of it.
    fn configure(&self, config: &mut KernelConfig);

    /// For how long the kernel may cache names and attributes.
    fn cache(&self) -> &Duration;

    /// Carries out a request, unless the mount has ended.
    fn while_running<R>(
        &self,
        request: &Request,
        act: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno>;

    fn lookup(&self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno>;

    fn forget(&self, node: u64, times: u64);

    fn getattr(&self, node: u64) -> Result<FileAttr, Errno>;

    fn setattr(
        &self,
        request: &Request,
        node: u64,
        handle: Option<u64>,
        change: AttributeChange,
    ) -> Result<FileAttr, Errno>;

    fn readlink(&self, _node: u64) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOSYS)
    }

    fn mknod(
        &self,
        request: &Request,
        name: NameIn<'_>,
        mode: NewMode,
        device: u32,
    ) -> Result<FileAttr, Errno>;

    fn mkdir(&self, request: &Request, name: NameIn<'_>, mode: NewMode) -> Result<FileAttr, Errno>;

    fn unlink(&self, name: NameIn<'_>) -> Result<(), Errno>;

    fn rmdir(&self, name: NameIn<'_>) -> Result<(), Errno>;

    fn symlink(
        &self,
        _request: &Request,
        _name: NameIn<'_>,
        _to: &Path,
    ) -> Result<FileAttr, Errno> {
        Err(Errno::PERM)
    }

    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, flags: u32) -> Result<(), Errno>;

    fn link(&self, _request: &Request, _node: u64, _name: NameIn<'_>) -> Result<FileAttr, Errno> {
        Err(Errno::PERM)
    }

    fn open(
        &self,
        request: &Request,
        node: u64,
        flags: i32,
        register: Register<'_>,
    ) -> Result<Opened, Errno>;

    fn create(
        &self,
        request: &Request,
        name: NameIn<'_>,
        flags: i32,
        mode: NewMode,
        register: Register<'_>,
    ) -> Result<(FileAttr, Opened), Errno>;

    /// Reads a range (offset and size), and calls `act` with the data.
    fn read(
        &self,
        handle: u64,
        range: (u64, usize),
        flags: i32,
        act: impl FnOnce(&[u8]),
    ) -> Result<(), Errno>;

    /// Writes, and returns how many bytes were taken.
    fn write(&self, handle: u64, data: &WriteRequest<'_>) -> Result<usize, Errno>;

    /// A write on this handle has been answered: what was put off for that is done now.
    fn after_write(&self, _handle: u64) {}

    fn flush(&self, handle: u64) -> Result<(), Errno>;

    fn release(&self, handle: u64) -> Result<(), Errno>;

    fn fsync(&self, handle: u64, data_only: bool) -> Result<(), Errno>;

    fn opendir(&self, node: u64) -> Result<u64, Errno>;

    /// Lists a directory from an offset on, until `take` says that it has enough.
    fn readdir(
        &self,
        handle: u64,
        node: u64,
        offset: u64,
        take: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<(), Errno>;

    fn releasedir(&self, handle: u64) -> Result<(), Errno>;

    fn fsyncdir(&self, handle: u64, data_only: bool) -> Result<(), Errno>;

    fn statfs(&self, node: u64) -> Result<Space, Errno>;

    fn setxattr(&self, _node: u64, _name: &OsStr, _value: &[u8], _flags: i32) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// The value of an attribute; its length if `size` is 0.
    fn getxattr(&self, _node: u64, _name: &OsStr, _size: usize) -> Result<XattrAnswer, Errno> {
        Err(Errno::NOSYS)
    }

    /// The names of all attributes, each with a zero after it; their length if `size` is 0.
    fn listxattr(
        &self,
        _request: &Request,
        _node: u64,
        _size: usize,
    ) -> Result<XattrAnswer, Errno> {
        Err(Errno::NOSYS)
    }

    fn removexattr(&self, _node: u64, _name: &OsStr) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn fallocate(&self, handle: u64, mode: i32, offset: u64, length: u64) -> Result<(), Errno>;

    fn lseek(&self, _handle: u64, _offset: i64, _whence: i32) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Copies between two handles, each with an offset. Returns how many bytes were copied.
    fn copy_file_range(
        &self,
        _from: (u64, u64),
        _to: (u64, u64),
        _length: u64,
    ) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }
}
