//! The [`Store`] of write-behind: what waits of the bytes that a request touches is written before
//! the request.

use std::ops::Range;
use std::sync::atomic::Ordering;

use striate_store::StoreError;
use striate_store::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

use super::WriteBehind;

fn range_of(regions: &[Region]) -> Range<u64> {
    let ends = regions.iter().map(|region| region.offset.saturating_add(region.len as u64));
    let start = regions.iter().map(|region| region.offset).min().unwrap_or(0);
    start..ends.max().unwrap_or(0)
}

impl Store for WriteBehind {
    fn capabilities(&self) -> Capabilities {
        self.file.capabilities()
    }

    fn name(&self) -> String {
        self.file.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.flush();
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.flush();
        self.file.set_len(len)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.flush();
        self.file.preallocate(len)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.flush();
        self.check_failure()?;
        self.file.sync()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.flush_range(&(offset..offset.saturating_add(buffer.len() as u64)));
        let read = self.file.read_at(offset, buffer)?;
        if read == buffer.len() || self.shared.header().waiting.load(Ordering::Acquire) == 0 {
            return Ok(read);
        }
        // What waits beyond makes the file longer, with zeros before it.
        self.flush();
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.flush_range(&(offset..offset.saturating_add(buffer.len() as u64)));
        self.write_in_turn(buffer.len(), || self.file.write_at(offset, buffer))
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.flush();
        self.file.read_list(regions, memory)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.flush_range(&range_of(regions));
        self.file.write_list(regions, memory)
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        self.flush();
        self.file.read_typed(request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        self.flush();
        self.file.write_typed(request, memory)
    }

    /// A lock is taken for a read-modify-write or for atomic mode: nothing may wait then.
    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.flush();
        self.file.lock(range, kind)
    }
}
