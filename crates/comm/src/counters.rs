//! [`Counters`]: numbers that all ranks share, and that each can move on by itself.
//!
//! The one thing that can be done is to add; to read is to add 0. So it can be had everywhere: as an atomic
//! between threads or in the memory of a node, and as one operation on a window of MPI between nodes.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::CommError;
#[cfg(feature = "mpi")]
use crate::memory::NodeMemory;

/// Numbers that all ranks of a communicator share, from
/// [`Comm::counters`](crate::Comm::counters); all begin at 0.
///
/// # Contract
///
/// * [`Counters::add`] is one step: of two ranks that add at the same time, one sees what the other has
///   added. No other rank has to do anything for it, though with MPI a rank that never enters the library
///   may delay it.
/// * What a rank did with a counter before it entered a collective call has happened for all who leave it.
/// * Dropping it is not collective and may leave something behind; [`Counters::free`] does not.
pub trait Counters: Debug + Send + Sync {
    /// Adds to a counter, and returns what it was before. Sums wrap.
    fn add(&self, counter: usize, n: u64) -> Result<u64, CommError>;

    /// Gives up what it needed. Collective.
    fn free(self: Box<Self>) -> Result<(), CommError> {
        Ok(())
    }
}

/// The error of a counter that does not exist.
pub(crate) fn check_counter(counter: usize, count: usize) -> Result<(), CommError> {
    if counter < count { Ok(()) } else { Err(CommError::NoSuchCounter { counter, count }) }
}

/// Counters of threads.
impl Counters for Arc<Vec<AtomicU64>> {
    fn add(&self, counter: usize, n: u64) -> Result<u64, CommError> {
        check_counter(counter, self.len())?;
        Ok(self[counter].fetch_add(n, Ordering::AcqRel))
    }
}

/// Counters of processes that share memory.
#[cfg(feature = "mpi")]
#[derive(Debug)]
pub(crate) struct OnNode {
    /// Zeroed when it was made, and used for nothing but these counters.
    pub(crate) memory: NodeMemory,
}

#[cfg(feature = "mpi")]
impl Counters for OnNode {
    #[expect(clippy::cast_ptr_alignment, reason = "the memory starts at a page")]
    fn add(&self, counter: usize, n: u64) -> Result<u64, CommError> {
        check_counter(counter, self.memory.len() / size_of::<u64>())?;
        // SAFETY: inside of the memory, as was just checked, which begins at a page; all ranks use it as
        // atomics only.
        let place = unsafe {
            AtomicU64::from_ptr(self.memory.as_ptr().as_ptr().cast::<u64>().add(counter))
        };
        Ok(place.fetch_add(n, Ordering::AcqRel))
    }
}
