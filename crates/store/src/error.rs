//! [`StoreError`]: what was attempted, on what, where, and why it failed.
//!
//! Callers decide by [`StoreError::kind`], people read the message; no caller has to search a text.
//! The error is one pointer wide, since it travels through the result of every request.

use std::fmt;
use std::io;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use striate_datatype::TypeError;
use thiserror::Error;

use crate::rados::RadosError;
use crate::remote::ServerError;
use crate::s3::S3Error;

/// What a store, or the file system that it is in, is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Open or create the object.
    Open,
    /// A contiguous, list or typed read.
    Read,
    /// A contiguous, list or typed write.
    Write,
    /// Ask for the length.
    Len,
    /// Cut or extend.
    SetLen,
    /// Reserve space.
    Preallocate,
    /// Make durable.
    Sync,
    /// Lock a range of bytes.
    Lock,
    /// List the files of a file system.
    List,
    /// Give a file another name.
    Rename,
    /// Remove a file.
    Remove,
    /// Ask a server about itself or about other servers.
    Ask,
}

impl Operation {
    /// Those of a store. Fault plans and traces know no others.
    const OF_STORES: [(Self, &'static str); 8] = [
        (Self::Open, "open"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Len, "len"),
        (Self::SetLen, "set-len"),
        (Self::Preallocate, "preallocate"),
        (Self::Sync, "sync"),
        (Self::Lock, "lock"),
    ];

    /// Those of a file system.
    const OF_FILE_SYSTEMS: [(Self, &'static str); 4] = [
        (Self::List, "list"),
        (Self::Rename, "rename"),
        (Self::Remove, "remove"),
        (Self::Ask, "ask"),
    ];

    /// The name used in messages, fault plans and traces.
    pub fn name(self) -> &'static str {
        let mut all = Self::OF_STORES.iter().chain(&Self::OF_FILE_SYSTEMS);
        all.find(|(operation, _)| *operation == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let found = Self::OF_STORES.iter().find(|(_, name)| *name == text);
        found.map(|(operation, _)| *operation).ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

/// A text that names no [`Operation`] of a store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown operation '{0}': one of open, read, write, len, set-len, preallocate, sync, lock")]
pub struct UnknownOperation(pub String);

/// What is wrong with a request. Nothing was read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Bytes beyond the largest offset of an object.
    #[error("{len} bytes at offset {offset} reach beyond 2^63 - 1")]
    BeyondOffsets {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Bytes before the object.
    #[error("the description reaches {by} bytes before the start of the object")]
    BeforeStart {
        /// How far.
        by: u64,
    },
    /// A region or description outside of the memory handed over.
    #[error("memory bytes {low} to {high} are not inside the {len} bytes handed over")]
    OutsideMemory {
        /// Index of the first byte; negative if before the slice.
        low: i128,
        /// One past the last byte.
        high: i128,
        /// Bytes of memory.
        len: usize,
    },
    /// The memory description has fewer bytes than the request.
    #[error(
        "the memory description has {has} bytes from byte {start} of its stream on, the request {needs}"
    )]
    MemoryTooShort {
        /// Bytes that are skipped.
        start: u64,
        /// Bytes that remain.
        has: u64,
        /// Bytes of the request.
        needs: u64,
    },
    /// Bytes were asked for of a description that has none.
    #[error("{len} bytes are asked for, but the file description is empty")]
    EmptyDescription {
        /// Bytes of the request.
        len: u64,
    },
    /// Copies of a description do not fit in offsets.
    #[error("the {side} description cannot be used: {source}")]
    Description {
        /// `memory` or `file`.
        side: &'static str,
        /// Why.
        source: TypeError,
    },
    /// A range that ends before it begins.
    #[error("range {start}..{end} ends before it begins")]
    BackwardRange {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
}

/// Why an operation failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The system said so.
    #[error("{0}")]
    System(#[source] io::Error),
    /// The file system would not stripe a new file as asked.
    #[error("it cannot have {asked}: {source}")]
    Striping {
        /// What was asked for.
        asked: String,
        /// What the file system said.
        source: io::Error,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Malformed(#[source] Malformed),
    /// The object or what it lies on cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// A wait came to its limit.
    #[error("it stayed locked for {} s, the limit of the wait", .0.as_secs_f64())]
    TimedOut(Duration),
    /// A server, or the way to it, failed.
    #[error("{0}")]
    Server(#[source] ServerError),
    /// A Ceph cluster, or the way to it, failed.
    #[error("{0}")]
    Rados(#[source] RadosError),
    /// An object store, or the way to it, failed.
    #[error("{0}")]
    Objects(#[source] S3Error),
    /// A store's own reason.
    #[error("{0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What callers can decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such object.
    NotFound,
    /// The object exists, and must not.
    AlreadyExists,
    /// Not allowed: permissions, or a handle that was not opened for this.
    Denied,
    /// No space, quota or allowed file size is left.
    OutOfSpace,
    /// The request is wrong in itself.
    Malformed,
    /// The store cannot do it.
    Unsupported,
    /// A wait came to its limit.
    TimedOut,
    /// Anything else, hardware included.
    Io,
}

/// An operation on an object failed.
///
/// ```
/// use std::io;
/// use striate_store::{ErrorKind, Operation, StoreError};
/// let full = io::Error::from_raw_os_error(28);
/// let error = StoreError::system(Operation::Write, "/scratch/out.dat", full).at(1 << 20, 4096);
/// assert_eq!(error.kind(), ErrorKind::OutOfSpace);
/// assert_eq!(
///     error.to_string(),
///     "cannot write 4096 bytes at offset 1048576 of /scratch/out.dat: \
///      No space left on device (os error 28)"
/// );
/// ```
#[derive(Debug)]
pub struct StoreError(Box<Failure>);

#[derive(Debug)]
struct Failure {
    operation: Operation,
    object: String,
    place: Option<(u64, u64)>,
    cause: Cause,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.0.attempt(), self.0.cause)
    }
}

/// The cause is part of the message, and no link of its own in the chain: its source is.
impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.cause)
    }
}

impl Failure {
    fn attempt(&self) -> String {
        let object = &self.object;
        let bytes = |n: u64| if n == 1 { "1 byte".to_owned() } else { format!("{n} bytes") };
        match (self.operation, self.place) {
            (Operation::Open, _) => format!("open {object}"),
            (Operation::Len, _) => format!("find the length of {object}"),
            (Operation::Sync, _) => format!("make {object} durable"),
            (Operation::Ask, _) => format!("ask for {object}"),
            (Operation::SetLen, Some((_, len))) => {
                format!("set the length of {object} to {}", bytes(len))
            }
            (Operation::SetLen, None) => format!("set the length of {object}"),
            (Operation::Preallocate, Some((_, len))) => {
                format!("reserve {} for {object}", bytes(len))
            }
            (operation, Some((offset, len))) => {
                format!("{operation} {} at offset {offset} of {object}", bytes(len))
            }
            (operation, None) => format!("{operation} {object}"),
        }
    }
}

impl StoreError {
    /// An error with the given cause.
    pub fn new(operation: Operation, object: impl Into<String>, cause: Cause) -> Self {
        Self(Box::new(Failure { operation, object: object.into(), place: None, cause }))
    }

    /// The system refused or failed.
    pub fn system(operation: Operation, object: impl Into<String>, source: io::Error) -> Self {
        Self::new(operation, object, Cause::System(source))
    }

    /// The request is wrong.
    pub fn malformed(operation: Operation, object: impl Into<String>, what: Malformed) -> Self {
        Self::new(operation, object, Cause::Malformed(what))
    }

    /// A server, or the way to it, failed.
    pub fn server(operation: Operation, object: impl Into<String>, source: ServerError) -> Self {
        Self::new(operation, object, Cause::Server(source))
    }

    /// A Ceph cluster, or the way to it, failed.
    pub fn rados(operation: Operation, object: impl Into<String>, source: RadosError) -> Self {
        Self::new(operation, object, Cause::Rados(source))
    }

    /// The store cannot do this, and why.
    pub fn unsupported(
        operation: Operation,
        object: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self::new(operation, object, Cause::Unsupported(why.into()))
    }

    /// The same error, with the bytes it is about.
    #[must_use]
    pub fn at(mut self, offset: u64, len: u64) -> Self {
        self.0.place = Some((offset, len));
        self
    }

    /// What was attempted.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// On what.
    pub fn object(&self) -> &str {
        &self.0.object
    }

    /// Which bytes it was about, if it was about some.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.place.map(|(offset, len)| offset..offset.saturating_add(len))
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The system's error, if it was one.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0.cause {
            Cause::System(source) | Cause::Striping { source, .. } => Some(source),
            _ => None,
        }
    }

    /// What callers can decide by.
    pub fn kind(&self) -> ErrorKind {
        use nix::libc::{EBADF, EDQUOT, EFBIG, ENOSPC, EROFS, ETXTBSY};
        match &self.0.cause {
            Cause::Malformed(_) => ErrorKind::Malformed,
            Cause::Unsupported(_) => ErrorKind::Unsupported,
            Cause::TimedOut(_) => ErrorKind::TimedOut,
            Cause::Server(source) => source.kind(),
            Cause::Rados(source) => source.kind(),
            Cause::Objects(source) => source.kind(),
            Cause::Other(_) => ErrorKind::Io,
            Cause::System(source) | Cause::Striping { source, .. } => {
                match (source.raw_os_error(), source.kind()) {
                    (Some(ENOSPC | EDQUOT | EFBIG), _) => ErrorKind::OutOfSpace,
                    // EBADF: a handle that was opened only for the other direction.
                    (Some(EBADF | EROFS | ETXTBSY), _) | (_, io::ErrorKind::PermissionDenied) => {
                        ErrorKind::Denied
                    }
                    (_, io::ErrorKind::NotFound) => ErrorKind::NotFound,
                    (_, io::ErrorKind::AlreadyExists) => ErrorKind::AlreadyExists,
                    (_, io::ErrorKind::TimedOut) => ErrorKind::TimedOut,
                    (_, io::ErrorKind::Unsupported) => ErrorKind::Unsupported,
                    _ => ErrorKind::Io,
                }
            }
        }
    }

    /// Whether space, quota or the allowed file size ran out.
    pub fn is_out_of_space(&self) -> bool {
        self.kind() == ErrorKind::OutOfSpace
    }

    /// Whether the request itself was wrong.
    pub fn is_malformed(&self) -> bool {
        self.kind() == ErrorKind::Malformed
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_is_small_and_can_travel() {
        fn can_travel<T: Send + Sync + 'static>() {}
        can_travel::<StoreError>();
        assert_eq!(size_of::<StoreError>(), size_of::<usize>());
    }

    #[test]
    fn messages_name_the_attempt() {
        let eio = || io::Error::from_raw_os_error(5);
        let text = |operation, place: Option<(u64, u64)>| {
            let error = StoreError::system(operation, "f", eio());
            let error = place.map_or(error.to_string(), |(o, l)| {
                StoreError::system(operation, "f", eio()).at(o, l).to_string()
            });
            error.replace(": Input/output error (os error 5)", "")
        };
        assert_eq!(text(Operation::Read, Some((7, 1))), "cannot read 1 byte at offset 7 of f");
        assert_eq!(text(Operation::SetLen, Some((0, 9))), "cannot set the length of f to 9 bytes");
        assert_eq!(text(Operation::Preallocate, Some((0, 9))), "cannot reserve 9 bytes for f");
        assert_eq!(text(Operation::Sync, None), "cannot make f durable");
        assert_eq!(text(Operation::Len, None), "cannot find the length of f");
        assert_eq!(text(Operation::Open, None), "cannot open f");
    }

    #[test]
    fn the_source_is_the_systems_error() {
        let error = StoreError::system(Operation::Read, "f", io::Error::from_raw_os_error(5));
        assert_eq!(error.io_error().and_then(io::Error::raw_os_error), Some(5));
        assert!(error.source().and_then(|source| source.downcast_ref::<io::Error>()).is_some());
    }

    #[test]
    fn operations_have_names() {
        for (operation, name) in Operation::OF_STORES {
            assert_eq!(name.parse::<Operation>().unwrap(), operation);
        }
        for (operation, name) in Operation::OF_FILE_SYSTEMS {
            assert_eq!(operation.name(), name);
            assert!(name.parse::<Operation>().is_err(), "no store can be made to fail at it");
        }
        assert!("wirte".parse::<Operation>().unwrap_err().to_string().contains("'wirte'"));
    }
}
