//! Directories that are open, and their entries.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use striate_stack::{Detail, Function};

use crate::backend::DirectoryEntry;
use crate::source_fs::SourceFs;
use crate::source_fs::identity::kind_of;
use crate::sync::lock;

/// Entries that are asked of the source at a time, in bytes.
const ROOM: usize = 16 << 10;

/// A directory that a program has open.
#[derive(Debug)]
pub(crate) struct DirectoryHandle {
    node: u64,
    descriptor: OwnedFd,
    /// Whether it has been listed: a listing that begins again shows the current entries.
    begun: bool,
}

impl SourceFs {
    /// Opens a directory to be listed. Returns its number.
    pub(crate) fn open_directory(&self, id: u64) -> Result<u64, Errno> {
        let open = || {
            let directory = self.descriptor(id)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(&*directory, c".", flags, Mode::empty())
        };
        // Already here: programs compare the times of the directory before they list it and after.
        let descriptor = match self.dentry_of(id)? {
            Some(dentry) => self.noticed(Function::Opendir, &dentry, &Detail::default(), open)?,
            None => open()?,
        };
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let listing = Arc::new(Mutex::new(DirectoryHandle { node: id, descriptor, begun: false }));
        lock(&self.directories).insert(number, listing);
        Ok(number)
    }

    /// Stages hand on what they hold of a directory that is about to be listed.
    fn before_listing(&self, id: u64) -> Result<(), Errno> {
        match self.dentry_of(id)? {
            Some(dentry) => self.noticed(Function::Opendir, &dentry, &Detail::default(), || Ok(())),
            None => Ok(()),
        }
    }

    fn directory_handle(&self, number: u64) -> Result<Arc<Mutex<DirectoryHandle>>, Errno> {
        lock(&self.directories).get(&number).cloned().ok_or(Errno::BADF)
    }

    /// Lists a directory from a place on, until `take` says that it has enough.
    pub(crate) fn list(
        &self,
        number: u64,
        from: u64,
        mut take: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let listing = self.directory_handle(number)?;
        let mut listing = lock(&listing);
        if from == 0 && std::mem::replace(&mut listing.begun, true) {
            self.before_listing(listing.node)?;
        }
        rustix::fs::seek(&listing.descriptor, SeekFrom::Start(from))?;
        let mut room = [MaybeUninit::<u8>::uninit(); ROOM];
        let mut entries = RawDir::new(&listing.descriptor, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // What the kernel knows by a number of ours is listed by that.
            let known = self.nodes().named(listing.node, name);
            let entry = DirectoryEntry {
                number: known.unwrap_or(entry.ino()),
                next: entry.next_entry_cookie(),
                kind: kind_of(entry.file_type().as_raw_mode()),
                name,
            };
            if take(entry) {
                break;
            }
        }
        Ok(())
    }

    /// Makes the names of a directory durable.
    pub(crate) fn sync_directory(&self, number: u64, data_only: bool) -> Result<(), Errno> {
        let listing = self.directory_handle(number)?;
        let descriptor = &lock(&listing).descriptor;
        if data_only { rustix::fs::fdatasync(descriptor) } else { rustix::fs::fsync(descriptor) }
    }

    pub(crate) fn close_directory(&self, number: u64) -> Result<(), Errno> {
        lock(&self.directories).remove(&number).map(|_| ()).ok_or(Errno::BADF)
    }
}
