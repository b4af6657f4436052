//! [`Failure`]: the answer to a request that was not carried out.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::Malformed;
use crate::limits::{MAX_FAILURE_TEXT, length};
use crate::message;

/// Why a request was not carried out. Programs decide by the code, people read the text.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Failure {
    /// What kind of failure it is.
    pub code: FailureCode,
    /// What was attempted on what, and why it failed; at most [`MAX_FAILURE_TEXT`] bytes.
    pub text: String,
}

/// What callers can decide by. The order is the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureCode {
    /// The request is wrong in itself.
    Malformed,
    /// The server does not know the datatype (any more): define it and ask again.
    UnknownType,
    /// No such file or object.
    NotFound,
    /// The name is taken.
    Exists,
    /// No file can have this name.
    BadName,
    /// The server's storage is full.
    NoSpace,
    /// The server's storage is not writable.
    ReadOnly,
    /// The server's storage failed.
    Io,
    /// A limit of the server is reached; it may be better later.
    Busy,
    /// The key is missing or wrong.
    Denied,
    /// Other clients held the lock for longer than the request would wait.
    LockTimeout,
    /// The lock does not exist: released, or its lease ran out.
    LockLost,
    /// The server, or what it stores on, cannot do this.
    Unsupported,
    /// The server is about to stop and takes no new requests.
    Draining,
    /// The server does not keep names; ask the metadata server.
    NotMetadata,
    /// The server stores in another place than the catalogue knows.
    WrongStorage,
}

impl Failure {
    /// A failure with this text, cut if it is too long to be sent.
    pub fn new(code: FailureCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let mut end = text.len().min(MAX_FAILURE_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self { code, text }
    }

    /// Whether the text is within its limit.
    pub fn check(&self) -> Result<(), Malformed> {
        length("length of the text of a failure", self.text.len(), MAX_FAILURE_TEXT)
    }

    /// The failure as it travels.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        self.check()?;
        message::encode("failure", self)
    }

    /// Reads what [`Failure::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let failure: Self = message::decode("failure", bytes)?;
        failure.check()?;
        Ok(failure)
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::new(FailureCode::Malformed, malformed.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let failure = Failure::new(FailureCode::Io, "€".repeat(MAX_FAILURE_TEXT));
        assert_eq!(failure.text.len(), MAX_FAILURE_TEXT - 1);
        assert_eq!(Failure::decode(&failure.encode().unwrap()), Ok(failure));
    }

    /// The codes are numbers on the wire.
    #[test]
    fn codes_keep_their_numbers() {
        let number = |code| Failure::new(code, "").encode().unwrap()[0];
        assert_eq!(number(FailureCode::Malformed), 0);
        assert_eq!(number(FailureCode::Io), 7);
        assert_eq!(number(FailureCode::NotMetadata), 14);
        assert_eq!(number(FailureCode::WrongStorage), 15);
    }
}
