//! [`Coherent`]: the contract of [`Store`] on file systems whose clients see each other's writes
//! late.
//!
//! On NFS and its like, a write is seen by other nodes when it was synchronised, and a read returns
//! what the node knew, unless it asks again. Here a write request is synchronised before it
//! returns, and a read request asks first. So collective calls, locks and the reading back of
//! windows mean the same as on other file systems, whichever rank carries them out. It costs a
//! round trip or two for each request; collective calls make few and large ones.

use std::ops::Range;

use crate::error::StoreError;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// A store of which other handles see every write once it has returned, and which sees theirs.
#[derive(Debug)]
pub struct Coherent<S>(S);

impl<S: Store> Coherent<S> {
    /// Around a handle.
    pub fn new(inner: S) -> Self {
        Self(inner)
    }
}

impl<S: Store> Store for Coherent<S> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.0.revalidate()?;
        self.0.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.0.set_len(len)?;
        self.0.sync()
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.0.revalidate()?;
        self.0.preallocate(len)?;
        self.0.sync()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.0.sync()?;
        self.0.revalidate()
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        self.0.revalidate()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.0.revalidate()?;
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.0.write_at(offset, buffer)?;
        self.0.sync()
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.0.revalidate()?;
        self.0.read_list(regions, memory)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.0.write_list(regions, memory)?;
        self.0.sync()
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        self.0.revalidate()?;
        self.0.read_typed(request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        self.0.write_typed(request, memory)?;
        self.0.sync()
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.0.lock(range, kind)
    }
}
