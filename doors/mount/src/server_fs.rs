//! [`ServerFs`]: a directory of a file system of I/O servers, shown as files.
//!
//! A request of the kernel becomes requests to the servers, one after another. Only numbers and
//! open files are cached, so that all clients of the servers see the same. Requests to a server
//! that does not answer are retried until the client's time limit; then the request fails (`EIO`).
//!
//! [`nodes`] has the numbers of files and directories, [`namespace`] the operations on names,
//! [`open_files`] those on open files; [`backend`] receives the requests.

mod backend;
mod namespace;
mod nodes;
mod open_files;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::io::Errno;
use striate_store::remote::{Client, FileInfo, Layout};
use striate_store::{ErrorKind, StoreError};

use self::namespace::DirectorySnapshot;
use self::nodes::{NodeKind, ServerNode, ServerNodes};
use self::open_files::{GivenTime, InUse, OpenServerFile};
use crate::error::MountError;
use crate::mounted::MountedBackend;
use crate::sync::{lock, read, write};

/// The longest name in a directory, as servers have it.
const LONGEST_NAME: usize = 255;

/// The prefix of hidden names: of files that were removed while they are open.
const HIDDEN: &str = ".striate-gone-";

/// A directory of a file system of I/O servers.
#[derive(Debug)]
pub(crate) struct ServerFs {
    client: Client,
    /// The directory, as servers spell it.
    base: String,
    layout: Layout,
    owner: Owner,
    nodes: Mutex<ServerNodes>,
    /// Renaming a file onto one that is open takes two steps, between which no request may look.
    names: RwLock<()>,
    in_use: Mutex<HashMap<u64, InUse>>,
    handles: Mutex<HashMap<u64, Arc<OpenServerFile>>>,
    given: Mutex<HashMap<u64, GivenTime>>,
    directories: Mutex<HashMap<u64, Arc<DirectorySnapshot>>>,
    next_handle: AtomicU64,
    /// Whether files that are read and written by request may be mapped.
    direct: AtomicBool,
    cache: Duration,
    running: RwLock<bool>,
    /// Directories are as old as the mount.
    begun: SystemTime,
}

/// The owner that all files are shown with: servers know neither users nor permissions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Permissions that are taken away from all (`umask`).
    pub(crate) mask: u32,
}

impl ServerFs {
    pub(crate) fn new(
        client: Client,
        base: &str,
        layout: Layout,
        owner: Owner,
        cache: Duration,
    ) -> Self {
        Self {
            client,
            base: base.to_owned(),
            layout,
            owner,
            nodes: Mutex::new(ServerNodes::new(base)),
            names: RwLock::default(),
            in_use: Mutex::default(),
            handles: Mutex::default(),
            given: Mutex::default(),
            directories: Mutex::default(),
            next_handle: AtomicU64::new(1),
            direct: AtomicBool::new(false),
            cache,
            running: RwLock::new(true),
            begun: SystemTime::now(),
        }
    }

    fn nodes(&self) -> MutexGuard<'_, ServerNodes> {
        lock(&self.nodes)
    }

    /// Carries out a request, unless the mount is over.
    fn while_running<R>(&self, act: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
        let running = read(&self.running);
        if *running { act() } else { Err(Errno::NOTCONN) }
    }

    fn node(&self, number: u64) -> Result<ServerNode, Errno> {
        self.nodes().get(number).cloned().ok_or(Errno::STALE)
    }

    /// The path of a name in a directory.
    fn path(&self, parent: u64, name: &OsStr) -> Result<String, Errno> {
        // Servers have names of text only.
        let name = name.to_str().ok_or(Errno::ILSEQ)?;
        if name.len() > LONGEST_NAME {
            return Err(Errno::NAMETOOLONG);
        }
        let node = self.node(parent)?;
        let path = nodes::join(&node.path, name);
        if self.is_hidden(&path) { Err(Errno::NOENT) } else { Ok(path) }
    }

    fn is_hidden(&self, path: &str) -> bool {
        let name = path.strip_prefix(nodes::inside(&self.base).as_str());
        name.is_some_and(|name| name.starts_with(HIDDEN))
    }

    /// What a file is, with its size of now.
    fn file_attributes(&self, number: u64, info: &FileInfo, size: u64, gone: bool) -> FileAttr {
        let recorded = time(info.modified_ms);
        let modified = self.given_time(number, info).unwrap_or_else(|| {
            self.written(number).map_or(recorded, |written| written.max(recorded))
        });
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: time(info.created_ms),
            kind: FileType::RegularFile,
            perm: self.permissions(NodeKind::File(0)) as u16,
            nlink: u32::from(!gone),
            uid: self.owner.user,
            gid: self.owner.group,
            rdev: 0,
            blksize: u32::try_from(info.strip).unwrap_or(1 << 20).clamp(4096, 1 << 20),
            flags: 0,
        }
    }

    fn directory_attributes(&self, number: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(number),
            size: 4096,
            blocks: 8,
            atime: self.begun,
            mtime: self.begun,
            ctime: self.begun,
            crtime: self.begun,
            kind: FileType::Directory,
            perm: self.permissions(NodeKind::Directory) as u16,
            nlink: 2,
            uid: self.owner.user,
            gid: self.owner.group,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn permissions(&self, sort: NodeKind) -> u32 {
        let all = if sort == NodeKind::Directory { 0o777 } else { 0o666 };
        all & !self.owner.mask
    }

    /// What a node is now.
    fn attributes(&self, number: u64) -> Result<FileAttr, Errno> {
        let node = self.node(number)?;
        let NodeKind::File(file) = node.sort else { return Ok(self.directory_attributes(number)) };
        let found = self.client.lookup(&node.path).map_err(|error| code(&error));
        let info = match found {
            Ok(info) if info.file == file => info,
            // Another client has renamed or replaced it: an open file is still known.
            Ok(_) | Err(Errno::NOENT) => self.open_info(number).ok_or(Errno::STALE)?,
            Err(error) => return Err(error),
        };
        let size = self.client.size(&info).map_err(|error| code(&error))?;
        Ok(self.file_attributes(number, &info, size, node.gone))
    }
}

impl MountedBackend for ServerFs {
    fn close(&self) {
        *write(&self.running) = false;
    }

    fn settle(&self) -> Result<(), MountError> {
        self.close();
        self.end_handles().map_err(MountError::Unsettled)
    }

    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}

fn time(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds)).unwrap_or(UNIX_EPOCH)
}

/// The error number that programs get for an error.
fn code(error: &StoreError) -> Errno {
    match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::Denied => Errno::ACCESS,
        ErrorKind::OutOfSpace => Errno::NOSPC,
        ErrorKind::Malformed => Errno::INVAL,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    }
}
