//! Chunks that are read and written as a whole: those with filters, and those whose places only an
//! index knows.
//!
//! * [`write`]: a collective write. Each chunk has one owner: the rank that writes all of it, or
//!   else one to which the others send their elements. The owner encodes it, the sizes of all
//!   become addresses, and every rank has the same index.
//! * [`read`]: reads of any rank, many chunks at a time.
//! * [`filter_threads`]: filters in several threads, where a rank has several cores. [`encode`] is
//!   what they share.
//! * An independent write waits in memory ([`DeferredWrite`]) until all ranks meet, since chunks of
//!   several ranks could be the same one. The rank itself reads what it wrote.

mod encode;
mod filter_threads;
mod message;
mod read;
mod write;

use striate_datatype::{Cursor, Pieces};
use striate_file::Gather;
use striate_hdf5::filter::Scratch;
use striate_hdf5::model::Address;
use striate_hdf5::netcdf::Storage;
use striate_hdf5::write::{ChunkBox, StoredChunk};

use super::Netcdf4State;
use super::chunk_cache::ChunkKey;
use super::chunked_slab::ChunkedSlab;
use crate::access::Access;
use crate::file_state::FileState;
use crate::partition::Hyperslab;
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset};

/// Bytes of chunks that a rank has in memory at a time, in either form; more if chunks are large
/// ([`filter_threads`]).
const BUFFER: u64 = 16 << 20;

/// An independent write that waits for the next collective call.
#[derive(Debug)]
pub(crate) struct DeferredWrite {
    variable: usize,
    hyperslab: Hyperslab,
    /// As in the file, in row-major order.
    bytes: Vec<u8>,
}

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
    /// The shape of the chunks of a variable; one that has none is one chunk.
    fn chunk_shape(&self, variable: usize) -> Vec<u64> {
        if let Some(chunks) = self.chunks(variable) {
            return chunks.shape().to_vec();
        }
        self.variable_shape(variable).into_iter().map(|size| size.max(1)).collect()
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

    fn stored_chunk(&self, key: &ChunkKey) -> Option<StoredChunk> {
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

impl Dataset {
    /// Keeps independent writes to chunks with filters until the next collective call.
    pub(crate) fn defer_writes(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
    ) -> Result<(), ArrayError> {
        let limit = self.options.chunk_cache.unwrap_or(super::CHUNK_CACHE);
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let mut waiting: u64 = netcdf4.deferred.iter().map(|one| one.bytes.len() as u64).sum();
        for access in accesses {
            let Some(hyperslab) = access.hyperslab.clone() else { continue };
            waiting += access.memory.stream_len();
            if waiting > limit {
                return Err(ArrayError::Access {
                    call: "put",
                    variable: self.state.header.variables[access.variable].name.clone(),
                    reason: format!(
                        "more than {limit} bytes of independent writes to filtered chunks wait for \
                         all ranks: call sync, use put_all, or set nc_chunk_cache"
                    ),
                });
            }
            let mut bytes = vec![0; access.memory.stream_len() as usize];
            access.memory.gather(0, &mut bytes)?;
            netcdf4.deferred.push(DeferredWrite { variable: access.variable, hyperslab, bytes });
        }
        Ok(())
    }

    /// Carries out the independent writes of all ranks that wait. Collective.
    pub(crate) fn flush_deferred(&mut self) -> Result<(), ArrayError> {
        self.flush_deferred_pieces()?;
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        if !netcdf4.has_stored_chunks() || !self.state.mode.is_writable() {
            return Ok(());
        }
        let deferred = std::mem::take(&mut netcdf4.deferred);
        let ((), [waiting]) = self.state.agree_with_max(Ok(()), [deferred.len() as u64])?;
        if waiting == 0 {
            return Ok(());
        }
        let accesses: Vec<_> = deferred
            .iter()
            .map(|one| {
                Ok(Access {
                    variable: one.variable,
                    placement: crate::placement::empty()?,
                    hyperslab: Some(one.hyperslab.clone()),
                    records: 0,
                    growth: Vec::new(),
                    may_be_out_of_range: false,
                    memory: WriteStream::raw(&one.bytes),
                })
            })
            .collect::<Result<_, ArrayError>>()?;
        self.put_stored(&accesses)
    }
}
