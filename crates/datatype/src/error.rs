//! [`TypeError`] and [`PackError`].

use thiserror::Error;

/// Why a datatype could not be built or used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TypeError {
    /// A size, displacement or extent left the range of 64-bit offsets.
    #[error("{what} does not fit in 64-bit offsets")]
    Overflow {
        /// The quantity that overflowed.
        what: &'static str,
    },
    /// Loops are nested deeper than [`crate::MAX_DEPTH`].
    #[error("loops nested deeper than {limit}")]
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// More loops than [`crate::MAX_NODES`].
    #[error("more than {limit} loops")]
    TooManyLoops {
        /// The limit.
        limit: u32,
    },
    /// A count or length is negative.
    #[error("{what} is negative: {value}")]
    Negative {
        /// The argument.
        what: &'static str,
        /// What was given.
        value: i64,
    },
    /// Array arguments of different lengths, or none at all.
    #[error("{constructor} needs the same number of dimensions everywhere: {detail}")]
    Dimensions {
        /// The constructor.
        constructor: &'static str,
        /// Which lengths differ.
        detail: String,
    },
    /// A subarray or distribution does not fit its array.
    #[error("{constructor}, dimension {dimension}: {detail}")]
    Dimension {
        /// The constructor.
        constructor: &'static str,
        /// The dimension at fault, counted from 0.
        dimension: usize,
        /// What is wrong with it.
        detail: String,
    },
    /// A rank outside of its process grid.
    #[error("rank {rank} is not in a process grid of {size}")]
    Rank {
        /// The rank.
        rank: u64,
        /// The number of processes in the grid.
        size: u64,
    },
    /// An operation that needs ascending offsets was asked of a type without them.
    #[error("the type is not monotonic: its bytes are not in ascending, disjoint order")]
    NotMonotonic,
    /// A search in the type reached its limit of steps.
    #[error("the type is too scattered: nothing was found in {steps} steps")]
    Scattered {
        /// Steps that were allowed.
        steps: u64,
    },
}

impl TypeError {
    pub(crate) const fn overflow(what: &'static str) -> Self {
        Self::Overflow { what }
    }
}

/// Why a pack or unpack was refused; nothing was copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PackError {
    /// The memory does not hold all the bytes the type describes.
    #[error(
        "the type reaches from byte {low} to {high} around its origin, \
         but memory has {before} bytes before it and {after} from it on"
    )]
    Memory {
        /// First byte the type touches, relative to the origin.
        low: i64,
        /// One past the last byte the type touches, relative to the origin.
        high: i64,
        /// Bytes of memory before the origin.
        before: u64,
        /// Bytes of memory from the origin on.
        after: u64,
    },
    /// A part of memory was given for a type whose bytes do not ascend.
    #[error("a part of memory suffices only for types whose bytes ascend")]
    NotAscending,
    /// The window is not inside the stream.
    #[error("window of {len} bytes at {start} is not inside a stream of {size} bytes")]
    Window {
        /// First byte of the window.
        start: u64,
        /// Its length.
        len: u64,
        /// Length of the stream.
        size: u64,
    },
}
