//! [`Traffic`]: what went over a connection.

use std::ops::AddAssign;

use crate::frame::{FrameKind, Header};

/// What went over a connection since it began, the handshake aside.
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

/// The traffic of several connections together.
impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
    }
}

impl AddAssign for Frames {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.request_bytes += other.request_bytes;
        self.replies += other.replies;
        self.reply_bytes += other.reply_bytes;
        self.data_frames += other.data_frames;
        self.data_bytes += other.data_bytes;
    }
}
