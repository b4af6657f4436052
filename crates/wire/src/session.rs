//! [`Session`]: which connection of which client this is.
//!
//! A request that a client gave up may still be on its way, or be carried out, over a connection
//! that is of no further use to the client. Carried out later, it would overwrite newer data. So
//! every connection has a number, and a new one names those that it supersedes: the server ends
//! these, with what they still have to carry out, before it welcomes the new one.

use std::io;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_SUPERSEDED, at_most};

/// A client: drawn at random when it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientId(pub [u8; 16]);

impl ClientId {
    /// One that no other client has.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::from)?;
        Ok(Self(bytes))
    }
}

/// A connection of a client, and those that it supersedes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The client.
    pub client: ClientId,
    /// The number of the connection, which no other connection of the client has; 0 if none will
    /// ever supersede it.
    pub connection: u64,
    /// The numbers of connections whose requests must not be carried out after this handshake.
    #[serde(deserialize_with = "at_most::<_, _, MAX_SUPERSEDED>")]
    pub superseded: Vec<u64>,
}
