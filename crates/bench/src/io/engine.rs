//! [`IoEngine`]: the trait of implementations that carry out the calls of a plan, with one file per
//! engine.
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

use super::plan::{Call, IoPlan};
use super::socket::Sockets;
use super::{Contender, IoApi, IoOp};

/// Why an engine could not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IoEngineError {
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

impl IoEngineError {
    /// Whether this only says that another rank failed.
    pub(super) const fn is_echo(&self) -> bool {
        matches!(self, Self::File(FileError::Rank { .. }))
    }
}

/// What an engine reports about its calls, if it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineReport {
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
pub(super) trait IoEngine {
    /// Opens the file and sets the plan's view.
    fn open(&mut self, path: &Path, op: IoOp, plan: &IoPlan) -> Result<(), IoEngineError>;

    /// Writes one call.
    fn write(&mut self, plan: &IoPlan, call: &Call, buffer: &[u8]) -> Result<(), IoEngineError>;

    /// Reads one call; less than asked for is an error.
    fn read(&mut self, plan: &IoPlan, call: &Call, buffer: &mut [u8]) -> Result<(), IoEngineError>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), IoEngineError>;

    /// Closes the file.
    fn close(&mut self) -> Result<Option<EngineReport>, IoEngineError>;
}

/// The engine of a contender. `comm` holds the ranks that share a file.
pub(super) fn engine(
    contender: &Contender,
    comm: &Arc<dyn Comm>,
    hints: &Hints,
    collective: bool,
    sockets: Option<&Sockets>,
) -> Result<Box<dyn IoEngine>, IoEngineError> {
    match contender.api {
        IoApi::Striate => {
            let mut hints = hints.clone();
            hints.method = contender.method.unwrap_or_default();
            if let Some(domains) = contender.domains {
                hints.domains = domains;
            }
            Ok(Box::new(striate::StriateEngine::new(comm, hints, collective)))
        }
        IoApi::Posix => Ok(Box::new(posix::PosixEngine::default())),
        IoApi::Socket => {
            let sockets = sockets.ok_or(IoEngineError::Absent)?.clone();
            Ok(Box::new(socket::SocketEngine::new(sockets)))
        }
        #[cfg(feature = "mpi")]
        IoApi::MpiIo(component) => Ok(Box::new(mpiio::MpiIoEngine::new(component, collective))),
        #[cfg(not(feature = "mpi"))]
        IoApi::MpiIo(_) => Err(IoEngineError::Absent),
    }
}

/// An error unless a read got everything.
fn whole(got: u64, wanted: u64) -> Result<(), IoEngineError> {
    if got == wanted { Ok(()) } else { Err(IoEngineError::Short { got, wanted }) }
}

/// The error of a call on an engine that was not opened.
fn not_open() -> IoEngineError {
    io::Error::new(io::ErrorKind::NotConnected, "the file is not open").into()
}
