//! [`ChunkEncoder`]: what the threads of a rank need to make stored chunks of elements.
//!
//! It has only those parts of a dataset that do not change meanwhile, so that threads can share it.

use striate_hdf5::filter::Scratch;

use super::super::chunk_cache::ChunkKey;
use super::{Netcdf4State, gather_into, in_chunk};
use crate::ArrayError;
use crate::access::Access;
use crate::file_state::FileState;
use crate::format::Header;
use crate::stream::WriteStream;

/// Encoded chunks of a round, with the bytes of each.
#[derive(Debug, Default)]
pub(super) struct EncodedChunks {
    pub(super) bytes: Vec<Vec<u8>>,
    pub(super) chunks: Vec<EncodedChunk>,
}

#[derive(Debug)]
pub(super) struct EncodedChunk {
    pub(super) key: ChunkKey,
    pub(super) size: u32,
    pub(super) filter_mask: u32,
}

impl EncodedChunks {
    /// Chunks in their order, or the first error.
    pub(super) fn join(
        encoded: Vec<Result<(EncodedChunk, Vec<u8>), ArrayError>>,
    ) -> Result<Self, ArrayError> {
        let mut all = Self::default();
        for one in encoded {
            let (chunk, bytes) = one?;
            all.chunks.push(chunk);
            all.bytes.push(bytes);
        }
        Ok(all)
    }
}

/// Encodes chunks, in any thread.
pub(super) struct ChunkEncoder<'d> {
    file: String,
    header: &'d Header,
    netcdf4: &'d Netcdf4State,
}

impl<'d> ChunkEncoder<'d> {
    pub(super) fn new(state: &'d FileState) -> Option<Self> {
        let netcdf4 = state.netcdf4.as_deref()?;
        Some(Self { file: state.file.name(), header: &state.header, netcdf4 })
    }

    /// Makes `chunk` one whose elements all get values.
    pub(super) fn begin(&self, key: &ChunkKey, chunk: &mut Vec<u8>) {
        // What is beyond the variable now becomes visible when it grows.
        if self.reaches_beyond(key) {
            *chunk = self.netcdf4.unstored_chunk(key.0);
        } else {
            chunk.resize(self.netcdf4.chunk_bytes(key.0) as usize, 0);
        }
    }

    /// Whether a chunk has places for elements that the variable does not have.
    fn reaches_beyond(&self, key: &ChunkKey) -> bool {
        let extent = self.header.shape(&self.header.variables[key.0]);
        let shape = self.netcdf4.chunk_shape(key.0);
        let mut places = key.1.iter().zip(&shape).zip(&extent);
        places.any(|((at, len), extent)| (at + 1) * len > *extent)
    }

    /// Copies the elements of an access that lie in a chunk to it.
    pub(super) fn gather(
        &self,
        access: &Access<WriteStream<'_>>,
        key: &ChunkKey,
        chunk: &mut [u8],
    ) -> Result<(), ArrayError> {
        let Some(hyperslab) = &access.hyperslab else { return Ok(()) };
        let size = self.header.variables[access.variable].external.size();
        let shape = self.netcdf4.chunk_shape(access.variable);
        match in_chunk(hyperslab, &shape, size, &key.1)? {
            Some(slab) => gather_into(chunk, &slab, &access.memory),
            None => Ok(()),
        }
    }

    pub(super) fn encode(
        &self,
        key: &ChunkKey,
        chunk: &[u8],
        scratch: &mut Scratch,
    ) -> Result<(EncodedChunk, Vec<u8>), ArrayError> {
        let one = self.netcdf4.pipelines[key.0].encode(chunk, scratch).map_err(|error| {
            let source = striate_hdf5::Error::of(striate_hdf5::Structure::Chunk, error);
            ArrayError::Hdf5 { file: self.file.clone(), source: Box::new(source) }
        })?;
        let size = u32::try_from(one.bytes.len()).map_err(|_| ArrayError::Access {
            call: "put",
            variable: self.header.variables[key.0].name.clone(),
            reason: "a chunk has 4 GiB or more after its filters".into(),
        })?;
        let chunk = EncodedChunk { key: key.clone(), size, filter_mask: one.filter_mask };
        Ok((chunk, one.bytes.to_vec()))
    }
}
