//! [`Comm`]: the trait of communicators, and its contract.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::CommError;
use crate::shm::NodeMemory;
use crate::task::Tasks;

/// How values of all ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum (integers wrap).
    Sum,
    /// Bits that are set on all ranks; for floating-point numbers: 1 if none is 0, else 0.
    And,
}

/// A number as a truth value: the smallest of several is 1 if none of them is 0.
pub(crate) fn truth(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { 1.0 }
}

/// A send or receive under way; give it to [`Comm::wait`] or [`Comm::wait_any`].
///
/// Dropping it abandons it: a send goes on by itself; a receive is cancelled if its message has not
/// arrived, and loses it otherwise.
#[derive(Debug)]
pub struct Request(pub(crate) Box<dyn crate::request::Pending>);

/// A communicator: a group of ranks that exchange messages and make collective calls.
///
/// # Contract
///
/// * Ranks are numbered from 0. Collective calls are made by all ranks in the same order. Errors
///   name ranks as the communicator numbers them on which the call was made.
/// * A rank that ends, fails or panics makes waiting calls of the other ranks fail with an error
///   that names it, as soon as the transport can know (threads: at once).
/// * Messages between two ranks with the same tag match receives in the order in which both were
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

    /// Splits the ranks into groups by `color`; inside of a group they are ordered by `key`, then
    /// by rank. `None` belongs to no group. Collective.
    fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Arc<dyn Comm>>, CommError>;

    /// Waits for all ranks.
    fn barrier(&self) -> Result<(), CommError>;

    /// Gives all ranks the bytes of `root`.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError>;

    /// Gives `root` the bytes of all ranks, in order of rank; the other ranks get an empty list.
    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Gives all ranks the bytes of all, in order of rank. Lengths may differ.
    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Sends `parts[i]` to rank `i`, and returns what each rank sent to this one.
    fn alltoall(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError>;

    /// Combines the values of all ranks, element by element. All ranks have the same number of
    /// values.
    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError>;

    /// Combines the values of all ranks, element by element.
    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError>;

    /// Combines the values of all ranks, element by element.
    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError>;

    /// Starts to send `message`.
    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError>;

    /// Starts to receive a message of at most `capacity` bytes.
    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError>;

    /// Waits for a request. A receive returns its message; a send returns its buffer, or an empty
    /// one if the transport has passed it on.
    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError>;

    /// Waits until one of the requests is complete, removes it (as [`Vec::remove`] does) and
    /// returns its index and what [`Comm::wait`] would return. There must be at least one. After an
    /// error of a rank the list may be unchanged.
    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError>;

    /// [`Comm::wait_any`] without waiting: `None` if no request is complete, or there is none. It
    /// lets the transport move messages on, so a loop that calls it often need not call anything
    /// else.
    fn test_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Vec<u8>)>, CommError>;

    /// Memory of `len` bytes, zeroed, that all ranks of this rank's node share; `None` on every
    /// rank of the communicator if one of them cannot get it. Collective over all ranks, with the
    /// same length.
    fn node_memory(&self, len: usize) -> Result<Option<NodeMemory>, CommError> {
        self.node_memory_with_spare(len, 0)
    }

    /// [`Comm::node_memory`] followed by `spare` bytes, which cost nothing before a rank calls
    /// [`NodeMemory::populate`].
    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError>;

    /// The tasks of this rank that are not complete, on all its communicators. Calls that wait let
    /// them run.
    fn tasks(&self) -> &Arc<Tasks>;

    /// An error if a rank is known to have failed or ended; for loops that wait on [`NodeMemory`].
    ///
    /// Since a rank that has ended counts, ranks that share such memory must not end before all
    /// have finished with it, as through a barrier: else the loop of another rank would fail
    /// because of a rank that is merely done.
    fn health(&self) -> Result<(), CommError>;
}
