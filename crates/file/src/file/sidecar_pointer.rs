//! [`SidecarPointer`]: the numbers of a shared pointer in a hidden file next to the file, for ranks
//! without shared memory.
//!
//! An MPI window would do as well, but every file of ranks on several nodes would have to make one
//! when it is opened, since a shared pointer is advanced by one rank alone; few programs use it;
//! and Open MPI 4.1 gives windows of communicators that have no rank in common the same name if
//! they share a node, so that opens fail or crash. The file is made when a rank first advances the
//! pointer, and removed when the file is closed; a job that is killed before leaves it.

use std::sync::{Arc, Mutex, PoisonError};

use striate_store::store::{LockKind, Store};

use crate::location::Location;
use crate::node_state::POINTERS;
use crate::{ErrorKind, FileError, Hints, Mode};

/// See the module.
#[derive(Debug)]
pub(super) struct SidecarPointer {
    location: Location,
    /// Open from its first use on.
    store: Mutex<Option<Arc<dyn Store>>>,
}

impl SidecarPointer {
    /// Next to the file at `location`. All ranks that have opened it together give the same number,
    /// and others another.
    pub(super) fn new(location: &Location, number: u64) -> Self {
        let location = location.hidden_sibling(&format!("pointers-{number:016x}"));
        Self { location, store: Mutex::default() }
    }

    /// Adds to a number, which is 0 at first, and returns what it was before.
    pub(super) fn add(&self, which: usize, n: u64) -> Result<u64, FileError> {
        const LEN: u64 = size_of::<u64>() as u64;
        let Some(store) = self.store(n != 0)? else { return Ok(0) };
        let _lock = store.lock(0..POINTERS as u64 * LEN, LockKind::Exclusive)?;
        let (at, mut bytes) = (which as u64 * LEN, [0; size_of::<u64>()]);
        // Numbers that were not written yet are missing, or read as zeros.
        store.read_at(at, &mut bytes)?;
        let before = u64::from_le_bytes(bytes);
        if n != 0 {
            store.write_at(at, &before.wrapping_add(n).to_le_bytes())?;
        }
        Ok(before)
    }

    /// The file; `None` if there is none and it is not to be created.
    fn store(&self, create: bool) -> Result<Option<Arc<dyn Store>>, FileError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*store {
            return Ok(Some(Arc::clone(store)));
        }
        let both = Mode::READ | Mode::WRITE;
        let mode = if create { both | Mode::CREATE } else { both };
        match self.location.open(mode, &Hints::default(), create) {
            Ok(opened) => Ok(Some(Arc::clone(store.insert(opened.store)))),
            Err(error) if !create && error.kind() == ErrorKind::NoSuchFile => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the file, if a rank has created it. If that fails, it is left over, which does no
    /// harm.
    pub(super) fn remove(&self) {
        let _ = self.location.delete();
    }
}
