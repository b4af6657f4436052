//! What carries out the calls of a plan: the trait [`Engine`], and one file per engine.
//!
//! All engines are given the same view, the same memory and the same calls, so that a comparison is
//! of engines and of nothing else.

#[cfg(feature = "mpi")]
mod mpiio;
mod posix;
mod socket;
mod striate;

use std::io;
use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_datatype::{PackError, TypeError};
use striate_file::{CallReport, FileError, Hints, Stats};
use thiserror::Error;

use super::plan::{Call, Plan};
use super::socket::Sockets;
use super::{Api, Contender, Op};

/// Why an engine could not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Our file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refused.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A description could not be used.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A description and its memory do not fit.
    #[error(transparent)]
    Memory(#[from] PackError),
    /// The peer failed.
    #[error(transparent)]
    Peer(Box<dyn std::error::Error + Send + Sync>),
    /// A read ended before it had everything.
    #[error("got {got} of {wanted} bytes")]
    Short {
        /// What it got.
        got: u64,
        /// What it should get.
        wanted: u64,
    },
    /// The engine is not in this program, or has no servers.
    #[error("it is not there: the program was built without it, or there are no servers")]
    Absent,
}

impl EngineError {
    /// Whether this only says that another rank failed.
    pub(super) const fn is_echo(&self) -> bool {
        matches!(self, Self::File(FileError::Rank { .. }))
    }
}

/// What an engine tells of its calls, if it knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// What the calls of this rank cost.
    pub(super) stats: Stats,
    /// How the last one was carried out.
    pub(super) last: Option<CallReport>,
}

/// One side of a comparison, on one rank.
///
/// # Contract
///
/// `open` and `close` are collective, and so are calls if the engine was made so. The file is there
/// and empty when it is opened for writing. After an error the engine may be opened again.
pub(super) trait Engine {
    /// Opens the file and sets the plan's view.
    fn open(&mut self, path: &Path, op: Op, plan: &Plan) -> Result<(), EngineError>;

    /// Writes one call.
    fn write(&mut self, plan: &Plan, call: &Call, buffer: &[u8]) -> Result<(), EngineError>;

    /// Reads one call; less than asked for is an error.
    fn read(&mut self, plan: &Plan, call: &Call, buffer: &mut [u8]) -> Result<(), EngineError>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), EngineError>;

    /// Closes the file.
    fn close(&mut self) -> Result<Option<Report>, EngineError>;
}

/// The engine of a contender. `comm` holds the ranks that share a file.
pub(super) fn engine(
    contender: &Contender,
    comm: &Arc<dyn Comm>,
    hints: &Hints,
    collective: bool,
    sockets: Option<&Sockets>,
) -> Result<Box<dyn Engine>, EngineError> {
    match contender.api {
        Api::Striate => {
            let mut hints = hints.clone();
            hints.method = contender.method.unwrap_or_default();
            if let Some(domains) = contender.domains {
                hints.domains = domains;
            }
            Ok(Box::new(striate::Striate::new(comm, hints, collective)))
        }
        Api::Posix => Ok(Box::new(posix::Posix::default())),
        Api::Socket => {
            let sockets = sockets.ok_or(EngineError::Absent)?.clone();
            Ok(Box::new(socket::Socket::new(sockets)))
        }
        #[cfg(feature = "mpi")]
        Api::MpiIo(component) => Ok(Box::new(mpiio::Peer::new(component, collective))),
        #[cfg(not(feature = "mpi"))]
        Api::MpiIo(_) => Err(EngineError::Absent),
    }
}

/// An error unless a read got everything.
fn whole(got: u64, wanted: u64) -> Result<(), EngineError> {
    if got == wanted { Ok(()) } else { Err(EngineError::Short { got, wanted }) }
}

/// The error of a call on an engine that was not opened.
fn not_open() -> EngineError {
    io::Error::new(io::ErrorKind::NotConnected, "the file is not open").into()
}
