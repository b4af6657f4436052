//! [`DecodeError`] and [`Problem`]: what is wrong with a header, and where.

use thiserror::Error;

use crate::format::{Format, NameError, Type};

/// Why bytes are no header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at byte {at}: {problem}")]
pub struct DecodeError {
    /// Where in the file.
    pub at: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end before the header does. That may be all there is, or the caller has read too
    /// little: then this many bytes are the least that is worth another attempt.
    #[error("the header has {needed} bytes at least, more than there are")]
    Truncated {
        /// So many bytes the header has at least.
        needed: u64,
    },
    /// It does not begin as any file of a known kind.
    #[error("it begins with {found:02x?}, not with \"CDF\"")]
    Magic {
        /// How it begins.
        found: [u8; 4],
    },
    /// It is a file of HDF5.
    #[error("it is an HDF5 file, as those of netCDF-4 are, and of none of the classic formats")]
    Hdf5,
    /// It begins as one of the classic formats, but of an unknown version.
    #[error("version {version} of the classic format is not known; there are 1, 2 and 5")]
    Version {
        /// The version it says.
        version: u8,
    },
    /// Its writer has marked it as not finished, and has not come to mark it as finished.
    #[error("the {format} file is unfinished: its writer ended before it had closed or synced it")]
    Unfinished {
        /// Its format.
        format: Format,
    },
    /// Something else than the expected list.
    #[error("a list of {what} should begin here with the tag {expected}, not {found}")]
    Tag {
        /// What should be listed.
        what: &'static str,
        /// Its tag.
        expected: u32,
        /// What is there.
        found: u32,
    },
    /// A list, a name or an attribute longer than a file can be.
    #[error("{count} {what} do not fit into the file")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        count: u64,
    },
    /// The number of records is no number.
    #[error("there cannot be {records} records")]
    Records {
        /// The number.
        records: u64,
    },
    /// A name that is not UTF-8.
    #[error("the name {name:?} of a {what} is not UTF-8")]
    NotUtf8 {
        /// What has it.
        what: &'static str,
        /// What can be read of it.
        name: String,
    },
    /// A name that cannot be given.
    #[error("{what}: {source}")]
    Name {
        /// What has it.
        what: &'static str,
        /// What is wrong with it.
        source: NameError,
    },
    /// Two of the same name.
    #[error("a second {what} is named '{name}'")]
    Duplicate {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number that no type has.
    #[error("there is no type {code}")]
    Type {
        /// The number.
        code: u32,
    },
    /// A type that only another format has.
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
    /// Whether the data is read right all the same. netCDF-C does not notice such problems.
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
