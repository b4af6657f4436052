//! [`CommError`]: what can go wrong between ranks.

/// Why a call on a communicator failed.
///
/// Ranks are those of the communicator on which the call was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// A rank ended, failed or panicked while this one depended on it.
    #[error("rank {rank} failed: {reason}")]
    RankFailed {
        /// The rank at fault.
        rank: usize,
        /// Why it failed.
        reason: String,
    },

    /// A node cannot be reached any more: its link is cut, or it is down.
    #[error("node {node} is lost: it cannot be reached any more")]
    NodeLost {
        /// Its name.
        node: String,
    },

    /// A rank that does not exist.
    #[error("there is no rank {rank}: the communicator has {size}")]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// Number of ranks.
        size: usize,
    },

    /// A message was longer than its receive allowed.
    #[error("a message from rank {from} has {len} bytes, but may have {capacity} only")]
    Truncated {
        /// The sender.
        from: usize,
        /// What the receive allowed.
        capacity: usize,
        /// Length of the message.
        len: usize,
    },

    /// An all-to-all exchange with too few or too many parts.
    #[error("rank {rank} gave {parts} parts to exchange among {size} ranks")]
    Parts {
        /// The rank at fault.
        rank: usize,
        /// Number of its parts.
        parts: usize,
        /// Number of ranks.
        size: usize,
    },

    /// The ranks did not make the same collective call.
    #[error("ranks disagree in {call}: {detail}")]
    Mismatch {
        /// The call that one of them made.
        call: &'static str,
        /// In what they differ.
        detail: String,
    },

    /// A request was given to a communicator of another kind than the one that made it.
    #[error("the request belongs to another kind of communicator")]
    ForeignRequest,

    /// The call was cancelled before it was complete, because its file or queue was dropped.
    #[error("the call was cancelled")]
    Cancelled,

    /// There was nothing to wait for.
    #[error("wait_any was called without requests")]
    NoRequests,

    /// A tag is larger than the transport can send.
    #[error("tag {tag} is larger than {max}, the largest this transport can send")]
    Tag {
        /// The tag.
        tag: u32,
        /// The largest possible.
        max: u32,
    },

    /// There was no memory for a message.
    #[error("no memory for a message of {len} bytes")]
    Memory {
        /// Length of the message.
        len: usize,
    },

    /// A variable of the environment has an invalid value.
    #[error("{variable} is {value:?}, but should be {expected}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is expected.
        expected: &'static str,
    },

    /// A call of the MPI library failed.
    #[error("{call} failed: {message}")]
    Mpi {
        /// The MPI function.
        call: &'static str,
        /// Its result.
        code: i32,
        /// The library's message for it.
        message: String,
    },
}

/// Checks that `rank` exists.
pub(crate) fn check_rank(rank: usize, size: usize) -> Result<(), CommError> {
    if rank < size { Ok(()) } else { Err(CommError::NoSuchRank { rank, size }) }
}

/// Checks that a message is as short as its receive demands.
pub(crate) fn check_length(
    from: usize,
    capacity: usize,
    message: Vec<u8>,
) -> Result<Vec<u8>, CommError> {
    let len = message.len();
    if len <= capacity { Ok(message) } else { Err(CommError::Truncated { from, capacity, len }) }
}
