//! `bench` of datasets: workloads of netCDF programs, measured with several libraries in turn.
//!
//! [`run`] measures. In each repetition every contender writes new files and reads them back; their
//! order rotates, so that none is always the first. A sample is the time from one barrier to the
//! next: around the data calls of all ranks, and around everything from opening to closing. Every
//! element is verified outside of it, gaps of memory included, and in the first repetition every
//! contender also reads the files of the other contenders.
//!
//! Files are read back from where they were written a moment ago, so what is measured is the path
//! through the page cache; nothing here empties it.
//!
//! Our datasets can also take part several times, as one shared file and as partitions, on targets
//! of which one is slow ([`Layout`]).

mod engine;
mod layout;
mod measure;
mod memory;
pub mod plan;
mod report;
pub mod workload;

use std::path::PathBuf;

use serde::Serialize;
use striate_comm::CommError;
use striate_datatype::TypeError;
use striate_file::FileError;
use thiserror::Error;

pub use striate_array::Format;
pub use striate_hdf5::chunk_shape::ChunkRule;

pub use self::engine::ArrayEngineError;
pub use self::layout::{Layout, Straggler, Targets};
pub use self::measure::run;
pub use self::memory::ElementMismatch;
pub use self::report::{ArrayGoals, ArrayResults, ArrayRow, Exchange};
pub use self::workload::ArrayWorkload;
use crate::collective::RankError;
use crate::io::IoBenchError;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrayOp {
    /// Making a file and defining what is in it, without data.
    Create,
    /// Opening a file, without data.
    Open,
    /// From memory to files.
    Write,
    /// From files to memory.
    Read,
}

impl ArrayOp {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Write => "write",
            Self::Read => "read",
        }
    }

    /// Whether files are made.
    const fn makes(self) -> bool {
        matches!(self, Self::Create | Self::Write)
    }
}

/// What the time of a sample is that of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The data calls.
    Data,
    /// All from opening, with definitions, to closing.
    Whole,
}

impl Scope {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Whole => "whole",
        }
    }
}

/// Whose library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayApi {
    /// Our datasets.
    Striate,
    /// Our datasets as netCDF-4 files, whatever the format of the others is.
    StriateNetcdf4,
    /// Our datasets in a layout on [`ArrayOptions::targets`].
    Layout(Layout),
    /// Parallel HDF5, on top of the named implementation of MPI-IO or of whichever the job's MPI
    /// takes.
    Hdf5(Option<&'static str>),
    /// The parallel netCDF library with netCDF-4 files, on top of the same.
    Netcdf4(Option<&'static str>),
    /// PnetCDF, on top of the named implementation of MPI-IO or of whichever the job's MPI takes.
    Pnetcdf(Option<&'static str>),
    /// netCDF's serial library, which rank 0 alone calls.
    Netcdf,
    /// No library: plain system calls for as many bytes, in one piece per rank.
    Raw,
    /// No library and no file: the filters of the same chunks, in one thread per rank.
    DeflateAlone,
}

/// Whether ranks make their data calls together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallMode {
    /// All ranks make each call.
    #[default]
    Collective,
    /// Each rank makes its own.
    Independent,
}

impl ArrayApi {
    /// All libraries there are.
    pub const ALL: [Self; 14] = [
        Self::Striate,
        Self::StriateNetcdf4,
        Self::Hdf5(None),
        Self::Hdf5(Some("romio")),
        Self::Hdf5(Some("ompio")),
        Self::Netcdf4(None),
        Self::Netcdf4(Some("romio")),
        Self::Netcdf4(Some("ompio")),
        Self::Pnetcdf(None),
        Self::Pnetcdf(Some("romio")),
        Self::Pnetcdf(Some("ompio")),
        Self::Netcdf,
        Self::Raw,
        Self::DeflateAlone,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Striate => "striate",
            Self::StriateNetcdf4 => "striate-netcdf4",
            Self::Layout(layout) => layout.contender(),
            Self::Hdf5(None) => "hdf5",
            Self::Hdf5(Some("romio")) => "hdf5-romio",
            Self::Hdf5(Some(_)) => "hdf5-ompio",
            Self::Netcdf4(None) => "netcdf4",
            Self::Netcdf4(Some("romio")) => "netcdf4-romio",
            Self::Netcdf4(Some(_)) => "netcdf4-ompio",
            Self::Pnetcdf(None) => "pnetcdf",
            Self::Pnetcdf(Some("romio")) => "pnetcdf-romio",
            Self::Pnetcdf(Some(_)) => "pnetcdf-ompio",
            Self::Netcdf => "netcdf",
            Self::Raw => "raw",
            Self::DeflateAlone => "deflate-alone",
        }
    }

    /// Whether it reads the files that another one makes, if classic ones are of `format`: PnetCDF
    /// knows the classic formats alone, parallel HDF5 and netCDF none of them.
    fn reads(self, other: Self, format: Format) -> bool {
        let is_hdf5 = other.file_format(format).is_hdf5();
        match self {
            Self::Pnetcdf(_) => !is_hdf5,
            Self::Hdf5(_) | Self::Netcdf4(_) => is_hdf5,
            Self::Striate | Self::StriateNetcdf4 | Self::Layout(_) | Self::Netcdf => true,
            Self::Raw | Self::DeflateAlone => false,
        }
    }

    /// The format of its files, if classic ones are of `format`.
    fn file_format(self, format: Format) -> Format {
        match self {
            Self::StriateNetcdf4 | Self::Hdf5(_) | Self::Netcdf4(_) => Format::Netcdf4,
            _ => format,
        }
    }

    /// Whether it is a parallel library of others.
    const fn is_parallel_peer(self) -> bool {
        matches!(self, Self::Pnetcdf(_) | Self::Hdf5(_) | Self::Netcdf4(_))
    }

    /// Whether it only works with data.
    pub const fn needs_data(self) -> bool {
        matches!(self, Self::Raw | Self::DeflateAlone)
    }

    /// The API of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.name() == name)
    }

    /// Why it cannot be used in this program, if it cannot.
    pub fn absence(self) -> Option<&'static str> {
        engine::absence(self)
    }

    /// Whether its ranks must be processes of an MPI job.
    pub const fn needs_job(self) -> bool {
        self.is_parallel_peer()
    }

    /// The words that the library has for itself, if it is another's.
    pub fn version(self) -> Option<String> {
        engine::version(self)
    }

    /// The layout, if it is one.
    const fn layout(self) -> Option<Layout> {
        match self {
            Self::Layout(layout) => Some(layout),
            _ => None,
        }
    }

    /// Whether its files are datasets.
    const fn makes_datasets(self) -> bool {
        !self.needs_data()
    }
}

/// The name of a hint, and its value.
pub type Hint = (String, String);

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct ArrayOptions {
    /// The contenders.
    pub contenders: Vec<ArrayApi>,
    /// Repetitions of everything.
    pub repeat: usize,
    /// The format of the files.
    pub format: Format,
    /// Whether a write ends when its data is durable.
    pub fsync: bool,
    /// Whether everything is verified.
    pub verify: bool,
    /// Whether calls are begun and waited for together; otherwise each is done when it returns.
    /// `None` leaves it to the workload.
    pub nonblocking: Option<bool>,
    /// Whether calls are collective.
    pub mode: CallMode,
    /// The library that makes the files, once for all repetitions: the contenders only open and
    /// read them. `None` lets each make its own.
    pub made_by: Option<ArrayApi>,
    /// Where the files are made: a directory, or a URL on I/O servers.
    pub directory: PathBuf,
    /// What kind of file system the files are on, for reports.
    pub store: Option<String>,
    /// Hints for all libraries that take some.
    pub hints: Vec<Hint>,
    /// What contenders that are layouts use: servers, with the files in their `directory`.
    pub targets: Option<Targets>,
    /// What ratios are compared with.
    pub goals: ArrayGoals,
}

/// Whether a hint can be given to datasets: unknown ones can.
pub fn check_hint(name: &str, value: &str) -> Result<(), FileError> {
    striate_array::Options::default().set(name, value)
}

/// Where a benchmark is.
#[derive(Clone, Copy, Debug)]
pub struct ArrayProgress {
    /// Measurements done.
    pub done: usize,
    /// Measurements in all.
    pub total: usize,
    /// The repetition, from 0 on.
    pub repetition: usize,
    /// The contender.
    pub contender: ArrayApi,
    /// What it does.
    pub op: ArrayOp,
}

/// Why a benchmark ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArrayBenchError {
    /// The ranks cannot reach each other.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The memory cannot be described.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// The sizes are too large.
    #[error("the ranks would have more elements than can be counted")]
    TooLarge,
    /// The workload is for another number of ranks.
    #[error("the workload is for {workload} ranks, but there are {ranks}")]
    Ranks {
        /// Ranks of the workload.
        workload: u64,
        /// Ranks there are.
        ranks: u64,
    },
    /// A file could not be removed.
    #[error(transparent)]
    File(#[from] IoBenchError),
    /// A library failed.
    #[error("{contender} cannot {attempted} {}: {source}", .path.display())]
    Engine {
        /// Whose.
        contender: &'static str,
        /// What it tried.
        attempted: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: Box<ArrayEngineError>,
    },
    /// What was read is not what was written.
    #[error("{}", described(.reader, .writer, .mismatch))]
    Wrong {
        /// The library that read it.
        reader: &'static str,
        /// The library that wrote it.
        writer: &'static str,
        /// The first wrong element.
        mismatch: ElementMismatch,
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

impl RankError for ArrayBenchError {
    fn is_echo(&self) -> bool {
        matches!(self, Self::Engine { source, .. } if source.is_echo())
    }

    fn of_rank(rank: u64, reason: String) -> Self {
        Self::Rank { rank, reason }
    }
}

fn described(reader: &str, writer: &str, mismatch: &ElementMismatch) -> String {
    let ElementMismatch { variable, index, found, expected } = mismatch;
    match variable {
        Some(variable) => format!(
            "{reader} read {found} instead of {expected} as element {index} of '{variable}', which \
             {writer} wrote"
        ),
        None => format!(
            "{reader} left {found} instead of {expected} at byte {index} of memory that is not to be \
             touched"
        ),
    }
}
