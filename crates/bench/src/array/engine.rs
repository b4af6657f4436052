//! [`ArrayEngine`]: the trait of libraries that carry out a plan, with one file per library.

#[cfg(any(netcdf, parallel_hdf5, parallel_netcdf, pnetcdf))]
mod c_library;
mod deflate;
mod netcdf;
mod parallel;
mod pnetcdf;
mod raw;
#[cfg(any(netcdf, parallel_hdf5, parallel_netcdf))]
mod shared_library;
mod striate;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_array::ArrayError;
use striate_comm::{Comm, CommError};
use striate_file::Stats;
use thiserror::Error;

use self::parallel::ParallelPeer;
use super::memory::Memory;
use super::plan::ArrayPlan;
use super::{ArrayApi, ArrayOptions};

/// Why a library could not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArrayEngineError {
    /// Our dataset failed.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The system refused.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The ranks cannot reach each other.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A peer failed, in its own words.
    #[error("{call}: {message} (code {code})")]
    Peer {
        /// Its function.
        call: &'static str,
        /// What that returned.
        code: i32,
        /// What it means.
        message: String,
    },
    /// A path, name or hint that C cannot hold.
    #[error("{0:?} contains a zero byte")]
    ZeroByte(String),
    /// The MPI has no such implementation of MPI-IO.
    #[error("this MPI has no {0}")]
    NoComponent(&'static str),
    /// What was opened is not what was made.
    #[error("the file's attributes differ from the definitions: {0}")]
    Differs(String),
    /// The library is not in this program, or cannot be used.
    #[error("it is not there: {0}")]
    Absent(&'static str),
}

impl ArrayEngineError {
    /// Whether this only says that another rank failed.
    pub(super) const fn is_echo(&self) -> bool {
        matches!(self, Self::Array(ArrayError::Rank { .. }))
    }
}

/// One library, on one rank.
///
/// # Contract
///
/// All functions are collective, and a file is known by its number in the plan. Memory is the same
/// after a write as before it; in between, libraries may turn its bytes around.
pub(super) trait ArrayEngine {
    /// Makes a new file, defines everything, and ends define mode.
    fn create(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError>;

    /// Opens a file for reading, and looks for the variables that calls use, or else for the last.
    fn open(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError>;

    /// What the file says about itself is what was defined. Not timed.
    fn inspect(&mut self, file: usize) -> Result<(), ArrayEngineError>;

    /// Writes one step.
    fn write(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError>;

    /// Reads one step.
    fn read(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), ArrayEngineError>;

    /// Closes the file; says what this rank's calls cost, if that is known.
    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError>;
}

/// What the calls of a rank cost.
#[derive(Clone, Debug, Default)]
pub(super) struct RankCost {
    /// At its files.
    pub(super) stats: Stats,
    /// Partitions of the dataset; 0 if it is not divided.
    pub(super) partitions: u64,
    /// Bytes that went from rank to rank for the sake of partitions.
    pub(super) exchanged_bytes: u64,
    /// Of each data call on a divided dataset: how long bytes were packed, sent and received, and
    /// other ranks were waited for.
    pub(super) exchanges: Vec<Duration>,
}

impl RankCost {
    /// Both together, of two files.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.exchanges.extend(other.exchanges);
        Self {
            stats: self.stats + other.stats,
            partitions: self.partitions.max(other.partitions),
            exchanged_bytes: self.exchanged_bytes + other.exchanged_bytes,
            exchanges: self.exchanges,
        }
    }
}

/// What every engine is made from.
#[derive(Clone, Debug)]
pub(super) struct EngineContext<'b> {
    pub(super) comm: Arc<dyn Comm>,
    /// This rank's.
    pub(super) plan: &'b ArrayPlan,
    /// Of all ranks, on rank 0 if an engine there makes the calls of all.
    #[cfg_attr(not(netcdf), expect(dead_code, reason = "only the serial library needs them"))]
    pub(super) plans: &'b [ArrayPlan],
    pub(super) options: &'b ArrayOptions,
    pub(super) nonblocking: bool,
    /// Along which dimensions variables are divided into partitions, as a hint says it.
    pub(super) divided: &'static str,
}

/// The engine of a contender.
pub(super) fn engine<'b>(
    api: ArrayApi,
    context: &EngineContext<'b>,
) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
    match api {
        ArrayApi::Striate => Ok(Box::new(striate::DatasetEngine::new(context.clone(), None)?)),
        ArrayApi::StriateNetcdf4 => Ok(Box::new(striate::DatasetEngine::netcdf4(context.clone())?)),
        ArrayApi::Layout(layout) => {
            Ok(Box::new(striate::DatasetEngine::new(context.clone(), Some(layout))?))
        }
        ArrayApi::Pnetcdf(component) => pnetcdf::engine(component, context),
        ArrayApi::Hdf5(component) => ParallelPeer::Hdf5.engine(component, context),
        ArrayApi::Netcdf4(component) => ParallelPeer::Netcdf.engine(component, context),
        ArrayApi::Netcdf => netcdf::engine(context),
        ArrayApi::DeflateAlone => Ok(Box::new(deflate::DeflateEngine::new(context.clone())?)),
        ArrayApi::Raw => Ok(Box::new(raw::RawEngine::new(context.clone()))),
    }
}

/// Why an API cannot be used in this program, if it cannot.
pub(super) fn absence(api: ArrayApi) -> Option<&'static str> {
    match api {
        ArrayApi::Striate
        | ArrayApi::StriateNetcdf4
        | ArrayApi::Layout(_)
        | ArrayApi::Raw
        | ArrayApi::DeflateAlone => None,
        ArrayApi::Pnetcdf(_) => pnetcdf::ABSENCE,
        ArrayApi::Hdf5(_) => ParallelPeer::Hdf5.absence(),
        ArrayApi::Netcdf4(_) => ParallelPeer::Netcdf.absence(),
        ArrayApi::Netcdf => netcdf::ABSENCE,
    }
}

/// The words that a library has for itself, if it exists.
pub(super) fn version(api: ArrayApi) -> Option<String> {
    match api {
        ArrayApi::Striate
        | ArrayApi::StriateNetcdf4
        | ArrayApi::Layout(_)
        | ArrayApi::Raw
        | ArrayApi::DeflateAlone => None,
        ArrayApi::Hdf5(_) => ParallelPeer::Hdf5.version(),
        ArrayApi::Netcdf4(_) => ParallelPeer::Netcdf.version(),
        ArrayApi::Pnetcdf(_) => pnetcdf::VERSION.map(|version| version()),
        ArrayApi::Netcdf => netcdf::VERSION.map(|version| version()),
    }
}

/// The error of a call on an engine that has no file.
fn not_open() -> ArrayEngineError {
    io::Error::new(io::ErrorKind::NotConnected, "the file is not open").into()
}
