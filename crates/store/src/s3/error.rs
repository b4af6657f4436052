//! [`S3Error`]: why a request to an object store failed.

use std::time::Duration;

use thiserror::Error;

use crate::error::ErrorKind;

/// Why a request to an object store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum S3Error {
    /// This program has no client of object stores.
    #[error("this program was built without object stores; build it with '--features s3'")]
    NotBuilt,
    /// The environment says something that cannot be used.
    #[error("{0}")]
    Settings(String),
    /// There is no such bucket.
    #[error("there is no bucket '{0}'")]
    NoBucket(String),
    /// There is a bucket, but no such object.
    #[error("there is no object with this key in the bucket")]
    NoKey,
    /// The credentials are missing, wrong, or not allowed to do this.
    #[error("access is denied ({0})")]
    Denied(String),
    /// Another object has the key now.
    #[error("the object was replaced or removed while it was being read")]
    Changed,
    /// Objects are written as a whole.
    #[error(
        "an object is not written in place: it is published as a whole, as 'striate fs cp' does"
    )]
    ReadOnly,
    /// No connection.
    #[error("{endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// The address from the environment.
        endpoint: String,
        /// What the system said.
        reason: String,
    },
    /// Nothing came in time, retries included.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// An answer that is shorter than it says.
    #[error("the answer has {got} of {wanted} bytes")]
    Truncated {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes that came.
        got: u64,
    },
    /// A part that is not as the upload needs it.
    #[error("part {index} has {got} bytes instead of {wanted}")]
    PartLength {
        /// Its number, from 0 on.
        index: u64,
        /// Bytes that it must have.
        wanted: u64,
        /// Bytes that it has.
        got: u64,
    },
    /// An object of which parts are missing is not published.
    #[error("{missing} of {count} parts were not uploaded")]
    PartsMissing {
        /// How many.
        missing: u64,
        /// Of how many.
        count: u64,
    },
    /// The server answered with an error, also when it was asked again.
    #[error("{0}")]
    Failed(String),
}

impl S3Error {
    /// What callers can decide by.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotBuilt | Self::ReadOnly => ErrorKind::Unsupported,
            Self::Settings(_) | Self::PartLength { .. } => ErrorKind::Malformed,
            Self::NoBucket(_) | Self::NoKey => ErrorKind::NotFound,
            Self::Denied(_) => ErrorKind::Denied,
            Self::TimedOut(_) => ErrorKind::TimedOut,
            Self::Changed
            | Self::Unreachable { .. }
            | Self::Truncated { .. }
            | Self::PartsMissing { .. }
            | Self::Failed(_) => ErrorKind::Io,
        }
    }
}
