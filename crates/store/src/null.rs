//! [`NullStore`]: a store with a length and no bytes, to measure everything except storage.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Malformed, Operation, StoreError};
use crate::expand;
use crate::placement::check_extent;
use crate::range_table::RangeTable;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

const NAME: &str = "the null store";

/// An object whose bytes are all zero. Writes extend it and otherwise vanish. Clones are further
/// handles of the same object.
#[derive(Clone, Debug, Default)]
pub struct NullStore {
    object: Arc<NullObject>,
}

#[derive(Debug, Default)]
struct NullObject {
    len: AtomicU64,
    locks: RangeTable,
}

impl NullStore {
    /// An object of length 0.
    pub fn new() -> Self {
        Self::default()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = self.object.len.load(Ordering::Acquire).saturating_sub(offset);
        let all = left.min(buffer.len() as u64) as usize;
        buffer[..all].fill(0);
        all
    }

    fn extend(&self, offset: u64, len: usize) {
        if len > 0 {
            self.object.len.fetch_max(offset + len as u64, Ordering::AcqRel);
        }
    }
}

fn malformed(operation: Operation, offset: u64, len: u64) -> impl FnOnce(Malformed) -> StoreError {
    move |what| StoreError::malformed(operation, NAME, what).at(offset, len)
}

fn check_list(operation: Operation, regions: &[Region], memory: usize) -> Result<u64, StoreError> {
    let (offset, len) = Region::hull(regions);
    Region::check_all(regions, memory).map_err(malformed(operation, offset, len))
}

impl Store for NullStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_regions: Some(expand::BATCH),
            typed: false,
            locks: true,
            stripe_unit: None,
            stripe_count: None,
            alignment: 1,
            serial_writes: false,
        }
    }

    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn len(&self) -> Result<u64, StoreError> {
        Ok(self.object.len.load(Ordering::Acquire))
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        check_extent(0, len).map_err(malformed(Operation::SetLen, 0, len))?;
        self.object.len.store(len, Ordering::Release);
        Ok(())
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        check_extent(0, len).map_err(malformed(Operation::Preallocate, 0, len))?;
        self.object.len.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let len = buffer.len() as u64;
        check_extent(offset, len).map_err(malformed(Operation::Read, offset, len))?;
        Ok(self.read(offset, buffer))
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let len = buffer.len() as u64;
        check_extent(offset, len).map_err(malformed(Operation::Write, offset, len))?;
        self.extend(offset, buffer.len());
        Ok(())
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        check_list(Operation::Read, regions, memory.len())?;
        let read = |region: &Region| {
            let part = &mut memory[region.memory..region.memory + region.len];
            self.read(region.offset, part) as u64
        };
        Ok(regions.iter().map(read).sum())
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        check_list(Operation::Write, regions, memory.len())?;
        for region in regions {
            self.extend(region.offset, region.len);
        }
        Ok(())
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        expand::read_typed(self, request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        expand::write_typed(self, request, memory)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.object.locks.lock(NAME, range, kind)
    }
}
