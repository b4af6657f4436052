//! [`StoreRounds`]: the chunks that all ranks have encoded in a round get their places, and are
//! written.
//!
//! A round costs one collective: the sizes of the encoded chunks go to all ranks, each of which
//! gives them the same addresses. Whether the round before was written goes with them, so errors
//! are known one round later, and after the last round by one reduction.

use striate_hdf5::write::StoredChunk;

use super::super::chunk_cache::ChunkKey;
use super::super::hdf5_error;
use super::Netcdf4State;
use super::blocks::write_blocks;
use super::encode::EncodedChunks;
use super::message::{Reader, Words, garbled};
use crate::{ArrayError, Dataset};

/// What a round tells: its chunks could not be encoded, or those of the round before not written.
const NOT_ENCODED: u64 = 1;
const NOT_WRITTEN: u64 = 2;

/// The rounds of a collective write.
#[derive(Debug, Default)]
pub(super) struct StoreRounds {
    /// The last one, of which it is not known whether all ranks have written theirs.
    last: Option<WrittenRound>,
}

#[derive(Debug)]
struct WrittenRound {
    /// The chunks of all ranks.
    placed: Vec<(ChunkKey, StoredChunk)>,
    /// Whether this rank has written its own.
    written: Result<(), ArrayError>,
}

/// The error of a round.
#[derive(Debug)]
pub(super) struct RoundFailure {
    pub(super) error: ArrayError,
    /// Whether chunks could not be read or encoded, and would fail again.
    pub(super) is_of_chunks: bool,
    /// The chunks of that round.
    pub(super) lost: Vec<ChunkKey>,
}

impl<E: Into<ArrayError>> From<E> for RoundFailure {
    fn from(error: E) -> Self {
        Self { error: error.into(), is_of_chunks: false, lost: Vec::new() }
    }
}

impl Netcdf4State {
    /// Sets where a chunk is.
    pub(super) fn set_chunk(&mut self, key: &ChunkKey, stored: StoredChunk) {
        self.plan.set_chunk(self.numbers[key.0], &key.1, stored);
        self.cache.remove(key);
    }

    /// The chunks of a round are in the index, if all ranks have written them. Otherwise it still
    /// has those that were there before.
    fn end_round(&mut self, placed: Vec<(ChunkKey, StoredChunk)>, is_written: bool) {
        for (key, stored) in placed {
            if is_written {
                self.set_chunk(&key, stored);
            } else {
                self.plan.free(stored.address, stored.size.into());
            }
        }
    }
}

impl Dataset {
    /// Gives the encoded chunks of all ranks their places and writes those of this one. Collective.
    pub(super) fn store(
        &mut self,
        rounds: &mut StoreRounds,
        encoded: Result<EncodedChunks, ArrayError>,
    ) -> Result<(), RoundFailure> {
        let last = rounds.last.take();
        let (last, written) = match last {
            Some(last) => (last.placed, last.written),
            None => (Vec::new(), Ok(())),
        };
        let mut words = Words::default();
        let not_encoded = if encoded.is_err() { NOT_ENCODED } else { 0 };
        let not_written = if written.is_err() { NOT_WRITTEN } else { 0 };
        words.number(not_encoded | not_written);
        for chunk in encoded.iter().flat_map(|encoded| &encoded.chunks) {
            words.key(chunk.key.0, &chunk.key.1);
            words.number(u64::from(chunk.size) << 32 | u64::from(chunk.filter_mask));
        }
        let messages = self.state.comm.allgather(&words.0)?;
        let mut readers: Vec<Reader<'_>> = messages.iter().map(|bytes| Reader(bytes)).collect();
        let mut told = 0;
        for reader in &mut readers {
            told |= reader.number().ok_or_else(garbled)?;
        }
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        netcdf4.end_round(last, told & NOT_WRITTEN == 0);
        if told != 0 {
            let failed = self.state.agree(written.and(encoded.map(|_| ())));
            // Some rank had an error.
            let error = failed.err().unwrap_or_else(garbled);
            let is_of_chunks = told & NOT_ENCODED != 0;
            return Err(RoundFailure { error, is_of_chunks, lost: Vec::new() });
        }
        let encoded = encoded?;
        let mut own = Vec::with_capacity(encoded.chunks.len());
        let mut placed: Vec<(ChunkKey, StoredChunk)> = Vec::new();
        for (rank, reader) in readers.iter_mut().enumerate() {
            while !reader.0.is_empty() {
                let key = reader.key().ok_or_else(garbled)?;
                let word = reader.number().ok_or_else(garbled)?;
                let (size, filter_mask) = ((word >> 32) as u32, word as u32);
                let address = netcdf4.plan.allocate(u64::from(size));
                let address = address.map_err(|error| hdf5_error(&self.state.file, error))?;
                placed.push((key, StoredChunk { address, size, filter_mask }));
                if rank == self.state.comm.rank() {
                    own.push(address.0);
                }
            }
        }
        let blocks = own.into_iter().zip(encoded.bytes.iter().map(Vec::as_slice)).collect();
        let written = write_blocks(&mut self.state, blocks);
        rounds.last = Some(WrittenRound { placed, written });
        Ok(())
    }

    /// Waits until the last round is written. Collective.
    pub(super) fn end_rounds(&mut self, rounds: &mut StoreRounds) -> Result<(), ArrayError> {
        let Some(last) = rounds.last.take() else { return Ok(()) };
        let written = self.state.agree(last.written);
        if let Some(netcdf4) = &mut self.state.netcdf4 {
            netcdf4.end_round(last.placed, written.is_ok());
        }
        written
    }
}
