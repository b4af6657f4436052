//! Independent writes to stored chunks, without a message to other ranks and in bounded memory.
//!
//! They wait until all ranks meet ([`super::settlement`]): several ranks may have elements of the
//! same chunk. What does not fit in memory (`nc_chunk_cache`) waits in the file, in space that the
//! rank takes alone ([`striate_hdf5::write::Arenas`]), chunks as they will stay there. The rank
//! reads what it wrote.

use striate_hdf5::model::Address;
use striate_hdf5::write::StoredChunk;

use super::super::chunk_cache::ChunkKey;
use super::super::hdf5_error;
use super::blocks::write_blocks;
use super::deferred::{ElementRecords, WholeChunk};
use super::element_records::{ElementMask, apply, masked, push_slab};
use super::encode::ChunkEncoder;
use super::filter_threads::{FilterThreads, bytes_at_a_time};
use super::message::Words;
use super::spilled_bytes::place_arenas;
use super::{covers, cut_off, decode, in_chunk, places};
use crate::access::Access;
use crate::file_state::FileState;
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset};

impl Dataset {
    /// Writes to stored chunks. Independent.
    pub(crate) fn put_stored_independent(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
    ) -> Result<(), ArrayError> {
        let mut threads = self.filter_threads();
        for access in accesses {
            let Some(hyperslab) = &access.hyperslab else { continue };
            let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
            let bytes = netcdf4.chunk_bytes(access.variable).max(1);
            let each = (bytes_at_a_time(bytes) / bytes).max(1) as usize;
            let places = places(hyperslab, &netcdf4.chunk_shape(access.variable));
            for group in places.chunks(each) {
                // Nothing is added as long as there is no room.
                self.spill_beyond_limit()?;
                self.defer(access, group, &mut threads)?;
            }
        }
        self.spill_beyond_limit()
    }

    /// Keeps what an access writes to some chunks.
    fn defer(
        &mut self,
        access: &Access<WriteStream<'_>>,
        places: &[Vec<u64>],
        threads: &mut FilterThreads,
    ) -> Result<(), ArrayError> {
        let variable = access.variable;
        let size = self.element_size(variable);
        let extent = self.state.header.shape(&self.state.header.variables[variable]);
        let (Some(hyperslab), Some(netcdf4)) = (&access.hyperslab, &self.state.netcdf4) else {
            return Ok(());
        };
        let shape = netcdf4.chunk_shape(variable);
        let (mut whole, mut partial) = (Vec::new(), Vec::new());
        for place in places {
            let key = (variable, place.clone());
            if covers(hyperslab, &shape, &extent, place) {
                whole.push(key);
            } else if in_chunk(hyperslab, &shape, size, place)?.is_some() {
                partial.push(key);
            }
        }
        let Some(encoder) = ChunkEncoder::new(&self.state) else { return Ok(()) };
        let bytes = netcdf4.filtered_bytes(variable) * whole.len() as u64;
        let encoded = threads.map(&whole, bytes, |key, memory| {
            encoder.begin(key, &mut memory.chunk);
            encoder.gather(access, key, &mut memory.chunk)?;
            encoder.encode(key, &memory.chunk, &mut memory.scratch)
        });
        for one in encoded {
            let (chunk, bytes) = one?;
            self.keep_whole(chunk.key, bytes, chunk.filter_mask);
        }
        for key in &partial {
            let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
            let mut records = Words::default();
            let elements = push_slab(&mut records, access, netcdf4.geometry(key, &shape))?;
            netcdf4.deferred.push(key, &records.0, elements);
            self.merge_if_worthwhile(key, threads)?;
        }
        Ok(())
    }

    fn keep_whole(&mut self, key: ChunkKey, bytes: Vec<u8>, filter_mask: u32) {
        let Some(netcdf4) = &mut self.state.netcdf4 else { return };
        netcdf4.cache.remove(&key);
        netcdf4.deferred.set_whole(key, bytes, filter_mask);
    }

    /// Merges the records of a chunk if they may have all of its elements, or if they are much
    /// longer than the chunk. The cost is in proportion to what was added since the last time.
    fn merge_if_worthwhile(
        &mut self,
        key: &ChunkKey,
        threads: &mut FilterThreads,
    ) -> Result<(), ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let Some(chunk) = netcdf4.deferred.chunks.get(key) else { return Ok(()) };
        let records = &chunk.records;
        let due = self.elements_within(key);
        let may_be_whole = records.merged + records.added >= due && records.added >= due / 8;
        let elements = netcdf4.chunk_bytes(key.0) / self.element_size(key.0).max(1);
        let most = netcdf4.chunk_bytes(key.0) + elements / 8 + 64;
        if may_be_whole || records.bytes() > 2 * most {
            self.merge_records(key, threads)?;
        }
        Ok(())
    }

    /// The elements of a chunk that the variable has.
    fn elements_within(&self, key: &ChunkKey) -> u64 {
        let extent = self.state.header.shape(&self.state.header.variables[key.0]);
        let Some(netcdf4) = &self.state.netcdf4 else { return 0 };
        let shape = netcdf4.chunk_shape(key.0);
        let along = key.1.iter().zip(&shape).zip(&extent);
        along.map(|((at, &len), extent)| extent.saturating_sub(at * len).min(len)).product()
    }

    /// Makes the records of a chunk an encoded chunk, if there is one below or if they have all
    /// elements, and otherwise one record.
    pub(super) fn merge_records(
        &mut self,
        key: &ChunkKey,
        threads: &mut FilterThreads,
    ) -> Result<(), ArrayError> {
        let due = self.elements_within(key);
        let below = read_whole(&mut self.state, key)?;
        let records = read_records(&mut self.state, key)?;
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let Some(encoder) = ChunkEncoder::new(&self.state) else { return Ok(()) };
        let shape = netcdf4.chunk_shape(key.0);
        let of = netcdf4.geometry(key, &shape);
        let memory = threads.own_memory();
        let mut mask = ElementMask::new(shape.iter().product());
        let is_whole = if let Some((stored, encoded)) = &below {
            let decoded = decode(netcdf4, key.0, Some((*stored, encoded)), &mut memory.scratch);
            memory.chunk = decoded.map_err(|error| hdf5_error(&self.state.file, error))?;
            apply(&records, of, &mut memory.chunk, None)?;
            true
        } else {
            encoder.begin(key, &mut memory.chunk);
            apply(&records, of, &mut memory.chunk, Some(&mut mask))?;
            mask.count() >= due
        };
        if is_whole {
            let (chunk, bytes) = encoder.encode(key, &memory.chunk, &mut memory.scratch)?;
            self.keep_whole(chunk.key, bytes, chunk.filter_mask);
            return Ok(());
        }
        let record = masked(&mask, &memory.chunk, of.size);
        if let Some(netcdf4) = &mut self.state.netcdf4 {
            netcdf4.deferred.set_records(key, record, mask.count());
        }
        Ok(())
    }

    /// Moves what waits from memory to arenas if it is more than the limit.
    pub(super) fn spill_beyond_limit(&mut self) -> Result<(), ArrayError> {
        let limit = self.options.chunk_cache.unwrap_or(super::super::CHUNK_CACHE);
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        if netcdf4.deferred.memory <= limit { Ok(()) } else { spill(&mut self.state) }
    }
}

/// Writes all that waits in memory to the rank's arenas. After an error it still waits in memory.
fn spill(state: &mut FileState) -> Result<(), ArrayError> {
    place_arenas(state)?;
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(()) };
    let failed = |error| hdf5_error(&state.file, error);
    let mut taken: Vec<(u64, u64)> = Vec::new();
    let placed = places_of(netcdf4, &mut taken).map_err(failed);
    // The blocks are written where they are.
    let deferred = std::mem::take(&mut netcdf4.deferred.chunks);
    let written = placed.and_then(|placed| {
        let mut blocks = Vec::new();
        for (chunk, place) in deferred.values().zip(&placed) {
            if let (Some(WholeChunk::InMemory { bytes, .. }), Some(at)) =
                (&chunk.whole, place.whole)
            {
                blocks.push((at, bytes.as_slice()));
            }
            let mut rest = chunk.records.in_memory.as_slice();
            for &(at, len) in &place.records {
                let (block, after) = rest.split_at(len as usize);
                blocks.push((at, block));
                rest = after;
            }
        }
        write_blocks(state, blocks)?;
        Ok(placed)
    });
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(()) };
    netcdf4.deferred.chunks = deferred;
    let placed = match written {
        Ok(placed) => placed,
        Err(error) => {
            for (address, len) in taken {
                netcdf4.deferred.space.free(address, len);
            }
            return Err(error);
        }
    };
    for (chunk, place) in netcdf4.deferred.chunks.values_mut().zip(placed) {
        if let (Some(WholeChunk::InMemory { bytes, filter_mask }), Some(at)) =
            (&chunk.whole, place.whole)
        {
            let (size, filter_mask) = (bytes.len() as u32, *filter_mask);
            let stored = StoredChunk { address: Address(at), size, filter_mask };
            chunk.whole = Some(WholeChunk::InArena(stored));
        }
        chunk.records.in_arena.extend(place.records);
        chunk.records.in_memory = Vec::new();
    }
    netcdf4.deferred.memory = 0;
    Ok(())
}

/// Where what waits of a chunk is written to.
#[derive(Debug, Default)]
struct SpillPlace {
    whole: Option<u64>,
    /// Address and bytes.
    records: Vec<(u64, u64)>,
}

/// Takes space for all that waits in memory.
fn places_of(
    netcdf4: &mut super::Netcdf4State,
    taken: &mut Vec<(u64, u64)>,
) -> striate_hdf5::Result<Vec<SpillPlace>> {
    let most = netcdf4.arena_bytes();
    let super::DeferredChunks { chunks, space, .. } = &mut netcdf4.deferred;
    let mut take = |boundary: u64, bytes: u64| {
        // No block is larger than an arena.
        let address = space.take(boundary, bytes)?.unwrap_or_default();
        taken.push((address, bytes));
        Ok(address)
    };
    let mut all = Vec::with_capacity(chunks.len());
    for chunk in chunks.values() {
        let mut place = SpillPlace::default();
        if let Some(WholeChunk::InMemory { bytes, .. }) = &chunk.whole {
            let bytes = bytes.len() as u64;
            place.whole = Some(take(netcdf4.plan.boundary(bytes), bytes)?);
        }
        let mut left = chunk.records.in_memory.len() as u64;
        while left > 0 {
            let len = left.min(most);
            place.records.push((take(1, len)?, len));
            left -= len;
        }
        all.push(place);
    }
    Ok(all)
}

/// The encoded chunk that this rank wrote, if there is one.
fn read_whole(
    state: &mut FileState,
    key: &ChunkKey,
) -> Result<Option<(StoredChunk, Vec<u8>)>, ArrayError> {
    let Some(netcdf4) = &state.netcdf4 else { return Ok(None) };
    let stored = match netcdf4.deferred.whole(key) {
        None => return Ok(None),
        Some(WholeChunk::InMemory { bytes, filter_mask }) => {
            let (size, filter_mask) = (bytes.len() as u32, *filter_mask);
            let stored = StoredChunk { address: Address(0), size, filter_mask };
            return Ok(Some((stored, bytes.clone())));
        }
        Some(WholeChunk::InArena(stored)) => *stored,
    };
    let mut bytes = vec![0; stored.size as usize];
    let got = state.file.read_at(stored.address.0, bytes.as_mut_slice())?;
    if got < bytes.len() as u64 {
        return Err(cut_off(state, key.0, stored));
    }
    Ok(Some((stored, bytes)))
}

/// The records of a chunk that this rank wrote.
pub(super) fn read_records(state: &mut FileState, key: &ChunkKey) -> Result<Vec<u8>, ArrayError> {
    let Some(netcdf4) = &state.netcdf4 else { return Ok(Vec::new()) };
    let Some(chunk) = netcdf4.deferred.chunks.get(key) else { return Ok(Vec::new()) };
    let ElementRecords { in_arena, in_memory, .. } = &chunk.records;
    let mut records = Vec::with_capacity(chunk.records.bytes() as usize);
    for &(address, len) in in_arena {
        let at = records.len();
        records.resize(at + len as usize, 0);
        let got = state.file.read_at(address, &mut records[at..])?;
        if got < len {
            let address = Address(address);
            let stored = StoredChunk { address, size: len as u32, filter_mask: 0 };
            return Err(cut_off(state, key.0, stored));
        }
    }
    records.extend_from_slice(in_memory);
    Ok(records)
}
