//! A collective write of chunks that are stored as a whole, in rounds of bounded memory.
//!
//! A chunk of which one rank writes every element is that rank's: its bytes do not travel. For the
//! others the ranks exchange which ones they have elements of, and how many; these get owners
//! ([`super::owners`]), and in each round the owners get the elements of a few. An owner reads the
//! chunk, changes it and encodes it. Places and writing are the same for both
//! ([`super::rounds`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::chunk_cache::ChunkKey;
use super::super::hdf5_error;
use super::element_records::{apply, push_slab};
use super::encode::{ChunkEncoder, EncodedChunks};
use super::filter_threads::{FilterThreads, bytes_at_a_time};
use super::message::{Reader, Words, garbled};
use super::owners::{SharedChunk, owners};
use super::rounds::{RoundFailure, StoreRounds};
use super::{BUFFER, covers, decode, places, read_stored};
use crate::access::Access;
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset};

/// The chunks that the accesses of a rank touch, with the accesses of each in their order.
#[derive(Debug, Default)]
struct TouchedChunks {
    /// Those of which one access has all elements.
    whole: BTreeMap<ChunkKey, Vec<usize>>,
    partial: BTreeMap<ChunkKey, Vec<usize>>,
}

/// Appends the records that a rank has of a chunk.
type RecordsOf<'r> = dyn FnMut(&mut Dataset, &ChunkKey, &mut Words) -> Result<(), ArrayError> + 'r;

impl Dataset {
    /// Writes to chunks that are stored as a whole. Collective, also for a rank without accesses.
    pub(crate) fn put_stored(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
    ) -> Result<(), ArrayError> {
        let touched = self.touched(accesses);
        let mut threads = self.filter_threads();
        // Chunks that one rank writes alone.
        let rounds = self.whole_rounds(&touched);
        let ((), [most, partial]) = self.state.agree_with_max(
            Ok(()),
            [rounds.len() as u64, u64::from(!touched.partial.is_empty())],
        )?;
        let mut stored = StoreRounds::default();
        for round in 0..most as usize {
            let keys = rounds.get(round).map(Vec::as_slice).unwrap_or_default();
            let encoded = self.encode_whole(accesses, &touched, keys, &mut threads);
            self.store(&mut stored, encoded).map_err(|failure| failure.error)?;
        }
        self.end_rounds(&mut stored)?;
        if partial == 0 {
            return Ok(());
        }
        // Chunks of several ranks.
        let keys: Vec<_> = touched
            .partial
            .iter()
            .map(|(key, list)| (key.clone(), self.bytes_of(accesses, list, key)))
            .collect();
        let stored = self.store_partial(&keys, &mut threads, &mut |data, key, records| {
            let Some(netcdf4) = &data.state.netcdf4 else { return Ok(()) };
            let shape = netcdf4.chunk_shape(key.0);
            for &access in touched.partial.get(key).into_iter().flatten() {
                push_slab(records, &accesses[access], netcdf4.geometry(key, &shape))?;
            }
            Ok(())
        });
        stored.map_err(|failure| failure.error)
    }

    /// Writes elements of chunks that other ranks may have elements of as well: `keys` are those of
    /// this rank, with their bytes. Collective.
    pub(super) fn store_partial(
        &mut self,
        keys: &[(ChunkKey, u64)],
        threads: &mut FilterThreads,
        records_of: &mut RecordsOf<'_>,
    ) -> Result<(), RoundFailure> {
        let comm = Arc::clone(&self.state.comm);
        let all = self.shared_chunks(keys)?;
        let largest = all.iter().map(|chunk| self.chunk_bytes(chunk.key.0)).max();
        let largest = largest.unwrap_or(BUFFER).max(1);
        let each = (bytes_at_a_time(largest) / largest).max(1) as usize;
        let mut stored = StoreRounds::default();
        for round in all.chunks(each * comm.size()) {
            let owners = owners(round, comm.size());
            let mut messages: Vec<Words> = Vec::new();
            messages.resize_with(comm.size(), Words::default);
            let mut complete = Ok(());
            for (number, (chunk, &owner)) in round.iter().zip(&owners).enumerate() {
                if chunk.bytes.binary_search_by_key(&comm.rank(), |&(rank, _)| rank).is_err() {
                    continue;
                }
                let message = &mut messages[owner];
                message.number(number as u64);
                let at = message.0.len();
                message.number(0);
                complete = records_of(self, &chunk.key, message);
                if complete.is_err() {
                    break;
                }
                let len = (message.0.len() - at - 8) as u64;
                message.0[at..at + 8].copy_from_slice(&len.to_le_bytes());
            }
            if complete.is_err() {
                // The others learn of it when they have encoded theirs.
                messages.fill_with(Words::default);
            }
            let messages = messages.into_iter().map(|message| message.0).collect();
            let received = comm.alltoall(messages)?;
            let owned =
                |(number, &owner): (usize, &usize)| (owner == comm.rank()).then_some(number);
            let owned: Vec<usize> = owners.iter().enumerate().filter_map(owned).collect();
            let encoded =
                complete.and_then(|()| self.encode_partial(round, &owned, &received, threads));
            self.store(&mut stored, encoded).map_err(|mut failure| {
                if failure.is_of_chunks {
                    failure.lost = round.iter().map(|chunk| chunk.key.clone()).collect();
                }
                failure
            })?;
        }
        Ok(self.end_rounds(&mut stored)?)
    }

    /// Bytes that accesses have of a chunk, at most.
    fn bytes_of(
        &self,
        accesses: &[Access<WriteStream<'_>>],
        numbers: &[usize],
        key: &ChunkKey,
    ) -> u64 {
        let Some(netcdf4) = &self.state.netcdf4 else { return 0 };
        let shape = netcdf4.chunk_shape(key.0);
        let slabs = numbers.iter().filter_map(|&number| accesses[number].hyperslab.as_ref());
        let parts = slabs.filter_map(|slab| super::within(slab, &shape, &key.1));
        let elements: u64 = parts.map(|part| part.elements()).sum();
        elements * self.element_size(key.0)
    }

    fn chunk_bytes(&self, variable: usize) -> u64 {
        self.state.netcdf4.as_ref().map_or(0, |netcdf4| netcdf4.chunk_bytes(variable))
    }

    pub(super) fn element_size(&self, variable: usize) -> u64 {
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
    fn shared_chunks(&self, keys: &[(ChunkKey, u64)]) -> Result<Vec<SharedChunk>, ArrayError> {
        let mut words = Words::default();
        for ((variable, place), bytes) in keys {
            words.key(*variable, place);
            words.number(*bytes);
        }
        let mut all: BTreeMap<ChunkKey, Vec<(usize, u64)>> = BTreeMap::new();
        for (rank, message) in self.state.comm.allgather(&words.0)?.iter().enumerate() {
            let mut reader = Reader(message);
            while !reader.0.is_empty() {
                let (key, bytes) = reader.key().zip(reader.number()).ok_or_else(garbled)?;
                all.entry(key).or_default().push((rank, bytes));
            }
        }
        Ok(all.into_iter().map(|(key, bytes)| SharedChunk { key, bytes }).collect())
    }

    /// Applies what was received to the chunks that this rank owns, and encodes them.
    fn encode_partial(
        &mut self,
        round: &[SharedChunk],
        owned: &[usize],
        received: &[Vec<u8>],
        threads: &mut FilterThreads,
    ) -> Result<EncodedChunks, ArrayError> {
        let mut chunks = self.load(round, owned, threads)?;
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(EncodedChunks::default()) };
        for message in received {
            let mut reader = Reader(message);
            while !reader.0.is_empty() {
                let number = reader.number().ok_or_else(garbled)? as usize;
                let len = reader.number().ok_or_else(garbled)?;
                let records = reader.bytes(len as usize).ok_or_else(garbled)?;
                let chunk = chunks.get_mut(&number).ok_or_else(garbled)?;
                let key = &round[number].key;
                let shape = netcdf4.chunk_shape(key.0);
                apply(records, netcdf4.geometry(key, &shape), chunk, None)?;
            }
        }
        let Some(encoder) = ChunkEncoder::new(&self.state) else {
            return Ok(EncodedChunks::default());
        };
        let bytes = self.filtered_bytes(owned.iter().map(|&number| &round[number].key));
        let chunks: Vec<(usize, Vec<u8>)> = chunks.into_iter().collect();
        let encoded = threads.map(&chunks, bytes, |(number, chunk), memory| {
            encoder.encode(&round[*number].key, chunk, &mut memory.scratch)
        });
        EncodedChunks::join(encoded)
    }

    /// Chunks of a round in memory: as they are in the file, or as ones that were never written.
    fn load(
        &mut self,
        round: &[SharedChunk],
        owned: &[usize],
        threads: &mut FilterThreads,
    ) -> Result<BTreeMap<usize, Vec<u8>>, ArrayError> {
        let mut loaded = Vec::with_capacity(owned.len());
        let mut failed = None;
        for &number in owned {
            match read_stored(&mut self.state, &round[number].key) {
                Ok(stored) => loaded.push((number, stored)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(BTreeMap::new()) };
        let bytes = self.filtered_bytes(owned.iter().map(|&number| &round[number].key));
        let decoded = threads.map(&loaded, bytes, |(number, stored), memory| {
            let stored = stored.as_ref().map(|(stored, encoded)| (*stored, encoded.as_slice()));
            decode(netcdf4, round[*number].key.0, stored, &mut memory.scratch)
        });
        let mut chunks = BTreeMap::new();
        for ((number, _), chunk) in loaded.iter().zip(decoded) {
            chunks.insert(*number, chunk.map_err(|error| hdf5_error(&self.state.file, error))?);
        }
        // A damaged chunk before it comes first.
        failed.map_or(Ok(chunks), Err)
    }
}
