//! [`Finding`]: one problem that a check found, as text.

use serde::Serialize;
use striate_datatype::Bytes;
use thiserror::Error;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Finding {
    /// A server's objects are not known.
    #[error("server {server} was not checked: {why}")]
    Unchecked {
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
    /// A record without strips or servers.
    #[error("file {path:?} has no layout: its record names no strip or no servers")]
    NoLayout {
        /// Its name.
        path: String,
        /// Its id.
        file: u64,
    },
    /// A layout names a server that is not in the list.
    #[error("file {path:?} lies on server number {server}, which is not in the list of servers")]
    UnknownServer {
        /// Its name.
        path: String,
        /// Its id.
        file: u64,
        /// The number.
        server: u32,
    },
    /// A file lacks an object.
    #[error("file {path:?}: its object {file:016x} is missing on {server}; {}", lost(*.bytes))]
    MissingObject {
        /// Its name.
        path: String,
        /// Its id.
        file: u64,
        /// Where the object should be.
        server: String,
        /// Bytes that it should have by the recorded size.
        bytes: u64,
    },
    /// All objects exist, but the end of the file is missing.
    #[error(
        "file {path:?} ends at {size} bytes, but {recorded} were recorded: the end is lost, or was \
         cut by a client that did not finish"
    )]
    ShortFile {
        /// Its name.
        path: String,
        /// Its id.
        file: u64,
        /// The size that follows from its objects.
        size: u64,
        /// The size that the metadata server has.
        recorded: u64,
    },
    /// An object is shorter than it would be without holes.
    #[error(
        "file {path:?} may have holes, or has lost data: its object on {server} ends at {len} of \
         {expected} bytes"
    )]
    ShortObject {
        /// Its name.
        path: String,
        /// Its id.
        file: u64,
        /// The server of the object.
        server: String,
        /// Length of the object.
        len: u64,
        /// Length that the recorded size implies.
        expected: u64,
    },
    /// An object of no file.
    #[error("object {object:016x} on {server} belongs to no file ({})", Bytes(*.len))]
    Orphan {
        /// The server.
        server: String,
        /// Its id.
        object: u64,
        /// Its length.
        len: u64,
    },
    /// An object on a server that its file does not lie on.
    #[error("object {object:016x} on {server} belongs to {path:?}, which does not lie there")]
    Misplaced {
        /// The server.
        server: String,
        /// Its id.
        object: u64,
        /// Its length.
        len: u64,
        /// The file that has this id.
        path: String,
    },
    /// A copy that was interrupted.
    #[error("file {path:?} is a copy that was not finished")]
    UnfinishedCopy {
        /// Its name.
        path: String,
        /// Its id.
        file: u64,
    },
    /// A removal that was interrupted.
    #[error("the removal of file {file:016x} was not finished: {}", left(*.objects))]
    Dead {
        /// The id that the file had.
        file: u64,
        /// Objects that are left.
        objects: u64,
    },
}

fn lost(bytes: u64) -> String {
    match bytes {
        0 => "no byte was recorded there".to_owned(),
        _ => format!("{} of the file are lost", Bytes(bytes)),
    }
}

fn left(objects: u64) -> String {
    match objects {
        0 => "no object is left, only the note".to_owned(),
        1 => "1 object is left".to_owned(),
        _ => format!("{objects} objects are left"),
    }
}

impl Finding {
    /// Whether this is the same trouble as another, found at another time.
    pub fn is_same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.place() == other.place()
    }

    /// Which file or object it is about, and which server.
    fn place(&self) -> (u64, &str) {
        match self {
            Self::Unchecked { server, .. } => (0, server),
            Self::NoLayout { file, .. }
            | Self::UnknownServer { file, .. }
            | Self::ShortFile { file, .. }
            | Self::UnfinishedCopy { file, .. }
            | Self::Dead { file, .. } => (*file, ""),
            Self::MissingObject { file, server, .. } | Self::ShortObject { file, server, .. } => {
                (*file, server)
            }
            Self::Orphan { object, server, .. } | Self::Misplaced { object, server, .. } => {
                (*object, server)
            }
        }
    }
}
