//! The tables of the catalogue's database: its format on disk.
//!
//! | table   | key           | value                                  |
//! | ------- | ------------- | -------------------------------------- |
//! | names   | name          | [`FileRecord`], by postcard            |
//! | ids     | file id       | name                                   |
//! | dead    | file id       | [`FileRecord`] at its removal          |
//! | servers | index         | address                                |
//! | storage | index         | the identity of its storage, 16 bytes  |
//! | meta    | `format`      | [`FORMAT`]                             |
//! | meta    | `next file`   | the id of the next file                |
//!
//! Any change of this needs a new [`FORMAT`], the order of a record's fields included. Format 1 had
//! no table of storage, and records without what follows the time of the last change; it is read.

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::CatalogError;

/// The format this version writes, and the newest it reads.
pub(super) const FORMAT: u64 = 2;

/// The oldest that it reads.
pub(super) const OLDEST_FORMAT: u64 = 1;

pub(super) const FORMAT_KEY: &str = "format";
pub(super) const NEXT_FILE_KEY: &str = "next file";

/// The first id, and so one that no file has yet while there is no entry. 0 is never an id.
pub(super) const FIRST_FILE: u64 = 1;

pub(super) const NAMES: TableDefinition<&str, &[u8]> = TableDefinition::new("names");
pub(super) const IDS: TableDefinition<u64, &str> = TableDefinition::new("ids");
pub(super) const DEAD: TableDefinition<u64, &[u8]> = TableDefinition::new("dead");
pub(super) const SERVERS: TableDefinition<u32, &str> = TableDefinition::new("servers");
pub(super) const STORAGE: TableDefinition<u32, [u8; 16]> = TableDefinition::new("storage");
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// What the catalogue knows about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its id, which is never given to another file.
    pub file: u64,
    /// Bytes of a strip.
    pub strip: u64,
    /// Its servers, as indices into the table of servers; the first holds strip 0.
    pub servers: Vec<u32>,
    /// Its size when it was last recorded.
    pub size: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// When its size was last recorded, in milliseconds since 1970.
    pub modified_ms: u64,
    /// How often it was made shorter. What was found before does not count.
    pub truncations: u64,
    /// Bytes that its objects have at least, in the order of its servers; those that it does not
    /// name may be empty.
    pub lens: Vec<u64>,
}

/// A record of format 1.
#[derive(Deserialize)]
struct FirstRecord {
    file: u64,
    strip: u64,
    servers: Vec<u32>,
    size: u64,
    created_ms: u64,
    modified_ms: u64,
}

impl From<FirstRecord> for FileRecord {
    fn from(first: FirstRecord) -> Self {
        let FirstRecord { file, strip, servers, size, created_ms, modified_ms } = first;
        let (truncations, lens) = (0, Vec::new());
        Self { file, strip, servers, size, created_ms, modified_ms, truncations, lens }
    }
}

impl FileRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("numbers and lists of known length always encode")
    }

    /// The record in `bytes`; `None` if they hold none, or more than one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        // A record of format 1 ends where one of today goes on, so it cannot be taken for one.
        match postcard::take_from_bytes(bytes) {
            Ok((record, [])) => Some(record),
            _ => match postcard::take_from_bytes::<FirstRecord>(bytes) {
                Ok((record, [])) => Some(record.into()),
                _ => None,
            },
        }
    }
}

/// All tables, within a transaction that changes them.
pub(super) struct Tables<'t> {
    pub(super) names: Table<'t, &'static str, &'static [u8]>,
    pub(super) ids: Table<'t, u64, &'static str>,
    pub(super) dead: Table<'t, u64, &'static [u8]>,
    pub(super) servers: Table<'t, u32, &'static str>,
    pub(super) storage: Table<'t, u32, [u8; 16]>,
    pub(super) meta: Table<'t, &'static str, u64>,
}

impl<'t> Tables<'t> {
    /// Opens all tables, and creates those that are not there.
    pub(super) fn open(writing: &'t WriteTransaction) -> Result<Self, redb::TableError> {
        Ok(Self {
            names: writing.open_table(NAMES)?,
            ids: writing.open_table(IDS)?,
            dead: writing.open_table(DEAD)?,
            servers: writing.open_table(SERVERS)?,
            storage: writing.open_table(STORAGE)?,
            meta: writing.open_table(META)?,
        })
    }

    /// An id that no file had before.
    pub(super) fn new_file(&mut self) -> Result<u64, CatalogError> {
        let file = self.meta.get(NEXT_FILE_KEY)?.map_or(FIRST_FILE, |next| next.value());
        self.meta.insert(NEXT_FILE_KEY, file + 1)?;
        Ok(file)
    }
}
