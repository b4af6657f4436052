//! [`CatalogError`]: why the catalogue refused or failed.
//!
//! The first group are answers to a request and change nothing; the second say that the database
//! itself cannot be used. After [`CatalogError::Database`] of a change, the change may or may not
//! have been made: reopening shows.

use std::io;
use std::path::PathBuf;

use striate_wire::Identity;
use thiserror::Error;

use super::name::NameError;

/// Why the catalogue refused or failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// No file has this name.
    #[error("there is no file {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// No file that has a name has this id.
    #[error("there is no file with the id {file}")]
    UnknownFile {
        /// The id.
        file: u64,
    },
    /// A file of this name exists, and must not.
    #[error("the file {name:?} exists already")]
    Exists {
        /// The name.
        name: String,
    },
    /// The text is not a valid name.
    #[error(transparent)]
    BadName(#[from] NameError),
    /// A part of the name is a file.
    #[error("{name:?} cannot be a file: {file:?} is a file, not a directory")]
    NotADirectory {
        /// The name that was wanted.
        name: String,
        /// The file that is in the way.
        file: String,
    },
    /// Files lie below the name.
    #[error("{name:?} cannot be a file: it is a directory, {below:?} lies in it")]
    IsADirectory {
        /// The name that was wanted.
        name: String,
        /// A file below it.
        below: String,
    },
    /// A file whose strips have no bytes.
    #[error("the file {name:?} cannot have strips of 0 bytes")]
    EmptyStrip {
        /// The name.
        name: String,
    },
    /// A file on no server.
    #[error("the file {name:?} cannot be created on no server")]
    NoServers {
        /// The name.
        name: String,
    },
    /// A file's list names a server twice, but a server keeps one object for a file.
    #[error("the file {name:?} cannot be created on server {server} twice")]
    RepeatedServer {
        /// The name.
        name: String,
        /// The server's index.
        server: u32,
    },
    /// A file's list names a server that is not in the table.
    #[error("the file {name:?} cannot be created on server {server}: there are {servers}")]
    UnknownServer {
        /// The name.
        name: String,
        /// The server's index.
        server: u32,
        /// How many servers there are.
        servers: u32,
    },
    /// The table of servers must not become so small that files lose theirs.
    #[error("the table of servers cannot be cut to {asked}: files use the first {used}")]
    ServersInUse {
        /// How many there would be.
        asked: u32,
        /// How many are needed.
        used: u32,
    },
    /// Two servers of the table have the same address.
    #[error("the table of servers cannot hold the address {address} twice")]
    RepeatedAddress {
        /// The address.
        address: String,
    },
    /// A server stores in another place than before.
    #[error("server {server} stores in {found}, but its files are in {known}")]
    OtherStorage {
        /// The server's index.
        server: u32,
        /// The identity of the storage that it had.
        known: Identity,
        /// The identity of the storage that it has.
        found: Identity,
    },
    /// A file that still has a name cannot be forgotten.
    #[error("file {file} cannot be buried: it is alive as {name:?}")]
    Alive {
        /// The id.
        file: u64,
        /// Its name.
        name: String,
    },

    /// The catalogue was written by a newer version of this program.
    #[error(
        "the catalogue {catalog} has format {found}, this version knows formats up to {known}: \
         a newer version is needed"
    )]
    NewerFormat {
        /// Where the catalogue is.
        catalog: String,
        /// The format it has.
        found: u64,
        /// The newest format this version knows.
        known: u64,
    },
    /// Something else exists there.
    #[error("{catalog} is not a catalogue: {why}")]
    NotACatalog {
        /// Where something else is.
        catalog: String,
        /// How that was seen.
        why: String,
    },
    /// The catalogue is not as it was written.
    #[error("the catalogue {catalog} is damaged: {why}")]
    Damaged {
        /// Where the catalogue is.
        catalog: String,
        /// How that was seen.
        why: String,
    },
    /// Another process has it open.
    #[error("the catalogue {catalog} is in use by another server")]
    InUse {
        /// Where the catalogue is.
        catalog: String,
    },
    /// The system refused or failed while the catalogue's file was opened or created.
    #[error("cannot {attempt} {path:?}: {source}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// What the catalogue still has of the disk is reserved for removals.
    #[error(
        "the disk of the metadata server is full ({source}): the rest is reserved so that files can be \
         removed"
    )]
    Full {
        /// Why there is no more.
        source: io::Error,
    },
    /// The database failed; most often the disk below it did.
    #[error("the catalogue's database failed: {0}")]
    Database(#[source] Box<redb::Error>),
}

impl CatalogError {
    /// The system's error, if there was one below.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::System { source, .. } | Self::Full { source } => Some(source),
            Self::Database(error) => match &**error {
                redb::Error::Io(source) => Some(source),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<redb::Error> for CatalogError {
    fn from(error: redb::Error) -> Self {
        Self::Database(Box::new(error))
    }
}

impl From<redb::TransactionError> for CatalogError {
    fn from(error: redb::TransactionError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::TableError> for CatalogError {
    fn from(error: redb::TableError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::StorageError> for CatalogError {
    fn from(error: redb::StorageError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::CommitError> for CatalogError {
    fn from(error: redb::CommitError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::SetDurabilityError> for CatalogError {
    fn from(error: redb::SetDurabilityError) -> Self {
        redb::Error::from(error).into()
    }
}
