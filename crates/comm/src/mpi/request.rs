//! [`MpiRequest`]: a message of a caller, sent or received by one or two operations of MPI.
//!
//! A short message is sent as it is. A long one is announced by a short one, which has its length
//! and the tag under which it follows. So the receiver learns the length of a message that does not
//! fit, needs no more memory than arrives, and messages still match receives in the order in which
//! both were started. The last byte that is sent says which of the two it is.

use std::ffi::c_int;
use std::sync::Arc;

use super::operation::Operation;
use super::session::RawComm;
use crate::error::{CommError, check_length};
use crate::request::Pending;

/// Bytes of a message that needs no announcement; libraries send so much without a handshake.
const SHORT: usize = 4000;

/// Ends a short message.
const PLAIN: u8 = 0;

/// Ends an announcement.
const ANNOUNCEMENT: u8 = 1;

/// A send or receive under way.
#[derive(Debug)]
pub(super) struct MpiRequest {
    current: Operation,
    stage: Stage,
}

/// The purpose of the current operation.
#[derive(Debug)]
enum Stage {
    SendShort,
    /// Announces the message that the other operation sends.
    Announce(Operation),
    SendLong,
    /// A short message or an announcement; what is announced comes over `long`.
    Receive {
        from: usize,
        capacity: usize,
        long: Arc<RawComm>,
    },
    ReceiveLong {
        from: usize,
        capacity: usize,
    },
}

impl Pending for MpiRequest {}

impl MpiRequest {
    /// Starts to send; a long message has a tag of its own.
    pub(super) fn send(
        comm: &RawComm,
        to: usize,
        tag: c_int,
        mut message: Vec<u8>,
        (long, long_tag): (&RawComm, c_int),
    ) -> Result<Self, CommError> {
        if message.len() <= SHORT {
            message.push(PLAIN);
            let current = Operation::send(comm, to, tag, message)?;
            return Ok(Self { current, stage: Stage::SendShort });
        }
        let announcement = announce(message.len(), long_tag);
        let current = Operation::send(comm, to, tag, announcement)?;
        let stage = Stage::Announce(Operation::send(long, to, long_tag, message)?);
        Ok(Self { current, stage })
    }

    /// Starts to receive.
    pub(super) fn receive(
        comm: &RawComm,
        from: usize,
        tag: c_int,
        capacity: usize,
        long: Arc<RawComm>,
    ) -> Result<Self, CommError> {
        let current = Operation::receive(comm, from, tag, SHORT + 1)?;
        Ok(Self { current, stage: Stage::Receive { from, capacity, long } })
    }

    /// Waits for completion.
    pub(super) fn wait(&mut self) -> Result<Vec<u8>, CommError> {
        loop {
            let bytes = self.current.wait()?;
            if let Some(message) = self.advance(bytes)? {
                return Ok(message);
            }
        }
    }

    /// Waits until one is complete; the inner result is that of its wait.
    #[allow(clippy::type_complexity, reason = "two results are what it takes to tell them apart")]
    pub(super) fn wait_any(
        requests: &mut [&mut Self],
    ) -> Result<(usize, Result<Vec<u8>, CommError>), CommError> {
        loop {
            let mut operations: Vec<_> =
                requests.iter_mut().map(|request| &mut request.current).collect();
            let (index, bytes) = Operation::wait_any(&mut operations)?;
            if let Some(message) = requests[index].advance(bytes).transpose() {
                return Ok((index, message));
            }
        }
    }

    /// [`MpiRequest::wait_any`] without waiting.
    #[allow(clippy::type_complexity, reason = "as above")]
    pub(super) fn test_any(
        requests: &mut [&mut Self],
    ) -> Result<Option<(usize, Result<Vec<u8>, CommError>)>, CommError> {
        loop {
            let mut operations: Vec<_> =
                requests.iter_mut().map(|request| &mut request.current).collect();
            let Some((index, bytes)) = Operation::test_any(&mut operations)? else {
                return Ok(None);
            };
            if let Some(message) = requests[index].advance(bytes).transpose() {
                return Ok(Some((index, message)));
            }
        }
    }

    /// Goes on after the current operation, which gave `bytes`; returns the message if that was the
    /// last.
    fn advance(&mut self, mut bytes: Vec<u8>) -> Result<Option<Vec<u8>>, CommError> {
        match std::mem::replace(&mut self.stage, Stage::SendLong) {
            Stage::SendShort => {
                bytes.pop();
                Ok(Some(bytes))
            }
            Stage::Announce(message) => {
                self.current = message;
                Ok(None)
            }
            Stage::SendLong => Ok(Some(bytes)),
            Stage::Receive { from, capacity, long } => {
                let Some((len, tag)) = announced(&bytes) else {
                    bytes.pop();
                    return check_length(from, capacity, bytes).map(Some);
                };
                // Even one that is too long has to be received, for the sender's sake.
                self.current = Operation::receive(&long, from, tag, len)?;
                self.stage = Stage::ReceiveLong { from, capacity };
                Ok(None)
            }
            Stage::ReceiveLong { from, capacity } => check_length(from, capacity, bytes).map(Some),
        }
    }
}

impl Drop for MpiRequest {
    fn drop(&mut self) {
        if let Stage::Receive { from, long, .. } = &self.stage
            && let Some(bytes) = self.current.cancel()
            && let Some((len, tag)) = announced(&bytes)
        {
            // The message is on its way, and the sender waits until it is received.
            let _ = Operation::receive(long, *from, tag, len).and_then(|mut lost| lost.wait());
        }
    }
}

fn announce(len: usize, tag: c_int) -> Vec<u8> {
    let mut bytes = (len as u64).to_le_bytes().to_vec();
    bytes.extend(tag.to_le_bytes());
    bytes.push(ANNOUNCEMENT);
    bytes
}

/// Length and tag of a long message, if that is what the bytes announce.
fn announced(bytes: &[u8]) -> Option<(usize, c_int)> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    let (tag, [ANNOUNCEMENT]) = rest.split_first_chunk::<4>()? else { return None };
    Some((u64::from_le_bytes(*len) as usize, c_int::from_le_bytes(*tag)))
}
