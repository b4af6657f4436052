//! [`OpenFileEntry`]: which files this process has open, so that nothing waits where the same file
//! is opened twice.
//!
//! MPI asks for a synchronisation before what was written through one handle of a file is read
//! through another. Programs get along without it, since file systems show them the bytes;
//! libraries open a file twice and rely on it. So what waits in one open file is written when it is
//! opened once more in the same process, and from then on nothing waits in either.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use striate_store::PosixFile;

use super::WriteBehind;

/// A file that this process has open.
struct OpenFile {
    number: u64,
    /// Device and inode.
    file: (u64, u64),
    write_behind: Weak<WriteBehind>,
    /// Where its ranks share memory in this process: the same for ranks that are threads and
    /// opened it together.
    memory: usize,
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

/// An open file of this process, as long as this value lives.
#[derive(Debug)]
pub(crate) struct OpenFileEntry {
    number: u64,
}

impl OpenFileEntry {
    /// Registers an open file. `None` if the file cannot be identified; then no write may wait.
    pub(crate) fn new(file: &PosixFile, write_behind: Option<&Arc<WriteBehind>>) -> Option<Self> {
        let Some(file) = file.identity() else {
            if let Some(write_behind) = write_behind {
                write_behind.disable();
            }
            return None;
        };
        let mut entries = entries();
        entries.last += 1;
        let number = entries.last;
        // Without shared memory, it is different from all others.
        let memory = write_behind.map_or(usize::MAX, |one| one.shared.address());
        let is_other = |entry: &&OpenFile| {
            entry.file == file && (entry.memory != memory || memory == usize::MAX)
        };
        let others: Vec<_> =
            entries.list.iter().filter(is_other).map(|entry| entry.write_behind.clone()).collect();
        let weak = write_behind.map_or_else(Weak::new, Arc::downgrade);
        entries.list.push(OpenFile { number, file, write_behind: weak, memory });
        drop(entries);
        if !others.is_empty() {
            for one in others.iter().filter_map(Weak::upgrade).chain(write_behind.cloned()) {
                one.disable();
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

/// Writes what waits of all files that this process has open: for a process that ends without
/// closing them.
pub fn flush_all_files() {
    let waiting: Vec<_> =
        entries().list.iter().filter_map(|entry| entry.write_behind.upgrade()).collect();
    for write_behind in waiting {
        write_behind.flush();
    }
}
