//! [`Record`]: one call in a trace, with its times, its thread and its result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_calls::{Detail, Function, Kind};

/// A file that a process had open: what one `open` made, whichever descriptors stood for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TracedFile {
    /// The process that opened it.
    pub opener: u32,
    /// Its number there. Copies of the process (`fork`) go on with it.
    pub number: u64,
    /// The path it was opened by, from the root on.
    pub path: PathBuf,
    /// `O_…` when it was opened.
    pub flags: i32,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject<F, P> {
    /// An open file.
    File(F),
    /// A name.
    Name(P),
}

/// One end of a copy within the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedEnd<F> {
    /// The file, if it was one that was recorded.
    pub file: Option<F>,
    /// The descriptor.
    pub descriptor: i32,
    /// Where; at the position if not said.
    pub at: Option<u64>,
}

/// What was asked for. `F` stands for files and `P` for paths; see [`RecordedCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of `Action`, and what is said here")]
pub enum Call<F, P> {
    /// The outcome is a descriptor. `size` is that of the file when it was open.
    Open {
        file: F,
        path: P,
        flags: i32,
        mode: u32,
        size: Option<u64>,
    },
    /// `last`: of those of this file in the process.
    Close {
        file: F,
        descriptor: i32,
        last: bool,
    },
    /// `placed`: at an offset that the call says. `offset`: where it happened, as far as known.
    Read {
        file: F,
        placed: bool,
        offset: Option<u64>,
        length: u64,
        flags: i32,
        parts: u32,
    },
    /// As [`Call::Read`]. Where a write to the end of a file (`O_APPEND`) goes is not known.
    Write {
        file: F,
        placed: bool,
        offset: Option<u64>,
        length: u64,
        flags: i32,
        parts: u32,
    },
    /// The outcome is the position.
    Seek {
        file: F,
        offset: i64,
        whence: i32,
    },
    Sync {
        file: F,
        data_only: bool,
    },
    Truncate {
        file: F,
        length: u64,
    },
    Allocate {
        file: F,
        mode: i32,
        offset: u64,
        length: u64,
    },
    /// `size`: the size that was returned. `mode`: `st_mode`, with the file type; traces of
    /// versions 1 to 4 do not have it.
    Stat {
        of: Subject<F, P>,
        flags: i32,
        size: Option<u64>,
        mode: Option<u32>,
    },
    Rename {
        from: P,
        to: P,
        flags: u32,
    },
    Unlink {
        path: P,
        flags: i32,
    },
    MakeDirectory {
        path: P,
        mode: u32,
    },
    ReadDirectory {
        path: P,
    },
    Duplicate {
        file: F,
        descriptor: i32,
    },
    Control {
        file: F,
        descriptor: i32,
        command: i32,
        argument: u64,
    },
    Map {
        file: F,
        offset: u64,
        length: u64,
        writable: bool,
    },
    CopyRange {
        from: TracedEnd<F>,
        to: TracedEnd<F>,
        length: u64,
    },
    SendFile {
        from: TracedEnd<F>,
        to: TracedEnd<F>,
        length: u64,
    },
    /// Something else; [`Record::function`] says what.
    Notice {
        of: Subject<F, P>,
        detail: Detail<P>,
    },
}

/// A call as it is read.
pub type RecordedCall = Call<Arc<TracedFile>, Arc<Path>>;

/// A call, its thread, its times and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The function that the program called.
    pub function: Function,
    /// The thread, as the kernel numbers them.
    pub thread: u32,
    /// When it began, in nanoseconds of the monotonic clock.
    pub start: u64,
    /// How many nanoseconds it took.
    pub duration: u64,
    /// What it returned, or the number of its error; `Ok(0)` if that is not known.
    pub outcome: Result<u64, i32>,
    /// Whether its result was recorded. Those of calls that stages only have notice of (`access`,
    /// `opendir`, `mmap` …) are not in traces of versions 1 to 4.
    pub known: bool,
    /// What was asked for.
    pub call: RecordedCall,
}

impl Record {
    /// What it returned, or the number of its error; `None` if that was not recorded.
    pub fn result(&self) -> Option<Result<u64, i32>> {
        self.known.then_some(self.outcome)
    }

    /// Whether it is known to have failed.
    pub const fn failed(&self) -> bool {
        self.known && self.outcome.is_err()
    }
}

impl<F, P> Call<F, P> {
    /// Its kind.
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

    /// The open file it is on; of two, the one that is read.
    pub const fn file(&self) -> Option<&F> {
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
            | Self::Stat { of: Subject::File(file), .. }
            | Self::Notice { of: Subject::File(file), .. } => Some(file),
            Self::CopyRange { from, .. } | Self::SendFile { from, .. } => from.file.as_ref(),
            _ => None,
        }
    }

    /// The name it is on; of two, the old one.
    pub const fn path(&self) -> Option<&P> {
        match self {
            Self::Open { path, .. }
            | Self::Stat { of: Subject::Name(path), .. }
            | Self::Notice { of: Subject::Name(path), .. }
            | Self::Rename { from: path, .. }
            | Self::Unlink { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::ReadDirectory { path } => Some(path),
            _ => None,
        }
    }

    /// The same with other types for files and paths.
    pub fn map<'c, G, Q>(&'c self, f: impl Fn(&'c F) -> G, p: impl Fn(&'c P) -> Q) -> Call<G, Q> {
        let of = |subject: &'c Subject<F, P>| match subject {
            Subject::File(file) => Subject::File(f(file)),
            Subject::Name(path) => Subject::Name(p(path)),
        };
        let end = |end: &'c TracedEnd<F>| TracedEnd {
            file: end.file.as_ref().map(&f),
            descriptor: end.descriptor,
            at: end.at,
        };
        match self {
            Self::Open { file, path, flags, mode, size } => {
                Call::Open { file: f(file), path: p(path), flags: *flags, mode: *mode, size: *size }
            }
            Self::Close { file, descriptor, last } => {
                Call::Close { file: f(file), descriptor: *descriptor, last: *last }
            }
            Self::Read { file, placed, offset, length, flags, parts } => Call::Read {
                file: f(file),
                placed: *placed,
                offset: *offset,
                length: *length,
                flags: *flags,
                parts: *parts,
            },
            Self::Write { file, placed, offset, length, flags, parts } => Call::Write {
                file: f(file),
                placed: *placed,
                offset: *offset,
                length: *length,
                flags: *flags,
                parts: *parts,
            },
            Self::Seek { file, offset, whence } => {
                Call::Seek { file: f(file), offset: *offset, whence: *whence }
            }
            Self::Sync { file, data_only } => Call::Sync { file: f(file), data_only: *data_only },
            Self::Truncate { file, length } => Call::Truncate { file: f(file), length: *length },
            Self::Allocate { file, mode, offset, length } => {
                Call::Allocate { file: f(file), mode: *mode, offset: *offset, length: *length }
            }
            Self::Stat { of: subject, flags, size, mode } => {
                Call::Stat { of: of(subject), flags: *flags, size: *size, mode: *mode }
            }
            Self::Rename { from, to, flags } => {
                Call::Rename { from: p(from), to: p(to), flags: *flags }
            }
            Self::Unlink { path, flags } => Call::Unlink { path: p(path), flags: *flags },
            Self::MakeDirectory { path, mode } => {
                Call::MakeDirectory { path: p(path), mode: *mode }
            }
            Self::ReadDirectory { path } => Call::ReadDirectory { path: p(path) },
            Self::Duplicate { file, descriptor } => {
                Call::Duplicate { file: f(file), descriptor: *descriptor }
            }
            Self::Control { file, descriptor, command, argument } => Call::Control {
                file: f(file),
                descriptor: *descriptor,
                command: *command,
                argument: *argument,
            },
            Self::Map { file, offset, length, writable } => {
                Call::Map { file: f(file), offset: *offset, length: *length, writable: *writable }
            }
            Self::CopyRange { from, to, length } => {
                Call::CopyRange { from: end(from), to: end(to), length: *length }
            }
            Self::SendFile { from, to, length } => {
                Call::SendFile { from: end(from), to: end(to), length: *length }
            }
            Self::Notice { of: subject, detail } => {
                let Detail { text, flags, numbers } = detail;
                let detail =
                    Detail { text: text.as_ref().map(&p), flags: *flags, numbers: *numbers };
                Call::Notice { of: of(subject), detail }
            }
        }
    }
}
