//! Ranks as processes of an MPI job, through rsmpi: [`run`] runs a rank, and [`launched`] says
//! whether this process is one.
//!
//! All messages go over communicators of our own, so they are never matched with those of the
//! application. MPI is initialised for calls from several threads if the library can do so; a
//! communicator is still used by one thread at a time. If the application initialised MPI with
//! less, only the threads that it promised may use communicators. MPI is finalised when the last
//! communicator is dropped, which should happen in the thread that made the first; it is left alone
//! if the application initialised it.
//!
//! # Ranks that end
//!
//! MPI cannot tell that a process has ended. If one dies of a signal, the launcher ends the job. If
//! the body given to [`run`] panics, or fails while other ranks go on, [`run`] ends the job with a
//! message that names the rank. A rank that returns early *without* an error, while others wait for
//! it in a collective, leaves them waiting, as in every MPI program. [`Comm::health`] never reports
//! an error of a rank.
//!
//! A node whose link is cut or whose power failed is noticed ([`watch`]): waits end with an error
//! that names it when it was silent for `STRIATE_PATIENCE`, and [`run`] ends the job.
//!
//! # Simulated nodes
//!
//! `STRIATE_RANKS_PER_NODE=k` makes every `k` consecutive ranks a node of their own, within the
//! real ones.

mod bytes;
mod collective;
mod comm;
mod memory;
mod number;
mod operation;
mod request;
mod session;
mod watch;

use std::env;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::mpi::ffi::{MPI_Comm, RSMPI_COMM_WORLD};

use self::comm::MpiComm;
pub use self::session::wait_for_reader;
use self::session::{RawComm, Session, tasks};
use crate::comm::{Comm, Reduction};
use crate::error::CommError;
use crate::threads::{alone_among, panic_message};

/// Whether this process was started by an MPI launcher.
///
/// A program can so use the ranks of a job, or else threads.
pub fn launched() -> bool {
    ["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"]
        .iter()
        .any(|variable| env::var_os(variable).is_some())
}

/// The MPI library's description of itself and its version.
pub fn library_version() -> String {
    ::mpi::environment::library_version().unwrap_or_else(|_| "unknown".to_owned())
}

/// All ranks of the job; initialises MPI if need be. Collective.
///
/// MPI can be initialised once in the life of a process, so keep what this returns. Prefer [`run`]:
/// without it, a panic of one rank leaves the other ranks waiting.
pub fn world() -> Result<Arc<dyn Comm>, CommError> {
    let session = Session::start()?;
    // SAFETY: the world exists while MPI is initialised, which the session sees to.
    unsafe { MpiComm::duplicate(&session, RSMPI_COMM_WORLD) }
        .map(|comm| Arc::new(comm) as Arc<dyn Comm>)
}

/// The ranks of a communicator of the application, which has initialised MPI. Collective.
///
/// # Safety
///
/// `raw` is an intracommunicator that exists, and all its ranks make this call.
pub unsafe fn from_raw(raw: MPI_Comm) -> Result<Arc<dyn Comm>, CommError> {
    let session = Session::start()?;
    if RawComm::lent(&session, raw).size()? == 1 {
        // A single rank needs no communicator of MPI, of which there are few cheap ones.
        return Ok(alone_among(tasks()));
    }
    // SAFETY: the caller's promise.
    unsafe { MpiComm::duplicate(&session, raw) }.map(|comm| Arc::new(comm) as Arc<dyn Comm>)
}

/// Replaces each value by the maximum over the ranks of a communicator of the application; for
/// ranks that have no communicator of their own yet. Collective.
///
/// # Safety
///
/// As of [`from_raw`].
pub unsafe fn largest(raw: MPI_Comm, values: &mut [i64]) -> Result<(), CommError> {
    let comm = RawComm::lent(&Session::start()?, raw);
    number::allreduce_i64(&comm, Reduction::Max, values)
}

/// Runs `body` as this rank of the job. Collective.
///
/// All ranks end at the same time. If `body` panics on one of them, the job is ended at once; if it
/// fails, the job is ended unless the other ranks finish, too, within a few seconds. The message
/// that names the rank is then printed on standard error.
pub fn run<T, E>(body: impl FnOnce(Arc<dyn Comm>) -> Result<T, E>) -> Result<T, E>
where
    E: From<CommError> + Display,
{
    let session = Session::start()?;
    let comm = world()?;
    let rank = comm.rank();
    let exit = session.exit()?;
    match catch_unwind(AssertUnwindSafe(|| body(comm))) {
        Ok(result) => {
            let failure = result.as_ref().err().map(ToString::to_string);
            session.leave(&exit, rank, failure.as_deref())?;
            result
        }
        Err(panic) => session.abort(rank, &format!("panicked: {}", panic_message(&*panic))),
    }
}
