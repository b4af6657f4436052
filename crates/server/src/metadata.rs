//! [`Metadata`]: the answers of a metadata server to requests about names, from its [`Catalog`].
//!
//! When the catalogue's storage has failed, its database refuses all further changes, since it does
//! not know what reached the disk. The next change opens it again, which determines that.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::SystemTime;

use striate_wire::limits::MAX_CONTROL;
use striate_wire::{Failure, FailureCode, FileInfo, Identity, ObjectInfo, Reply};

use crate::catalog::{Catalog, CatalogError, FileRecord};

/// Bytes of a listing's reply besides its entries, generously.
const LISTING: usize = 64;

/// Opens the catalogue.
type Open = Box<dyn Fn() -> Result<Catalog, CatalogError> + Send + Sync>;

/// What a metadata server answers from.
pub(crate) struct Metadata {
    open: Open,
    /// None while it cannot be opened again.
    catalog: RwLock<Option<Catalog>>,
    /// Whether the catalogue must be opened again before it is changed.
    broken: AtomicBool,
    /// The addresses of all servers.
    addresses: Vec<String>,
    /// The server that holds the first strip of the next file.
    next: AtomicU32,
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Metadata {
    /// Opens the catalogue, and sets the addresses of the servers in it.
    pub(crate) fn new(
        addresses: Vec<String>,
        open: impl Fn() -> Result<Catalog, CatalogError> + Send + Sync + 'static,
    ) -> Result<Self, CatalogError> {
        let catalog = open()?;
        catalog.set_servers(&addresses)?;
        let mut random = [0; 4];
        // Files spread over the servers also if each start of this one sees but few.
        let _ = getrandom::fill(&mut random);
        Ok(Self {
            open: Box::new(open),
            catalog: RwLock::new(Some(catalog)),
            broken: AtomicBool::new(false),
            addresses,
            next: AtomicU32::new(u32::from_le_bytes(random)),
        })
    }

    pub(crate) fn create(
        &self,
        path: &str,
        strip: u64,
        servers: Option<u32>,
        first: Option<u32>,
        exclusive: bool,
    ) -> Result<Reply, Failure> {
        let known = self.addresses.len() as u32;
        let count = servers.unwrap_or(known);
        if count > known {
            let text = format!("cannot stripe {path:?} over {count} servers: there are {known}");
            return Err(Failure::new(FailureCode::Malformed, text));
        }
        let first = first.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed) % known);
        // A first server that does not exist must not become another.
        let servers: Vec<u32> = (first..first + count)
            .map(|server| if first < known { server % known } else { server })
            .collect();
        let (record, _) = self
            .change(|catalog| catalog.create(path, strip, &servers, exclusive, now_ms()))
            .map_err(|error| failed("create", path, &error))?;
        self.file(path, &record)
    }

    pub(crate) fn lookup(&self, path: &str) -> Result<Reply, Failure> {
        let record = self.read(|catalog| catalog.lookup(path));
        self.file(path, &record.map_err(|error| failed("find", path, &error))?)
    }

    pub(crate) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Reply, Failure> {
        let (found, mut more) = self
            .read(|catalog| catalog.list(prefix, after, limit as usize))
            .map_err(|error| failed("list", prefix, &error))?;
        let mut entries = Vec::with_capacity(found.len());
        let mut remaining = MAX_CONTROL as usize - LISTING;
        for (name, record) in found {
            let info = self.info(&name, &record, Vec::new())?;
            // The first is let through: the client must see that it does not fit.
            if info.wire_len() > remaining && !entries.is_empty() {
                more = true;
                break;
            }
            remaining = remaining.saturating_sub(info.wire_len());
            entries.push(info);
        }
        Ok(Reply::Names { entries, more })
    }

    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> Result<Reply, Failure> {
        self.change(|catalog| catalog.rename(from, to, replace))
            .map_err(|error| failed("rename", from, &error))?;
        Ok(Reply::Done)
    }

    pub(crate) fn remove(&self, path: &str) -> Result<Reply, Failure> {
        let record = self.change(|catalog| catalog.remove(path));
        self.file(path, &record.map_err(|error| failed("remove", path, &error))?)
    }

    pub(crate) fn bury(&self, file: u64) -> Result<Reply, Failure> {
        self.change(|catalog| catalog.bury(file)).map_err(|error| failed("bury", file, &error))?;
        Ok(Reply::Done)
    }

    pub(crate) fn record(
        &self,
        file: u64,
        size: u64,
        truncations: u64,
        lens: &[u64],
    ) -> Result<Reply, Failure> {
        self.change(|catalog| catalog.record_objects(file, size, truncations, lens, now_ms()))
            .map_err(|error| failed("record the size of", file, &error))?;
        Ok(Reply::Done)
    }

    pub(crate) fn describe(&self, file: u64) -> Result<Reply, Failure> {
        let found = self.read(|catalog| catalog.describe(file));
        let (name, record) = found.map_err(|error| failed("find", file, &error))?;
        self.file(&name, &record)
    }

    pub(crate) fn shorten(&self, file: u64, lens: &[u64]) -> Result<Reply, Failure> {
        let revised = self.change(|catalog| catalog.shorten(file, lens));
        let (name, record) = revised.map_err(|error| failed("shorten", file, &error))?;
        self.file(&name, &record)
    }

    pub(crate) fn servers(&self) -> Result<Reply, Failure> {
        let (addresses, storage) = (self.addresses.clone(), self.storage()?);
        let indices = 0..addresses.len() as u32;
        let identities = indices.map(|index| storage.get(&index).copied()).collect();
        Ok(Reply::Servers { addresses, identities })
    }

    pub(crate) fn enrol(
        &self,
        address: &str,
        identity: Identity,
        replace: bool,
    ) -> Result<Reply, Failure> {
        let Some(server) = self.addresses.iter().position(|known| known == address) else {
            let text = format!("{address} is not in the list of servers");
            return Err(Failure::new(FailureCode::NotFound, text));
        };
        self.change(|catalog| catalog.enrol(server as u32, identity, replace))
            .map_err(|error| failed("note the storage of", address, &error))?;
        Ok(Reply::Done)
    }

    fn storage(&self) -> Result<BTreeMap<u32, Identity>, Failure> {
        self.read(Catalog::storage).map_err(|error| failed("find", "the storage", &error))
    }

    pub(crate) fn dead(&self, after: Option<u64>, limit: u32) -> Result<Reply, Failure> {
        let (records, more) = self
            .read(|catalog| catalog.dead(after, limit as usize))
            .map_err(|error| failed("list", "dead files", &error))?;
        Ok(Reply::Ids { ids: records.iter().map(|record| record.file).collect(), more })
    }

    fn file(&self, path: &str, record: &FileRecord) -> Result<Reply, Failure> {
        let storage = self.storage()?;
        let object = |(place, server)| ObjectInfo {
            storage: storage.get(server).copied(),
            len: record.lens.get(place).copied().unwrap_or(0),
        };
        let objects = record.servers.iter().enumerate().map(object).collect();
        Ok(Reply::File(self.info(path, record, objects)?))
    }

    fn info(
        &self,
        path: &str,
        record: &FileRecord,
        objects: Vec<ObjectInfo>,
    ) -> Result<FileInfo, Failure> {
        let address = |&index: &u32| {
            self.addresses.get(index as usize).cloned().ok_or_else(|| {
                let text = format!("{path:?} lies on server {index}, which is not in the list");
                Failure::new(FailureCode::Io, text)
            })
        };
        Ok(FileInfo {
            path: path.strip_prefix('/').unwrap_or(path).to_owned(),
            file: record.file,
            strip: record.strip,
            servers: record.servers.iter().map(address).collect::<Result<_, _>>()?,
            size: record.size,
            created_ms: record.created_ms,
            modified_ms: record.modified_ms,
            truncations: record.truncations,
            objects,
        })
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        if let Some(catalog) = &*self.catalog.read().unwrap_or_else(PoisonError::into_inner) {
            return work(catalog);
        }
        self.reopen()?;
        self.read(work)
    }

    fn change<T>(
        &self,
        work: impl FnOnce(&Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        if self.broken.load(Ordering::SeqCst) {
            self.reopen()?;
        }
        let result = self.read(work);
        if let Err(CatalogError::Database(_)) = result {
            self.broken.store(true, Ordering::SeqCst);
        }
        result
    }

    fn reopen(&self) -> Result<(), CatalogError> {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        // Another request may have been faster.
        if catalog.is_none() || self.broken.load(Ordering::SeqCst) {
            // Closed first, since only one may have it open.
            *catalog = None;
            *catalog = Some((self.open)()?);
            self.broken.store(false, Ordering::SeqCst);
            tracing::info!("opened the catalogue again after a failure of its storage");
        }
        Ok(())
    }
}

/// Tells a client what the catalogue said.
fn failed(attempt: &str, on: impl fmt::Debug, error: &CatalogError) -> Failure {
    use CatalogError as E;
    let code = match error {
        E::NotFound { .. } | E::UnknownFile { .. } => FailureCode::NotFound,
        E::Exists { .. } => FailureCode::Exists,
        E::BadName(_) | E::NotADirectory { .. } | E::IsADirectory { .. } => FailureCode::BadName,
        E::EmptyStrip { .. }
        | E::NoServers { .. }
        | E::RepeatedServer { .. }
        | E::UnknownServer { .. }
        | E::ServersInUse { .. }
        | E::RepeatedAddress { .. }
        | E::Alive { .. } => FailureCode::Malformed,
        E::OtherStorage { .. } => FailureCode::WrongStorage,
        _ => {
            tracing::error!(%error, "cannot {attempt} {on:?}");
            match error.io_error().map(io::Error::kind) {
                Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => FailureCode::NoSpace,
                Some(ErrorKind::ReadOnlyFilesystem) => FailureCode::ReadOnly,
                _ => FailureCode::Io,
            }
        }
    };
    Failure::new(code, format!("cannot {attempt} {on:?}: {error}"))
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use redb::StorageBackend;
    use redb::backends::InMemoryBackend;

    use super::*;

    /// Storage that outlives its catalogue, and fails on demand.
    #[derive(Clone, Debug, Default)]
    struct Disk {
        bytes: Arc<InMemoryBackend>,
        fails: Arc<AtomicBool>,
    }

    impl Disk {
        fn works(&self) -> io::Result<()> {
            let failed = || Err(ErrorKind::StorageFull.into());
            if self.fails.load(Ordering::SeqCst) { failed() } else { Ok(()) }
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.bytes.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.bytes.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.works()?;
            self.bytes.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.works()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.works()?;
            self.bytes.write(offset, data)
        }
    }

    #[test]
    fn a_catalogue_whose_storage_failed_is_opened_again() {
        let disk = Disk::default();
        let fails = Arc::clone(&disk.fails);
        let open = move || Catalog::on_backend(disk.clone());
        let metadata = Metadata::new(vec!["here:1".into()], open).unwrap();
        let create = |path| metadata.create(path, 512, None, None, true);
        create("a").unwrap();

        fails.store(true, Ordering::SeqCst);
        assert_eq!(create("b").unwrap_err().code, FailureCode::NoSpace);
        metadata.lookup("a").unwrap();
        create("b").unwrap_err();
        create("b").unwrap_err();

        fails.store(false, Ordering::SeqCst);
        metadata.lookup("a").unwrap();
        create("c").unwrap();
        metadata.remove("a").unwrap();
        metadata.rename("c", "a", false).unwrap();
    }
}
