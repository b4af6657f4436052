//! [`Reply`]: the answer of a server.

use serde::{Deserialize, Serialize};

use crate::error::Malformed;
use crate::id::{Identity, StartId};
use crate::limits::{
    MAX_ENTRIES, MAX_NAME, MAX_OFFSET, MAX_SERVERS, STRIP, at_most, length, within,
};
use crate::message;
use crate::request::{check_lease, check_len, check_path};

const ENTRIES: usize = MAX_ENTRIES as usize;
const SERVERS: usize = MAX_SERVERS as usize;

/// What a server answers to a request that it carried out, or is about to.
///
/// The order is the wire format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The file that was made, found or removed.
    File(FileInfo),
    /// Some files, in the order of their paths.
    Names {
        /// The files.
        #[serde(deserialize_with = "at_most::<_, _, ENTRIES>")]
        entries: Vec<FileInfo>,
        /// Whether there are more after the last.
        more: bool,
    },
    /// The I/O servers, in the order in which they are numbered.
    Servers {
        /// Their addresses.
        #[serde(deserialize_with = "at_most::<_, _, SERVERS>")]
        addresses: Vec<String>,
        /// The storage that each has, where it is known.
        #[serde(deserialize_with = "at_most::<_, _, SERVERS>")]
        identities: Vec<Option<Identity>>,
    },
    /// The ids of some files, ascending.
    Ids {
        /// The ids.
        #[serde(deserialize_with = "at_most::<_, _, ENTRIES>")]
        ids: Vec<u64>,
        /// Whether there are more after the last.
        more: bool,
    },
    /// The range is locked.
    Locked {
        /// What to renew and release it by.
        lock: u64,
        /// How long it holds if it is not renewed, in milliseconds; may be less than asked for.
        lease_ms: u32,
    },
    /// Data frames follow, with the bytes of the access's share before this length of the object.
    Reading {
        /// Length of the object; 0 if there is none.
        object_len: u64,
    },
    /// All data was received and written.
    Written {
        /// How many bytes that were.
        bytes: u64,
        /// The start of the server that has them.
        start: StartId,
    },
    /// The length of an object.
    Len {
        /// Its length; 0 if there is none.
        len: u64,
        /// Whether there is one.
        exists: bool,
    },
    /// Some objects, by the last byte of their ids and then by the ids.
    Objects {
        /// Each as id and length.
        #[serde(deserialize_with = "at_most::<_, _, ENTRIES>")]
        objects: Vec<(u64, u64)>,
        /// Whether there are more after the last.
        more: bool,
    },
    /// The space of a server's storage.
    Space {
        /// Bytes it has.
        total: u64,
        /// Bytes that are not used.
        free: u64,
        /// Those of them that the server may use.
        available: u64,
        /// Number of objects.
        objects: u64,
    },
    /// What a server has done so far.
    Statistics {
        /// Each counter by its name.
        #[serde(deserialize_with = "at_most::<_, _, ENTRIES>")]
        counters: Vec<(String, u64)>,
    },
    /// Which server this is.
    Server {
        /// The version of its program.
        version: String,
        /// Its identity, as in the handshake.
        identity: Identity,
        /// Whether it keeps the names of files.
        metadata: bool,
        /// For how long it has been running, in seconds.
        uptime_s: u64,
        /// Connections it has now.
        connections: u32,
    },
    /// What this start of the server acknowledged is durable.
    Synced {
        /// The start.
        start: StartId,
    },
}

/// What the metadata server knows of an object of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// The storage that its server has, if that is known.
    pub storage: Option<Identity>,
    /// No fewer bytes than this does the object have.
    pub len: u64,
}

/// A file as the metadata server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its name.
    pub path: String,
    /// Its id, and the id of its objects.
    pub file: u64,
    /// Bytes of a strip.
    pub strip: u64,
    /// The addresses of its servers, the one of strip 0 first.
    #[serde(deserialize_with = "at_most::<_, _, SERVERS>")]
    pub servers: Vec<String>,
    /// Its size at the last sync, close or truncation.
    pub size: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When its size was last recorded, in milliseconds since 1970.
    pub modified_ms: u64,
    /// How often it was made shorter: lengths that were found before do not count.
    pub truncations: u64,
    /// Its objects, in the order of its servers; not given in listings.
    #[serde(deserialize_with = "at_most::<_, _, SERVERS>")]
    pub objects: Vec<ObjectInfo>,
}

impl FileInfo {
    /// No fewer bytes than it takes on the wire, by which a server ends a reply before it outgrows
    /// its frame.
    pub fn wire_len(&self) -> usize {
        // No number takes more than 10 bytes, and the length of a text no more than 3.
        let addresses: usize = self.servers.iter().map(|address| address.len() + 3).sum();
        self.path.len() + addresses + self.objects.len() * 26 + 8 * 10
    }

    fn check(&self) -> Result<(), Malformed> {
        check_path(&self.path)?;
        within("bytes of a strip", self.strip, *STRIP.start(), *STRIP.end())?;
        within("number of servers", self.servers.len() as u64, 1u64, MAX_SERVERS)?;
        self.servers.iter().try_for_each(|address| check_name("length of an address", address))?;
        within("size of a file", self.size, 0u64, MAX_OFFSET)?;
        check_objects(self.objects.len(), self.servers.len())?;
        self.objects.iter().try_for_each(|object| check_len(object.len))
    }
}

impl Reply {
    /// Whether all fields are within their limits.
    pub fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Done | Self::Written { .. } | Self::Space { .. } | Self::Synced { .. } => Ok(()),
            Self::File(file) => file.check(),
            Self::Names { entries, .. } => {
                length("number of entries", entries.len(), ENTRIES)?;
                entries.iter().try_for_each(FileInfo::check)
            }
            Self::Servers { addresses, identities } => {
                length("number of servers", addresses.len(), SERVERS)?;
                check_objects(identities.len(), addresses.len())?;
                addresses.iter().try_for_each(|address| check_name("length of an address", address))
            }
            Self::Ids { ids, .. } => length("number of ids", ids.len(), ENTRIES),
            Self::Locked { lease_ms, .. } => check_lease(*lease_ms),
            Self::Reading { object_len: len } | Self::Len { len, .. } => check_len(*len),
            Self::Objects { objects, .. } => {
                length("number of objects", objects.len(), ENTRIES)?;
                objects.iter().try_for_each(|&(_, len)| check_len(len))
            }
            Self::Statistics { counters } => {
                length("number of counters", counters.len(), ENTRIES)?;
                counters.iter().try_for_each(|(name, _)| check_name("length of a name", name))
            }
            Self::Server { version, .. } => check_name("length of a version", version),
        }
    }

    /// The reply as it travels; refused if a field is beyond its limit.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        self.check()?;
        message::encode("reply", self)
    }

    /// Reads what [`Reply::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let reply: Self = message::decode("reply", bytes)?;
        reply.check()?;
        Ok(reply)
    }
}

/// One for each server, or none at all.
fn check_objects(objects: usize, servers: usize) -> Result<(), Malformed> {
    let least = if objects == 0 { 0 } else { servers as u64 };
    within("number of objects", objects as u64, least, least)
}

fn check_name(field: &'static str, name: &str) -> Result<(), Malformed> {
    length(field, name.len(), MAX_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_on_the_wire_is_not_underestimated() {
        let small = FileInfo {
            path: String::new(),
            file: u64::MAX,
            strip: 1 << 30,
            servers: vec![String::new()],
            size: MAX_OFFSET,
            created_ms: u64::MAX,
            modified_ms: u64::MAX,
            truncations: u64::MAX,
            objects: Vec::new(),
        };
        let large = FileInfo {
            path: "p".repeat(4096),
            servers: vec!["a".repeat(MAX_NAME); SERVERS / 2],
            objects: vec![
                ObjectInfo { storage: Some(Identity([7; 16])), len: MAX_OFFSET };
                SERVERS / 2
            ],
            ..small.clone()
        };
        for info in [small, large] {
            let encoded = Reply::File(info.clone()).encode().unwrap().len() - 1;
            assert!((encoded..=encoded + 3000).contains(&info.wire_len()), "{encoded}");
        }
    }
}
