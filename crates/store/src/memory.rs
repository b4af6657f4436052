//! [`MemoryStore`]: an object in memory, for tests and for programs that want no file.
//!
//! Content is held in pages, made when they are first written, so that an object may be as sparse
//! as a file. Pages are spread over several maps with a lock each: writers of different offsets
//! rarely wait for each other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{Operation, StoreError};
use crate::expand;
use crate::placement::check_extent;
use crate::range_table::RangeTable;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

const PAGE: usize = 64 << 10;
const SHARDS: usize = 16;

/// An object in memory. Clones are further handles of the same object.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    object: Arc<MemoryObject>,
}

#[derive(Debug)]
struct MemoryObject {
    name: String,
    len: AtomicU64,
    /// Taken shared by writers, and exclusively by a truncation: no page is dropped between the
    /// bytes of a write and the length that it leads to.
    shape: RwLock<()>,
    shards: [RwLock<HashMap<u64, Box<[u8]>>>; SHARDS],
    locks: RangeTable,
}

impl MemoryStore {
    /// An empty object, called `name` in messages.
    pub fn new(name: impl Into<String>) -> Self {
        let object = MemoryObject {
            name: name.into(),
            len: AtomicU64::new(0),
            shape: RwLock::default(),
            shards: std::array::from_fn(|_| RwLock::default()),
            locks: RangeTable::default(),
        };
        Self { object: Arc::new(object) }
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), StoreError> {
        check_extent(offset, len).map_err(|what| {
            StoreError::malformed(operation, &*self.object.name, what).at(offset, len)
        })
    }

    fn check_list(
        &self,
        operation: Operation,
        regions: &[Region],
        memory: usize,
    ) -> Result<u64, StoreError> {
        Region::check_all(regions, memory).map_err(|what| {
            let (offset, len) = Region::hull(regions);
            StoreError::malformed(operation, &*self.object.name, what).at(offset, len)
        })
    }
}

impl MemoryObject {
    fn shard(&self, page: u64) -> &RwLock<HashMap<u64, Box<[u8]>>> {
        &self.shards[(page % SHARDS as u64) as usize]
    }

    /// Reads bytes that are inside of the offsets.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = self.len.load(Ordering::Acquire).saturating_sub(offset);
        let all = left.min(buffer.len() as u64) as usize;
        let mut rest = &mut buffer[..all];
        for (page, within) in pages(offset, all) {
            let (part, others) = rest.split_at_mut(within.len());
            rest = others;
            let shard = self.shard(page).read().unwrap_or_else(PoisonError::into_inner);
            match shard.get(&page) {
                Some(bytes) => part.copy_from_slice(&bytes[within]),
                None => part.fill(0),
            }
        }
        all
    }

    /// Writes bytes that are inside of the offsets.
    fn write(&self, offset: u64, mut buffer: &[u8]) {
        if buffer.is_empty() {
            return;
        }
        let _shape = self.shape.read().unwrap_or_else(PoisonError::into_inner);
        let end = offset + buffer.len() as u64;
        for (page, within) in pages(offset, buffer.len()) {
            let (part, others) = buffer.split_at(within.len());
            buffer = others;
            let mut shard = self.shard(page).write().unwrap_or_else(PoisonError::into_inner);
            let bytes = shard.entry(page).or_insert_with(|| vec![0; PAGE].into_boxed_slice());
            bytes[within].copy_from_slice(part);
        }
        self.len.fetch_max(end, Ordering::AcqRel);
    }

    fn set_len(&self, len: u64) {
        let _shape = self.shape.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.len.swap(len, Ordering::AcqRel);
        if len >= before {
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|&page, bytes| {
                // What is cut off must read as zeros if the object grows again.
                let keep = len.saturating_sub(page * PAGE as u64);
                if keep > 0 && keep < PAGE as u64 {
                    bytes[keep as usize..].fill(0);
                }
                keep > 0
            });
        }
    }
}

/// The pages of a range, with the part of each.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (mut at, end) = (offset, offset + len as u64);
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let from = (at % PAGE as u64) as usize;
        let part = (end - at).min((PAGE - from) as u64) as usize;
        let page = at / PAGE as u64;
        at += part as u64;
        Some((page, from..from + part))
    })
}

impl Store for MemoryStore {
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
        self.object.name.clone()
    }

    fn len(&self) -> Result<u64, StoreError> {
        Ok(self.object.len.load(Ordering::Acquire))
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.check(Operation::SetLen, 0, len)?;
        self.object.set_len(len);
        Ok(())
    }

    /// Only extends the object: pages are made when they are written.
    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.check(Operation::Preallocate, 0, len)?;
        self.object.len.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }

    /// Nothing to do: the object ends with the process.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.check(Operation::Read, offset, buffer.len() as u64)?;
        Ok(self.object.read(offset, buffer))
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.check(Operation::Write, offset, buffer.len() as u64)?;
        self.object.write(offset, buffer);
        Ok(())
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.check_list(Operation::Read, regions, memory.len())?;
        let read = |region: &Region| {
            let part = &mut memory[region.memory..region.memory + region.len];
            self.object.read(region.offset, part) as u64
        };
        Ok(regions.iter().map(read).sum())
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.check_list(Operation::Write, regions, memory.len())?;
        for region in regions {
            let part = &memory[region.memory..region.memory + region.len];
            self.object.write(region.offset, part);
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
        self.object.locks.lock(&self.object.name, range, kind)
    }
}
