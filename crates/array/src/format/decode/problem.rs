//! [`DecodeError`] and [`Problem`]: what is wrong in a header, and at which offset.

use thiserror::Error;

use crate::format::{Format, NameError, Type};

/// Why bytes are not a valid header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at byte {at}: {problem}")]
pub struct DecodeError {
    /// Offset in the file.
    pub at: u64,
    /// The problem.
    pub problem: Problem,
}

/// A problem in a header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end before the header does. Either the file is truncated, or the caller has read
    /// too few bytes and should try again with at least this many.
    #[error("the header has {needed} bytes at least, more than there are")]
    Truncated {
        /// Minimum length of the header.
        needed: u64,
    },
    /// The magic number is not known.
    #[error("it begins with {found:02x?}, not with \"CDF\"")]
    Magic {
        /// The first bytes.
        found: [u8; 4],
    },
    /// It is an HDF5 file.
    #[error("it is an HDF5 file, as those of netCDF-4 are, and of none of the classic formats")]
    Hdf5,
    /// A classic format of unknown version.
    #[error("version {version} of the classic format is not known; there are 1, 2 and 5")]
    Version {
        /// The version.
        version: u8,
    },
    /// The magic number marks the file as unfinished.
    #[error("the {format} file is unfinished: its writer ended before it had closed or synced it")]
    Unfinished {
        /// Its format.
        format: Format,
    },
    /// An unexpected list.
    #[error("a list of {what} should begin here with the tag {expected}, not {found}")]
    Tag {
        /// The expected items.
        what: &'static str,
        /// Its tag.
        expected: u32,
        /// The tag found.
        found: u32,
    },
    /// A list, a name or an attribute longer than a file can be.
    #[error("{count} {what} do not fit into the file")]
    Count {
        /// The items.
        what: &'static str,
        /// Their number.
        count: u64,
    },
    /// The number of records is not valid.
    #[error("there cannot be {records} records")]
    Records {
        /// The number.
        records: u64,
    },
    /// A name that is not UTF-8.
    #[error("the name {name:?} of a {what} is not UTF-8")]
    NotUtf8 {
        /// The item with the name.
        what: &'static str,
        /// The name, with replacement characters.
        name: String,
    },
    /// A name that is not valid.
    #[error("{what}: {source}")]
    Name {
        /// The item with the name.
        what: &'static str,
        /// What is wrong with it.
        source: NameError,
    },
    /// A name that occurs twice.
    #[error("a second {what} is named '{name}'")]
    Duplicate {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An unknown type.
    #[error("there is no type {code}")]
    Type {
        /// The number.
        code: u32,
    },
    /// A type that the format does not have.
    #[error("{format} does not have the type {external}")]
    TypeNotInFormat {
        /// The type.
        external: Type,
        /// The format.
        format: Format,
    },
    /// A dimension longer than can be defined.
    #[error("dimension '{name}' has length {len}; {} is the most in {format}", format.max_length())]
    Length {
        /// The dimension.
        name: String,
        /// Its length.
        len: u64,
        /// The format.
        format: Format,
    },
    /// A second unlimited dimension.
    #[error("dimension '{name}' is unlimited, but so is another one before it")]
    SecondUnlimited {
        /// The dimension.
        name: String,
    },
    /// A variable of too many dimensions.
    #[error("variable '{variable}' has {rank} dimensions; 1024 are the most")]
    Rank {
        /// The variable.
        variable: String,
        /// How many dimensions.
        rank: u64,
    },
    /// A variable of a dimension that is not defined.
    #[error("variable '{variable}' has a dimension {id}, but only {dimensions} are defined")]
    DimensionId {
        /// The variable.
        variable: String,
        /// The number of the dimension.
        id: u64,
        /// How many there are.
        dimensions: usize,
    },
    /// A variable whose unlimited dimension is not the first.
    #[error("the unlimited dimension of variable '{variable}' is not its first")]
    UnlimitedNotFirst {
        /// The variable.
        variable: String,
    },
    /// A variable that ends beyond the largest file.
    #[error("variable '{variable}' ends beyond 2^63 - 1 bytes")]
    Size {
        /// The variable.
        variable: String,
    },
    /// A stated size that is not the size.
    #[error("the stated size of variable '{variable}' is {stated}, but it takes {size}")]
    StatedSize {
        /// The variable.
        variable: String,
        /// What the header states.
        stated: u64,
        /// What it should state.
        size: u64,
    },
    /// A variable that begins before the header ends.
    #[error("variable '{variable}' begins at {begin}, in the header, which ends at {header}")]
    BeginInHeader {
        /// The variable.
        variable: String,
        /// Where it begins.
        begin: u64,
        /// Where the header ends.
        header: u64,
    },
    /// A variable that begins further away than its format allows.
    #[error("variable '{variable}' begins at {begin}, beyond what {format} can address")]
    BeginTooFar {
        /// The variable.
        variable: String,
        /// Where it begins.
        begin: u64,
        /// The format.
        format: Format,
    },
    /// Padding that is not zero.
    #[error("the padding of {what} is not zero")]
    Padding {
        /// Of what.
        what: &'static str,
    },
}

impl Problem {
    /// Whether data can be read correctly nevertheless. netCDF-C does not detect such problems.
    pub(in crate::format) const fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Name { .. }
                | Self::Length { .. }
                | Self::StatedSize { .. }
                | Self::Padding { .. }
        )
    }
}
