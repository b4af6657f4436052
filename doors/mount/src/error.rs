//! [`MountError`]: why something cannot be mounted.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

/// Why something cannot be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The source is not a directory that can be read.
    #[error("cannot use {} as the source: {error}", .path.display())]
    Source {
        /// The source.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The point is not a directory that can be read.
    #[error("cannot mount on {}: {error}", .path.display())]
    Point {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is in the point would not be seen any more.
    #[error("cannot mount on {}: it is not empty", .path.display())]
    NotEmpty {
        /// The point.
        path: PathBuf,
    },
    /// Who looks into the one would come upon the other, and wait for itself.
    #[error("cannot mount {} on {}: one is within the other", .source_path.display(), .point.display())]
    Within {
        /// The source.
        source_path: PathBuf,
        /// The point.
        point: PathBuf,
    },
    /// There is no FUSE here.
    #[error("there is no /dev/fuse that can be opened: {0}")]
    NoFuse(io::Error),
    /// The kernel, or the program that mounts for users, says no.
    #[error("cannot mount on {}: {error}", .path.display())]
    Refused {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The process that unmounts when this one dies cannot be started.
    #[error("cannot start the process that looks after the mount: {0}")]
    Watcher(io::Error),
    /// The mount cannot be taken away.
    #[error("cannot unmount {}: {error}", .path.display())]
    Unmount {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The conversation with the kernel broke off.
    #[error("the kernel does not talk to us any more: {0}")]
    Session(io::Error),
    /// What stages held back could not be written.
    #[error("not all that stages held back could be written: {0}")]
    Unsettled(Errno),
}
