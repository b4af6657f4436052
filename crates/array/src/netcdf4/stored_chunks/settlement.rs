//! Independent writes of all ranks become known to all: when a collective call needs space, at
//! `sync`, `redefine` and `close`.
//!
//! 1. The ranks exchange how many arenas each has claimed, what of them is free, and which encoded
//!    chunks lie there. The end of the file moves behind the arenas, and these chunks are in the
//!    index where they are.
//! 2. Encoded chunks in memory get places, as in a collective write.
//! 3. Records of elements go to the owners of their chunks, as in a collective write. Then the
//!    space that they had in arenas is free, and what is free at the end belongs to the file no
//!    more.
//!
//! What fails is an error of all ranks, and waits on: the next settlement tries again. Records
//! whose chunk cannot be read are given up, since they would fail for ever.

use std::sync::Arc;

use striate_hdf5::model::Address;
use striate_hdf5::write::{Arenas, StoredChunk};

use super::super::chunk_cache::ChunkKey;
use super::super::hdf5_error;
use super::deferred::WholeChunk;
use super::encode::{EncodedChunk, EncodedChunks};
use super::filter_threads::FilterThreads;
use super::independent::read_records;
use super::message::{Reader, Words, garbled};
use super::rounds::StoreRounds;
use super::{BUFFER, Netcdf4State};
use crate::{ArrayError, Dataset};

/// An arena has at least that many bytes.
const ARENA: u64 = 4 << 20;

impl Netcdf4State {
    /// Bytes for which every arena has room: those of the largest chunk at least.
    pub(super) fn arena_bytes(&self) -> u64 {
        let stored = (0..self.pipelines.len())
            .filter(|&variable| self.chunks(variable).is_some() && self.has_index(variable));
        let largest =
            stored.map(|variable| self.pipelines[variable].bound(self.chunk_bytes(variable)));
        largest.max().unwrap_or(0).max(ARENA)
    }
}

impl Dataset {
    /// How many chunks this rank has written of which the others do not know.
    pub(crate) fn deferred_chunks(&self) -> u64 {
        self.state.netcdf4.as_ref().map_or(0, |netcdf4| netcdf4.deferred.count())
    }

    /// Carries out the independent writes of all ranks that wait. Collective.
    pub(crate) fn flush_deferred(&mut self) -> Result<(), ArrayError> {
        self.flush_deferred_pieces()?;
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let may_wait = netcdf4.has_stored_chunks() || self.partitioned.is_some();
        if !may_wait || !self.state.mode.is_writable() {
            return Ok(());
        }
        let ((), [waiting]) = self.state.agree_with_max(Ok(()), [self.deferred_chunks()])?;
        if waiting > 0 { self.settle_chunks() } else { Ok(()) }
    }

    /// The same, if it is known that some rank has such writes. Collective.
    pub(crate) fn settle(&mut self) -> Result<(), ArrayError> {
        // They may be in arenas, which are to be free when the file gets longer.
        self.flush_deferred_pieces()?;
        self.settle_chunks()
    }

    fn settle_chunks(&mut self) -> Result<(), ArrayError> {
        let mut threads = self.filter_threads();
        let merged = self.merge_changed_wholes(&mut threads);
        let arenas = self.exchange_arenas(merged)?;
        self.store_wholes()?;
        let keys: Vec<(ChunkKey, u64)> = match &self.state.netcdf4 {
            Some(netcdf4) => {
                let chunks = netcdf4.deferred.chunks.iter();
                let partial = chunks.filter(|(_, chunk)| !chunk.records.is_empty());
                partial.map(|(key, chunk)| (key.clone(), chunk.records.bytes())).collect()
            }
            None => return Ok(()),
        };
        let stored = self.store_partial(&keys, &mut threads, &mut |data, key, records| {
            records.0.extend_from_slice(&read_records(&mut data.state, key)?);
            Ok(())
        });
        if let Err(failure) = stored {
            if let Some(netcdf4) = &mut self.state.netcdf4 {
                failure.lost.iter().for_each(|key| netcdf4.deferred.remove(key));
            }
            return Err(failure.error);
        }
        self.free_records()?;
        self.trim(arenas)
    }

    /// Merges records with the encoded chunks of this rank that they change.
    fn merge_changed_wholes(&mut self, threads: &mut FilterThreads) -> Result<(), ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let chunks = netcdf4.deferred.chunks.iter();
        let changed = chunks.filter(|(_, it)| it.whole.is_some() && !it.records.is_empty());
        let changed: Vec<ChunkKey> = changed.map(|(key, _)| key.clone()).collect();
        for key in &changed {
            self.merge_records(key, threads)?;
            self.spill_beyond_limit()?;
        }
        Ok(())
    }

    /// Step 1. Collective.
    fn exchange_arenas(&mut self, local: Result<(), ArrayError>) -> Result<Arenas, ArrayError> {
        let comm = Arc::clone(&self.state.comm);
        // A rank with an error keeps its space, as all others then do.
        self.state.agree(local)?;
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Err(garbled()) };
        let failed = |error| hdf5_error(&self.state.file, error);
        // The plan has not changed since the first rank claimed an arena.
        let bytes = netcdf4.arena_bytes();
        let arenas = netcdf4.plan.arenas(bytes, comm.size() as u64).map_err(failed)?;
        let mut words = Words::default();
        words.number(u64::from(netcdf4.deferred.has_arenas()));
        words.number(netcdf4.deferred.space.claimed());
        let free = netcdf4.deferred.space.end();
        words.number(free.len() as u64);
        for (address, len) in free {
            words.number(address);
            words.number(len);
        }
        for (key, chunk) in &mut netcdf4.deferred.chunks {
            if let Some(WholeChunk::InArena(stored)) = &chunk.whole {
                words.key(key.0, &key.1);
                words.number(stored.address.0);
                words.number(u64::from(stored.size) << 32 | u64::from(stored.filter_mask));
                chunk.whole = None;
            }
        }
        netcdf4.deferred.chunks.retain(|_, it| it.whole.is_some() || !it.records.is_empty());
        let messages = comm.allgather(&words.0)?;
        let mut readers: Vec<Reader<'_>> = messages.iter().map(|bytes| Reader(bytes)).collect();
        let claims = readers.iter_mut().map(|reader| reader.number().zip(reader.number()));
        let claims: Vec<(u64, u64)> = claims.collect::<Option<_>>().ok_or_else(garbled)?;
        if claims.iter().any(|&(takes, _)| takes > 0) {
            let ranks = claims.len() as u64;
            let unused = (0..ranks).zip(&claims).filter(|(_, (takes, _))| *takes == 0);
            let unused = unused.flat_map(|(rank, _)| netcdf4.plan.free_share(rank, ranks));
            let unused: Vec<(u64, u64)> = unused.collect();
            netcdf4.plan.end_shares();
            for (address, bytes) in unused {
                netcdf4.plan.free(Address(address), bytes);
            }
        }
        let claimed: Vec<u64> = claims.iter().map(|&(_, claimed)| claimed).collect();
        netcdf4.plan.end_arenas(&arenas, &claimed).map_err(failed)?;
        for reader in &mut readers {
            for _ in 0..reader.number().ok_or_else(garbled)? {
                let block = reader.number().zip(reader.number()).ok_or_else(garbled)?;
                netcdf4.plan.free(Address(block.0), block.1);
            }
        }
        for reader in &mut readers {
            while !reader.0.is_empty() {
                let key = reader.key().ok_or_else(garbled)?;
                let address = Address(reader.number().ok_or_else(garbled)?);
                let word = reader.number().ok_or_else(garbled)?;
                let (size, filter_mask) = ((word >> 32) as u32, word as u32);
                netcdf4.set_chunk(&key, StoredChunk { address, size, filter_mask });
            }
        }
        Ok(arenas)
    }

    /// Shortens the file by what is free at its end, down to where arenas began: no state on
    /// storage ends behind that. What gets this space later begins as zeros. Collective.
    fn trim(&mut self, arenas: Arenas) -> Result<(), ArrayError> {
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let before = netcdf4.plan.end();
        netcdf4.plan.trim(Address(arenas.base));
        let end = netcdf4.plan.end();
        if end == before {
            return Ok(());
        }
        let size = self.state.file.size().map_err(ArrayError::from);
        let own = *size.as_ref().unwrap_or(&0);
        let (_, [size]) = self.state.agree_with_max(size, [own])?;
        if size > end.0 {
            self.state.file.set_size(end.0)?;
        }
        Ok(())
    }

    /// Step 2. Collective.
    fn store_wholes(&mut self) -> Result<(), ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let mut waiting: Vec<Vec<ChunkKey>> = Vec::new();
        let mut bytes = 0;
        for (key, chunk) in &netcdf4.deferred.chunks {
            let Some(WholeChunk::InMemory { bytes: encoded, .. }) = &chunk.whole else { continue };
            if waiting.is_empty() || bytes >= BUFFER {
                waiting.push(Vec::new());
                bytes = 0;
            }
            bytes += encoded.len() as u64;
            if let Some(round) = waiting.last_mut() {
                round.push(key.clone());
            }
        }
        let ((), [most]) = self.state.agree_with_max(Ok(()), [waiting.len() as u64])?;
        let mut rounds = StoreRounds::default();
        for number in 0..most as usize {
            let mut encoded = EncodedChunks::default();
            let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
            for key in waiting.get(number).into_iter().flatten() {
                if let Some(WholeChunk::InMemory { bytes, filter_mask }) =
                    netcdf4.deferred.whole(key)
                {
                    let (size, filter_mask) = (bytes.len() as u32, *filter_mask);
                    encoded.chunks.push(EncodedChunk { key: key.clone(), size, filter_mask });
                    encoded.bytes.push(bytes.clone());
                }
            }
            self.store(&mut rounds, Ok(encoded)).map_err(|failure| failure.error)?;
        }
        self.end_rounds(&mut rounds)?;
        if let Some(netcdf4) = &mut self.state.netcdf4 {
            waiting.iter().flatten().for_each(|key| netcdf4.deferred.remove(key));
        }
        Ok(())
    }

    /// The space of records, which are all in chunks now, is free. Collective.
    fn free_records(&mut self) -> Result<(), ArrayError> {
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let chunks = std::mem::take(&mut netcdf4.deferred.chunks);
        netcdf4.deferred.memory = 0;
        let mut words = Words::default();
        for (address, len) in chunks.into_values().flat_map(|chunk| chunk.records.in_arena) {
            words.number(address);
            words.number(len);
        }
        for bytes in self.state.comm.allgather(&words.0)? {
            let mut reader = Reader(&bytes);
            while let Some((address, len)) = reader.number().zip(reader.number()) {
                netcdf4.plan.free(Address(address), len);
            }
        }
        Ok(())
    }
}
