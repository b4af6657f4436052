//! The time of ranks that do something together: that of the slowest.

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
