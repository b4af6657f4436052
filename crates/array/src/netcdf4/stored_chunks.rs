//! Chunks that are read and written as a whole: those with filters, and those whose places only an
//! index knows.
//!
//! * [`write`]: a collective write. Each chunk has one owner: the rank that writes all of it, or
//!   else one to which the others send their elements. The owner encodes it, the sizes of all
//!   become addresses, and every rank has the same index.
//! * [`read`]: reads of any rank, many chunks at a time.
//! * [`filter_threads`]: filters in several threads, where a rank has several cores. [`encode`] is
//!   what they share.
//! * [`independent`]: an independent write. It waits in memory and in space of the rank alone
//!   ([`deferred`]) until all ranks meet ([`settlement`]), since chunks of several ranks could be
//!   the same one. The rank itself reads what it wrote.

mod blocks;
mod deferred;
mod element_records;
mod encode;
mod filter_threads;
mod independent;
mod message;
mod owners;
mod read;
mod rounds;
mod settlement;
mod spilled_bytes;
mod write;

pub(super) use deferred::DeferredChunks;
use element_records::ChunkGeometry;
pub(crate) use message::{Reader, Words, garbled};
pub(crate) use spilled_bytes::{free_spilled, read_spilled, spill_bytes};

use striate_datatype::{Cursor, Pieces};
use striate_file::Gather;
use striate_hdf5::filter::Scratch;
use striate_hdf5::model::Address;
use striate_hdf5::netcdf::Storage;
use striate_hdf5::write::{ChunkBox, Placement as VariablePlacement, StoredChunk};

use super::Netcdf4State;
use super::chunk_cache::ChunkKey;
use super::chunked_slab::ChunkedSlab;
use crate::ArrayError;
use crate::file_state::FileState;
use crate::partition::Hyperslab;

/// Bytes of chunks that a rank has in memory at a time, in either form; more if chunks are large
/// ([`filter_threads`]).
const BUFFER: u64 = 16 << 20;

/// Bytes of a chunk of a variable that has no place in the file.
const UNWRITTEN: u64 = 4 << 20;

/// A hyperslab in one chunk: its bytes in the chunk, and in the stream of the hyperslab.
fn in_chunk(
    hyperslab: &Hyperslab,
    shape: &[u64],
    size: u64,
    place: &[u64],
) -> Result<Option<ChunkedSlab>, ArrayError> {
    let stride = shape.iter().try_fold(size, |bytes, &len| bytes.checked_mul(len));
    let one = ChunkBox {
        origin: place.to_vec(),
        shape: vec![1; place.len()],
        address: Address(0),
        stride: stride.unwrap_or(u64::MAX),
    };
    Ok(ChunkedSlab::new(hyperslab, shape, size, &one)?)
}

/// The places of all chunks that the bounds of a hyperslab meet, in row-major order. With a stride
/// there may be none of its elements in a chunk.
fn places(hyperslab: &Hyperslab, shape: &[u64]) -> Vec<Vec<u64>> {
    if hyperslab.count.contains(&0) {
        return Vec::new();
    }
    let mut all = vec![Vec::with_capacity(shape.len())];
    for (dimension, &len) in shape.iter().enumerate() {
        let start = hyperslab.start[dimension];
        let last = start + (hyperslab.count[dimension] - 1) * hyperslab.stride[dimension];
        let range = start / len..=last / len;
        all = all
            .into_iter()
            .flat_map(|place| {
                range.clone().map(move |at| {
                    let mut place: Vec<u64> = place.clone();
                    place.push(at);
                    place
                })
            })
            .collect();
    }
    all
}

/// Whether a hyperslab has all elements of a chunk that are within the variable.
fn covers(hyperslab: &Hyperslab, shape: &[u64], extent: &[u64], place: &[u64]) -> bool {
    (0..shape.len()).all(|dimension| {
        let first = place[dimension] * shape[dimension];
        let end = (first + shape[dimension]).min(extent[dimension]);
        let (start, count) = (hyperslab.start[dimension], hyperslab.count[dimension]);
        let dense = hyperslab.stride[dimension] == 1 || count == 1;
        dense && start <= first && start + count >= end
    })
}

/// Copies the elements of an access that lie in a chunk to it.
fn gather_into(
    chunk: &mut [u8],
    slab: &ChunkedSlab,
    memory: &dyn Gather,
) -> Result<(), ArrayError> {
    let stream = Cursor::new(&slab.stream, 1)?;
    let file = Cursor::new(&slab.file, 1)?;
    for piece in Pieces::new(stream, file) {
        let at = piece.file as usize;
        memory.gather(piece.memory as u64, &mut chunk[at..at + piece.len as usize])?;
    }
    Ok(())
}

impl Netcdf4State {
    /// The shape of the chunks of a variable. One in its header is one chunk; one that has no place
    /// counts as chunks that nobody wrote.
    fn chunk_shape(&self, variable: usize) -> Vec<u64> {
        if let Some(chunks) = self.chunks(variable) {
            return chunks.shape().to_vec();
        }
        let mut shape = self.variable_shape(variable);
        let mut room = match self.placement(variable) {
            Some(VariablePlacement::Contiguous { .. }) => {
                UNWRITTEN / (self.fills[variable].len() as u64).max(1)
            }
            _ => u64::MAX,
        };
        for len in shape.iter_mut().rev() {
            room = room.max(1);
            *len = (*len).clamp(1, room);
            room /= *len;
        }
        shape
    }

    fn geometry<'c>(&self, key: &'c ChunkKey, shape: &'c [u64]) -> ChunkGeometry<'c> {
        let size = self.fills[key.0].len() as u64;
        ChunkGeometry { place: &key.1, shape, size }
    }

    /// Bytes of a decoded chunk of a variable.
    fn chunk_bytes(&self, variable: usize) -> u64 {
        let size = self.fills[variable].len() as u64;
        self.chunk_shape(variable).iter().product::<u64>() * size
    }

    /// Bytes of a chunk of a variable that pass through filters.
    fn filtered_bytes(&self, variable: usize) -> u64 {
        if self.pipelines[variable].is_empty() { 0 } else { self.chunk_bytes(variable) }
    }

    /// A chunk that is not in the file by itself: one that was never written, or a variable in its
    /// header.
    fn unstored_chunk(&self, variable: usize) -> Vec<u8> {
        let of = &self.plan.definition().variables[self.numbers[variable]];
        if let Storage::Compact(elements) = &of.storage {
            return elements.as_bytes().to_vec();
        }
        let fill = &self.fills[variable];
        let count = self.chunk_bytes(variable) as usize / fill.len().max(1);
        if fill.iter().all(|&byte| byte == 0) {
            return vec![0; count * fill.len()];
        }
        fill.repeat(count)
    }

    pub(super) fn stored_chunk(&self, key: &ChunkKey) -> Option<StoredChunk> {
        self.chunks(key.0).and_then(|chunks| chunks.chunk(&key.1))
    }
}

/// A chunk as it is in the file; `None` if it was never written.
fn read_stored(
    state: &mut FileState,
    key: &ChunkKey,
) -> Result<Option<(StoredChunk, Vec<u8>)>, ArrayError> {
    let netcdf4 = state.netcdf4.as_ref();
    let Some(stored) = netcdf4.and_then(|netcdf4| netcdf4.stored_chunk(key)) else {
        return Ok(None);
    };
    let mut encoded = vec![0; stored.size as usize];
    let got = state.file.read_at(stored.address.0, encoded.as_mut_slice())?;
    if got < encoded.len() as u64 {
        return Err(cut_off(state, key.0, stored));
    }
    Ok(Some((stored, encoded)))
}

/// Decodes a chunk, or makes one that is not in the file.
fn decode(
    netcdf4: &Netcdf4State,
    variable: usize,
    stored: Option<(StoredChunk, &[u8])>,
    scratch: &mut Scratch,
) -> Result<Vec<u8>, striate_hdf5::Error> {
    let Some((stored, encoded)) = stored else { return Ok(netcdf4.unstored_chunk(variable)) };
    let mut chunk = vec![0; netcdf4.chunk_bytes(variable) as usize];
    let decoded =
        netcdf4.pipelines[variable].decode(stored.filter_mask, encoded, &mut chunk, scratch);
    decoded.map_err(|error| {
        striate_hdf5::Error::at(striate_hdf5::Structure::Chunk, stored.address, error)
    })?;
    Ok(chunk)
}

/// The error of a chunk beyond the end of the file.
fn cut_off(state: &FileState, variable: usize, stored: StoredChunk) -> ArrayError {
    ArrayError::Access {
        call: "reading",
        variable: state.header.variables[variable].name.clone(),
        reason: format!("the chunk at {} ends beyond the end of the file", stored.address),
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
