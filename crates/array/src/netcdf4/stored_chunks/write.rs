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
use striate_hdf5::filter::Scratch;
use striate_hdf5::write::StoredChunk;

use super::super::chunk_cache::ChunkKey;
use super::super::hdf5_error;
use super::{BUFFER, covers, gather_into, in_chunk, load, places};
use crate::access::Access;
use crate::partition::Hyperslab;
use crate::placement;
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset};

/// Encoded chunks of a round, one behind the other.
#[derive(Debug, Default)]
struct EncodedChunks {
    bytes: Vec<u8>,
    chunks: Vec<EncodedChunk>,
}

#[derive(Debug)]
struct EncodedChunk {
    key: ChunkKey,
    size: u32,
    filter_mask: u32,
}

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
        let mut scratch = Scratch::new();
        // Chunks that one rank writes alone.
        let rounds = self.whole_rounds(&touched);
        let ((), [most]) = self.state.agree_with_max(Ok(()), [rounds.len() as u64])?;
        for round in 0..most as usize {
            let keys = rounds.get(round).map(Vec::as_slice).unwrap_or_default();
            let encoded = self.encode_whole(accesses, &touched, keys, &mut scratch);
            self.store(encoded)?;
        }
        // Chunks of several ranks.
        let all = self.partial_keys(&touched)?;
        let ranks = comm.size();
        let largest = all.iter().map(|(variable, _)| self.chunk_bytes(*variable)).max();
        let each = (BUFFER / largest.unwrap_or(BUFFER).max(1)).max(1) as usize;
        for round in all.chunks(each * ranks) {
            let messages = self.pieces_of(accesses, &touched, round);
            let messages = self.state.agree(messages)?;
            let received = comm.alltoall(messages)?;
            let encoded = self.encode_partial(round, &received, &mut scratch);
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
        let mut bytes = BUFFER;
        for key in touched.whole.keys() {
            let size = self.chunk_bytes(key.0);
            if bytes.saturating_add(size) > BUFFER {
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
        scratch: &mut Scratch,
    ) -> Result<EncodedChunks, ArrayError> {
        let mut encoded = EncodedChunks::default();
        let mut chunk = Vec::new();
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(encoded) };
        for key in keys {
            // What is beyond the variable now becomes visible when it grows.
            if self.reaches_beyond(key) {
                chunk = netcdf4.unstored_chunk(key.0);
            } else {
                chunk.resize(netcdf4.chunk_bytes(key.0) as usize, 0);
            }
            for &number in touched.whole.get(key).into_iter().flatten() {
                self.gather_access(&accesses[number], key, &mut chunk)?;
            }
            self.encode(key, &chunk, scratch, &mut encoded)?;
        }
        Ok(encoded)
    }

    /// Whether a chunk has places for elements that the variable does not have.
    fn reaches_beyond(&self, key: &ChunkKey) -> bool {
        let extent = self.state.header.shape(&self.state.header.variables[key.0]);
        let shape = self.state.netcdf4.as_ref().map(|netcdf4| netcdf4.chunk_shape(key.0));
        let places = key.1.iter().zip(shape.iter().flatten()).zip(&extent);
        places.into_iter().any(|((at, len), extent)| (at + 1) * len > *extent)
    }

    fn gather_access(
        &self,
        access: &Access<WriteStream<'_>>,
        key: &ChunkKey,
        chunk: &mut [u8],
    ) -> Result<(), ArrayError> {
        let (Some(netcdf4), Some(hyperslab)) = (&self.state.netcdf4, &access.hyperslab) else {
            return Ok(());
        };
        let size = self.element_size(access.variable);
        match in_chunk(hyperslab, &netcdf4.chunk_shape(access.variable), size, &key.1)? {
            Some(slab) => gather_into(chunk, &slab, &access.memory),
            None => Ok(()),
        }
    }

    fn encode(
        &self,
        key: &ChunkKey,
        chunk: &[u8],
        scratch: &mut Scratch,
        encoded: &mut EncodedChunks,
    ) -> Result<(), ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let one = netcdf4.pipelines[key.0].encode(chunk, scratch).map_err(|error| {
            let at = striate_hdf5::Structure::Chunk;
            hdf5_error(&self.state.file, striate_hdf5::Error::of(at, error))
        })?;
        let size = u32::try_from(one.bytes.len()).map_err(|_| ArrayError::Access {
            call: "put",
            variable: self.state.header.variables[key.0].name.clone(),
            reason: "a chunk has 4 GiB or more after its filters".into(),
        })?;
        encoded.bytes.extend_from_slice(one.bytes);
        let filter_mask = one.filter_mask;
        encoded.chunks.push(EncodedChunk { key: key.clone(), size, filter_mask });
        Ok(())
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
        scratch: &mut Scratch,
    ) -> Result<EncodedChunks, ArrayError> {
        let (rank, ranks) = (self.state.comm.rank(), self.state.comm.size());
        let mut chunks: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for number in (rank..round.len()).step_by(ranks) {
            chunks.insert(number, load(&mut self.state, &round[number], scratch)?);
        }
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
        let mut encoded = EncodedChunks::default();
        for (number, chunk) in &chunks {
            self.encode(&round[*number], chunk, scratch, &mut encoded)?;
        }
        Ok(encoded)
    }

    /// Gives the encoded chunks of all ranks their places and writes those of this one. Collective.
    fn store(&mut self, encoded: Result<EncodedChunks, ArrayError>) -> Result<(), ArrayError> {
        let encoded = self.state.agree(encoded)?;
        let mut words = Words::default();
        for chunk in &encoded.chunks {
            words.key(chunk.key.0, &chunk.key.1);
            words.number(u64::from(chunk.size) << 32 | u64::from(chunk.filter_mask));
        }
        let comm = Arc::clone(&self.state.comm);
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let mut regions: Vec<(u64, u64)> = Vec::new();
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
                    match regions.last_mut() {
                        Some((at, len)) if *at + *len == address.0 => *len += u64::from(size),
                        _ => regions.push((address.0, u64::from(size))),
                    }
                }
            }
        }
        let written = if regions.is_empty() {
            Ok(())
        } else {
            let place = placement::regions(regions.into_iter()).map_err(ArrayError::from);
            place.and_then(|place| {
                self.state.file.write_in(&place, &encoded.bytes)?;
                Ok(())
            })
        };
        // If a rank could not write, the index still has the chunks that were there before.
        self.state.agree(written)?;
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        for (key, stored) in placed {
            if let Some(chunks) = netcdf4.plan.chunks_mut(netcdf4.numbers[key.0]) {
                chunks.set(&key.1, stored);
            }
            netcdf4.cache.remove(&key);
        }
        Ok(())
    }
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

fn garbled() -> ArrayError {
    let reason = "ranks do not understand each other's messages".into();
    ArrayError::Definition { what: "exchange of chunks".into(), reason }
}

/// A message of numbers and bytes.
#[derive(Debug, Default)]
struct Words(Vec<u8>);

impl Words {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn key(&mut self, variable: usize, place: &[u64]) {
        self.number(variable as u64);
        self.number(place.len() as u64);
        for &one in place {
            self.number(one);
        }
    }
}

/// Reads a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| self.number()).collect()
    }

    fn key(&mut self) -> Option<ChunkKey> {
        let variable = self.number()? as usize;
        let rank = self.number()?;
        Some((variable, self.numbers(usize::try_from(rank).ok()?)?))
    }

    fn hyperslab(&mut self, rank: usize) -> Option<Hyperslab> {
        let (start, count) = (self.numbers(rank)?, self.numbers(rank)?);
        Some(Hyperslab { start, count, stride: self.numbers(rank)? })
    }
}
