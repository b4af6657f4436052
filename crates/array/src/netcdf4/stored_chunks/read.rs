//! Reads of chunks that are stored as a whole: many chunks with one access of the file, decoded by
//! the threads of the rank, a few at a time.
//!
//! Chunks of which only a part was wanted are kept for the next read
//! ([`super::super::ChunkCache`]).

use striate_datatype::{Cursor, Pieces};
use striate_file::Scatter;
use striate_hdf5::model::Address;
use striate_hdf5::write::StoredChunk;

use super::super::chunk_cache::ChunkKey;
use super::super::chunked_slab::ChunkedSlab;
use super::super::hdf5_error;
use super::deferred::WholeChunk;
use super::element_records::apply;
use super::filter_threads::FilterThreads;
use super::independent::read_records;
use super::{BUFFER, Netcdf4State, covers, cut_off, decode, in_chunk, places};
use crate::access::Access;
use crate::file_state::FileState;
use crate::partition::Hyperslab;
use crate::placement;
use crate::stream::ReadStream;
use crate::{ArrayError, Dataset};

/// A chunk that is not in the cache, and where it is.
struct MissingChunk {
    key: ChunkKey,
    stored: Option<StoredChunk>,
}

impl Dataset {
    /// Reads from chunks that are stored as a whole. Independent.
    pub(crate) fn get_stored(
        &mut self,
        accesses: &mut [Access<ReadStream<'_>>],
    ) -> Result<(), ArrayError> {
        let mut threads = self.filter_threads();
        for access in accesses {
            let Some(hyperslab) = access.hyperslab.clone() else { continue };
            self.get_stored_slab(access, &hyperslab, &mut threads)?;
        }
        Ok(())
    }

    fn get_stored_slab(
        &mut self,
        access: &mut Access<ReadStream<'_>>,
        hyperslab: &Hyperslab,
        threads: &mut FilterThreads,
    ) -> Result<(), ArrayError> {
        let variable = access.variable;
        let size = self.state.header.variables[variable].external.size();
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let shape = netcdf4.chunk_shape(variable);
        let mut batch: Vec<MissingChunk> = Vec::new();
        let mut bytes = 0;
        for place in places(hyperslab, &shape) {
            let key = (variable, place);
            let Some(slab) = in_chunk(hyperslab, &shape, size, &key.1)? else { continue };
            let Some(netcdf4) = self.state.netcdf4.as_deref_mut() else { return Ok(()) };
            let is_changed = has_records(netcdf4, &key);
            if let Some(chunk) = netcdf4.cache.get(&key) {
                if !is_changed {
                    scatter(&mut access.memory, &slab, chunk)?;
                    continue;
                }
                let mut chunk = chunk.to_vec();
                add_records(&mut self.state, &key, &mut chunk)?;
                scatter(&mut access.memory, &slab, &chunk)?;
                continue;
            }
            let stored = match netcdf4.deferred.whole(&key) {
                Some(WholeChunk::InArena(stored)) => Some(*stored),
                Some(WholeChunk::InMemory { .. }) => None,
                None => netcdf4.stored_chunk(&key),
            };
            bytes += stored.map_or(0, |stored| u64::from(stored.size));
            batch.push(MissingChunk { key, stored });
            if bytes >= BUFFER {
                self.read_batch(access, hyperslab, &batch, threads)?;
                batch.clear();
                bytes = 0;
            }
        }
        self.read_batch(access, hyperslab, &batch, threads)
    }

    /// Reads chunks with one access of the file and hands out their elements.
    fn read_batch(
        &mut self,
        access: &mut Access<ReadStream<'_>>,
        hyperslab: &Hyperslab,
        batch: &[MissingChunk],
        threads: &mut FilterThreads,
    ) -> Result<(), ArrayError> {
        let variable = access.variable;
        let mut stored: Vec<StoredChunk> = batch.iter().filter_map(|chunk| chunk.stored).collect();
        stored.sort_unstable_by_key(|chunk| chunk.address);
        stored.dedup_by_key(|chunk| chunk.address);
        let total: u64 = stored.iter().map(|chunk| u64::from(chunk.size)).sum();
        let mut bytes = vec![0; total as usize];
        if total > 0 {
            let regions = stored.iter().map(|chunk| (chunk.address.0, u64::from(chunk.size)));
            let placed = placement::regions(regions)?;
            let got = self.state.file.read_in(&placed, bytes.as_mut_slice())?;
            if got < total
                && let Some(last) = stored.last()
            {
                return Err(cut_off(&self.state, variable, *last));
            }
        }
        let mut starts = Vec::with_capacity(stored.len());
        let mut start = 0;
        for chunk in &stored {
            starts.push(start);
            start += chunk.size as usize;
        }
        let size = self.state.header.variables[variable].external.size();
        let extent = self.state.header.shape(&self.state.header.variables[variable]);
        let Some(netcdf4) = self.state.netcdf4.as_deref() else { return Ok(()) };
        let shape = netcdf4.chunk_shape(variable);
        let filtered = netcdf4.filtered_bytes(variable);
        for group in batch.chunks(threads.chunks_at_a_time(netcdf4.chunk_bytes(variable))) {
            let Some(of) = self.state.netcdf4.as_deref() else { return Ok(()) };
            let decoded = threads.map(group, group.len() as u64 * filtered, |chunk, memory| {
                let mut encoded = chunk.stored.map(|place| {
                    let at = stored.partition_point(|one| one.address < place.address);
                    (place, &bytes[starts[at]..starts[at] + place.size as usize])
                });
                if let Some(WholeChunk::InMemory { bytes, filter_mask }) =
                    of.deferred.whole(&chunk.key)
                {
                    let (size, filter_mask) = (bytes.len() as u32, *filter_mask);
                    let own = StoredChunk { address: Address(0), size, filter_mask };
                    encoded = Some((own, bytes.as_slice()));
                }
                decode(of, variable, encoded, &mut memory.scratch)
            });
            for (MissingChunk { key, .. }, chunk) in group.iter().zip(decoded) {
                let mut chunk = chunk.map_err(|error| hdf5_error(&self.state.file, error))?;
                let Some(slab) = in_chunk(hyperslab, &shape, size, &key.1)? else { continue };
                let Some(netcdf4) = self.state.netcdf4.as_deref_mut() else { return Ok(()) };
                let is_changed = has_records(netcdf4, key);
                if !covers(hyperslab, &shape, &extent, &key.1) {
                    // Records are not in the cache: they change.
                    let kept = if is_changed { chunk.clone() } else { std::mem::take(&mut chunk) };
                    if !is_changed {
                        scatter(&mut access.memory, &slab, &kept)?;
                    }
                    if netcdf4.keeps_chunks(variable) {
                        netcdf4.cache.insert(key.clone(), kept);
                    }
                    if !is_changed {
                        continue;
                    }
                }
                add_records(&mut self.state, key, &mut chunk)?;
                scatter(&mut access.memory, &slab, &chunk)?;
            }
        }
        Ok(())
    }
}

fn has_records(netcdf4: &Netcdf4State, key: &ChunkKey) -> bool {
    netcdf4.deferred.chunks.get(key).is_some_and(|chunk| !chunk.records.is_empty())
}

/// Adds the elements to a chunk that this rank wrote independently.
fn add_records(state: &mut FileState, key: &ChunkKey, chunk: &mut [u8]) -> Result<(), ArrayError> {
    let records = read_records(state, key)?;
    let Some(netcdf4) = &state.netcdf4 else { return Ok(()) };
    let shape = netcdf4.chunk_shape(key.0);
    apply(&records, netcdf4.geometry(key, &shape), chunk, None)
}

/// Copies the elements of a chunk that an access wants to its memory.
fn scatter(
    memory: &mut ReadStream<'_>,
    slab: &ChunkedSlab,
    chunk: &[u8],
) -> Result<(), ArrayError> {
    let stream = Cursor::new(&slab.stream, 1)?;
    let file = Cursor::new(&slab.file, 1)?;
    for piece in Pieces::new(stream, file) {
        let at = piece.file as usize;
        memory.scatter(piece.memory as u64, &chunk[at..at + piece.len as usize])?;
    }
    Ok(())
}
