//! [`RadosError`]: why something on a Ceph cluster failed.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use thiserror::Error;

use super::url::RadosUrlError;
use crate::error::ErrorKind;

/// Why something on a Ceph cluster failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RadosError {
    /// librados is missing, or lacks a function.
    #[error(
        "librados cannot be used ({0}): install the package librados2, or name the library with STRIATE_LIBRADOS"
    )]
    Library(String),
    /// The URL names no file.
    #[error("{0}")]
    Url(#[source] RadosUrlError),
    /// The configuration cannot be used.
    #[error("{what}: {source}")]
    Configuration {
        /// Which part of it.
        what: String,
        /// What librados says.
        source: io::Error,
    },
    /// The variable is no length of time.
    #[error("STRIATE_PATIENCE: '{0}' is not a duration such as 10s or 500ms")]
    Patience(String),
    /// There is no connection.
    #[error("no connection to the Ceph cluster as {user}: {reason}")]
    Connect {
        /// As whom.
        user: String,
        /// Why.
        reason: Box<RadosError>,
    },
    /// No pool of this name.
    #[error("the cluster has no pool '{0}', or this user may not use it")]
    NoPool(String),
    /// No file of this name, or it was removed while it was open.
    #[error("no such file")]
    NoFile,
    /// The file exists.
    #[error("the file exists")]
    Exists,
    /// The cluster did not answer.
    #[error("the cluster did not answer within {} s (STRIATE_PATIENCE)", .0.as_secs_f64())]
    TimedOut(Duration),
    /// An object does not hold what it must.
    #[error("object '{object}' is damaged: {what}")]
    Damaged {
        /// Its name in the pool.
        object: String,
        /// What is wrong.
        what: String,
    },
    /// Other clients changed the same thing all the time.
    #[error("other clients changed it all the time; given up after {0} attempts")]
    Contended(u32),
    /// What the cluster answered.
    #[error("{0}")]
    System(#[source] io::Error),
}

impl RadosError {
    /// What an error number of librados means, if requests have this time limit.
    pub(super) fn new(errno: Errno, patience: Duration) -> Self {
        match errno {
            Errno::ETIMEDOUT => Self::TimedOut(patience),
            other => Self::System(io::Error::from_raw_os_error(other as i32)),
        }
    }

    /// What callers can decide by.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Library(_) => ErrorKind::Unsupported,
            Self::Connect { reason, .. } => reason.kind(),
            Self::NoPool(_) | Self::NoFile => ErrorKind::NotFound,
            Self::Exists => ErrorKind::AlreadyExists,
            Self::TimedOut(_) => ErrorKind::TimedOut,
            Self::Url(_) | Self::Patience(_) => ErrorKind::Malformed,
            Self::Damaged { .. } | Self::Contended(_) => ErrorKind::Io,
            Self::Configuration { source, .. } | Self::System(source) => of_system(source),
        }
    }
}

fn of_system(source: &io::Error) -> ErrorKind {
    let errno = source.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
    match errno {
        Errno::ENOENT => ErrorKind::NotFound,
        Errno::EEXIST => ErrorKind::AlreadyExists,
        Errno::EPERM | Errno::EACCES | Errno::EROFS => ErrorKind::Denied,
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => ErrorKind::OutOfSpace,
        Errno::EOPNOTSUPP => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}
