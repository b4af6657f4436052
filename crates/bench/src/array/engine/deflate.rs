//! The limit of compression: every rank passes the same chunks through shuffle and deflate, with
//! one thread and the compressor that our datasets use, and writes nothing.
//!
//! There are no files: a read decodes what the last write has encoded, also in memory.

use std::io;
use std::path::Path;

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use striate_hdf5::filter::{Pipeline, Scratch};
use striate_hdf5::model::Filter;

use super::{ArrayEngine, ArrayEngineError, EngineContext, RankCost};
use crate::array::memory::Memory;
use crate::array::plan::{Access, FilePlan};

/// The registered number of shuffle.
const SHUFFLE: u16 = 2;

/// A compressor without files.
pub(super) struct DeflateEngine<'b> {
    context: EngineContext<'b>,
    shuffle: Pipeline,
    level: CompressionLvl,
    compressor: Compressor,
    decompressor: Decompressor,
    /// Encoded chunks of the file that was written last, in the order of writing.
    encoded: Vec<Vec<u8>>,
    /// The first chunk that was not decoded yet.
    next: usize,
    shuffled: Vec<u8>,
    room: Vec<u8>,
    scratch: Scratch,
}

impl std::fmt::Debug for DeflateEngine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chunks = self.encoded.len();
        f.debug_struct("DeflateEngine").field("encoded", &chunks).finish_non_exhaustive()
    }
}

impl<'b> DeflateEngine<'b> {
    pub(super) fn new(context: EngineContext<'b>) -> Result<Self, ArrayEngineError> {
        let variables = context.plan.files.iter().flat_map(|file| &file.schema.variables);
        let compressed = variables.map(|variable| variable.storage.deflate.zip(Some(variable)));
        let all: Option<Vec<_>> = compressed.collect();
        // One level and one size of elements are enough for all workloads.
        let Some(&[(level, variable)]) = all.as_deref() else { return Err(unfit()) };
        let parameters = vec![variable.number.size() as u32];
        let filter = Filter { id: SHUFFLE, name: "shuffle".into(), optional: false, parameters };
        let level = CompressionLvl::new(i32::from(level)).map_err(|_| unfit())?;
        Ok(Self {
            context,
            shuffle: Pipeline::new(&[filter]),
            level,
            compressor: Compressor::new(level),
            decompressor: Decompressor::new(),
            encoded: Vec::new(),
            next: 0,
            shuffled: Vec::new(),
            room: Vec::new(),
            scratch: Scratch::new(),
        })
    }

    fn plan(&self, file: usize) -> &'b FilePlan {
        &self.context.plan.files[file]
    }

    fn encode(&mut self, chunk: &[u8]) -> Result<(), ArrayEngineError> {
        let shuffled = self.shuffle.encode(chunk, &mut self.scratch).map_err(io::Error::other)?;
        let most = self.compressor.zlib_compress_bound(chunk.len());
        if self.room.len() < most {
            self.room.resize(most, 0);
        }
        let len = self.compressor.zlib_compress(shuffled.bytes, &mut self.room);
        let len = len.map_err(io::Error::other)?;
        if self.next < self.encoded.len() {
            self.encoded[self.next].clear();
            self.encoded[self.next].extend_from_slice(&self.room[..len]);
        } else {
            self.encoded.push(self.room[..len].to_vec());
        }
        self.next += 1;
        Ok(())
    }

    fn decode(&mut self, chunk: &mut [u8]) -> Result<(), ArrayEngineError> {
        let encoded = self.encoded.get(self.next).ok_or_else(unfit)?;
        self.shuffled.resize(chunk.len(), 0);
        let decoded = self.decompressor.zlib_decompress(encoded, &mut self.shuffled);
        decoded.map_err(io::Error::other)?;
        let unshuffled = self.shuffle.decode(0, &self.shuffled, chunk, &mut self.scratch);
        unshuffled.map_err(io::Error::other)?;
        self.next += 1;
        Ok(())
    }
}

fn unfit() -> ArrayEngineError {
    let text = "the workload is not one variable of compressed chunks that ranks write whole";
    io::Error::new(io::ErrorKind::InvalidInput, text).into()
}

/// Bytes of a chunk, if an access is of whole chunks that are one piece in memory.
fn chunk_bytes(plan: &FilePlan, access: &Access) -> Result<usize, ArrayEngineError> {
    let variable = &plan.schema.variables[access.variable];
    let chunk = variable.storage.chunk.as_ref().ok_or_else(unfit)?;
    let dimensions = access.start.iter().zip(&access.count).zip(chunk).enumerate();
    let is_whole = dimensions.into_iter().all(|(at, ((start, count), chunk))| {
        if at == 0 {
            start % chunk == 0 && count % chunk == 0
        } else {
            *start == 0 && count == chunk
        }
    });
    if !is_whole {
        return Err(unfit());
    }
    Ok(chunk.iter().product::<u64>() as usize * variable.number.size())
}

impl ArrayEngine for DeflateEngine<'_> {
    fn create(&mut self, _path: &Path, _file: usize) -> Result<(), ArrayEngineError> {
        self.next = 0;
        self.compressor = Compressor::new(self.level);
        Ok(())
    }

    fn open(&mut self, _path: &Path, _file: usize) -> Result<(), ArrayEngineError> {
        self.next = 0;
        Ok(())
    }

    fn inspect(&mut self, _file: usize) -> Result<(), ArrayEngineError> {
        Ok(())
    }

    fn write(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        for access in &plan.steps[step] {
            let number = plan.schema.variables[access.variable].number;
            let range = memory.dense(access, number).ok_or_else(unfit)?;
            let size = chunk_bytes(plan, access)?;
            for chunk in memory.buffers[access.area][range].chunks(size) {
                self.encode(chunk)?;
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        for access in &plan.steps[step] {
            let number = plan.schema.variables[access.variable].number;
            let range = memory.dense(access, number).ok_or_else(unfit)?;
            let size = chunk_bytes(plan, access)?;
            for chunk in memory.buffers[access.area][range].chunks_mut(size) {
                self.decode(chunk)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ArrayEngineError> {
        Ok(())
    }

    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError> {
        Ok(None)
    }
}
