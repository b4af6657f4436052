//! Directories that are listed, and file systems that are asked about.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use striate_stack::{Detail, Function};

use crate::door::{Door, lock};
use crate::identity::kind_of;

/// Entries that are asked of the source at a time, in bytes.
const ROOM: usize = 16 << 10;

/// A directory that is listed.
#[derive(Debug)]
pub(crate) struct Listing {
    node: u64,
    descriptor: OwnedFd,
    /// Whether it has been listed: whoever begins anew wants to see what is there by then.
    begun: bool,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) number: u64,
    /// Where the listing goes on after it.
    pub(crate) next: u64,
    pub(crate) kind: fuser::FileType,
    pub(crate) name: &'a OsStr,
}

impl Door {
    /// Opens a directory to be listed. Returns its number.
    pub(crate) fn open_listing(&self, id: u64) -> Result<u64, Errno> {
        let open = || {
            let directory = self.descriptor(id)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(&*directory, c".", flags, Mode::empty())
        };
        // Already here: programs compare the times of the directory before they list it and after.
        let descriptor = match self.spot_of(id)? {
            Some(spot) => self.noticed(Function::Opendir, &spot, &Detail::default(), open)?,
            None => open()?,
        };
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let listing = Arc::new(Mutex::new(Listing { node: id, descriptor, begun: false }));
        lock(&self.listings).insert(number, listing);
        Ok(number)
    }

    /// Stages hand on what they hold of a directory that is about to be listed.
    fn before_listing(&self, id: u64) -> Result<(), Errno> {
        match self.spot_of(id)? {
            Some(spot) => self.noticed(Function::Opendir, &spot, &Detail::default(), || Ok(())),
            None => Ok(()),
        }
    }

    fn listing(&self, number: u64) -> Result<Arc<Mutex<Listing>>, Errno> {
        lock(&self.listings).get(&number).cloned().ok_or(Errno::BADF)
    }

    /// Lists a directory from a place on, until `take` says that it has enough.
    pub(crate) fn list(
        &self,
        number: u64,
        from: u64,
        mut take: impl FnMut(u64, Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        let listing = self.listing(number)?;
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
            let listed = Listed {
                number: known.unwrap_or(entry.ino()),
                next: entry.next_entry_cookie(),
                kind: kind_of(entry.file_type().as_raw_mode()),
                name,
            };
            if take(listing.node, listed) {
                break;
            }
        }
        Ok(())
    }

    /// Makes the names of a directory durable.
    pub(crate) fn sync_listing(&self, number: u64, data_only: bool) -> Result<(), Errno> {
        let listing = self.listing(number)?;
        let descriptor = &lock(&listing).descriptor;
        if data_only { rustix::fs::fdatasync(descriptor) } else { rustix::fs::fsync(descriptor) }
    }

    pub(crate) fn close_listing(&self, number: u64) -> Result<(), Errno> {
        lock(&self.listings).remove(&number).map(|_| ()).ok_or(Errno::BADF)
    }
}
