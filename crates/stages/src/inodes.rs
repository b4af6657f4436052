//! [`Inodes`]: what a stage stores per inode, for all open files of this process on it.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, Mutex};

use rustix::fs::FileType;
use striate_process::lock::lock;

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// What is known of each file that is open.
#[derive(Debug)]
pub(crate) struct Inodes<T>(Mutex<HashMap<Identity, InodeEntry<T>>>);

#[derive(Debug)]
struct InodeEntry<T> {
    of: Arc<T>,
    users: usize,
}

impl<T> Default for Inodes<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Inodes<T> {
    /// What is known of a file that was just opened; new if nothing is.
    pub(crate) fn attach(&self, identity: Identity, new: impl FnOnce() -> T) -> Arc<T> {
        let mut known = lock(&self.0);
        let known =
            known.entry(identity).or_insert_with(|| InodeEntry { of: Arc::new(new()), users: 0 });
        known.users += 1;
        Arc::clone(&known.of)
    }

    /// An open file that was attached is closed.
    pub(crate) fn detach(&self, identity: Identity) {
        let mut all = lock(&self.0);
        if let Some(known) = all.get_mut(&identity) {
            known.users = known.users.saturating_sub(1);
            if known.users == 0 {
                all.remove(&identity);
            }
        }
    }

    /// What is known of a file.
    pub(crate) fn get(&self, identity: Identity) -> Option<Arc<T>> {
        lock(&self.0).get(&identity).map(|known| Arc::clone(&known.of))
    }

    /// What is known of all.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        lock(&self.0).values().map(|known| Arc::clone(&known.of)).collect()
    }
}

/// What a descriptor stands for, if it is a regular file.
pub(crate) fn identity(descriptor: RawFd) -> Option<Identity> {
    // SAFETY: it was just opened, and has no other user yet.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let stat = rustix::fs::fstat(descriptor).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        .then_some((stat.st_dev, stat.st_ino))
}
