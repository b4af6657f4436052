//! `bench` of parallel file I/O: one pattern, carried out by several engines in turn.
//!
//! [`run`] measures. In each repetition every contender writes a new file and reads it back; their
//! order rotates, so that none is always the first. A sample is the time from one barrier to the
//! next around the data calls of all ranks. Every byte is verified outside of it: the files against
//! what they should hold, the memory of reads against the same, gaps included.
//!
//! Files are read back from where they were written a moment ago, so what is measured is the path
//! through the page cache; nothing here empties it.

pub mod content;
mod contiguous;
mod engine;
mod measure;
mod pattern_run;
pub mod plan;
mod ratios;
mod report;
pub(crate) mod scratch;
mod servers;
mod signal_cleanup;
mod socket;
mod wire_traffic;

use std::path::PathBuf;

use serde::Serialize;
use striate_comm::CommError;
use striate_datatype::TypeError;
use striate_file::{DomainChoice, Exchange, Hints, Method, MethodChoice};
use striate_store::StoreError;
use striate_store::remote::UrlError;
use thiserror::Error;

use self::content::ByteMismatch;
pub use self::engine::IoEngineError;
pub use self::measure::run;
pub use self::plan::{Ior, Pattern, Repeated};
pub use self::ratios::IoGoals;
pub use self::report::{IoResults, IoRow};
pub use self::scratch::ScratchDirectory;
pub use self::servers::LocalServers;
pub use self::signal_cleanup::SignalCleanup;
use crate::collective::RankError;
pub use crate::cost::{Cost, Wire};

/// The direction of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IoOp {
    /// From memory to the file.
    Write,
    /// From the file to memory.
    Read,
}

impl IoOp {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// What does the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoApi {
    /// Our files.
    Striate,
    /// Plain system calls, one per piece.
    Posix,
    /// The named implementation of the job's MPI-IO.
    MpiIo(&'static str),
    /// Plain sockets to servers that only copy.
    Socket,
}

impl IoApi {
    /// The name in reports.
    pub fn name(self) -> String {
        match self {
            Self::Striate => "striate".into(),
            Self::Posix => "posix".into(),
            Self::MpiIo(component) => format!("mpiio-{component}"),
            Self::Socket => "socket".into(),
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// What does the I/O.
    pub api: IoApi,
    /// By which method; for Striate only.
    pub method: Option<MethodChoice>,
    /// With which file domains, if not those of the hints; for Striate only.
    pub domains: Option<DomainChoice>,
    /// Whether the bytes of each call are moved in one piece instead: the limit for the methods.
    pub contiguous: bool,
}

impl Contender {
    /// Ours.
    pub const fn striate(method: MethodChoice, domains: Option<DomainChoice>) -> Self {
        Self { api: IoApi::Striate, method: Some(method), domains, contiguous: false }
    }

    /// Another.
    pub const fn peer(api: IoApi) -> Self {
        Self { api, method: None, domains: None, contiguous: false }
    }

    /// Ours, with the bytes of each call in one piece.
    pub const fn contiguous() -> Self {
        let method = MethodChoice::Fixed(Method::Posix);
        Self { contiguous: true, ..Self::striate(method, None) }
    }

    /// The name of the method.
    pub fn method_name(&self) -> Option<String> {
        if self.contiguous {
            return Some("contiguous".into());
        }
        self.method.map(|method| method.to_string())
    }

    /// As people read it: `striate two-phase`, `mpiio-romio`.
    pub fn label(&self) -> String {
        match self.method_name() {
            Some(method) => format!("{} {method}", self.api.name()),
            None => self.api.name(),
        }
    }
}

/// The settings of \[CHING\] for so many ranks: all aggregate, in even domains, by messages;
/// buffers of 4 MiB; 64 regions per list request.
pub fn paper_hints(ranks: u64) -> Hints {
    const BUFFER: u64 = 4 << 20;
    Hints {
        cb_nodes: Some(ranks.max(1)),
        cb_buffer_size: Some(BUFFER),
        ind_rd_buffer_size: Some(BUFFER),
        ind_wr_buffer_size: BUFFER,
        domains: DomainChoice::Even,
        exchange: Exchange::Messages,
        list_regions: 64,
        ..Hints::default()
    }
}

/// Which files a benchmark uses, and whether they stay. By default they have names of their own and
/// go away.
#[derive(Clone, Debug, Default)]
pub struct FileChoice {
    /// The file (IOR's `-o`), instead of one with a random name in [`IoOptions::directory`]; a URL
    /// for one on servers. If it already exists and nothing is to be written, it is read.
    pub name: Option<PathBuf>,
    /// Whether files stay (IOR's `-k`).
    pub keep: bool,
    /// Whether a file that already exists may be written over.
    pub overwrite: bool,
}

/// What to measure, and how.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub struct IoOptions {
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Repetitions of everything.
    pub repeat: usize,
    /// Whether writes are measured.
    pub write: bool,
    /// Whether reads are measured.
    pub read: bool,
    /// Whether calls are collective.
    pub collective: bool,
    /// Whether a write ends when its data is durable.
    pub fsync: bool,
    /// Whether every byte is verified.
    pub verify: bool,
    /// Whether opening, setting the view and closing count.
    pub include_open: bool,
    /// Where the files are made: a directory, or a URL on I/O servers.
    pub directory: PathBuf,
    /// The directory for what must be on this machine: the files of [`IoApi::Socket`].
    pub local_directory: PathBuf,
    /// Which files, and whether they stay.
    pub files: FileChoice,
    /// What kind of file system the files are on, for reports.
    pub store: Option<String>,
    /// Our settings; method and domains are those of the contender.
    pub hints: Hints,
    /// What ratios are compared with.
    pub goals: IoGoals,
}

/// Where a benchmark is.
#[derive(Clone, Copy, Debug)]
pub struct IoProgress<'a> {
    /// Measurements done.
    pub done: usize,
    /// Measurements in all.
    pub total: usize,
    /// The repetition, from 0 on.
    pub repetition: usize,
    /// The contender.
    pub contender: &'a Contender,
    /// What it does.
    pub op: IoOp,
}

/// Why a benchmark ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IoBenchError {
    /// The ranks cannot reach each other.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A pattern cannot be described.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// The pattern is for another number of ranks.
    #[error("the pattern is for {pattern} ranks, but there are {ranks}")]
    Ranks {
        /// Ranks of the pattern.
        pattern: u64,
        /// Ranks there are.
        ranks: u64,
    },
    /// Files on servers, or a file that is looked at, failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The place of the files is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A file could not be made, looked at or removed.
    #[error("cannot {attempted} {}: {source}", .path.display())]
    File {
        /// What was tried.
        attempted: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file that is to be written already exists.
    #[error("{} is there already", .path.display())]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// A file that already exists is not one of this pattern.
    #[error("{} has {found} bytes, but the pattern has {expected}", .path.display())]
    OtherPattern {
        /// Which.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// An engine failed.
    #[error("{contender} cannot {attempted} {}: {source}", .path.display())]
    Engine {
        /// Which.
        contender: String,
        /// What it tried.
        attempted: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: Box<IoEngineError>,
    },
    /// A file has the wrong length after it was written.
    #[error("{contender} left a file of {found} bytes, but {expected} were written")]
    Length {
        /// The contender that wrote it.
        contender: String,
        /// Its length.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// A file has a wrong byte after it was written.
    #[error("{contender} wrote {:#04x} instead of {:#04x} at offset {} of the file",
        .mismatch.found, .mismatch.expected, .mismatch.offset)]
    Written {
        /// The contender that wrote it.
        contender: String,
        /// The first wrong byte.
        mismatch: ByteMismatch,
    },
    /// Memory has a wrong byte after it was read into.
    #[error("{contender} left {:#04x} instead of {:#04x} at index {} of the memory{}",
        .mismatch.found, .mismatch.expected, .mismatch.offset,
        if *.gap { ", in a gap that is not to be touched" } else { "" })]
    ReadBack {
        /// The contender that read it.
        contender: String,
        /// The first wrong byte.
        mismatch: ByteMismatch,
        /// Whether it lies in a gap of the memory's description.
        gap: bool,
    },
    /// A rank failed.
    #[error("rank {rank}: {reason}")]
    Rank {
        /// Which.
        rank: u64,
        /// Its error.
        reason: String,
    },
}

impl RankError for IoBenchError {
    fn is_echo(&self) -> bool {
        matches!(self, Self::Engine { source, .. } if source.is_echo())
    }

    fn of_rank(rank: u64, reason: String) -> Self {
        Self::Rank { rank, reason }
    }
}
