//! [`CloseToOpen`]: for tests, a handle as a client of NFS has it: it keeps what it has read, and
//! others see what it has written when it is synchronised.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;
use crate::expand;
use crate::memory::MemoryStore;
use crate::placement::check_extent;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};
use crate::{Malformed, Operation};

const PAGE: u64 = 512;

/// A handle of an object that lies on a server, with a cache of its own.
#[derive(Debug)]
pub struct CloseToOpen {
    server: MemoryStore,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// Whole pages; bytes beyond the end are zeros.
    pages: BTreeMap<u64, Vec<u8>>,
    /// Bytes that the server does not have yet.
    dirty: BTreeSet<u64>,
    /// The length as this client knows it.
    len: u64,
}

impl CloseToOpen {
    /// Opens the object on the server.
    pub fn open(server: &MemoryStore) -> Result<Self, StoreError> {
        let cache = Cache { len: server.len()?, ..Cache::default() };
        Ok(Self { server: server.clone(), cache: Mutex::new(cache) })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), StoreError> {
        check_extent(offset, len)
            .map_err(|what| StoreError::malformed(operation, self.name(), what).at(offset, len))
    }

    fn check_list(
        &self,
        operation: Operation,
        regions: &[Region],
        memory: usize,
    ) -> Result<(), StoreError> {
        Region::check_all(regions, memory).map(drop).map_err(|what: Malformed| {
            let (offset, len) = Region::hull(regions);
            StoreError::malformed(operation, self.name(), what).at(offset, len)
        })
    }
}

impl Cache {
    /// The page that holds a byte, from the server if it is not known.
    fn page(&mut self, server: &MemoryStore, number: u64) -> Result<&mut Vec<u8>, StoreError> {
        match self.pages.entry(number) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let mut page = vec![0; PAGE as usize];
                server.read_at(number * PAGE, &mut page)?;
                Ok(vacant.insert(page))
            }
        }
    }

    /// Hands what is dirty to the server.
    fn flush(&mut self, server: &MemoryStore) -> Result<(), StoreError> {
        for offset in std::mem::take(&mut self.dirty) {
            let byte = self.pages.get(&(offset / PAGE)).map(|page| page[(offset % PAGE) as usize]);
            if let Some(byte) = byte {
                server.write_at(offset, &[byte])?;
            }
        }
        Ok(())
    }

    /// Asks the server again, from the next read on.
    fn revalidate(&mut self, server: &MemoryStore) -> Result<(), StoreError> {
        self.flush(server)?;
        self.pages.clear();
        self.len = server.len()?;
        Ok(())
    }
}

/// A lock of the server. A client asks for the state when it gets one, and hands over what it has
/// written before it gives it back.
#[derive(Debug)]
struct FlushingLock<'c> {
    client: &'c CloseToOpen,
    _lock: Box<dyn Lock + 'c>,
}

impl Lock for FlushingLock<'_> {}

impl Drop for FlushingLock<'_> {
    fn drop(&mut self) {
        // A store in memory does not fail.
        let _ = self.client.cache().flush(&self.client.server);
    }
}

impl Store for CloseToOpen {
    fn capabilities(&self) -> Capabilities {
        Capabilities { list_regions: None, typed: false, ..self.server.capabilities() }
    }

    fn name(&self) -> String {
        self.server.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        Ok(self.cache().len)
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        let mut cache = self.cache();
        cache.flush(&self.server)?;
        self.server.set_len(len)?;
        cache.revalidate(&self.server)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        let mut cache = self.cache();
        cache.flush(&self.server)?;
        self.server.preallocate(len)?;
        cache.revalidate(&self.server)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.cache().flush(&self.server)
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        self.cache().revalidate(&self.server)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.check(Operation::Read, offset, buffer.len() as u64)?;
        let mut cache = self.cache();
        let end = (offset + buffer.len() as u64).min(cache.len);
        let got = end.saturating_sub(offset) as usize;
        let mut at = 0;
        while at < got {
            let (page, from) = ((offset + at as u64) / PAGE, (offset + at as u64) % PAGE);
            let len = (got - at).min((PAGE - from) as usize);
            let known = cache.page(&self.server, page)?;
            buffer[at..at + len].copy_from_slice(&known[from as usize..from as usize + len]);
            at += len;
        }
        Ok(got)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.check(Operation::Write, offset, buffer.len() as u64)?;
        let mut cache = self.cache();
        for (offset, byte) in (offset..).zip(buffer) {
            cache.page(&self.server, offset / PAGE)?[(offset % PAGE) as usize] = *byte;
            cache.dirty.insert(offset);
        }
        if !buffer.is_empty() {
            cache.len = cache.len.max(offset + buffer.len() as u64);
        }
        Ok(())
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.check_list(Operation::Read, regions, memory.len())?;
        let mut total = 0;
        for region in regions {
            let target = &mut memory[region.memory..region.memory + region.len];
            total += self.read_at(region.offset, target)? as u64;
        }
        Ok(total)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.check_list(Operation::Write, regions, memory.len())?;
        regions.iter().try_for_each(|region| {
            self.write_at(region.offset, &memory[region.memory..region.memory + region.len])
        })
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        expand::read_typed(self, request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        expand::write_typed(self, request, memory)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        let lock = self.server.lock(range, kind)?;
        self.revalidate()?;
        Ok(Box::new(FlushingLock { client: self, _lock: lock }))
    }
}
