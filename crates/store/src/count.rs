//! [`Counted`]: a store that counts requests, regions and bytes.
//!
//! A list or typed request is one operation: access methods are compared by this count.

use std::ops::{Range, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StoreError;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// What was done in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Requests, of all three forms.
    pub operations: u64,
    /// Those of them that were lists.
    pub lists: u64,
    /// Those of them that were typed.
    pub typed: u64,
    /// Regions that were named: 1 by a contiguous request, none by a typed one.
    pub regions: u64,
    /// Bytes that were transferred by requests that succeeded.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// What a store was asked for so far.
///
/// The difference of two is what was done between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
    /// Locks asked for.
    pub locks: u64,
    /// Calls of [`Store::sync`].
    pub syncs: u64,
    /// Questions for the length, cuts and reservations.
    pub others: u64,
}

impl Sub for Transfers {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            operations: self.operations - earlier.operations,
            lists: self.lists - earlier.lists,
            typed: self.typed - earlier.typed,
            regions: self.regions - earlier.regions,
            bytes: self.bytes - earlier.bytes,
            failed: self.failed - earlier.failed,
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            read: self.read - earlier.read,
            write: self.write - earlier.write,
            locks: self.locks - earlier.locks,
            syncs: self.syncs - earlier.syncs,
            others: self.others - earlier.others,
        }
    }
}

/// A store that counts.
#[derive(Debug, Default)]
pub struct Counted<S> {
    inner: S,
    read: Tally,
    write: Tally,
    locks: AtomicU64,
    syncs: AtomicU64,
    others: AtomicU64,
}

#[derive(Debug, Default)]
struct Tally {
    operations: AtomicU64,
    lists: AtomicU64,
    typed: AtomicU64,
    regions: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Tally {
    fn record<T>(
        &self,
        regions: usize,
        bytes: impl FnOnce(&T) -> u64,
        done: &Result<T, StoreError>,
    ) {
        add(&self.operations, 1);
        add(&self.regions, regions as u64);
        match done {
            Ok(value) => add(&self.bytes, bytes(value)),
            Err(_) => add(&self.failed, 1),
        }
    }

    fn snapshot(&self) -> Transfers {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Transfers {
            operations: load(&self.operations),
            lists: load(&self.lists),
            typed: load(&self.typed),
            regions: load(&self.regions),
            bytes: load(&self.bytes),
            failed: load(&self.failed),
        }
    }
}

impl<S: Store> Counted<S> {
    /// Counts what `inner` is asked for.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            read: Tally::default(),
            write: Tally::default(),
            locks: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            others: AtomicU64::new(0),
        }
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// What was asked for so far.
    pub fn counts(&self) -> Counts {
        Counts {
            read: self.read.snapshot(),
            write: self.write.snapshot(),
            locks: self.locks.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            others: self.others.load(Ordering::Relaxed),
        }
    }
}

impl<S: Store> Store for Counted<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        add(&self.others, 1);
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        add(&self.others, 1);
        self.inner.set_len(len)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        add(&self.others, 1);
        self.inner.preallocate(len)
    }

    fn sync(&self) -> Result<(), StoreError> {
        add(&self.syncs, 1);
        self.inner.sync()
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        self.inner.revalidate()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let done = self.inner.read_at(offset, buffer);
        self.read.record(1, |&got| got as u64, &done);
        done
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let done = self.inner.write_at(offset, buffer);
        self.write.record(1, |()| buffer.len() as u64, &done);
        done
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        let done = self.inner.read_list(regions, memory);
        add(&self.read.lists, 1);
        self.read.record(regions.len(), |&got| got, &done);
        done
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        let done = self.inner.write_list(regions, memory);
        add(&self.write.lists, 1);
        let bytes = |&(): &()| regions.iter().map(|region| region.len as u64).sum();
        self.write.record(regions.len(), bytes, &done);
        done
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        let done = self.inner.read_typed(request, memory);
        add(&self.read.typed, 1);
        self.read.record(0, |&got| got, &done);
        done
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        let done = self.inner.write_typed(request, memory);
        add(&self.write.typed, 1);
        self.write.record(0, |()| request.file.len, &done);
        done
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        add(&self.locks, 1);
        self.inner.lock(range, kind)
    }
}
