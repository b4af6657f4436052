//! [`Traffic`]: the bytes and messages sent over a connection.

use std::ops::{AddAssign, Sub};

use crate::frame::{FrameKind, Header};

/// What went over a connection since its handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// What this side sent.
    pub sent: Frames,
    /// What this side received.
    pub received: Frames,
}

/// What went in one direction.
///
/// Bytes of requests and replies are counted with the headers of their frames, since that is what a
/// request costs; bytes of data are counted without, since that is what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Requests.
    pub requests: u64,
    /// Their bytes, with headers.
    pub request_bytes: u64,
    /// Those of the requests that sent a description.
    pub descriptions: u64,
    /// Their bytes, with headers.
    pub description_bytes: u64,
    /// Replies and failures.
    pub replies: u64,
    /// Their bytes, with headers.
    pub reply_bytes: u64,
    /// Data frames.
    pub data_frames: u64,
    /// Their bytes, without headers.
    pub data_bytes: u64,
}

impl Frames {
    pub(crate) fn count(&mut self, header: &Header) {
        let len = u64::from(header.len);
        let with_header = Header::LEN as u64 + len;
        match header.kind {
            FrameKind::Request => {
                self.requests += 1;
                self.request_bytes += with_header;
            }
            FrameKind::Reply | FrameKind::Failure => {
                self.replies += 1;
                self.reply_bytes += with_header;
            }
            FrameKind::Data => {
                self.data_frames += 1;
                self.data_bytes += len;
            }
            FrameKind::Hello | FrameKind::Challenge | FrameKind::Proof | FrameKind::Welcome => {}
        }
    }
}

impl Frames {
    /// A request that was counted sent a description, in a payload of so many bytes.
    pub(crate) fn count_description(&mut self, len: usize) {
        self.descriptions += 1;
        self.description_bytes += (Header::LEN + len) as u64;
    }

    /// Both, number by number.
    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            requests: each(self.requests, other.requests),
            request_bytes: each(self.request_bytes, other.request_bytes),
            descriptions: each(self.descriptions, other.descriptions),
            description_bytes: each(self.description_bytes, other.description_bytes),
            replies: each(self.replies, other.replies),
            reply_bytes: each(self.reply_bytes, other.reply_bytes),
            data_frames: each(self.data_frames, other.data_frames),
            data_bytes: each(self.data_bytes, other.data_bytes),
        }
    }
}

/// The traffic of several connections together.
impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
    }
}

/// What went since then.
impl Sub for Traffic {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        Self { sent: self.sent - then.sent, received: self.received - then.received }
    }
}

impl AddAssign for Frames {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, |a, b| a + b);
    }
}

impl Sub for Frames {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        self.with(then, |now, then| now - then)
    }
}
