//! Errors of requests to servers: [`CallError`] of one attempt, [`ServerError`] after the last.

use std::io;
use std::time::Duration;

use striate_wire::{Failure, FailureCode, HandshakeError, Identity, TlsError, WireError};
use thiserror::Error;

use crate::error::ErrorKind;

/// Why one request got no reply. Only some causes are worth another attempt.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The connection could not be made, or broke, or nothing came over it.
    #[error("{0}")]
    Connection(#[source] WireError),
    /// The server said why.
    #[error("{0}")]
    Failure(#[source] Failure),
    /// The server answered something else.
    #[error("{0}")]
    Protocol(String),
    /// The server stores in another place than the catalogue knows.
    #[error(
        "it stores in {found}, but its files are in {expected}: it was started on another data directory"
    )]
    WrongStorage {
        /// The storage that the catalogue knows.
        expected: Identity,
        /// The storage that the server has.
        found: Identity,
    },
    /// An object has fewer bytes than it had.
    #[error(
        "object {object:016x} has {len} bytes, but the catalogue knows of {known}: its storage has lost them"
    )]
    MissingBytes {
        /// The object.
        object: u64,
        /// Bytes it has; none if there is no object.
        len: u64,
        /// Bytes it had.
        known: u64,
    },
    /// The server was started anew after it had acknowledged writes that were not synced.
    #[error(
        "the server was started anew, and may have lost {bytes} bytes that were written since the last sync"
    )]
    Restarted {
        /// Bytes that were written.
        bytes: u64,
    },
    /// The server was started anew, and what is kept must be written to it first.
    #[error("the server was started anew")]
    Stale,
}

impl CallError {
    /// Nothing came, or went, for so long.
    pub(super) fn silence(patience: Duration) -> Self {
        let text = format!("no answer for {} s: not a byte came or went", patience.as_secs_f64());
        io::Error::new(io::ErrorKind::TimedOut, text).into()
    }

    /// Whether the server refused to begin, and may not refuse later.
    pub(super) fn is_refusal(&self) -> bool {
        let later =
            |failure: &Failure| matches!(failure.code, FailureCode::Busy | FailureCode::Draining);
        match self {
            Self::Failure(failure)
            | Self::Connection(WireError::Handshake(HandshakeError::Refused(failure))) => {
                later(failure)
            }
            _ => false,
        }
    }

    /// Whether the same request may get a reply over another connection, or later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            // A certificate that is not believed, for instance, will not be believed later.
            Self::Connection(WireError::Io(error)) => {
                !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
            }
            Self::Connection(WireError::Closed | WireError::Checksum { .. }) => true,
            _ => self.is_refusal(),
        }
    }

    /// Whether the other end has closed the connection, as it does when a server ended or was
    /// restarted.
    pub(super) fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match self {
            Self::Connection(WireError::Closed) => true,
            Self::Connection(WireError::Io(error)) => matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
            ),
            _ => false,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Failure(failure)
            | Self::Connection(WireError::Handshake(HandshakeError::Refused(failure))) => {
                kind_of(failure.code)
            }
            Self::Connection(WireError::Io(error)) => match error.kind() {
                io::ErrorKind::TimedOut => ErrorKind::TimedOut,
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Io,
            },
            Self::Connection(WireError::NotSent(_)) => ErrorKind::Malformed,
            Self::Connection(WireError::Handshake(
                HandshakeError::Version { .. }
                | HandshakeError::ServerSpeaksTls
                | HandshakeError::ServerWithoutTls,
            )) => ErrorKind::Unsupported,
            Self::Connection(WireError::Handshake(_)) => ErrorKind::Denied,
            Self::Connection(_)
            | Self::Protocol(_)
            | Self::WrongStorage { .. }
            | Self::MissingBytes { .. }
            | Self::Restarted { .. }
            | Self::Stale => ErrorKind::Io,
        }
    }
}

fn kind_of(code: FailureCode) -> ErrorKind {
    match code {
        FailureCode::Malformed | FailureCode::BadName => ErrorKind::Malformed,
        FailureCode::NotFound => ErrorKind::NotFound,
        FailureCode::Exists => ErrorKind::AlreadyExists,
        FailureCode::NoSpace => ErrorKind::OutOfSpace,
        FailureCode::ReadOnly | FailureCode::Denied => ErrorKind::Denied,
        FailureCode::LockTimeout => ErrorKind::TimedOut,
        FailureCode::Unsupported | FailureCode::NotMetadata => ErrorKind::Unsupported,
        FailureCode::UnknownType
        | FailureCode::Io
        | FailureCode::Busy
        | FailureCode::LockLost
        | FailureCode::WrongStorage
        | FailureCode::Draining => ErrorKind::Io,
    }
}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Connection(error)
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error.into())
    }
}

impl From<TlsError> for CallError {
    fn from(error: TlsError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error).into()
    }
}

/// A server did not do what it was asked, however often it was asked.
#[derive(Debug, Error)]
#[error("server {address}: {reason}{}", tries(*.attempts))]
pub struct ServerError {
    address: String,
    #[source]
    reason: CallError,
    attempts: u32,
}

fn tries(attempts: u32) -> String {
    if attempts > 1 { format!(" (tried {attempts} times)") } else { String::new() }
}

impl ServerError {
    /// The server at `address` failed in the last of so many attempts.
    pub fn new(address: impl Into<String>, reason: CallError, attempts: u32) -> Self {
        Self { address: address.into(), reason, attempts }
    }

    /// Which server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Why the last attempt failed.
    pub fn reason(&self) -> &CallError {
        &self.reason
    }

    /// What the server said, if it said something.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.reason {
            CallError::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    /// How often it was tried.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What callers can decide by.
    pub fn kind(&self) -> ErrorKind {
        self.reason.kind()
    }
}
