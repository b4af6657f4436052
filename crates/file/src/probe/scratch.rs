//! [`ScratchFile`]: the file that a probe writes, which is removed in any case.
//!
//! A local file has no name (`O_TMPFILE`): it is freed with its descriptor, however the process
//! ends. Where a file is created on a chosen storage target, or the file system cannot do that, it
//! is unlinked as soon as it is open. Files on servers are removed when they are dropped, after
//! errors and panics, too. If the process is killed, a probe of the servers a day later removes
//! them ([`sweep`]).

use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode as FileMode, OFlags};
use striate_store::ErrorKind;
use striate_store::rados::RadosNamespace;
use striate_store::remote::Client;
use striate_store::store::Store;

use super::options::TargetStores;
use crate::hints::Switch;
use crate::location::{Location, OpenedStore};
use crate::{FileError, Hints, Mode, StorageTarget};

/// The prefix of the names of such files.
pub(super) const NAME: &str = ".striate-probe-";

/// Older files belong to a process that has ended.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// A file to write to; `store` is closed before the file is removed.
#[derive(Debug)]
pub(super) struct ScratchFile {
    pub(super) store: Arc<dyn Store>,
    pub(super) direct: bool,
    named: Option<Named>,
}

/// A file that is removed when this is dropped.
#[derive(Debug)]
struct Named {
    place: Location,
    is_there: bool,
}

impl Named {
    fn new(target: &StorageTarget) -> Result<Self, FileError> {
        Ok(Self { place: Location::new(&target.path(&unique_name()))?, is_there: true })
    }

    fn remove(mut self) -> Result<(), FileError> {
        self.is_there = false;
        self.place.delete()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if self.is_there {
            // It may not exist; if it cannot be removed, a later probe tries again.
            let _ = self.place.delete();
        }
    }
}

impl ScratchFile {
    /// Opens a new file on the target, bypassing the page cache if asked for and possible.
    pub(super) fn open(
        target: &StorageTarget,
        stores: Option<&dyn TargetStores>,
        direct: bool,
    ) -> Result<Self, FileError> {
        if let Some(stores) = stores {
            return Ok(Self { store: stores.open(target)?, direct: false, named: None });
        }
        let direct = direct && !target.is_remote();
        let mut hints = target.hints(&Hints::default());
        hints.direct = if direct { Switch::Enable } else { Switch::Disable };
        if !target.is_remote()
            && hints.start_iodevice.is_none()
            && let Some(store) = open_unnamed(&target.base(), &hints)
        {
            return Ok(Self { store, direct, named: None });
        }
        let mode = Mode::CREATE | Mode::EXCLUSIVE | Mode::READ | Mode::WRITE;
        let named = Named::new(target)?;
        match named.place.open(mode, &hints, true) {
            Ok(OpenedStore { store, .. }) if target.is_remote() => {
                Ok(Self { store, direct, named: Some(named) })
            }
            Ok(OpenedStore { store, .. }) => {
                named.remove()?;
                Ok(Self { store, direct, named: None })
            }
            Err(FileError::Store(error)) if direct && error.kind() == ErrorKind::Unsupported => {
                drop(named);
                Self::open(target, stores, false)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the file.
    pub(super) fn remove(self) -> Result<(), FileError> {
        let Self { store, named, .. } = self;
        drop(store);
        named.map_or(Ok(()), Named::remove)
    }
}

/// A file in the directory that never has a name, if the file system can do that.
fn open_unnamed(directory: &Path, hints: &Hints) -> Option<Arc<dyn Store>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, FileMode::RUSR | FileMode::WUSR).ok()?;
    // The store opens paths; this is the path of a descriptor.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = Location::Path(path.into()).open(Mode::READ | Mode::WRITE, hints, true).ok()?;
    Some(opened.store)
}

/// A new name.
fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one((std::process::id(), number));
    format!("{NAME}{}-{number}-{random:016x}", std::process::id())
}

/// Removes the files of killed probes from servers.
pub(super) fn sweep(target: &StorageTarget) -> Result<(), FileError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_left = |created_ms| Duration::from_millis(created_ms) + LEFT < now;
    match Location::new(&target.path(NAME))? {
        Location::Servers(url) => {
            let client = Client::shared(&url)?;
            for file in client.list(&url.path)? {
                if is_left(file.created_ms) {
                    client.remove(&file.path)?;
                }
            }
        }
        Location::Rados(url) => {
            let namespace = RadosNamespace::open(&url)?;
            for file in namespace.list(&url.name)? {
                if is_left(file.created_ms) {
                    namespace.remove(&file.name)?;
                }
            }
        }
        // Objects are read only: no probe has left one.
        Location::Path(_) | Location::Object(_) => {}
    }
    Ok(())
}
