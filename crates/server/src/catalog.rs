//! The metadata catalogue: the files, their layouts, and the files that are being removed.
//!
//! [`Catalog`] is a small database (redb) with one transaction per change. Every change is durable
//! before it is acknowledged, and is atomic, whatever happens in between. A name leads to a
//! [`FileRecord`]; directories exist only as parts of names. A removed file is *dead* until its
//! objects are removed from all servers and it is buried, so that an interrupted removal can be
//! finished; its id is never given to another file.
//!
//! # What is assumed of the disk
//!
//! Bytes and lengths are durable after a sync, or the sync fails. Between syncs, writes may be
//! lost, reordered and torn, and lengths lost. Only the 8 bytes of the header that say how long
//! the file is must not be torn, which holds on every disk that writes whole sectors.
//!
//! After the disk fails, every change is refused until the catalogue is opened again. When it is
//! full, names can be removed and the catalogue can be opened, since it holds the space for that
//! ([`CatalogError::Full`]).

mod error;
mod extent;
pub mod name;
mod open;
mod reserve;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend,
};

pub use error::CatalogError;
use extent::Extent;
pub use name::{NameError, check_name};
use reserve::Reserve;
use striate_wire::Identity;
pub use tables::FileRecord;
use tables::{DEAD, IDS, NAMES, SERVERS, STORAGE, Tables};

/// The metadata catalogue. Readers and one writer at a time may share it.
///
/// ```
/// use striate_server::catalog::Catalog;
/// let directory = tempfile::tempdir()?;
/// let catalog = Catalog::open(&directory.path().join("catalog"))?;
/// catalog.set_servers(&["io1:7070".into(), "io2:7070".into()])?;
/// let (record, created) = catalog.create("run/out", 65536, &[1, 0], true, 1_700_000_000_000)?;
/// assert!(created);
/// assert_eq!(catalog.lookup("/run/out")?, record);
/// assert_eq!(catalog.remove("run/out")?.file, record.file);
/// assert_eq!(catalog.dead(None, 10)?.0.len(), 1);
/// catalog.bury(record.file)?;
/// assert!(catalog.is_empty()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Catalog {
    database: Database,
    /// What the database lies on.
    extent: Arc<Extent>,
    reserve: Reserve,
    /// Whether the last change was not whole when the catalogue was opened.
    last_change_undone: bool,
    /// Where it is, for messages.
    place: String,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("place", &self.place).finish_non_exhaustive()
    }
}

/// What becomes of a transaction that met no error.
enum Outcome<T> {
    /// It changed something: make it durable.
    Changed(T),
    /// There was nothing to change: no need to touch the disk.
    Unchanged(T),
}

use Outcome::{Changed, Unchanged};

/// What a transaction is for.
#[derive(Clone, Copy)]
enum Purpose {
    /// To add something: it must leave room for those that remove.
    Add,
    /// To remove something, or to note something in the place of something else.
    Remove,
}

impl Catalog {
    /// Opens the catalogue in the file at `path`, or creates it there if there is no file.
    ///
    /// All of it is read and compared with its checksums. A file that was cut or changed gives
    /// [`CatalogError::Damaged`] or [`CatalogError::NotACatalog`], as does one that is something
    /// else.
    pub fn open(path: &Path) -> Result<Self, CatalogError> {
        let catalog = Self::of(open::open_file(path)?, path.display().to_string());
        if catalog.last_change_undone {
            tracing::warn!(
                catalog = catalog.place,
                "it was not closed; a last change that was not whole was undone: nobody was told of \
                 it if the server was killed, otherwise the disk has damaged it"
            );
        }
        Ok(catalog)
    }

    /// Opens the catalogue on other storage than a file, or creates it there if that is empty.
    pub fn on_backend(backend: impl StorageBackend) -> Result<Self, CatalogError> {
        let place = "on given storage".to_owned();
        Ok(Self::of(open::open_backend(backend, None, &place)?, place))
    }

    fn of(opened: open::Opened, place: String) -> Self {
        let open::Opened { database, extent, last_change_undone } = opened;
        Self { database, extent, reserve: Reserve::default(), last_change_undone, place }
    }

    /// Whether the catalogue had not been closed when it was opened, so that a last change which
    /// was not whole was undone. After a crash that is a change which nobody was told of; otherwise
    /// the disk has damaged it.
    pub fn last_change_undone(&self) -> bool {
        self.last_change_undone
    }

    /// Creates a file of the given name over the given servers, or finds an existing one unless
    /// `exclusive`. Returns whether it was created.
    pub fn create(
        &self,
        name: &str,
        strip: u64,
        servers: &[u32],
        exclusive: bool,
        now_ms: u64,
    ) -> Result<(FileRecord, bool), CatalogError> {
        let name = check_name(name)?;
        let there = |record| {
            if exclusive {
                Err(CatalogError::Exists { name: name.clone() })
            } else {
                Ok((record, false))
            }
        };
        // An existing file needs no space.
        if let Some(record) = self.find(&self.database.begin_read()?.open_table(NAMES)?, &name)? {
            return there(record);
        }
        self.change(Purpose::Add, |tables| {
            if let Some(record) = self.find(&tables.names, &name)? {
                return there(record).map(Unchanged);
            }
            check_place(&tables.names, &name)?;
            check_layout(&name, strip, servers, tables.servers.len()? as u32)?;
            let record = FileRecord {
                file: tables.new_file()?,
                strip,
                servers: servers.to_vec(),
                size: 0,
                created_ms: now_ms,
                modified_ms: now_ms,
                truncations: 0,
                lens: Vec::new(),
            };
            tables.names.insert(&*name, &*record.encode())?;
            tables.ids.insert(record.file, &*name)?;
            Ok(Changed((record, true)))
        })
    }

    /// The file of this name.
    pub fn lookup(&self, name: &str) -> Result<FileRecord, CatalogError> {
        let name = check_name(name)?;
        let names = self.database.begin_read()?.open_table(NAMES)?;
        self.find(&names, &name)?.ok_or(CatalogError::NotFound { name })
    }

    /// Up to `limit` files whose names begin with `prefix`, in the order of their names (by bytes)
    /// and beginning after the name `after`; and whether there are more.
    ///
    /// The prefix is any text: `run` finds `run/a` and `runaway`, `run/` only what is in `run`.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<(String, FileRecord)>, bool), CatalogError> {
        let prefix = prefix.strip_prefix('/').unwrap_or(prefix);
        let start = match after.map(|after| after.strip_prefix('/').unwrap_or(after)) {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let names = self.database.begin_read()?.open_table(NAMES)?;
        let mut entries = Vec::new();
        for entry in names.range::<&str>((start, Bound::Unbounded))? {
            let (name, record) = entry?;
            let name = name.value();
            if !name.starts_with(prefix) {
                break;
            }
            if entries.len() == limit {
                return Ok((entries, true));
            }
            entries.push((name.to_owned(), self.decode(record.value())?));
        }
        Ok((entries, false))
    }

    /// Gives a file another name. A file that has that name already is replaced: it dies and is
    /// returned; but unless `replace`, it is an error that there is one.
    pub fn rename(
        &self,
        from: &str,
        to: &str,
        replace: bool,
    ) -> Result<Option<FileRecord>, CatalogError> {
        let (from, to) = (check_name(from)?, check_name(to)?);
        self.change(Purpose::Add, |tables| {
            let Some(record) = self.find(&tables.names, &from)? else {
                return Err(CatalogError::NotFound { name: from });
            };
            if from == to {
                return Ok(Unchanged(None));
            }
            let replaced = self.find(&tables.names, &to)?;
            match &replaced {
                Some(_) if !replace => return Err(CatalogError::Exists { name: to }),
                Some(_) => {
                    self.kill(tables, &to)?;
                }
                None => check_place(&tables.names, &to)?,
            }
            tables.names.remove(&*from)?;
            tables.names.insert(&*to, &*record.encode())?;
            tables.ids.insert(record.file, &*to)?;
            Ok(Changed(replaced))
        })
    }

    /// Removes a name. Its file is dead from now on.
    pub fn remove(&self, name: &str) -> Result<FileRecord, CatalogError> {
        let name = check_name(name)?;
        self.change(Purpose::Remove, |tables| Ok(Changed(self.kill(tables, &name)?)))
    }

    /// Forgets a dead file, whose objects are gone. One that is buried already stays so.
    pub fn bury(&self, file: u64) -> Result<(), CatalogError> {
        self.change(Purpose::Remove, |tables| {
            if let Some(name) = tables.ids.get(file)? {
                return Err(CatalogError::Alive { file, name: name.value().to_owned() });
            }
            let was_dead = tables.dead.remove(file)?.is_some();
            Ok(if was_dead { Changed(()) } else { Unchanged(()) })
        })
    }

    /// Up to `limit` dead files in the order of their ids, beginning after the id `after`; and
    /// whether there are more.
    pub fn dead(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<FileRecord>, bool), CatalogError> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let dead = self.database.begin_read()?.open_table(DEAD)?;
        let mut records = Vec::new();
        for entry in dead.range::<u64>((start, Bound::Unbounded))? {
            if records.len() == limit {
                return Ok((records, true));
            }
            records.push(self.decode(entry?.1.value())?);
        }
        Ok((records, false))
    }

    /// The name and the record of a file.
    pub fn describe(&self, file: u64) -> Result<(String, FileRecord), CatalogError> {
        let reading = self.database.begin_read()?;
        let (names, ids) = (reading.open_table(NAMES)?, reading.open_table(IDS)?);
        let name = ids.get(file)?.ok_or(CatalogError::UnknownFile { file })?.value().to_owned();
        let record = self.find(&names, &name)?.filter(|record| record.file == file);
        let record = record.ok_or_else(|| self.misled(file, &name))?;
        Ok((name, record))
    }

    /// Notes the size a file has now.
    pub fn record(&self, file: u64, size: u64, now_ms: u64) -> Result<(), CatalogError> {
        self.record_objects(file, size, 0, &[], now_ms)
    }

    /// As [`Catalog::record`], and notes how long the objects are at least, unless the file was
    /// made shorter since that was found out.
    pub fn record_objects(
        &self,
        file: u64,
        size: u64,
        truncations: u64,
        lens: &[u64],
        now_ms: u64,
    ) -> Result<(), CatalogError> {
        self.revise(file, |record| {
            if record.truncations == truncations && lens.len() == record.servers.len() {
                record.lens.resize(lens.len(), 0);
                // Others may have found out more since.
                for (known, &len) in record.lens.iter_mut().zip(lens) {
                    *known = len.max(*known);
                }
            }
            (record.size, record.modified_ms) = (size, now_ms);
        })
        .map(drop)
    }

    /// Notes that a file is about to be made shorter, before its objects are. Returns its name and
    /// what is known of it from now on.
    pub fn shorten(&self, file: u64, lens: &[u64]) -> Result<(String, FileRecord), CatalogError> {
        self.revise(file, |record| {
            record.truncations += 1;
            for (known, &len) in record.lens.iter_mut().zip(lens) {
                *known = len.min(*known);
            }
        })
    }

    fn revise(
        &self,
        file: u64,
        change: impl FnOnce(&mut FileRecord),
    ) -> Result<(String, FileRecord), CatalogError> {
        self.change(Purpose::Remove, |tables| {
            let name = tables.ids.get(file)?.ok_or(CatalogError::UnknownFile { file })?;
            let name = name.value().to_owned();
            let record = self.find(&tables.names, &name)?.filter(|record| record.file == file);
            let mut record = record.ok_or_else(|| self.misled(file, &name))?;
            change(&mut record);
            tables.names.insert(&*name, &*record.encode())?;
            Ok(Changed((name, record)))
        })
    }

    fn misled(&self, file: u64, name: &str) -> CatalogError {
        self.damaged(format!("the id {file} leads to {name:?}, which is not that file"))
    }

    /// Notes which storage a server has. Unless `replace`, it is an error if it has another one.
    pub fn enrol(
        &self,
        server: u32,
        identity: Identity,
        replace: bool,
    ) -> Result<(), CatalogError> {
        self.change(Purpose::Remove, |tables| {
            let known = tables.storage.get(server)?.map(|known| Identity(known.value()));
            match known {
                Some(known) if known == identity => Ok(Unchanged(())),
                Some(known) if !replace => {
                    Err(CatalogError::OtherStorage { server, known, found: identity })
                }
                _ => {
                    tables.storage.insert(server, identity.0)?;
                    Ok(Changed(()))
                }
            }
        })
    }

    /// The storage of each server that has one, by the server's index.
    pub fn storage(&self) -> Result<BTreeMap<u32, Identity>, CatalogError> {
        let reading = self.database.begin_read()?;
        let storage = match reading.open_table(STORAGE) {
            // A catalogue of an earlier format, which only a check opens without a change.
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
            opened => opened?,
        };
        let mut known = BTreeMap::new();
        for entry in storage.iter()? {
            let (server, identity) = entry?;
            known.insert(server.value(), Identity(identity.value()));
        }
        Ok(known)
    }

    /// Sets the addresses of all servers. A server may get another address, but its index stays:
    /// files know their servers by it. So the table cannot lose a server that a file uses.
    pub fn set_servers(&self, addresses: &[String]) -> Result<(), CatalogError> {
        let mut seen = BTreeSet::new();
        if let Some(address) = addresses.iter().find(|address| !seen.insert(*address)) {
            return Err(CatalogError::RepeatedAddress { address: address.clone() });
        }
        self.change(Purpose::Remove, |tables| {
            let old = addresses_in(&tables.servers)?;
            if old == addresses {
                return Ok(Unchanged(()));
            }
            let asked = addresses.len() as u32;
            if addresses.len() < old.len() {
                let used = self.servers_used(tables)?;
                if asked < used {
                    return Err(CatalogError::ServersInUse { asked, used });
                }
            }
            tables.servers.retain(|_, _| false)?;
            tables.storage.retain(|server, _| server < asked)?;
            for (index, address) in (0..).zip(addresses) {
                tables.servers.insert(index, &**address)?;
            }
            Ok(Changed(()))
        })
    }

    /// The addresses of all servers; a file's indices lead into this.
    pub fn servers(&self) -> Result<Vec<String>, CatalogError> {
        addresses_in(&self.database.begin_read()?.open_table(SERVERS)?)
    }

    /// Whether there is no file, neither alive nor dead.
    pub fn is_empty(&self) -> Result<bool, CatalogError> {
        let reading = self.database.begin_read()?;
        Ok(reading.open_table(IDS)?.is_empty()? && reading.open_table(DEAD)?.is_empty()?)
    }

    /// Does `work` in one transaction, and makes it durable if it changed something. An error
    /// leaves everything as it was.
    fn change<T>(
        &self,
        purpose: Purpose,
        work: impl FnOnce(&mut Tables<'_>) -> Result<Outcome<T>, CatalogError>,
    ) -> Result<T, CatalogError> {
        let mut writing = self.database.begin_write()?;
        writing.set_durability(Durability::Immediate)?;
        if let Purpose::Add = purpose {
            self.reserve.check(&self.extent, &writing)?;
        }
        let outcome = work(&mut Tables::open(&writing)?)?;
        match outcome {
            Changed(answer) => {
                writing.commit()?;
                Ok(answer)
            }
            Unchanged(answer) => {
                writing.abort()?;
                Ok(answer)
            }
        }
    }

    fn find(
        &self,
        names: &impl ReadableTable<&'static str, &'static [u8]>,
        name: &str,
    ) -> Result<Option<FileRecord>, CatalogError> {
        names.get(name)?.map(|record| self.decode(record.value())).transpose()
    }

    /// Moves a file from the names to the dead.
    fn kill(&self, tables: &mut Tables<'_>, name: &str) -> Result<FileRecord, CatalogError> {
        let Some(record) = self.find(&tables.names, name)? else {
            return Err(CatalogError::NotFound { name: name.to_owned() });
        };
        tables.names.remove(name)?;
        tables.ids.remove(record.file)?;
        tables.dead.insert(record.file, &*record.encode())?;
        Ok(record)
    }

    /// How many servers the table must have for all files, alive and dead.
    fn servers_used(&self, tables: &Tables<'_>) -> Result<u32, CatalogError> {
        let most = |record: FileRecord| record.servers.into_iter().max().map_or(0, |last| last + 1);
        let mut used = 0;
        for entry in tables.names.iter()? {
            used = used.max(most(self.decode(entry?.1.value())?));
        }
        for entry in tables.dead.iter()? {
            used = used.max(most(self.decode(entry?.1.value())?));
        }
        Ok(used)
    }

    fn decode(&self, bytes: &[u8]) -> Result<FileRecord, CatalogError> {
        FileRecord::decode(bytes).ok_or_else(|| {
            self.damaged(format!("{} bytes are not a record of a file", bytes.len()))
        })
    }

    fn damaged(&self, why: String) -> CatalogError {
        CatalogError::Damaged { catalog: self.place.clone(), why }
    }
}

/// No file lies below another: whether a file of this name would, or another below it.
fn check_place(
    names: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<(), CatalogError> {
    for directory in name::ancestors(name) {
        if names.get(directory)?.is_some() {
            let file = directory.to_owned();
            return Err(CatalogError::NotADirectory { name: name.to_owned(), file });
        }
    }
    let inside = format!("{name}/");
    if let Some(entry) = names.range::<&str>(&*inside..)?.next() {
        let below = entry?.0;
        if below.value().starts_with(&inside) {
            let below = below.value().to_owned();
            return Err(CatalogError::IsADirectory { name: name.to_owned(), below });
        }
    }
    Ok(())
}

fn check_layout(name: &str, strip: u64, servers: &[u32], known: u32) -> Result<(), CatalogError> {
    let name = || name.to_owned();
    if strip == 0 {
        return Err(CatalogError::EmptyStrip { name: name() });
    }
    if servers.is_empty() {
        return Err(CatalogError::NoServers { name: name() });
    }
    if let Some(&server) = servers.iter().find(|server| **server >= known) {
        return Err(CatalogError::UnknownServer { name: name(), server, servers: known });
    }
    let mut seen = BTreeSet::new();
    if let Some(&server) = servers.iter().find(|server| !seen.insert(**server)) {
        return Err(CatalogError::RepeatedServer { name: name(), server });
    }
    Ok(())
}

fn addresses_in(
    servers: &impl ReadableTable<u32, &'static str>,
) -> Result<Vec<String>, CatalogError> {
    servers.iter()?.map(|entry| Ok(entry?.1.value().to_owned())).collect()
}
