//! Collective steps of a benchmark: the time of the slowest rank, and errors that all ranks share.

use std::time::{Duration, Instant};

use striate_comm::{Comm, CommError, CommExt, Reduction};

/// What `work` returns, and the time of the slowest rank from one barrier to the next. Collective.
pub(crate) fn slowest<T>(
    comm: &dyn Comm,
    work: impl FnOnce() -> T,
) -> Result<(T, Duration), CommError> {
    comm.barrier()?;
    let start = Instant::now();
    let done = work();
    comm.barrier()?;
    let nanoseconds = start.elapsed().as_nanos() as u64;
    let slowest = comm.reduce_u64(Reduction::Max, nanoseconds)?;
    Ok((done, Duration::from_nanos(slowest)))
}

/// An error of a benchmark that one rank can return for another.
pub(crate) trait RankError: std::error::Error + From<CommError> {
    /// Whether it only says that another rank failed.
    fn is_echo(&self) -> bool;

    /// The error of every rank after `rank` failed for `reason`.
    fn of_rank(rank: u64, reason: String) -> Self;
}

/// Makes an error of one rank an error of all: that of the first rank with an error of its own.
/// Collective.
pub(crate) fn agree<T, E: RankError>(comm: &dyn Comm, local: Result<T, E>) -> Result<T, E> {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    // Ranks that only report the error of another come after all that have their own.
    let mine = match &local {
        Ok(_) => u64::MAX,
        Err(error) if error.is_echo() => ranks + rank,
        Err(_) => rank,
    };
    let first = comm.reduce_u64(Reduction::Min, mine)?;
    let mut reason = match local {
        Ok(value) if first == u64::MAX => return Ok(value),
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().into_bytes(),
    };
    let rank = first % ranks;
    comm.broadcast(rank as usize, &mut reason)?;
    Err(E::of_rank(rank, String::from_utf8_lossy(&reason).into_owned()))
}
