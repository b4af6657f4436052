//! [`Request`]: a request of a client to a server.

use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::error::Malformed;
use crate::id::{Identity, TypeId};
use crate::limits::{
    LEASE_MS, MAX_ENCODING, MAX_ENTRIES, MAX_NAME, MAX_OFFSET, MAX_PATH, MAX_SERVERS, MAX_WAIT_MS,
    STRIP, at_most, length, within,
};
use crate::message;

const SERVERS: usize = MAX_SERVERS as usize;

/// What a client asks of a server. Every one can also be answered with a
/// [`Failure`](crate::Failure).
///
/// The order is the wire format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Are you there? Any server answers [`Reply::Done`](crate::Reply::Done).
    Ping,
    /// Remember a datatype under its id, for the typed accesses that follow. I/O servers answer it
    /// only with a failure: it travels ahead of the first access that needs it, and the client does
    /// not wait.
    Define {
        /// The id of the encoding.
        id: TypeId,
        /// The datatype's binary form.
        #[serde(deserialize_with = "at_most::<_, _, MAX_ENCODING>")]
        encoding: Vec<u8>,
    },
    /// Make a file, or find it if it exists and need not be new. The metadata server answers
    /// [`Reply::File`](crate::Reply::File); the objects are made by the client, with
    /// [`Request::Touch`].
    Create {
        /// The name.
        path: String,
        /// Bytes of a strip.
        strip: u64,
        /// Over how many servers to stripe; all of them if not given.
        servers: Option<u32>,
        /// The server of the first strip, by its place in the list of servers; the metadata server
        /// chooses if not given.
        first: Option<u32>,
        /// Whether an existing file is a failure (`Exists`).
        exclusive: bool,
    },
    /// Find a file by its name. The metadata server answers [`Reply::File`](crate::Reply::File), or
    /// the failure `NotFound`.
    Lookup {
        /// The name.
        path: String,
    },
    /// Name the files whose paths begin with a prefix, in the order of their bytes. The metadata
    /// server answers [`Reply::Names`](crate::Reply::Names), with fewer entries than asked for if
    /// the reply would not fit in a frame.
    List {
        /// What the paths begin with.
        prefix: String,
        /// The last path of the reply before; only what comes after it is named.
        after: Option<String>,
        /// Most entries of the reply, at least 1.
        limit: u32,
    },
    /// Give a file another name; its id and bytes stay. The metadata server answers
    /// [`Reply::Done`](crate::Reply::Done).
    Rename {
        /// The name it has.
        from: String,
        /// The name it gets.
        to: String,
        /// Whether a file that has that name is removed, rather than a failure (`Exists`).
        replace: bool,
    },
    /// Take away a file's name and note its id as dead. The metadata server answers
    /// [`Reply::File`](crate::Reply::File) with what the file was; the client removes the objects
    /// and then sends [`Request::Bury`].
    Remove {
        /// The name.
        path: String,
    },
    /// The objects of a dead file are gone: forget its id. The metadata server answers
    /// [`Reply::Done`](crate::Reply::Done).
    Bury {
        /// The id of the file.
        file: u64,
    },
    /// Note the size of a file, as known at a sync, close or truncation, for listings and checks;
    /// the metadata server sets the time and answers [`Reply::Done`](crate::Reply::Done).
    Record {
        /// The id of the file.
        file: u64,
        /// Its size in bytes.
        size: u64,
        /// How often the file had been made shorter when the lengths were asked for.
        truncations: u64,
        /// The lengths of its objects, in the order of its servers; none if they are not known.
        #[serde(deserialize_with = "at_most::<_, _, SERVERS>")]
        lens: Vec<u64>,
    },
    /// Which I/O servers exist? The metadata server answers
    /// [`Reply::Servers`](crate::Reply::Servers).
    Servers,
    /// Which files are dead but not buried? The metadata server answers
    /// [`Reply::Ids`](crate::Reply::Ids), in ascending order.
    Dead {
        /// The last id of the reply before; only larger ones are named.
        after: Option<u64>,
        /// Most ids of the reply, at least 1.
        limit: u32,
    },
    /// Lock a range of bytes of a file against other clients. The metadata server answers
    /// [`Reply::Locked`](crate::Reply::Locked), or the failure `LockTimeout`.
    Lock {
        /// The id of the file.
        file: u64,
        /// The first byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Whether shared locks are excluded too.
        exclusive: bool,
        /// How long to wait for other locks, in milliseconds.
        wait_ms: u32,
        /// How long the lock holds if it is not renewed, in milliseconds.
        lease_ms: u32,
    },
    /// Hold a lock for longer. The metadata server answers [`Reply::Done`](crate::Reply::Done), or
    /// the failure `LockLost`.
    Renew {
        /// The lock.
        lock: u64,
        /// How long it holds from now on, in milliseconds.
        lease_ms: u32,
    },
    /// Release a lock. The metadata server answers [`Reply::Done`](crate::Reply::Done), or the
    /// failure `LockLost`.
    Unlock {
        /// The lock.
        lock: u64,
    },
    /// Make an object if it does not exist, durably. An I/O server answers
    /// [`Reply::Done`](crate::Reply::Done).
    Touch {
        /// The id of the object.
        object: u64,
    },
    /// Read bytes. An I/O server answers [`Reply::Reading`](crate::Reply::Reading) and then, in
    /// data frames of the same id, exactly the bytes of the access's share whose place in the
    /// object lies before the length that it sent, in the order of the stream. A failure may come
    /// instead of any of these frames, and is then the last.
    Read {
        /// Which bytes.
        access: Access,
    },
    /// Write bytes of an object that exists: all bytes of the access's share follow in data frames
    /// of the same id, in the order of the stream, and an empty data frame after them, so that a
    /// server that cannot know how many they are finds their end. An I/O server answers
    /// [`Reply::Written`](crate::Reply::Written) or a failure after that, `NotFound` if there is no
    /// such object.
    Write {
        /// Which bytes.
        access: Access,
    },
    /// How long is an object? An I/O server answers [`Reply::Len`](crate::Reply::Len).
    ObjectLen {
        /// The id of the object.
        object: u64,
    },
    /// Cut an object or extend it by zeros. An I/O server answers
    /// [`Reply::Done`](crate::Reply::Done).
    Truncate {
        /// The id of the object.
        object: u64,
        /// Its new length.
        len: u64,
    },
    /// Reserve space for an object up to `len`. An I/O server answers
    /// [`Reply::Done`](crate::Reply::Done).
    Preallocate {
        /// The id of the object.
        object: u64,
        /// Up to where.
        len: u64,
    },
    /// Make what was written to an object durable. An I/O server answers
    /// [`Reply::Synced`](crate::Reply::Synced) once it is.
    Sync {
        /// The id of the object.
        object: u64,
    },
    /// Remove an object; that there is none is no failure. An I/O server answers
    /// [`Reply::Done`](crate::Reply::Done).
    RemoveObject {
        /// The id of the object.
        object: u64,
    },
    /// Which objects exist? An I/O server answers [`Reply::Objects`](crate::Reply::Objects), in
    /// ascending order of their ids.
    Objects {
        /// The last id of the reply before; only larger ones are named.
        after: Option<u64>,
        /// Most objects of the reply, at least 1.
        limit: u32,
    },
    /// How much space is left? An I/O server answers [`Reply::Space`](crate::Reply::Space).
    Space,
    /// What has the server done so far? Any server answers
    /// [`Reply::Statistics`](crate::Reply::Statistics).
    Statistics,
    /// Which server is this? Any server answers [`Reply::Server`](crate::Reply::Server).
    Identify,
    /// Find a file by its id. The metadata server answers [`Reply::File`](crate::Reply::File), or
    /// the failure `NotFound`.
    Describe {
        /// The id of the file.
        file: u64,
    },
    /// A file is about to be made shorter: its objects may have fewer bytes than was noted. The
    /// metadata server answers [`Reply::File`](crate::Reply::File).
    Shorten {
        /// The id of the file.
        file: u64,
        /// The lengths that its objects are about to have, in the order of its servers.
        #[serde(deserialize_with = "at_most::<_, _, SERVERS>")]
        lens: Vec<u64>,
    },
    /// Note which storage a server has. The metadata server answers
    /// [`Reply::Done`](crate::Reply::Done), or the failure `WrongStorage` if it is known to have
    /// another.
    Enrol {
        /// The address of the server, as in the list of servers.
        address: String,
        /// Its storage.
        identity: Identity,
        /// Whether it takes the place of another storage, whose objects are given up.
        replace: bool,
    },
}

impl Request {
    /// Whether all fields are within their limits.
    pub fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Ping
            | Self::Servers
            | Self::Space
            | Self::Statistics
            | Self::Identify
            | Self::Bury { .. }
            | Self::Unlock { .. }
            | Self::Describe { .. }
            | Self::Touch { .. }
            | Self::ObjectLen { .. }
            | Self::Sync { .. }
            | Self::RemoveObject { .. } => Ok(()),
            Self::Define { encoding, .. } => {
                length("length of a datatype's encoding", encoding.len(), MAX_ENCODING)
            }
            Self::Create { path, strip, servers, first, .. } => {
                check_path(path)?;
                within("bytes of a strip", *strip, *STRIP.start(), *STRIP.end())?;
                within("number of servers", servers.unwrap_or(1), 1u32, MAX_SERVERS)?;
                within("first server", first.unwrap_or(0), 0u32, MAX_SERVERS - 1)
            }
            Self::Lookup { path } | Self::Remove { path } => check_path(path),
            Self::List { prefix, after, limit } => {
                check_path(prefix)?;
                after.as_deref().map_or(Ok(()), check_path)?;
                check_limit(*limit)
            }
            Self::Rename { from, to, .. } => check_path(from).and_then(|()| check_path(to)),
            Self::Record { size, lens, .. } => {
                length("number of objects", lens.len(), SERVERS)?;
                lens.iter().try_for_each(|len| check_len(*len))?;
                check_len(*size)
            }
            Self::Shorten { lens, .. } => {
                length("number of objects", lens.len(), SERVERS)?;
                lens.iter().try_for_each(|len| check_len(*len))
            }
            Self::Enrol { address, .. } => length("length of an address", address.len(), MAX_NAME),
            Self::Dead { limit, .. } | Self::Objects { limit, .. } => check_limit(*limit),
            Self::Lock { start, end, .. } if start > end => {
                Err(Malformed::BackwardRange { start: *start, end: *end })
            }
            Self::Lock { wait_ms, lease_ms, .. } => {
                within("milliseconds to wait", *wait_ms, 0u32, MAX_WAIT_MS)?;
                check_lease(*lease_ms)
            }
            Self::Renew { lease_ms, .. } => check_lease(*lease_ms),
            Self::Read { access } | Self::Write { access } => access.check(),
            Self::Truncate { len, .. } | Self::Preallocate { len, .. } => check_len(*len),
        }
    }

    /// The request as it travels; refused if a field is beyond its limit.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        self.check()?;
        message::encode("request", self)
    }

    /// Reads what [`Request::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let request: Self = message::decode("request", bytes)?;
        request.check()?;
        Ok(request)
    }
}

pub(crate) fn check_path(path: &str) -> Result<(), Malformed> {
    length("length of a path", path.len(), MAX_PATH)
}

pub(crate) fn check_len(len: u64) -> Result<(), Malformed> {
    within("length in bytes", len, 0u64, MAX_OFFSET)
}

pub(crate) fn check_lease(lease_ms: u32) -> Result<(), Malformed> {
    within("milliseconds of a lease", lease_ms, *LEASE_MS.start(), *LEASE_MS.end())
}

fn check_limit(limit: u32) -> Result<(), Malformed> {
    within("limit of a listing", limit, 1u32, MAX_ENTRIES)
}
