//! The ranks of a command: those of the MPI job if there is one, threads otherwise.

use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, Threads};

use crate::CommandError;

/// Variables in which launchers give a process its rank.
const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// The rank that a launcher gave this process; 0 if there was none.
fn launched_rank() -> Option<u64> {
    RANK_VARIABLES.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Whether this process prints answers and errors: of the processes of a job, rank 0 does.
pub(crate) fn is_printing_rank() -> bool {
    launched_rank().is_none_or(|rank| rank == 0)
}

/// Waits a moment before this process fails without a message: launchers end a job when one of its
/// processes fails, and rank 0 may not have printed its message yet.
pub(crate) fn wait_for_printing_rank() {
    std::thread::sleep(Duration::from_secs(1));
}

/// Runs `body` as every rank: of the job, or `threads` of them. Returns what rank 0 found, in the
/// process that holds it.
pub(crate) fn run<T: Send>(
    threads: u64,
    body: impl Fn(&Arc<dyn Comm>) -> Result<T, CommandError> + Sync,
) -> Result<Option<T>, CommandError> {
    if is_job() {
        return run_job(body);
    }
    let ranks = usize::try_from(threads).unwrap_or(usize::MAX);
    let mut found = Threads::new(ranks).try_run(|comm| body(&comm))?;
    Ok((!found.is_empty()).then(|| found.swap_remove(0)))
}

/// Whether the ranks are the processes of a job.
#[cfg(feature = "mpi")]
pub(crate) fn is_job() -> bool {
    striate_comm::mpi::launched()
}

#[cfg(feature = "mpi")]
fn run_job<T>(
    body: impl Fn(&Arc<dyn Comm>) -> Result<T, CommandError>,
) -> Result<Option<T>, CommandError> {
    striate_comm::mpi::run(|comm| {
        let found = body(&comm)?;
        Ok((comm.rank() == 0).then_some(found))
    })
}

/// Whether the ranks are the processes of a job.
#[cfg(not(feature = "mpi"))]
pub(crate) fn is_job() -> bool {
    launched_rank().is_some()
}

#[cfg(not(feature = "mpi"))]
fn run_job<T>(
    _body: impl Fn(&Arc<dyn Comm>) -> Result<T, CommandError>,
) -> Result<Option<T>, CommandError> {
    Err(CommandError::usage(
        "this program was built without MPI, so its ranks are threads",
        "start it without mpiexec and give --ranks, or build it with --features mpi",
    ))
}
