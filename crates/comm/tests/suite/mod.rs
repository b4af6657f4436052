//! The conformance suite: what every communicator has to do, whatever its ranks are.
//!
//! Each check is a collective function; all ranks run the same list of them.

mod collectives;
mod memory;
mod messages;
mod random;

use std::sync::Arc;

use striate_comm::{Comm, CommError};

/// A check, run by all ranks together.
pub(crate) type Check = fn(&Arc<dyn Comm>) -> Result<(), CommError>;

/// All checks.
pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("nodes are numbered", collectives::nodes),
    ("barrier", collectives::barrier),
    ("broadcast", collectives::broadcast),
    ("gather", collectives::gather),
    ("allgather", collectives::allgather),
    ("alltoall", collectives::alltoall),
    ("allreduce of integers", collectives::allreduce_integers),
    ("allreduce of floating-point numbers", collectives::allreduce_floats),
    ("split", collectives::split),
    ("ranks that do not exist", collectives::no_such_rank),
    ("numbers", collectives::numbers),
    ("agreement", collectives::agreement),
    ("ring of messages", messages::ring),
    ("order of messages", messages::order),
    ("tags keep messages apart", messages::tags),
    ("communicators keep messages apart", messages::communicators),
    ("message to oneself", messages::to_oneself),
    ("wait_any", messages::wait_any),
    ("wait_any with nothing", messages::wait_any_with_nothing),
    ("truncation", messages::truncation),
    ("dropped receive", messages::dropped_receive),
    ("dropped receive of a long message", messages::dropped_receive_of_a_long_message),
    ("dropped send", messages::dropped_send),
    ("node memory", memory::handshake),
    ("node memory of other lengths", memory::lengths),
    ("node memory of a group", memory::group),
    ("random programs", random::programs),
];

/// Bytes that identify the rank that made them.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = random::Random::new(seed);
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}
