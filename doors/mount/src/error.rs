//! [`MountError`]: why something cannot be mounted.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

/// Why something cannot be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The source is not a directory that can be read.
    #[error("cannot use {} as the source: {}", .path.display(), reason(.error))]
    Source {
        /// The source.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The point is not a directory that can be read.
    #[error("cannot mount on {}: {}", .path.display(), reason(.error))]
    Point {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is in the point would not be seen any more.
    #[error("cannot mount on {}: it is not empty, {} is in it", .path.display(), .entry.display())]
    NotEmpty {
        /// The point.
        path: PathBuf,
        /// A name in it.
        entry: OsString,
    },
    /// Something of ours is mounted there.
    #[error("cannot mount on {}: it shows {shown} already", .path.display())]
    AlreadyMounted {
        /// The point.
        path: PathBuf,
        /// What it shows.
        shown: String,
    },
    /// There is a mount whose serving process has ended.
    #[error("cannot mount on {}: a dead mount ({kind}) is there, whose server has ended", .path.display())]
    Dead {
        /// The point.
        path: PathBuf,
        /// The type of its file system.
        kind: String,
    },
    /// The directory under the mount cannot be made unwritable.
    #[error("cannot guard {}: {error}", .path.display())]
    Guard {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no mount for one program only.
    #[error("{attempted}: {error}")]
    Private {
        /// What was attempted.
        attempted: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// The program cannot be run.
    #[error("{0}")]
    Program(io::Error),
    /// The process that serves the mount would use the mount, and wait for itself.
    #[error("cannot mount {} on {}: one is within the other", .source_path.display(), .point.display())]
    Within {
        /// The source.
        source_path: PathBuf,
        /// The point.
        point: PathBuf,
    },
    /// FUSE is not available.
    #[error("there is no /dev/fuse that can be opened: {0}")]
    NoFuse(io::Error),
    /// The kernel, or `fusermount3`, has refused the mount.
    #[error("cannot mount on {}: {error}", .path.display())]
    Refused {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The process that unmounts when this one dies cannot be started.
    #[error("cannot start the watcher process of the mount: {0}")]
    Watcher(io::Error),
    /// It cannot be unmounted.
    #[error("cannot unmount {}: {error}", .path.display())]
    Unmount {
        /// The point.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The connection to the kernel has failed.
    #[error("the connection to the kernel (/dev/fuse) has failed: {0}")]
    Session(io::Error),
    /// What stages held back could not be written.
    #[error("not all data that stages buffered could be written: {0}")]
    Unsettled(Errno),
}

/// Why a directory cannot be used.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such directory".into(),
        io::ErrorKind::NotADirectory => "it is not a directory".into(),
        io::ErrorKind::NotConnected => {
            "a dead mount is there, whose server has ended (transport endpoint is not connected)"
                .into()
        }
        _ => error.to_string(),
    }
}
