//! [`Extent`]: the catalogue's storage, which never gives back space.
//!
//! Names must be removable, and a server must start, when the disk is full. But every change of the
//! database writes new pages before it gives up old ones, so it needs space, also to remove
//! something; and the database gives its free pages back to the file system: half of those at its
//! end with every change, all of them when it is closed. When it needs pages again, it doubles, by
//! a file with a hole that no disk may have the space for.
//!
//! So the storage is not shortened when the database asks for that, and space that is added is
//! allocated before the database knows of it: its writes never fail because of a full disk. A
//! database accepts storage that is longer than what it knows of, and uses all of it.
//! [`super::reserve`] decides when names may be added.
//!
//! # Durable growth
//!
//! The database grows its file, writes its pages and a header with the new length, and makes
//! all of that durable in one sync. A file system may write the header first and the new length
//! last (ext4 does: bytes that are overwritten in place are not ordered against the journal, which
//! holds the length). If the power goes in between, the header counts more bytes than there are,
//! and the database refuses its own file. So a longer length is made durable before anything is
//! written that depends on it. The file doubles when it grows, which makes the extra sync rare.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::StorageBackend;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Bytes of a page of the database: its storage is as long as a number of them.
pub(super) const PAGE: u64 = 4096;

/// Bytes of zeros that are written at once.
const ZEROS: u64 = 64 << 10;

/// The catalogue's storage; see the module.
#[derive(Debug)]
pub(super) struct Extent {
    storage: Box<dyn StorageBackend>,
    /// The same file, to allocate its blocks; `None` if the storage is not a file.
    blocks: Option<File>,
    /// Bytes that the database has.
    used: AtomicU64,
    /// Bytes that the storage has.
    held: Mutex<u64>,
}

impl Extent {
    /// All that the storage has.
    pub(super) fn new(storage: impl StorageBackend, blocks: Option<File>) -> io::Result<Self> {
        let len = storage.len()?;
        // A growth that was interrupted may have left a part of a page.
        let whole = if len < PAGE { len } else { len / PAGE * PAGE };
        let extent = Self {
            storage: Box::new(storage),
            blocks,
            used: AtomicU64::new(whole),
            held: Mutex::new(whole),
        };
        if let (Some(file), 1..) = (&extent.blocks, whole) {
            // Holes that an older version left. If they cannot be filled, it is tried to go on as
            // that did.
            let _ = fallocate(file, FallocateFlags::KEEP_SIZE, 0, whole);
        }
        Ok(extent)
    }

    /// Bytes that the database has.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }

    /// Bytes that it can have without more of the disk.
    pub(super) fn held(&self) -> u64 {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the database can have so many bytes.
    pub(super) fn hold(&self, len: u64) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let len = len.next_multiple_of(PAGE);
        if len <= *held {
            return Ok(());
        }
        let grown = self.allocate(*held, len).and_then(|()| {
            self.storage.set_len(len)?;
            self.storage.sync_data()
        });
        match grown {
            Ok(()) => *held = len,
            // What was allocated until it failed is given back to other users of the disk.
            Err(_) => self.storage.set_len(*held)?,
        }
        grown
    }

    /// Takes the space from `from` to `to` from the disk.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        let Some(file) = &self.blocks else { return Ok(()) };
        loop {
            // The length comes later, in one step.
            match fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
                done => return Ok(done?),
            }
        }
        let zeros = vec![0; ZEROS as usize];
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROS);
            self.storage.write(at, &zeros[..len as usize])?;
            at += len;
        }
        Ok(())
    }
}

/// The extent, as the database uses it.
#[derive(Debug)]
pub(super) struct RedbStorage(pub(super) Arc<Extent>);

impl StorageBackend for RedbStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.used())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.hold(len)?;
        self.0.used.store(len, Ordering::SeqCst);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.storage.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.storage.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        // Much more than what is used is given back; what a start and removals take is not.
        let enough = super::reserve::enough_for(self.0.used());
        if self.0.held() > 2 * enough {
            let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.storage.set_len(enough)?;
            *held = enough;
        }
        self.0.storage.close()
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::{FileBackend, InMemoryBackend};

    use super::*;

    #[test]
    fn space_is_allocated_before_it_is_used_and_kept_when_it_is_not() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let [shown, blocks, looked_at] = [(); 3].map(|()| file.try_clone().unwrap());
        let extent = Arc::new(Extent::new(FileBackend::new(shown).unwrap(), Some(blocks)).unwrap());
        let storage = RedbStorage(Arc::clone(&extent));
        let of_disk = || looked_at.metadata().unwrap().blocks() * 512;
        storage.set_len(1 << 20).unwrap();
        assert!(of_disk() >= 1 << 20, "{}", of_disk());
        storage.set_len(8192).unwrap();
        assert_eq!((storage.len().unwrap(), extent.held()), (8192, 1 << 20));
        assert!(of_disk() >= 1 << 20, "{}", of_disk());
        extent.hold((1 << 20) + 1).unwrap();
        assert_eq!(looked_at.metadata().unwrap().len(), (1 << 20) + PAGE);
        // Closed, it gives back what is out of proportion.
        extent.hold(64 << 20).unwrap();
        storage.close().unwrap();
        let left = looked_at.metadata().unwrap().len();
        assert!((1 << 20..8 << 20).contains(&left), "{left}");
    }

    #[test]
    fn a_part_of_a_page_does_not_count() {
        let storage = InMemoryBackend::new();
        storage.set_len(3 * PAGE + 1024).unwrap();
        let storage = RedbStorage(Arc::new(Extent::new(storage, None).unwrap()));
        assert_eq!(storage.len().unwrap(), 3 * PAGE);
        storage.set_len(5 * PAGE).unwrap();
        assert_eq!(storage.0.storage.len().unwrap(), 5 * PAGE);
    }
}
