//! Typed requests on stores that do not understand them: expanded by cursors into lists.
//!
//! Memory is constant: at most [`BATCH`] regions are held at a time, whatever the request stands
//! for. A batch is sorted by offset if its regions do not ascend by themselves, which
//! [`Store::read_list`] requires and which is faster on disks; the bytes are the same.

use crate::error::{Operation, StoreError};
use crate::store::{Region, Store, TypedRequest};

/// Regions that are gathered before a list is handed on.
pub const BATCH: usize = 1024;

/// Carries out a typed read by lists.
///
/// Returns how many of its bytes lie before the end of the object.
pub fn read_typed<S: Store + ?Sized>(
    store: &S,
    request: &TypedRequest,
    memory: &mut [u8],
) -> Result<u64, StoreError> {
    // After a short batch there is nothing more to read if offsets only grow.
    let ascending = request.file.datatype.is_monotonic();
    let mut total = 0;
    in_batches(store, Operation::Read, request, memory.len(), |batch, bytes| {
        let got = match batch {
            [one] => {
                let target = &mut memory[one.memory..one.memory + one.len];
                store.read_at(one.offset, target)? as u64
            }
            _ => store.read_list(batch, memory)?,
        };
        total += got;
        Ok(got == bytes || !ascending)
    })?;
    Ok(total)
}

/// Carries out a typed write by lists.
pub fn write_typed<S: Store + ?Sized>(
    store: &S,
    request: &TypedRequest,
    memory: &[u8],
) -> Result<(), StoreError> {
    in_batches(store, Operation::Write, request, memory.len(), |batch, _| {
        match batch {
            [one] => store.write_at(one.offset, &memory[one.memory..one.memory + one.len])?,
            _ => store.write_list(batch, memory)?,
        }
        Ok(true)
    })
}

/// Hands the regions of a request and their bytes to `each`, in batches, while it says so.
fn in_batches<S: Store + ?Sized>(
    store: &S,
    operation: Operation,
    request: &TypedRequest,
    memory: usize,
    mut each: impl FnMut(&[Region], u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let mut regions = request.regions(memory).map_err(|what| {
        let error = StoreError::malformed(operation, store.name(), what);
        error.at(request.first_offset(), request.file.len)
    })?;
    let mut batch: Vec<Region> = Vec::new();
    loop {
        batch.clear();
        batch.extend(regions.by_ref().take(BATCH));
        if batch.is_empty() {
            return Ok(());
        }
        if !batch.is_sorted_by_key(|region| region.offset) {
            batch.sort_unstable_by_key(|region| region.offset);
        }
        let bytes = batch.iter().map(|region| region.len as u64).sum();
        if !each(&batch, bytes)? || batch.len() < BATCH {
            return Ok(());
        }
    }
}
