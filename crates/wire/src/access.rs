//! The bytes that a read or write refers to.
//!
//! Bytes are named by their offsets in the file, and the server takes from them what lies on it. So
//! one request, sent to all servers of a file alike but for the index, does for contiguous bytes,
//! lists and descriptions; and a description is never cut into pieces by the client.

use serde::{Deserialize, Serialize};

use crate::error::Malformed;
use crate::id::TypeId;
use crate::limits::{
    MAX_OFFSET, MAX_REGIONS, MAX_SERVERS, STRIP, at_most, inside_offsets, length, within,
};

/// A server's share of some bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The object that holds the server's strips of the file: the id of the file.
    pub object: u64,
    /// Which strips of the file those are.
    pub share: Share,
    /// The bytes, of the whole file.
    pub bytes: Bytes,
}

/// Which strips of a file lie on a server: strip k lies on server `k % servers`, there as bytes
/// `(k / servers) * strip` and on of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Bytes of a strip.
    pub strip: u64,
    /// How many servers the file is striped over.
    pub servers: u32,
    /// Which of them this one is, from 0 on.
    pub index: u32,
}

/// Bytes of a file, in the order of the stream that is transferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bytes {
    /// `len` bytes from `offset` on.
    Contiguous {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Regions, each as offset and length.
    List(#[serde(deserialize_with = "at_most::<_, _, MAX_REGIONS>")] Vec<(u64, u32)>),
    /// Bytes `start` to `start + len` of the stream of endless copies of a datatype, the first of
    /// which lies at `displacement`. The server must have got the type by
    /// [`Request::Define`](crate::Request::Define), else it answers with the failure `UnknownType`.
    Typed {
        /// The datatype.
        id: TypeId,
        /// Where the first copy lies.
        displacement: u64,
        /// Bytes of the stream that are skipped.
        start: u64,
        /// Bytes of the stream that are meant.
        len: u64,
    },
}

impl Access {
    /// Whether all fields are within their limits.
    pub fn check(&self) -> Result<(), Malformed> {
        self.share.check()?;
        self.bytes.check()
    }
}

impl Share {
    /// Whether there can be such a share.
    pub fn check(&self) -> Result<(), Malformed> {
        within("bytes of a strip", self.strip, *STRIP.start(), *STRIP.end())?;
        within("number of servers", self.servers, 1u32, MAX_SERVERS)?;
        within("index of the server", self.index, 0u32, self.servers - 1)
    }
}

impl Bytes {
    /// Whether all bytes lie within the offsets of a file. Of a typed access only its numbers are
    /// known here; where its bytes lie is found out with the datatype.
    pub fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Contiguous { offset, len } => inside_offsets(*offset, *len),
            Self::List(regions) => {
                length("number of regions", regions.len(), MAX_REGIONS)?;
                regions.iter().try_for_each(|&(offset, len)| inside_offsets(offset, len.into()))
            }
            Self::Typed { displacement, start, len, .. } => {
                within("displacement", *displacement, 0u64, MAX_OFFSET)?;
                inside_offsets(*start, *len)
            }
        }
    }
}
