//! [`SidecarPointer`]: the numbers of a shared pointer in a file beside the file, for ranks that have no memory in common.
//!
//! A window of MPI would do as well, and every file of ranks on several nodes would have to make one when it is opened,
//! since a shared pointer is moved by one rank alone. Few programs have a use for it, and Open MPI 4.1 makes windows
//! of communicators that have no rank in common under one name, if they share a node: then opens fail or crash. A file is
//! made when somebody first moves the pointer. It goes when the file is closed; a job that is killed before leaves it.

use std::sync::{Arc, Mutex, PoisonError};

use striate_store::store::{LockKind, Store};

use crate::location::Location;
use crate::method::two_phase::window_ring::POINTERS;
use crate::{ErrorKind, FileError, Hints, Mode};

/// See the module.
#[derive(Debug)]
pub(super) struct SidecarPointer {
    place: Location,
    /// Open from its first use on.
    store: Mutex<Option<Arc<dyn Store>>>,
}

impl SidecarPointer {
    /// SidecarPointer the file at `place`; all ranks that have it open give the same number, and other ones another.
    pub(super) fn new(place: &Location, number: u64) -> Self {
        let place = place.hidden_beside(&format!("pointers-{number:016x}"));
        Self { place, store: Mutex::default() }
    }

    /// Adds to a number, which is 0 at first, and returns what it was before.
    pub(super) fn add(&self, which: usize, n: u64) -> Result<u64, FileError> {
        const LEN: u64 = size_of::<u64>() as u64;
        let Some(store) = self.store(n != 0)? else { return Ok(0) };
        let _lock = store.lock(0..POINTERS as u64 * LEN, LockKind::Exclusive)?;
        let (at, mut bytes) = (which as u64 * LEN, [0; size_of::<u64>()]);
        // What was not written yet is missing, or reads as zeros.
        store.read_at(at, &mut bytes)?;
        let before = u64::from_le_bytes(bytes);
        if n != 0 {
            store.write_at(at, &before.wrapping_add(n).to_le_bytes())?;
        }
        Ok(before)
    }

    /// The file; `None` if there is none and it is not to be made.
    fn store(&self, make: bool) -> Result<Option<Arc<dyn Store>>, FileError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*store {
            return Ok(Some(Arc::clone(store)));
        }
        let both = Mode::READ | Mode::WRITE;
        let mode = if make { both | Mode::CREATE } else { both };
        match self.place.open(mode, &Hints::default(), make) {
            Ok(opened) => Ok(Some(Arc::clone(store.insert(opened.store)))),
            Err(error) if !make && error.kind() == ErrorKind::NoSuchFile => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the file, if somebody has made it. If that fails, it is left, and nothing is wrong with anything else.
    pub(super) fn remove(&self) {
        let _ = self.place.delete();
    }
}
