//! The trait that every way to have ranks implements, and its contract.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::CommError;
use crate::memory::NodeMemory;
use crate::task::Tasks;

/// How values of all ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum (integers wrap).
    Sum,
    /// Bits that are set everywhere; for floating-point numbers: 1 if none is 0, else 0.
    And,
}

/// A number as a truth value: the smallest of several is 1 if none of them is 0.
pub(crate) fn truth(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { 1.0 }
}

/// A send or receive under way; give it to [`Comm::wait`] or [`Comm::wait_any`].
///
/// Dropping it gives it up: a send goes on by itself; a receive is taken back if its message has not
/// come, and loses it otherwise.
#[derive(Debug)]
pub struct Request(pub(crate) Box<dyn crate::request::Pending>);

/// A group of ranks that act together.
///
/// # Contract
///
/// * Ranks are numbered from 0. Collective calls are made by all ranks in the same order. Errors name
///   ranks as the communicator numbers them on which the call was made.
/// * A rank that ends, fails or panics makes waiting calls of the others fail with an error that
///   names it, as soon as the transport can know (threads: at once).
/// * Messages between two ranks with the same tag meet receives in the order in which both were
///   started. Sends do not wait for the receiver longer than the transport must.
/// * Lengths are limited by memory, not by 31 bits.
/// * One thread of a rank uses its communicator at a time.
pub trait Comm: Debug + Send + Sync {
    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// The node on which each rank runs, numbered from 0 in the order of their first rank.
    fn nodes(&self) -> &[usize];

    /// Splits the ranks into groups by `color`; inside of a group they are ordered by `key`, then by
    /// rank. `None` belongs to no group. Collective.
    fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Arc<dyn Comm>>, CommError>;

    /// Waits for all.
    fn barrier(&self) -> Result<(), CommError>;

    /// Gives every rank the bytes of `root`.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError>;

    /// Gives `root` the bytes of all, in order of rank; others get an empty list.
    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Gives every rank the bytes of all, in order of rank. Lengths may differ.
    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Sends `parts[i]` to rank `i`, and returns what each rank sent to this one.
    fn alltoall(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError>;

    /// Combines the values of all ranks, element by element. All have the same number of them.
    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError>;

    /// Combines the values of all ranks, element by element.
    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError>;

    /// Combines the values of all ranks, element by element.
    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError>;

    /// Starts to send `message`, which is handed over.
    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError>;

    /// Starts to receive a message of at most `capacity` bytes.
    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError>;

    /// Waits for a request. A receive gives its message; a send gives its buffer back, or an empty
    /// one if it was handed over.
    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError>;

    /// Waits until one of the requests is complete, removes it (as [`Vec::remove`] does) and returns
    /// its index and what [`Comm::wait`] would. There is at least one. After an error of a rank the
    /// list may be as it was.
    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError>;

    /// Memory of `len` bytes, zeroed, that all ranks of this rank's node share; `None` on every
    /// rank of the communicator if it cannot be had on one of them. Collective over all ranks,
    /// which ask for the same length.
    fn node_memory(&self, len: usize) -> Result<Option<NodeMemory>, CommError> {
        self.node_memory_with_spare(len, 0)
    }

    /// [`Comm::node_memory`] with `spare` bytes behind, which cost nothing before a rank asks for them by
    /// [`NodeMemory::populate`].
    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError>;

    /// What this rank has begun and not finished, on all its communicators. Calls that wait let it get on.
    fn tasks(&self) -> &Arc<Tasks>;

    /// An error if a rank is known to have failed or ended; for loops that wait on [`NodeMemory`].
    ///
    /// Since an ended rank counts, ranks that use such memory together leave together, as through a
    /// barrier: nobody may be left in such a loop by a rank that is merely done.
    fn health(&self) -> Result<(), CommError>;
}
