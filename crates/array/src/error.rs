//! [`ArrayError`].

use striate_comm::CommError;
use striate_datatype::{PackError, TypeError};
use striate_file::FileError;
use thiserror::Error;

use crate::format::{DecodeError, Format, LimitError, NameError, Type};
use crate::value::Kind;

/// Why a dataset could not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The ranks cannot reach each other.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The file is no netCDF classic file, or a damaged one.
    #[error("{file} is not a netCDF classic file: {source}")]
    Header {
        /// Which file.
        file: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// The file's writer ended before it was closed or synced.
    #[error("{file} is unfinished: its writer ended before it had closed or synced it")]
    Unfinished {
        /// Which file.
        file: String,
    },
    /// The format cannot hold it.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A name cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There is one of that name already.
    #[error("there is a {what} '{name}' already")]
    Exists {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is none of that name, or the id is of another dataset.
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
    /// An argument cannot be used.
    #[error("{call} of variable '{variable}': {reason}")]
    Access {
        /// Which call.
        call: &'static str,
        /// Which variable.
        variable: String,
        /// Why not.
        reason: String,
    },
    /// Text is no number.
    #[error("variable '{variable}' holds {external}, which does not convert to or from {memory:?}")]
    Kind {
        /// Which variable.
        variable: String,
        /// What it holds.
        external: Type,
        /// What is in memory.
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
    /// A value was out of range. All others have been converted and moved.
    #[error(
        "a value of variable '{variable}' is out of the range of its type; the others were moved"
    )]
    Range {
        /// Which variable.
        variable: String,
    },
    /// A definition cannot be made.
    #[error("{what}: {reason}")]
    Definition {
        /// What was to be defined.
        what: String,
        /// Why not.
        reason: String,
    },
    /// A partition is not as the dataset needs it.
    #[error("partition {file}: {reason}")]
    Partition {
        /// Which file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A rank failed.
    #[error("rank {rank}: {reason}")]
    Rank {
        /// Which.
        rank: usize,
        /// Its error.
        reason: String,
    },
    /// A description could not be made.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A description and its memory do not fit.
    #[error(transparent)]
    Memory(#[from] PackError),
}
