//! [`run`]: a function carried out by every rank, as threads or as processes of an MPI job.
//!
//! The choice is made when the program starts, by the variables that MPI's launchers set, so that
//! one binary serves for both. A program that was built without MPI and is started by a launcher is
//! refused: each of its processes would take itself for the whole job and write the same files.

use std::fmt::Display;
use std::sync::Arc;

use striate_comm::{Comm, CommError, Threads};

/// Runs `body` as every rank, and returns what the ranks of this process returned, in order of
/// rank.
///
/// Under `mpiexec`, with the feature `mpi`, this process is one rank of the job. Otherwise the
/// ranks are `threads` threads of this process. If a rank fails, the error is that of the rank that
/// failed first; [`Threads::try_run`] and [`striate_comm`]'s `mpi::run` say what happens to the
/// other ranks.
///
/// ```
/// use striate::prelude::*;
///
/// let sums = striate::run(4, |comm| comm.reduce_u64(Reduction::Sum, comm.rank() as u64))?;
/// assert_eq!(sums, [6, 6, 6, 6]);
/// # Ok::<(), CommError>(())
/// ```
pub fn run<T, E, F>(threads: usize, body: F) -> Result<Vec<T>, E>
where
    T: Send,
    E: From<CommError> + Display + Send,
    F: Fn(Arc<dyn Comm>) -> Result<T, E> + Sync,
{
    #[cfg(feature = "mpi")]
    if striate_comm::mpi::launched() {
        return striate_comm::mpi::run(body).map(|value| vec![value]);
    }
    #[cfg(not(feature = "mpi"))]
    refuse_launcher(|name| std::env::var(name).ok())?;
    Threads::new(threads).try_run(body)
}

/// Variables in which MPI launchers pass a process the size of its job.
#[cfg(any(test, not(feature = "mpi")))]
const JOB_SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// An error if a launcher started several processes, to which this program could not talk.
#[cfg(any(test, not(feature = "mpi")))]
fn refuse_launcher(variable: impl Fn(&str) -> Option<String>) -> Result<(), CommError> {
    for name in JOB_SIZES {
        if let Some(value) = variable(name).filter(|value| value != "1") {
            let expected = "unset, as the program was built without the feature `mpi`";
            return Err(CommError::Environment { variable: name, value, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use striate_comm::CommError;

    use super::{refuse_launcher, run};

    #[test]
    fn threads_are_the_ranks_without_a_launcher() {
        let ranks = run(3, |comm| Ok::<_, CommError>((comm.rank(), comm.size())));
        assert_eq!(ranks, Ok(vec![(0, 3), (1, 3), (2, 3)]));
    }

    #[test]
    fn the_error_of_a_rank_is_the_error_of_the_run() {
        let failed = run(2, |comm| match comm.rank() {
            1 => Err(CommError::Cancelled),
            _ => comm.barrier(),
        });
        assert_eq!(failed, Err(CommError::Cancelled));
    }

    #[test]
    fn jobs_of_a_launcher_need_mpi() {
        assert_eq!(refuse_launcher(|_| None), Ok(()));
        assert_eq!(refuse_launcher(|_| Some("1".into())), Ok(()));
        let job = |name: &str| (name == "PMI_SIZE").then(|| "4".to_owned());
        let refused = refuse_launcher(job).unwrap_err().to_string();
        assert!(refused.starts_with("PMI_SIZE is \"4\", but should be unset"), "{refused}");
    }
}
