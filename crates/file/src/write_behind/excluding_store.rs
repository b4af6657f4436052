//! [`ExcludingStore`]: a store whose writes leave out some byte ranges, which a later call has
//! written.

use std::ops::Range;

use striate_store::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};
use striate_store::{StoreError, expand};

/// See the module.
#[derive(Debug)]
pub(crate) struct ExcludingStore<'a> {
    pub(crate) store: &'a dyn Store,
    /// The ranges, in any order; they may overlap.
    pub(crate) excluded: &'a [Range<u64>],
}

impl<'a> ExcludingStore<'a> {
    /// This, or the store itself where nothing is excluded.
    pub(crate) fn if_needed(&'a self) -> &'a dyn Store {
        if self.excluded.is_empty() { self.store } else { self }
    }
}

/// The parts of `range` that lie in none of `excluded`.
fn without(range: Range<u64>, excluded: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts = vec![range];
    for hole in excluded.iter().filter(|hole| !hole.is_empty()) {
        let cut = |part: Range<u64>| {
            let before = part.start..part.end.min(hole.start);
            let after = part.start.max(hole.end)..part.end;
            [before, after]
        };
        parts = parts.into_iter().flat_map(cut).filter(|part| !part.is_empty()).collect();
    }
    parts
}

impl Store for ExcludingStore<'_> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn name(&self) -> String {
        self.store.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.store.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.store.set_len(len)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.store.preallocate(len)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.store.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let end = offset.saturating_add(buffer.len() as u64);
        for part in without(offset..end, self.excluded) {
            let bytes = &buffer[(part.start - offset) as usize..(part.end - offset) as usize];
            self.store.write_at(part.start, bytes)?;
        }
        Ok(())
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.store.read_list(regions, memory)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        regions.iter().try_for_each(|region| {
            self.write_at(region.offset, &memory[region.memory..region.memory + region.len])
        })
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        self.store.read_typed(request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        expand::write_typed(self, request, memory)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.store.lock(range, kind)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use striate_store::MemoryStore;

    use super::*;

    proptest! {
        #[test]
        fn excluded_bytes_stay(
            excluded in prop::collection::vec((0..100u64, 0..30u64), 0..6),
            (offset, len) in (0..100u64, 0..60usize),
        ) {
            let store = MemoryStore::new("bytes");
            store.write_at(0, &[1; 200]).unwrap();
            let excluded: Vec<_> = excluded.into_iter().map(|(start, len)| start..start + len).collect();
            ExcludingStore { store: &store, excluded: &excluded }.write_at(offset, &vec![2; len]).unwrap();
            let mut found = [0; 200];
            store.read_at(0, &mut found).unwrap();
            for (i, byte) in (0..).zip(found) {
                let is_excluded = excluded.iter().any(|range| range.contains(&i));
                let is_written = (offset..offset + len as u64).contains(&i) && !is_excluded;
                prop_assert_eq!(byte, if is_written { 2 } else { 1 });
            }
        }
    }
}
