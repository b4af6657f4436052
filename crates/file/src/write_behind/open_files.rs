//! [`OpenFileEntry`]: which files this process has open, so that nothing waits where somebody else looks.
//!
//! MPI asks for a synchronisation before what was written by one opening of a file is read by another. Programs get
//! along without, since file systems show them the bytes; libraries open a file twice and rely on it. So what waits in
//! one opening is written when another is made in the same process, and from then on nothing waits in either.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use striate_store::PosixFile;

use super::WriteBehind;

/// A file that this process has open.
struct OpenFile {
    number: u64,
    /// Device and inode.
    file: (u64, u64),
    behind: Weak<WriteBehind>,
    /// What ranks of one opening have in common, where they are threads: the memory.
    opening: usize,
}

#[derive(Default)]
struct OpenFiles {
    last: u64,
    list: Vec<OpenFile>,
}

static OPEN_FILES: Mutex<OpenFiles> = Mutex::new(OpenFiles { last: 0, list: Vec::new() });

fn entries() -> MutexGuard<'static, OpenFiles> {
    OPEN_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An opening of a file in this process, as long as this value lives.
#[derive(Debug)]
pub(crate) struct OpenFileEntry {
    number: u64,
}

impl OpenFileEntry {
    /// Tells that a file is open. `None` if nobody can know which file it is; then nothing may wait.
    pub(crate) fn new(file: &PosixFile, behind: Option<&Arc<WriteBehind>>) -> Option<Self> {
        let Some(file) = file.identity() else {
            if let Some(behind) = behind {
                behind.retire();
            }
            return None;
        };
        let mut entries = entries();
        entries.last += 1;
        let number = entries.last;
        // Without memory, an opening is like no other.
        let opening =
            behind.map_or(usize::MAX, |behind| behind.shared.memory.as_ptr().addr().get());
        let is_other = |entry: &&OpenFile| {
            entry.file == file && (entry.opening != opening || opening == usize::MAX)
        };
        let others: Vec<_> =
            entries.list.iter().filter(is_other).map(|entry| entry.behind.clone()).collect();
        let weak = behind.map_or_else(Weak::new, Arc::downgrade);
        entries.list.push(OpenFile { number, file, behind: weak, opening });
        drop(entries);
        if !others.is_empty() {
            for one in others.iter().filter_map(Weak::upgrade).chain(behind.cloned()) {
                one.retire();
            }
        }
        Some(Self { number })
    }
}

impl Drop for OpenFileEntry {
    fn drop(&mut self) {
        entries().list.retain(|entry| entry.number != self.number);
    }
}

/// Writes what waits of all files that this process has open: for a process that ends without closing them.
pub fn flush_all_files() {
    let waiting: Vec<_> =
        entries().list.iter().filter_map(|entry| entry.behind.upgrade()).collect();
    for behind in waiting {
        behind.settle_all();
    }
}
