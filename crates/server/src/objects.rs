//! [`Objects`]: a server's parts of files, each a local file named by its id.
//!
//! Objects lie in 256 directories by the last byte of their id. A limited number is open at a time.
//! A new object is durable as a name before anything is written to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use lru::LruCache;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use striate_wire::{Failure, FailureCode, StartId, checksum};

use crate::costs::Costs;
use crate::directory::{PRIVATE_FILE, create_private};
use crate::durability::Durability;

/// Bytes that objects leave free, or a sixteenth of a small disk: names must be removable when it
/// is full.
const RESERVE: u64 = 16 << 20;

/// Locks that objects share; so many that few have the same.
const LOCKS: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Objects {
    directory: PathBuf,
    open: Mutex<LruCache<u64, Arc<File>>>,
    /// Taken shared by plain writes, exclusively by a read-modify-write: bytes
    /// between those meant must not be brought back to what they were.
    writers: [RwLock<()>; LOCKS],
    /// What it takes to move their bytes.
    pub(crate) costs: Costs,
    /// Which of them are durable, and what that means to clients.
    pub(crate) durability: Durability,
}

/// Tells a client what the storage said.
pub(crate) fn failed(attempt: &str, object: u64, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            FailureCode::NoSpace
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            FailureCode::ReadOnly
        }
        io::ErrorKind::NotFound => FailureCode::NotFound,
        io::ErrorKind::Unsupported => FailureCode::Unsupported,
        _ => FailureCode::Io,
    };
    tracing::error!(object = format_args!("{object:016x}"), %error, "cannot {attempt} an object");
    Failure::new(code, format!("cannot {attempt} object {object:016x}: {error}"))
}

impl Objects {
    /// The objects below `data`, of which at most `most_open` are open at a time.
    pub fn open(data: &Path, most_open: usize) -> Result<Self, Failure> {
        let directory = data.join("objects");
        create_private(&directory)
            .and_then(|()| sync_directory(data))
            .map_err(|error| failed("find a place for", 0, &error))?;
        let most = NonZeroUsize::new(most_open).unwrap_or(NonZeroUsize::MIN);
        let writers = std::array::from_fn(|_| RwLock::default());
        let costs = Costs::measure(&directory);
        let (open, durability) = (Mutex::new(LruCache::new(most)), Durability::new());
        Ok(Self { directory, open, writers, costs, durability })
    }

    fn shelf(&self, id: u64) -> PathBuf {
        self.directory.join(format!("{:02x}", id & 0xff))
    }

    fn path(&self, id: u64) -> PathBuf {
        self.shelf(id).join(format!("{id:016x}"))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, LruCache<u64, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object, if it exists.
    pub(crate) fn find(&self, id: u64) -> Result<Option<Arc<File>>, Failure> {
        if let Some(object) = self.cache().get(&id) {
            return Ok(Some(Arc::clone(object)));
        }
        match OpenOptions::new().read(true).write(true).open(self.path(id)) {
            Ok(file) => Ok(Some(self.keep(id, file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open", id, &error)),
        }
    }

    /// The object that something is to be done to. Objects are made when their file is, so one that
    /// is missing was lost or removed, and must not come back with zeros where its bytes were.
    pub(crate) fn existing(&self, id: u64, attempt: &str) -> Result<Arc<File>, Failure> {
        self.find(id)?.ok_or_else(|| {
            let text = format!("cannot {attempt} object {id:016x}: it is missing");
            Failure::new(FailureCode::NotFound, text)
        })
    }

    /// The object; made if it does not exist.
    fn find_or_make(&self, id: u64) -> Result<Arc<File>, Failure> {
        if let Some(object) = self.find(id)? {
            return Ok(object);
        }
        let make = || {
            let shelf = self.shelf(id);
            create_private(&shelf)?;
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(PRIVATE_FILE)
                .open(self.path(id))?;
            sync_directory(&shelf)?;
            sync_directory(&self.directory)?;
            Ok(file)
        };
        let file = make().map_err(|error| failed("make", id, &error))?;
        Ok(self.keep(id, file))
    }

    fn keep(&self, id: u64, file: File) -> Arc<File> {
        Arc::clone(self.cache().get_or_insert(id, || Arc::new(file)))
    }

    /// The lock of writers of the object.
    pub(crate) fn writers(&self, id: u64) -> &RwLock<()> {
        &self.writers[(id % LOCKS as u64) as usize]
    }

    /// Makes the object if it does not exist.
    pub fn touch(&self, id: u64) -> Result<(), Failure> {
        self.find_or_make(id).map(drop)
    }

    /// Length of the object, if it exists.
    pub fn len(&self, id: u64) -> Result<Option<u64>, Failure> {
        let Some(object) = self.find(id)? else { return Ok(None) };
        let len = object.metadata().map_err(|error| failed("look at", id, &error))?.len();
        Ok(Some(len))
    }

    /// Cuts the object or extends it by zeros.
    pub fn truncate(&self, id: u64, len: u64) -> Result<(), Failure> {
        let object = self.existing(id, "truncate")?;
        let _alone = self.writers(id).write().unwrap_or_else(PoisonError::into_inner);
        object.set_len(len).map_err(|error| failed("truncate", id, &error))?;
        self.durability.changed(id);
        Ok(())
    }

    /// Reserves space for `len` bytes, and extends the object to that.
    pub fn preallocate(&self, id: u64, len: u64) -> Result<(), Failure> {
        let object = self.existing(id, "reserve space for")?;
        let _alone = self.writers(id).write().unwrap_or_else(PoisonError::into_inner);
        if len == 0 {
            return Ok(());
        }
        self.check_room(id, &object, len, len)?;
        fallocate(&object, FallocateFlags::empty(), 0, len)
            .map_err(|error| failed("reserve space for", id, &error.into()))?;
        self.durability.changed(id);
        Ok(())
    }

    /// Makes the object durable; returns the start of the server whose acknowledged writes to it
    /// are durable then.
    pub fn sync(&self, id: u64) -> Result<StartId, Failure> {
        let object = self.existing(id, "sync")?;
        self.durability.sync(id, || object.sync_data()).map_err(|error| failed("sync", id, &error))
    }

    /// Makes all objects durable that this process has changed.
    pub(crate) fn sync_all(&self) -> Result<(), Failure> {
        self.durability.unsynced().into_iter().try_for_each(|id| match self.sync(id) {
            // Removed meanwhile.
            Err(failure) if failure.code == FailureCode::NotFound => Ok(()),
            result => result.map(drop),
        })
    }

    /// Removes the object, if it exists.
    pub fn remove(&self, id: u64) -> Result<(), Failure> {
        self.cache().pop(&id);
        self.durability.removed(id);
        match fs::remove_file(self.path(id)).and_then(|()| sync_directory(&self.shelf(id))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", id, &error))
            }
            _ => Ok(()),
        }
    }

    /// Ids and lengths of at most `limit` objects after `after`, in the order of their shelves,
    /// and whether there are more.
    pub fn list(&self, after: Option<u64>, limit: u32) -> Result<(Vec<(u64, u64)>, bool), Failure> {
        let place = |id: u64| (id & 0xff, id);
        let mut found = Vec::new();
        let first = after.map_or(0, |after| after & 0xff);
        for shelf in first..256 {
            let mut ids = self.on_shelf(shelf)?;
            ids.sort_unstable();
            for id in
                ids.into_iter().filter(|&id| after.is_none_or(|after| place(id) > place(after)))
            {
                if found.len() == limit as usize {
                    return Ok((found, true));
                }
                // One that was removed meanwhile does not exist.
                if let Ok(metadata) = fs::metadata(self.path(id)) {
                    found.push((id, metadata.len()));
                }
            }
        }
        Ok((found, false))
    }

    /// How many objects there are.
    pub fn count(&self) -> Result<u64, Failure> {
        (0..256).try_fold(0, |sum, shelf| Ok(sum + self.on_shelf(shelf)?.len() as u64))
    }

    fn on_shelf(&self, shelf: u64) -> Result<Vec<u64>, Failure> {
        let read = match fs::read_dir(self.shelf(shelf)) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("list", shelf, &error)),
        };
        let names = read.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()));
        let ids = names.filter(|name| name.len() == 16);
        Ok(ids.filter_map(|name| u64::from_str_radix(&name, 16).ok()).collect())
    }

    /// Whether an object may grow to `len` bytes by `bytes` new ones: not into what is reserved for
    /// the catalogue.
    pub(crate) fn check_room(
        &self,
        id: u64,
        file: &File,
        len: u64,
        bytes: u64,
    ) -> Result<(), Failure> {
        let has = file.metadata().map_err(|error| failed("look at", id, &error))?.len();
        if len <= has {
            return Ok(());
        }
        let (_, _, available) = self.space()?;
        if available < bytes.min(len - has) {
            return Err(failed("extend", id, &io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    /// Bytes of the storage: all, free, and free for objects, which is without what they leave
    /// free.
    pub fn space(&self) -> Result<(u64, u64, u64), Failure> {
        let space = statvfs(&self.directory)
            .map_err(|error| failed("ask for the space of", 0, &error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
        let total = bytes(space.f_blocks);
        let available = bytes(space.f_bavail).saturating_sub(RESERVE.min(total / 16));
        Ok((total, bytes(space.f_bfree), available))
    }

    /// A number that servers have in common if they store on the same disk, and otherwise hardly
    /// ever.
    pub(crate) fn disk(&self) -> Result<u64, Failure> {
        let device = fs::metadata(&self.directory)
            .map_err(|error| failed("ask for the disk of", 0, &error))?
            .dev();
        // Disks of different machines have the same numbers.
        let machine = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let [high, low] = [&b"a"[..], b"b"]
            .map(|part| checksum(&[part, &machine, &device.to_le_bytes()].concat()));
        Ok(u64::from(high) << 32 | u64::from(low))
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let objects = Objects::open(directory.path(), 2).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(objects.len(5).unwrap(), None);
        for id in [5, 0x105, 6, u64::MAX, 7] {
            objects.touch(id).unwrap();
            objects.truncate(id, id & 0xf).unwrap();
        }
        assert_eq!(objects.len(0x105).unwrap(), Some(5));
        assert_eq!((mode(objects.shelf(5)), mode(objects.path(5))), (0o700, 0o600));
        assert_eq!(objects.count().unwrap(), 5);
        let (all, more) = objects.list(None, 10).unwrap();
        assert_eq!(all, [(5, 5), (0x105, 5), (6, 6), (7, 7), (u64::MAX, 15)]);
        assert!(!more);
        let (page, more) = objects.list(Some(0x105), 2).unwrap();
        assert_eq!((page, more), (vec![(6, 6), (7, 7)], true));
        objects.remove(6).unwrap();
        objects.remove(6).unwrap();
        // It does not come back by itself.
        assert_eq!(objects.truncate(6, 1).unwrap_err().code, FailureCode::NotFound);
        assert_eq!(objects.sync(6).unwrap_err().code, FailureCode::NotFound);
        assert_eq!(objects.len(6).unwrap(), None);
        objects.preallocate(7, 100).unwrap();
        assert_eq!(objects.len(7).unwrap(), Some(100));
        assert!(objects.space().unwrap().0 > 0);
    }
}
