//! [`FilterError`]: which filter failed, and [`FilterFault`]: why.

use thiserror::Error;

/// A filter that could not be applied to the bytes of a chunk.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("filter {id} ({name}): {fault}")]
pub struct FilterError {
    /// Its number.
    pub id: u16,
    /// Its name: the registered one, else the one that the file gives it.
    pub name: String,
    /// What went wrong.
    pub fault: FilterFault,
}

/// Why a filter could not be applied.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum FilterFault {
    /// Nobody registered the number.
    #[error("not a registered filter; only the plug-in that wrote the chunk can decode it")]
    Unknown,
    /// A registered plug-in that has no decoder here.
    #[error("not decoded here; the plug-in is {plugin}")]
    Plugin {
        /// Who keeps it.
        plugin: &'static str,
    },
    /// A kind of this filter's data that has no decoder here.
    #[error("not decoded here: {0}")]
    Unsupported(&'static str),
    /// The filter is decoded, but not applied to new data.
    #[error("read only: data is not encoded with it here")]
    NoEncoder,
    /// Parameters that no writer sets.
    #[error("unusable parameters: {0}")]
    Parameters(&'static str),
    /// The stored bytes cannot be what the filter wrote.
    #[error("damaged data: {0}")]
    Damaged(&'static str),
    /// A checksum does not match.
    #[error("damaged data: the checksum is {stored:#010x}, that of the bytes is {computed:#010x}")]
    Checksum {
        /// The checksum behind the bytes.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The data is longer than the chunk allows.
    #[error("damaged data: more than {limit} bytes")]
    TooLong {
        /// The most bytes that there can be.
        limit: usize,
    },
    /// A chunk of another size came out.
    #[error("damaged data: {found} bytes instead of the chunk's {expected}")]
    Size {
        /// The size of the chunk.
        expected: usize,
        /// The size of what was decoded.
        found: usize,
    },
}
