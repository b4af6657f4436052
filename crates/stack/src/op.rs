//! [`Op`]: one call of the program, with its function, its file or name, and its arguments
//! ([`Action`]).

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::{Function, Kind};

use crate::memory::Memory;
use crate::open_file::OpenFile;
use crate::route::Route;

/// What came of an operation: what the call returns (a count, a position, a descriptor), or its
/// error.
pub type Outcome = Result<u64, Errno>;

/// A name in the file system, as the program gave it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The directory that a relative path starts from (`AT_FDCWD`: the current one).
    pub directory: RawFd,
    /// The path, as the kernel takes it.
    pub path: &'a CStr,
    /// The same from the root on, without `.`, `..` and `//`. Links in it are not followed.
    pub absolute: &'a Path,
}

/// What a [`Action::Stat`] or [`Action::Notice`] is about.
#[derive(Clone, Copy, Debug)]
pub enum FileOrName<'a> {
    /// An open file.
    File(&'a Arc<OpenFile>),
    /// A name.
    Name(Target<'a>),
}

/// Where a [`Action::Stat`] leaves what it finds.
#[derive(Debug)]
pub enum StatInto<'a> {
    /// As `stat` and `fstatat` do.
    Stat(&'a mut libc::stat),
    /// As `statx` does.
    Statx {
        /// What is wanted.
        mask: u32,
        /// Where to.
        buffer: &'a mut libc::statx,
    },
}

impl StatInto<'_> {
    /// The device and the inode that were found.
    pub fn identity(&self) -> (u64, u64) {
        match self {
            Self::Stat(stat) => (stat.st_dev, stat.st_ino),
            Self::Statx { buffer, .. } => {
                (libc::makedev(buffer.stx_dev_major, buffer.stx_dev_minor), buffer.stx_ino)
            }
        }
    }
}

/// One end of an [`Action::CopyRange`] or [`Action::SendFile`].
#[derive(Clone, Copy, Debug)]
pub struct CopyEndpoint<'a> {
    /// The open file, if it is one that stages may see.
    pub file: Option<&'a Arc<OpenFile>>,
    /// The descriptor.
    pub descriptor: RawFd,
    /// Where; at the position of the file if not said.
    pub at: Option<u64>,
}

/// What is asked for.
#[derive(Debug)]
pub enum Action<'a> {
    /// Open a name. The outcome is a new descriptor. `file` is what will stand for it: stages may
    /// leave their own state with it already.
    Open {
        /// What becomes of it.
        file: &'a Arc<OpenFile>,
        /// The name.
        target: Target<'a>,
        /// `O_…`
        flags: i32,
        /// Permissions of a new file.
        mode: u32,
    },
    /// Close a descriptor.
    Close {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// Which of its descriptors.
        descriptor: RawFd,
        /// Whether the file has no other descriptor in this process.
        last: bool,
    },
    /// Read. The outcome is how many bytes there were.
    Read {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// Where to.
        memory: Memory<'a>,
        /// From where; from the position of the file, which then moves, if not said.
        at: Option<u64>,
        /// `RWF_…`
        flags: i32,
    },
    /// Write. The outcome is how many bytes were taken.
    Write {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// What.
        memory: Memory<'a>,
        /// Where; at the position of the file, which then moves, if not said. At the end, whatever
        /// is said, if the file was opened to append.
        at: Option<u64>,
        /// `RWF_…`
        flags: i32,
    },
    /// Move the position, or ask for it. The outcome is where it is then.
    Seek {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// How far.
        offset: i64,
        /// From where: `SEEK_…`
        whence: i32,
    },
    /// Make data durable.
    Sync {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// Without what is not needed to read it (`fdatasync`).
        data_only: bool,
    },
    /// Change the size.
    Truncate {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// The size.
        length: u64,
    },
    /// Reserve, free or zero space.
    Allocate {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// `FALLOC_FL_…`
        mode: i32,
        /// From where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Ask for size, times and the like.
    Stat {
        /// Of what.
        of: FileOrName<'a>,
        /// `AT_…`
        flags: i32,
        /// Where the answer goes.
        into: StatInto<'a>,
    },
    /// Give a file another name.
    Rename {
        /// The old one.
        from: Target<'a>,
        /// The new one.
        to: Target<'a>,
        /// `RENAME_…`
        flags: u32,
    },
    /// Remove a name.
    Unlink {
        /// Which.
        target: Target<'a>,
        /// `AT_REMOVEDIR`, or nothing.
        flags: i32,
    },
    /// Make a directory.
    MakeDirectory {
        /// Its name.
        target: Target<'a>,
        /// Its permissions.
        mode: u32,
    },
    /// The program is about to list this directory. Only a notice: the outcome is 0, and that of
    /// the call follows ([`Stack::announce`](crate::Stack::announce)).
    ReadDirectory {
        /// Which.
        target: Target<'a>,
    },
    /// The program has made another descriptor of the file. Only a notice: the outcome is 0.
    Duplicate {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// The new descriptor.
        descriptor: RawFd,
    },
    /// Ask for or change something about a descriptor.
    Control {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// Which of its descriptors.
        descriptor: RawFd,
        /// `F_…`, none of those that duplicate or lock.
        command: i32,
        /// Its argument.
        argument: u64,
    },
    /// The program is about to map the file. Only a notice, as before a listing.
    Map {
        /// The file.
        file: &'a Arc<OpenFile>,
        /// From where.
        offset: u64,
        /// How much.
        length: u64,
        /// Whether writes to the memory are writes to the file.
        writable: bool,
    },
    /// Copy bytes from file to file. The outcome is how many.
    CopyRange {
        /// From where.
        from: CopyEndpoint<'a>,
        /// Where to.
        to: CopyEndpoint<'a>,
        /// How many at most.
        length: usize,
    },
    /// Send bytes of a file. The outcome is how many.
    SendFile {
        /// From where.
        from: CopyEndpoint<'a>,
        /// Where to.
        to: CopyEndpoint<'a>,
        /// How many at most.
        length: usize,
    },
    /// The program is about to do something else. Only a notice: the outcome is 0, or else the
    /// bytes are not where the name leads just now, and a caller that wants to change them has to
    /// open the file.
    Notice {
        /// With what.
        of: FileOrName<'a>,
    },
}

impl<'a> Action<'a> {
    /// The open file it is on; of two, the one that is read.
    #[inline]
    pub const fn file(&self) -> Option<&'a Arc<OpenFile>> {
        match self {
            Self::Open { file, .. }
            | Self::Close { file, .. }
            | Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::Seek { file, .. }
            | Self::Sync { file, .. }
            | Self::Truncate { file, .. }
            | Self::Allocate { file, .. }
            | Self::Duplicate { file, .. }
            | Self::Control { file, .. }
            | Self::Map { file, .. }
            | Self::Stat { of: FileOrName::File(file), .. }
            | Self::Notice { of: FileOrName::File(file) } => Some(*file),
            Self::CopyRange { from, .. } | Self::SendFile { from, .. } => from.file,
            Self::Stat { of: FileOrName::Name(_), .. }
            | Self::Notice { of: FileOrName::Name(_) }
            | Self::Rename { .. }
            | Self::Unlink { .. }
            | Self::MakeDirectory { .. }
            | Self::ReadDirectory { .. } => None,
        }
    }

    /// The open file of an operation on one file that is open already, to be replaced by another
    /// one.
    #[inline]
    pub const fn file_mut(&mut self) -> Option<&mut &'a Arc<OpenFile>> {
        match self {
            Self::Close { file, .. }
            | Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::Seek { file, .. }
            | Self::Sync { file, .. }
            | Self::Truncate { file, .. }
            | Self::Allocate { file, .. }
            | Self::Duplicate { file, .. }
            | Self::Control { file, .. }
            | Self::Map { file, .. }
            | Self::Stat { of: FileOrName::File(file), .. }
            | Self::Notice { of: FileOrName::File(file) } => Some(file),
            _ => None,
        }
    }

    /// Whether stages only have notice of it: the call itself is made elsewhere.
    #[inline]
    pub const fn is_notice(&self) -> bool {
        matches!(self, Self::ReadDirectory { .. } | Self::Map { .. } | Self::Notice { .. })
    }

    /// Whether there is anything to do when it is dropped.
    #[inline]
    pub const fn owns(&self) -> bool {
        match self {
            Self::Read { memory, .. } | Self::Write { memory, .. } => memory.one().is_none(),
            _ => false,
        }
    }

    /// Its kind.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Open { .. } => Kind::Open,
            Self::Close { .. } => Kind::Close,
            Self::Read { .. } => Kind::Read,
            Self::Write { .. } => Kind::Write,
            Self::Seek { .. } => Kind::Seek,
            Self::Sync { .. } => Kind::Sync,
            Self::Truncate { .. } => Kind::Truncate,
            Self::Allocate { .. } => Kind::Allocate,
            Self::Stat { .. } => Kind::Stat,
            Self::Rename { .. } => Kind::Rename,
            Self::Unlink { .. } => Kind::Unlink,
            Self::MakeDirectory { .. } => Kind::MakeDirectory,
            Self::ReadDirectory { .. } => Kind::ReadDirectory,
            Self::Duplicate { .. } => Kind::Duplicate,
            Self::Control { .. } => Kind::Control,
            Self::Map { .. } => Kind::Map,
            Self::CopyRange { .. } => Kind::CopyRange,
            Self::SendFile { .. } => Kind::SendFile,
            Self::Notice { .. } => Kind::Notice,
        }
    }
}

/// One call of the program, or of a stage on its own account.
#[derive(Debug)]
pub struct Op<'a> {
    /// The function that the program called.
    pub function: Function,
    /// The stages that want operations on this file or name.
    pub route: &'a Route,
    /// What is asked for.
    pub action: Action<'a>,
}

impl<'a> Op<'a> {
    /// An operation on an open file, for the stages that still want those of this file.
    #[inline]
    pub fn on(file: &'a Arc<OpenFile>, function: Function, action: Action<'a>) -> Self {
        Self { function, route: file.route(), action }
    }
}
