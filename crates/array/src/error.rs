//! [`ArrayError`]: the errors of datasets.

use striate_comm::CommError;
use striate_datatype::{PackError, TypeError};
use striate_file::FileError;
use thiserror::Error;

use crate::format::{DecodeError, Format, LimitError, NameError, Type};
use crate::value::Kind;

/// Why an operation on a dataset failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// An operation on the file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Communication between ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The file is not a netCDF classic file, or is damaged.
    #[error("{file} is not a netCDF classic file: {source}")]
    Header {
        /// Which file.
        file: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// The file is an HDF5 file that cannot be read or written.
    #[error("{file}: {source}")]
    Hdf5 {
        /// Which file.
        file: String,
        /// What is wrong.
        source: Box<striate_hdf5::Error>,
    },
    /// The file's writer ended before it was closed or synced.
    #[error("{file} is unfinished: its writer ended before it had closed or synced it")]
    Unfinished {
        /// Which file.
        file: String,
    },
    /// A definition exceeds the limits of the format.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name exists already.
    #[error("there is a {what} '{name}' already")]
    Exists {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The name does not exist, or the id belongs to another dataset.
    #[error("there is no {what} '{name}'")]
    Unknown {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The definitions of ranks differ.
    #[error("rank {rank} defines something else than rank 0: {item}")]
    Differ {
        /// Which rank.
        rank: usize,
        /// In what.
        item: String,
    },
    /// An argument is wrong.
    #[error("{call} of variable '{variable}': {reason}")]
    Access {
        /// Which call.
        call: &'static str,
        /// Which variable.
        variable: String,
        /// Why not.
        reason: String,
    },
    /// Text and numbers do not convert to each other.
    #[error("variable '{variable}' holds {external}, which does not convert to or from {memory:?}")]
    Kind {
        /// Which variable.
        variable: String,
        /// Its external type.
        external: Type,
        /// The type in memory.
        memory: Kind,
    },
    /// The format does not have the type.
    #[error("{what} is of type {external}, which {format} does not have")]
    NoSuchType {
        /// Which variable or attribute.
        what: String,
        /// Its type.
        external: Type,
        /// The format.
        format: Format,
    },
    /// A value was out of range of its type (`NC_ERANGE`). All others were converted and
    /// transferred.
    #[error(
        "a value of variable '{variable}' is out of the range of its type; the others were moved"
    )]
    Range {
        /// Which variable.
        variable: String,
    },
    /// A definition is not possible.
    #[error("{what}: {reason}")]
    Definition {
        /// What was to be defined.
        what: String,
        /// Why not.
        reason: String,
    },
    /// A partition is missing, damaged or inconsistent with the dataset.
    #[error("partition {file}: {reason}")]
    Partition {
        /// Which file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another rank failed.
    #[error("rank {rank}: {reason}")]
    Rank {
        /// Which.
        rank: usize,
        /// Its error.
        reason: String,
    },
    /// A datatype could not be built.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// The memory is too small for its description.
    #[error(transparent)]
    Memory(#[from] PackError),
}
