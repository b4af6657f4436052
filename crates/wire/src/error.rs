//! [`WireError`]: why a frame could not be sent or received.
//!
//! Callers decide by the variant: whether the other side went away, the bytes were damaged, or one
//! of the two sides has a fault.

use std::io;

use thiserror::Error;

use crate::frame::FrameKind;
use crate::handshake::HandshakeError;

/// Why a frame could not be sent or received.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The stream failed, or ended in the middle of a frame.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The other side closed the stream, between two frames.
    #[error("the other side closed the connection")]
    Closed,
    /// The received bytes are not a frame or message of this protocol, or not the expected one.
    #[error("the other side does not keep to the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// Bytes changed on their way.
    #[error(
        "the {part} of a frame was damaged on its way: checksum {found:08x}, expected {expected:08x}"
    )]
    Checksum {
        /// `header` or `payload`.
        part: &'static str,
        /// What the sender computed.
        expected: u32,
        /// What the bytes that came give.
        found: u32,
    },
    /// The message breaks a limit of the protocol. Nothing was sent; the connection can be used on.
    #[error("the message cannot be sent: {0}")]
    NotSent(#[source] Malformed),
    /// The two sides did not come together.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// What is wrong with a frame or message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The first bytes are not those of a frame.
    #[error("a frame begins with \"STRI\", not with \"{}\"", .0.escape_ascii())]
    Magic([u8; 4]),
    /// The frame is of another version.
    #[error("the frame is of version {0} of the protocol, this side speaks version 1")]
    Version(u8),
    /// A kind of frame that does not exist.
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    /// Flags, of which this version has none.
    #[error("unknown flags {0:#06x} in the header of a frame")]
    Flags(u16),
    /// A frame longer than its kind may be.
    #[error("a payload of {len} bytes in a {kind} frame, where {limit} are the limit")]
    TooLong {
        /// The kind of frame.
        kind: FrameKind,
        /// Bytes of its payload.
        len: u64,
        /// Most bytes it may have.
        limit: u32,
    },
    /// A frame that is not due.
    #[error("a {found} frame came instead of {expected}")]
    Unexpected {
        /// What may come.
        expected: &'static str,
        /// What came.
        found: FrameKind,
    },
    /// A data frame that does not fill the memory it is for.
    #[error("a data frame of {found} bytes came where {expected} are due")]
    DataLen {
        /// Bytes of memory.
        expected: u64,
        /// Bytes of payload.
        found: u32,
    },
    /// The payload is not a message.
    #[error("the payload is not a {what}: {source}")]
    Undecodable {
        /// What it should be.
        what: &'static str,
        /// Why it is not.
        source: postcard::Error,
    },
    /// Bytes after the end of a message.
    #[error("{len} bytes follow the {what}")]
    Trailing {
        /// What they follow.
        what: &'static str,
        /// How many they are.
        len: usize,
    },
    /// A value, or a number of things, that is not allowed.
    #[error("{field} is {value}, allowed is {low} to {high}")]
    OutOfRange {
        /// What it is about.
        field: &'static str,
        /// What was given.
        value: u64,
        /// The least that is allowed.
        low: u64,
        /// The most that is allowed.
        high: u64,
    },
    /// Bytes beyond the largest offset.
    #[error("{len} bytes at offset {offset} reach beyond 2^63 - 1")]
    BeyondOffsets {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
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
