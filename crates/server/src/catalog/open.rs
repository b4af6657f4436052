//! Opening and creating the catalogue's database.
//!
//! The database cannot be left half created: it is created under another name, and renamed when it
//! is complete and durable. So a file of that name is always a catalogue, and an empty or malformed
//! one is damage to be reported, not to be overwritten.

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use redb::backends::FileBackend;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, StorageBackend, StorageError};

use super::CatalogError;
use super::extent::{Extent, RedbStorage};
use super::reserve::hold_least;
use super::tables::{FORMAT, FORMAT_KEY, META, OLDEST_FORMAT, Tables};
use crate::directory::PRIVATE_FILE;

/// Memory for pages of the database.
const CACHE: usize = 64 << 20;

/// A database that was checked, and what it lies on.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) extent: Arc<Extent>,
    pub(super) last_change_undone: bool,
}

/// The database of the catalogue at `path`, which is created if there is none.
pub(super) fn open_file(path: &Path) -> Result<Opened, CatalogError> {
    let exists = path.try_exists().map_err(system("look for", path))?;
    let opened = if exists { open_existing(path)? } else { create(path)? };
    if let Ok(disk) = rustix::fs::statvfs(path) {
        hold_least(&opened.extent, disk.f_blocks.saturating_mul(disk.f_frsize));
    }
    Ok(opened)
}

fn open_existing(path: &Path) -> Result<Opened, CatalogError> {
    let name = path.display().to_string();
    let file =
        OpenOptions::new().read(true).write(true).open(path).map_err(system("open", path))?;
    let blocks = file.try_clone().map_err(system("open", path))?;
    let backend = lock(file, &name)?;
    if backend.len().map_err(system("find the length of", path))? == 0 {
        // The database would take an empty file for a new one.
        return Err(CatalogError::Damaged { catalog: name, why: "it is empty".to_owned() });
    }
    open_backend(backend, Some(blocks), &name)
}

fn create(path: &Path) -> Result<Opened, CatalogError> {
    let name = path.display().to_string();
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .open(&unfinished)
        .map_err(system("create", &unfinished))?;
    let blocks = file.try_clone().map_err(system("open", &unfinished))?;
    let backend = lock(file, &name)?;
    if path.try_exists().map_err(system("look for", path))? {
        // Another process has created its own between the check and the lock.
        drop((backend, blocks));
        return open_existing(path);
    }
    // What an interrupted creation left.
    backend.set_len(0).map_err(system("empty", &unfinished))?;
    let opened = open_backend(backend, Some(blocks), &name)?;
    std::fs::rename(&unfinished, path).map_err(system("give its name to", path))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(system("make durable", directory))?;
    Ok(opened)
}

fn lock(file: File, name: &str) -> Result<FileBackend, CatalogError> {
    FileBackend::new(file).map_err(|error| failure(error, name))
}

fn system<'a>(
    attempt: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> CatalogError + use<'a> {
    move |source| CatalogError::System { attempt, path: path.to_owned(), source }
}

/// The database on `backend`, which is initialised if it is empty; `blocks` is its file, if it is
/// one.
pub(super) fn open_backend(
    backend: impl StorageBackend,
    blocks: Option<File>,
    name: &str,
) -> Result<Opened, CatalogError> {
    let is_new = backend.len().map_err(redb::Error::Io)? == 0;
    let extent = Extent::new(backend, blocks).map_err(redb::Error::Io)?;
    let extent = Arc::new(extent);
    let storage = RedbStorage(Arc::clone(&extent));
    // The database asserts what it reads, some of it before it has checked it. Nothing of it
    // outlives the panic: it owns the backend, and is itself not yet there.
    let opening = catch_unwind(AssertUnwindSafe(|| {
        let undone = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&undone);
        let mut database = redb::Builder::new()
            .set_cache_size(CACHE)
            .set_repair_callback(move |repair| {
                // It begins at zero, also where a flipped bit has led it to the state before the
                // last change; if it finds the last change damaged, it says that a third is done.
                if repair.progress() < 0.5 {
                    noticed.store(true, Relaxed);
                }
            })
            .create_with_backend(storage)
            .map_err(|error| failure(error, name))?;
        // A new one is repaired, too.
        let last_change_undone = !is_new && undone.load(Relaxed);
        if !database.check_integrity().map_err(|error| failure(error, name))? {
            let why = "its bytes are not those of their checksums".to_owned();
            return Err(CatalogError::Damaged { catalog: name.to_owned(), why });
        }
        check_format(&database, name)?;
        Ok(Opened { database, extent, last_change_undone })
    }));
    opening.unwrap_or_else(|panic| {
        Err(CatalogError::Damaged { catalog: name.to_owned(), why: said(&*panic) })
    })
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("its database cannot be read").to_owned()
}

fn failure(error: DatabaseError, name: &str) -> CatalogError {
    let catalog = name.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => CatalogError::InUse { catalog },
        DatabaseError::UpgradeRequired(version) => CatalogError::NotACatalog {
            catalog,
            why: format!("its database has the unknown version {version}"),
        },
        DatabaseError::Storage(StorageError::Corrupted(why)) => {
            CatalogError::Damaged { catalog, why }
        }
        DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
            io::ErrorKind::InvalidData => {
                CatalogError::NotACatalog { catalog, why: "it does not begin as one".to_owned() }
            }
            io::ErrorKind::UnexpectedEof => {
                CatalogError::Damaged { catalog, why: "its end is missing".to_owned() }
            }
            _ => redb::Error::Io(error).into(),
        },
        other => redb::Error::from(other).into(),
    }
}

fn check_format(database: &Database, name: &str) -> Result<(), CatalogError> {
    let not_a_catalog = |why: &str| {
        Err(CatalogError::NotACatalog { catalog: name.to_owned(), why: why.to_owned() })
    };
    let reading = database.begin_read()?;
    if reading.list_tables()?.next().is_none() {
        return initialise(database);
    }
    let meta = match reading.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return not_a_catalog("it is a database of something else"),
    };
    match meta.get(FORMAT_KEY)?.map(|format| format.value()) {
        Some(FORMAT) => Ok(()),
        // Older versions of the program must not change what they do not know.
        Some(found) if (OLDEST_FORMAT..FORMAT).contains(&found) => initialise(database),
        Some(found) if found > FORMAT => {
            Err(CatalogError::NewerFormat { catalog: name.to_owned(), found, known: FORMAT })
        }
        Some(_) => not_a_catalog("it has an unknown format"),
        None => not_a_catalog("it does not say its format"),
    }
}

fn initialise(database: &Database) -> Result<(), CatalogError> {
    let mut writing = database.begin_write()?;
    writing.set_durability(Durability::Immediate)?;
    Tables::open(&writing)?.meta.insert(FORMAT_KEY, FORMAT)?;
    writing.commit()?;
    Ok(())
}
