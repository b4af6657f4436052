//! Encoding of messages: serde with postcard, which is compact and has one description of a message
//! for both directions.
//!
//! Requests and replies are enums whose order is the wire format: variants and fields are only ever
//! added at the end, with a new version of the protocol. Decoding takes all bytes or refuses them,
//! and checks every field, so what is handed on is sound.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Malformed;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::request::Request;

/// What a control frame carries after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the client.
    Request(Request),
    /// From the server: the request was carried out, or is about to be.
    Reply(Reply),
    /// From the server: it was not.
    Failure(Failure),
}

pub(crate) fn encode(what: &'static str, message: &impl Serialize) -> Result<Vec<u8>, Malformed> {
    postcard::to_stdvec(message).map_err(|source| Malformed::Undecodable { what, source })
}

pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, Malformed> {
    let (message, rest) = postcard::take_from_bytes(bytes)
        .map_err(|source| Malformed::Undecodable { what, source })?;
    match rest.len() {
        0 => Ok(message),
        len => Err(Malformed::Trailing { what, len }),
    }
}
