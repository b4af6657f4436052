//! A collective write of chunks that are stored as a whole, in rounds of bounded memory.
//!
//! A chunk of which one rank writes every element is that rank's: its bytes do not travel. For the
//! others the ranks exchange which ones they have elements of; these get owners in turn, and in
//! each round the owners get the elements of a few. An owner reads the chunk, changes it and
//! encodes it. Then the sizes of all encoded chunks of the round become known to all ranks, each of
//! which gives them the same addresses, and the owners write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use striate_datatype::Cursor;
use striate_hdf5::write::StoredChunk;

use super::super::chunk_cache::ChunkKey;
use super::super::hdf5_error;
use super::encode::{ChunkEncoder, EncodedChunks};
use super::filter_threads::{FilterThreads, bytes_at_a_time};
use super::message::{Reader, Words, garbled};
use super::{BUFFER, covers, decode, in_chunk, places, read_stored};
use crate::access::Access;
use crate::partition::Hyperslab;
use crate::placement;
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset};

/// The chunks that the accesses of a rank touch, with the accesses of each in their order.
#[derive(Debug, Default)]
struct TouchedChunks {
    /// Those of which one access has all elements.
    whole: BTreeMap<ChunkKey, Vec<usize>>,
    partial: BTreeMap<ChunkKey, Vec<usize>>,
}

impl Dataset {
    /// Writes to chunks that are stored as a whole. Collective, also for a rank without accesses.
    pub(crate) fn put_stored(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
    ) -> Result<(), ArrayError> {
        let comm = Arc::clone(&self.state.comm);
        let touched = self.touched(accesses);
        let mut threads = self.filter_threads();
        // Chunks that one rank writes alone.
        let rounds = self.whole_rounds(&touched);
        let ((), [most]) = self.state.agree_with_max(Ok(()), [rounds.len() as u64])?;
        for round in 0..most as usize {
            let keys = rounds.get(round).map(Vec::as_slice).unwrap_or_default();
            let encoded = self.encode_whole(accesses, &touched, keys, &mut threads);
            self.store(encoded)?;
        }
        // Chunks of several ranks.
        let all = self.partial_keys(&touched)?;
        let ranks = comm.size();
        let largest = all.iter().map(|(variable, _)| self.chunk_bytes(*variable)).max();
        let largest = largest.unwrap_or(BUFFER).max(1);
        let each = (bytes_at_a_time(largest) / largest).max(1) as usize;
        for round in all.chunks(each * ranks) {
            let messages = self.pieces_of(accesses, &touched, round);
            let messages = self.state.agree(messages)?;
            let received = comm.alltoall(messages)?;
            let encoded = self.encode_partial(round, &received, &mut threads);
            self.store(encoded)?;
        }
        Ok(())
    }

    fn chunk_bytes(&self, variable: usize) -> u64 {
        self.state.netcdf4.as_ref().map_or(0, |netcdf4| netcdf4.chunk_bytes(variable))
    }

    fn element_size(&self, variable: usize) -> u64 {
        self.state.header.variables[variable].external.size()
    }

    fn touched(&self, accesses: &[Access<WriteStream<'_>>]) -> TouchedChunks {
        let mut touched = TouchedChunks::default();
        let Some(netcdf4) = &self.state.netcdf4 else { return touched };
        for (number, access) in accesses.iter().enumerate() {
            let Some(hyperslab) = &access.hyperslab else { continue };
            let shape = &netcdf4.chunk_shape(access.variable);
            let extent = self.state.header.shape(&self.state.header.variables[access.variable]);
            for place in places(hyperslab, shape) {
                let whole = covers(hyperslab, shape, &extent, &place);
                let key = (access.variable, place);
                // Once an access has all elements, those before it do not matter, and those after
                // it change what it wrote.
                if whole {
                    touched.partial.remove(&key);
                    touched.whole.insert(key, vec![number]);
                } else if let Some(numbers) = touched.whole.get_mut(&key) {
                    numbers.push(number);
                } else {
                    touched.partial.entry(key).or_default().push(number);
                }
            }
        }
        touched
    }

    /// The chunks that this rank writes alone, in rounds.
    fn whole_rounds(&self, touched: &TouchedChunks) -> Vec<Vec<ChunkKey>> {
        let mut rounds: Vec<Vec<ChunkKey>> = Vec::new();
        let mut bytes: u64 = 0;
        for key in touched.whole.keys() {
            let size = self.chunk_bytes(key.0);
            let limit = bytes_at_a_time(size);
            if rounds.is_empty() || bytes.saturating_add(size) > limit {
                rounds.push(Vec::new());
                bytes = 0;
            }
            bytes += size;
            if let Some(round) = rounds.last_mut() {
                round.push(key.clone());
            }
        }
        rounds
    }

    fn encode_whole(
        &self,
        accesses: &[Access<WriteStream<'_>>],
        touched: &TouchedChunks,
        keys: &[ChunkKey],
        threads: &mut FilterThreads,
    ) -> Result<EncodedChunks, ArrayError> {
        let Some(encoder) = ChunkEncoder::new(&self.state) else {
            return Ok(EncodedChunks::default());
        };
        let encoded = threads.map(keys, self.filtered_bytes(keys), |key, memory| {
            encoder.begin(key, &mut memory.chunk);
            for &number in touched.whole.get(key).into_iter().flatten() {
                encoder.gather(&accesses[number], key, &mut memory.chunk)?;
            }
            encoder.encode(key, &memory.chunk, &mut memory.scratch)
        });
        EncodedChunks::join(encoded)
    }

    /// The bytes of chunks that pass through filters.
    fn filtered_bytes<'k>(&self, keys: impl IntoIterator<Item = &'k ChunkKey>) -> u64 {
        let Some(netcdf4) = &self.state.netcdf4 else { return 0 };
        keys.into_iter().map(|key| netcdf4.filtered_bytes(key.0)).sum()
    }

    /// The chunks that no rank writes alone, of all ranks. Collective.
    fn partial_keys(&self, touched: &TouchedChunks) -> Result<Vec<ChunkKey>, ArrayError> {
        let mut words = Words::default();
        for (variable, place) in touched.partial.keys() {
            words.key(*variable, place);
        }
        let mut all: BTreeSet<ChunkKey> = BTreeSet::new();
        for bytes in self.state.comm.allgather(&words.0)? {
            let mut reader = Reader(&bytes);
            while !reader.0.is_empty() {
                all.insert(reader.key().ok_or_else(garbled)?);
            }
        }
        Ok(all.into_iter().collect())
    }

    /// What this rank has of the chunks of a round, for each owner.
    fn pieces_of(
        &self,
        accesses: &[Access<WriteStream<'_>>],
        touched: &TouchedChunks,
        round: &[ChunkKey],
    ) -> Result<Vec<Vec<u8>>, ArrayError> {
        let ranks = self.state.comm.size();
        let mut messages: Vec<Words> = Vec::new();
        messages.resize_with(ranks, Words::default);
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(Vec::new()) };
        for (number, key) in round.iter().enumerate() {
            let shape = &netcdf4.chunk_shape(key.0);
            let size = self.element_size(key.0);
            let message = &mut messages[number % ranks];
            for &access in touched.partial.get(key).into_iter().flatten() {
                let access = &accesses[access];
                let Some(hyperslab) = &access.hyperslab else { continue };
                let Some(part) = within(hyperslab, shape, &key.1) else { continue };
                let Some(slab) = in_chunk(hyperslab, shape, size, &key.1)? else { continue };
                message.number(number as u64);
                for list in [&part.start, &part.count, &part.stride] {
                    for &one in list {
                        message.number(one);
                    }
                }
                let mut cursor = Cursor::new(&slab.stream, 1)?;
                while let Some(run) = cursor.next_run(u64::MAX) {
                    let at = message.0.len();
                    message.0.resize(at + run.len as usize, 0);
                    let bytes = &mut message.0[at..];
                    striate_file::Gather::gather(&access.memory, run.offset as u64, bytes)?;
                }
            }
        }
        Ok(messages.into_iter().map(|message| message.0).collect())
    }

    /// Applies what was received to the chunks that this rank owns, and encodes them.
    fn encode_partial(
        &mut self,
        round: &[ChunkKey],
        received: &[Vec<u8>],
        threads: &mut FilterThreads,
    ) -> Result<EncodedChunks, ArrayError> {
        let (rank, ranks) = (self.state.comm.rank(), self.state.comm.size());
        let owned: Vec<usize> = (rank..round.len()).step_by(ranks).collect();
        let mut chunks = self.load(round, &owned, threads)?;
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(EncodedChunks::default()) };
        for message in received {
            let mut reader = Reader(message);
            while !reader.0.is_empty() {
                let number = reader.number().ok_or_else(garbled)? as usize;
                let chunk = chunks.get_mut(&number).ok_or_else(garbled)?;
                let (variable, place) = &round[number];
                let shape = &netcdf4.chunk_shape(*variable);
                let part = reader.hyperslab(shape.len()).ok_or_else(garbled)?;
                let size = self.element_size(*variable);
                let Some(slab) = in_chunk(&part, shape, size, place)? else { continue };
                let mut cursor = Cursor::new(&slab.file, 1)?;
                while let Some(run) = cursor.next_run(u64::MAX) {
                    let bytes = reader.bytes(run.len as usize).ok_or_else(garbled)?;
                    let at = run.offset as usize;
                    chunk[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        let Some(encoder) = ChunkEncoder::new(&self.state) else {
            return Ok(EncodedChunks::default());
        };
        let bytes = self.filtered_bytes(owned.iter().map(|&number| &round[number]));
        let chunks: Vec<(usize, Vec<u8>)> = chunks.into_iter().collect();
        let encoded = threads.map(&chunks, bytes, |(number, chunk), memory| {
            encoder.encode(&round[*number], chunk, &mut memory.scratch)
        });
        EncodedChunks::join(encoded)
    }

    /// Chunks of a round in memory: as they are in the file, or as ones that were never written.
    fn load(
        &mut self,
        round: &[ChunkKey],
        owned: &[usize],
        threads: &mut FilterThreads,
    ) -> Result<BTreeMap<usize, Vec<u8>>, ArrayError> {
        let mut loaded = Vec::with_capacity(owned.len());
        let mut failed = None;
        for &number in owned {
            match read_stored(&mut self.state, &round[number]) {
                Ok(stored) => loaded.push((number, stored)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(BTreeMap::new()) };
        let bytes = self.filtered_bytes(owned.iter().map(|&number| &round[number]));
        let decoded = threads.map(&loaded, bytes, |(number, stored), memory| {
            let stored = stored.as_ref().map(|(stored, encoded)| (*stored, encoded.as_slice()));
            decode(netcdf4, round[*number].0, stored, &mut memory.scratch)
        });
        let mut chunks = BTreeMap::new();
        for ((number, _), chunk) in loaded.iter().zip(decoded) {
            chunks.insert(*number, chunk.map_err(|error| hdf5_error(&self.state.file, error))?);
        }
        // A damaged chunk before it comes first.
        failed.map_or(Ok(chunks), Err)
    }

    /// Writes encoded chunks that lie one behind the other in `bytes` to their addresses.
    fn write_encoded(
        &mut self,
        bytes: &mut Vec<u8>,
        blocks: &[(u64, usize)],
    ) -> Result<(), ArrayError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let regions = ascending_regions(bytes, blocks);
        let place = placement::regions(regions.into_iter())?;
        self.state.file.write_in(&place, bytes.as_slice())?;
        Ok(())
    }

    /// Gives the encoded chunks of all ranks their places and writes those of this one. Collective.
    fn store(&mut self, encoded: Result<EncodedChunks, ArrayError>) -> Result<(), ArrayError> {
        let mut encoded = self.state.agree(encoded)?;
        let mut words = Words::default();
        for chunk in &encoded.chunks {
            words.key(chunk.key.0, &chunk.key.1);
            words.number(u64::from(chunk.size) << 32 | u64::from(chunk.filter_mask));
        }
        let comm = Arc::clone(&self.state.comm);
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let mut own = Vec::with_capacity(encoded.chunks.len());
        let mut placed: Vec<(ChunkKey, StoredChunk)> = Vec::new();
        for (rank, bytes) in comm.allgather(&words.0)?.iter().enumerate() {
            let mut reader = Reader(bytes);
            while !reader.0.is_empty() {
                let key = reader.key().ok_or_else(garbled)?;
                let word = reader.number().ok_or_else(garbled)?;
                let (size, filter_mask) = ((word >> 32) as u32, word as u32);
                let address = netcdf4.plan.allocate(u64::from(size));
                let address = address.map_err(|error| hdf5_error(&self.state.file, error))?;
                placed.push((key, StoredChunk { address, size, filter_mask }));
                if rank == comm.rank() {
                    own.push((address.0, size as usize));
                }
            }
        }
        let written = self.write_encoded(&mut encoded.bytes, &own);
        // If a rank could not write, the index still has the chunks that were there before.
        let written = self.state.agree(written);
        let Some(netcdf4) = &mut self.state.netcdf4 else { return written };
        if written.is_err() {
            for (_, stored) in placed {
                netcdf4.plan.free(stored.address, stored.size.into());
            }
            return written;
        }
        for (key, stored) in placed {
            netcdf4.plan.set_chunk(netcdf4.numbers[key.0], &key.1, stored);
            netcdf4.cache.remove(&key);
        }
        Ok(())
    }
}

/// Brings blocks of bytes in the order of their addresses; returns address and length of each piece
/// of the file that they fill.
fn ascending_regions(bytes: &mut Vec<u8>, blocks: &[(u64, usize)]) -> Vec<(u64, u64)> {
    let mut start = 0;
    let mut sorted: Vec<(u64, usize, usize)> = blocks
        .iter()
        .map(|&(address, len)| {
            start += len;
            (address, len, start - len)
        })
        .collect();
    // Space that is used again is anywhere.
    if !sorted.is_sorted() {
        sorted.sort_unstable();
        let mut moved = Vec::with_capacity(bytes.len());
        for &(_, len, start) in &sorted {
            moved.extend_from_slice(&bytes[start..start + len]);
        }
        *bytes = moved;
    }
    let mut regions: Vec<(u64, u64)> = Vec::new();
    for (address, len, _) in sorted {
        match regions.last_mut() {
            Some((at, before)) if *at + *before == address => *before += len as u64,
            _ => regions.push((address, len as u64)),
        }
    }
    regions
}

/// The part of a hyperslab in a chunk, with indices of the variable.
fn within(hyperslab: &Hyperslab, shape: &[u64], place: &[u64]) -> Option<Hyperslab> {
    let mut part = hyperslab.clone();
    for dimension in 0..shape.len() {
        let first = place[dimension] * shape[dimension];
        let (start, stride) = (hyperslab.start[dimension], hyperslab.stride[dimension]);
        let before = |index: u64| index.saturating_sub(start).div_ceil(stride);
        let low = before(first);
        let high = before(first + shape[dimension]).min(hyperslab.count[dimension]);
        part.start[dimension] = start + low * stride;
        part.count[dimension] = high.checked_sub(low).filter(|&count| count > 0)?;
    }
    Some(part)
}
