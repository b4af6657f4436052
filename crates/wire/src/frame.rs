//! The header of a frame.
//!
//! 28 bytes, numbers little endian: magic, version, kind, flags (none yet), the id of the request
//! that the frame belongs to, the length and the checksum of the payload, and the checksum of the
//! 24 bytes before it. The header has a checksum of its own so that a damaged length is found
//! before the wrong number of bytes is waited for.

use std::fmt;

use crate::checksum::{Checksum, checksum};
use crate::error::{Malformed, WireError};
use crate::limits::{MAX_CONTROL, MAX_DATA, MAX_FAILURE, MAX_HANDSHAKE};

/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"STRI";

/// The version of the protocol that this crate speaks.
///
/// Version 2 has sessions and the start of the server in the handshake, starts in the answers to
/// writes and syncs, and what the catalogue knows of servers and objects.
pub const VERSION: u8 = 2;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// The client begins the handshake.
    Hello = 1,
    /// The server proves its key and asks for the client's proof.
    Challenge = 2,
    /// The client proves its key.
    Proof = 3,
    /// The server ends the handshake.
    Welcome = 4,
    /// A [`Request`](crate::Request) of the client.
    Request = 5,
    /// A [`Reply`](crate::Reply) of the server.
    Reply = 6,
    /// A [`Failure`](crate::Failure) instead of a reply, or instead of data.
    Failure = 7,
    /// Bytes of a file, of the request with the same id.
    Data = 8,
}

impl FrameKind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::Challenge,
        Self::Proof,
        Self::Welcome,
        Self::Request,
        Self::Reply,
        Self::Failure,
        Self::Data,
    ];

    /// Most payload bytes of a frame of this kind.
    pub fn limit(self) -> u32 {
        match self {
            Self::Hello | Self::Challenge | Self::Proof | Self::Welcome => MAX_HANDSHAKE,
            Self::Request | Self::Reply => MAX_CONTROL,
            Self::Failure => MAX_FAILURE,
            Self::Data => MAX_DATA,
        }
    }

    fn from_code(code: u8) -> Result<Self, Malformed> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == code).ok_or(Malformed::Kind(code))
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hello => "hello",
            Self::Challenge => "challenge",
            Self::Proof => "proof",
            Self::Welcome => "welcome",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Failure => "failure",
            Self::Data => "data",
        })
    }
}

/// What stands before the payload of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the payload is.
    pub kind: FrameKind,
    /// The request that the frame belongs to. The client chooses it; in a handshake it is 0.
    pub id: u64,
    /// Bytes of payload.
    pub len: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
}

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 28;

    /// The header of a frame with this payload, which lies in any number of parts; refused if it is
    /// too long for its kind.
    pub(crate) fn of<'a>(
        kind: FrameKind,
        id: u64,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Self, Malformed> {
        // The lengths first: a checksum of what is refused anyway would be wasted.
        let len: u64 = parts.clone().map(|part| part.len() as u64).sum();
        let limit = kind.limit();
        match u32::try_from(len) {
            Ok(len) if len <= limit => {
                let mut crc = Checksum::new();
                parts.for_each(|part| crc.add(part));
                Ok(Self { kind, id, len, payload_crc: crc.finish() })
            }
            _ => Err(Malformed::TooLong { kind, len, limit }),
        }
    }

    /// The header as it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = checksum(&bytes[..24]);
        bytes[24..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads what [`Header::encode`] wrote, and refuses anything else.
    ///
    /// Magic and version come before the checksum, which another protocol or version would not have
    /// in this place.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, WireError> {
        let magic = part(bytes, 0);
        if magic != MAGIC {
            return Err(Malformed::Magic(magic).into());
        }
        if bytes[4] != VERSION {
            return Err(Malformed::Version(bytes[4]).into());
        }
        let (expected, found) = (u32::from_le_bytes(part(bytes, 24)), checksum(&bytes[..24]));
        if expected != found {
            return Err(WireError::Checksum { part: "header", expected, found });
        }
        let kind = FrameKind::from_code(bytes[5])?;
        let flags = u16::from_le_bytes(part(bytes, 6));
        if flags != 0 {
            return Err(Malformed::Flags(flags).into());
        }
        let len = u32::from_le_bytes(part(bytes, 16));
        let limit = kind.limit();
        if len > limit {
            return Err(Malformed::TooLong { kind, len: len.into(), limit }.into());
        }
        Ok(Self {
            kind,
            id: u64::from_le_bytes(part(bytes, 8)),
            len,
            payload_crc: u32::from_le_bytes(part(bytes, 20)),
        })
    }

    /// Refuses a payload that has another checksum.
    pub(crate) fn verify(&self, found: u32) -> Result<(), WireError> {
        if found == self.payload_crc {
            Ok(())
        } else {
            Err(WireError::Checksum { part: "payload", expected: self.payload_crc, found })
        }
    }
}

/// `N` bytes of a header from `at` on.
fn part<const N: usize>(bytes: &[u8; Header::LEN], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: FrameKind::Data,
            id: 0x0102_0304_0506_0708,
            len: 5,
            payload_crc: 0xAABB_CCDD,
        }
    }

    /// Changes a header and makes its checksum right again.
    fn decode_changed(change: impl FnOnce(&mut [u8; 28])) -> Result<Header, WireError> {
        let mut bytes = header().encode();
        change(&mut bytes);
        let crc = checksum(&bytes[..24]);
        bytes[24..].copy_from_slice(&crc.to_le_bytes());
        Header::decode(&bytes)
    }

    #[test]
    fn a_header_is_as_written_down() {
        let bytes = header().encode();
        assert_eq!(bytes[..8], *b"STRI\x02\x08\0\0");
        assert_eq!(bytes[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[16..24], [5, 0, 0, 0, 0xDD, 0xCC, 0xBB, 0xAA]);
        assert_eq!(Header::decode(&bytes).unwrap(), header());
    }

    #[test]
    fn what_is_no_header_is_refused_by_its_name() {
        let malformed = |change: fn(&mut [u8; 28])| match decode_changed(change) {
            Err(WireError::Malformed(malformed)) => malformed,
            other => panic!("{other:?}"),
        };
        assert_eq!(malformed(|bytes| bytes[0] = b'H'), Malformed::Magic(*b"HTRI"));
        assert_eq!(malformed(|bytes| bytes[4] = 1), Malformed::Version(1));
        assert_eq!(malformed(|bytes| bytes[5] = 0), Malformed::Kind(0));
        assert_eq!(malformed(|bytes| bytes[5] = 9), Malformed::Kind(9));
        assert_eq!(malformed(|bytes| bytes[7] = 1), Malformed::Flags(0x100));
        let kind = FrameKind::Data;
        assert_eq!(
            malformed(|bytes| bytes[16..20].fill(0xFF)),
            Malformed::TooLong { kind, len: u32::MAX.into(), limit: kind.limit() }
        );
        let mut bytes = header().encode();
        bytes[25] ^= 1;
        let error = Header::decode(&bytes).unwrap_err();
        assert!(matches!(error, WireError::Checksum { part: "header", .. }), "{error}");
    }

    #[test]
    fn every_kind_has_its_limit() {
        for kind in FrameKind::ALL {
            let set = |len: u32| {
                decode_changed(|bytes| {
                    bytes[5] = kind as u8;
                    bytes[16..20].copy_from_slice(&len.to_le_bytes());
                })
            };
            assert_eq!(set(kind.limit()).unwrap().len, kind.limit());
            assert!(set(kind.limit() + 1).is_err(), "{kind}");
        }
    }
}
