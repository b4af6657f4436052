//! Independent access to divided variables: a rank opens the partitions that it needs by itself.
//!
//! Every rank that accesses a partition independently has a handle of its own, and the locks of
//! these handles do not exclude each other. So an independent handle writes the requested bytes
//! only: sieving is disabled.

use std::ops::Range;

use striate_comm::alone;
use striate_file::{File, Hints, Method, MethodChoice, Switch};

use super::Partitioned;
use super::headers::partition_identity;
use super::piece_bytes::{len, pack, pieces_to_read, pieces_to_write, unpack};
use super::request::{MappedRequest, RequestQueue};
use super::subfiles;
use crate::access::{Access, IoMode};
use crate::file_state::FileState;
use crate::header_reading::{UnfinishedFile, read_header};
use crate::stream::{ReadStream, WriteStream};
use crate::{ArrayError, Dataset, OpenMode, Options};

/// The partitions that have requests.
fn requested(
    queues: &[RequestQueue<MappedRequest>],
) -> impl Iterator<Item = (usize, &RequestQueue<MappedRequest>)> {
    queues.iter().enumerate().filter(|(_, queue)| !queue.items.is_empty())
}

/// The ranges of a stream that are moved one after the other, each of at most `buffer` bytes.
fn rounds(queue: &RequestQueue<MappedRequest>, buffer: u64) -> impl Iterator<Item = Range<u64>> {
    let count = queue.bytes().div_ceil(buffer);
    (0..count).map(move |round| queue.round(round, buffer)).filter(|range| !range.is_empty())
}

impl Dataset {
    /// Writes to partitions. Independent.
    pub(crate) fn put_divided_independent(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<(), ArrayError> {
        let buffer = self.options.partitioning.buffer;
        for (k, queue) in requested(queues) {
            let Some(part) = self.independent_handle(k)? else { continue };
            for range in rounds(queue, buffer) {
                let bytes = pack(accesses, queue, range.clone())?;
                let pieces: Vec<_> =
                    pieces_to_write(queue, range, &bytes).map(|(_, piece)| piece).collect();
                part.put_pieces(&pieces, IoMode::Independent)?;
            }
        }
        Ok(())
    }

    /// Reads from partitions. Independent.
    pub(crate) fn get_divided_independent(
        &mut self,
        accesses: &mut [Access<ReadStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<(), ArrayError> {
        let buffer = self.options.partitioning.buffer;
        for (k, queue) in requested(queues) {
            let Some(part) = self.independent_handle(k)? else { continue };
            for range in rounds(queue, buffer) {
                let mut bytes = vec![0; len(&range) as usize];
                let pieces =
                    pieces_to_read(queue, range.clone(), &mut bytes).map(|(_, piece)| piece);
                part.get_pieces(pieces.collect(), IoMode::Independent)?;
                unpack(accesses, queue, range, &bytes)?;
            }
        }
        Ok(())
    }

    /// The handle by which this rank accesses a partition independently; opened at first use.
    fn independent_handle(&mut self, k: usize) -> Result<Option<&mut Dataset>, ArrayError> {
        let (hints, mode) = (self.state.file.hints().clone(), self.state.mode);
        let options = Options { hints: unsieved(hints), ..self.options.clone() };
        let Some(partitioned) = self.partitioned.as_deref_mut() else { return Ok(None) };
        if !partitioned.independent.contains_key(&k) {
            let part = partitioned.open_independent(k, mode, &options)?;
            partitioned.independent.insert(k, part);
        }
        Ok(partitioned.independent.get_mut(&k))
    }
}

/// The same hints with sieved writes disabled.
fn unsieved(mut hints: Hints) -> Hints {
    hints.ds_write = Switch::Disable;
    if hints.method == MethodChoice::Fixed(Method::Sieve) {
        hints.method = MethodChoice::Auto;
    }
    hints
}

impl Partitioned {
    fn open_independent(
        &self,
        k: usize,
        mode: OpenMode,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let path = self.files[k].clone();
        let mut file = File::open(&alone(), &path, mode.file_mode(), &options.hints)?;
        // The header of a new partition is complete from the end of its definition on, though its
        // magic number still marks it as unfinished.
        let mut header = read_header(&mut file, UnfinishedFile::Accept)?;
        let is_own = if self.foreign {
            subfiles::index_of(&header) == Some(k as u64)
        } else {
            partition_identity(&header).is_some_and(|identity| {
                (identity.id == self.table.id) && (identity.generation == self.table.generation)
            })
        };
        if !is_own {
            let reason = "it is not the one that it was when the dataset was opened".into();
            return Err(ArrayError::Partition { file: path.display().to_string(), reason });
        }
        header.records = self.logical.records;
        Ok(Dataset::new(FileState::new(file, path, header, options, mode)?, options.clone()))
    }
}
