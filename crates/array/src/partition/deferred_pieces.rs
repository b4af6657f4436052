//! Independent writes to chunks of netCDF-4 partitions that have no computed place.
//!
//! Only the group of a partition knows where such chunks are, and several ranks may have elements
//! of one. So the write waits until all ranks meet, and goes the way of a collective one then. The
//! rank itself reads what it wrote.
//!
//! Memory is bounded: what is more than `nc_chunk_cache` waits in arenas of the master's file
//! ([`spill_bytes`]), whose space all ranks know. No superblock refers to it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Partitioned;
use super::partition_io::PartitionPiece;
use super::piece_bytes::pieces_to_read;
use super::request::{HasRequest, MappedRequest, Request, RequestQueue};
use super::selection::{Hyperslab, StreamSelection};
use crate::access::Access;
use crate::file_state::FileState;
use crate::format::Variable;
use crate::netcdf4::{Reader, Words, free_spilled, garbled, read_spilled, spill_bytes};
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset, placement};

/// Pieces that are in memory in decoded form at a time, at most.
const MOST_PIECES: u64 = 1 << 16;

/// The independent writes of this rank that wait, in their order: the newest in memory, the others
/// in space of the master's file that the rank takes alone.
#[derive(Debug, Default)]
pub(crate) struct PieceLog {
    spilled: Vec<LogSegment>,
    newest: LogSegment,
    /// The encoded pieces of the newest segment.
    memory: Vec<u8>,
}

/// Pieces that were encoded one after the other.
#[derive(Debug, Default)]
struct LogSegment {
    /// Where they are in the file: addresses and bytes.
    extents: Vec<(u64, u64)>,
    pieces: u64,
    /// What they touch of each variable of a partition, along each dimension.
    hulls: BTreeMap<(usize, usize), Vec<Range<u64>>>,
}

/// The indices along each dimension between the first and the last one of a hyperslab.
fn hull(of: &Hyperslab) -> Vec<Range<u64>> {
    let along = of.start.iter().zip(&of.count).zip(&of.stride);
    along
        .map(|((&start, &count), stride)| {
            start..start + count.max(1).saturating_sub(1) * stride + 1
        })
        .collect()
}

impl LogSegment {
    fn add(&mut self, partition: usize, variable: usize, hyperslab: &Hyperslab) {
        self.pieces += 1;
        let new = hull(hyperslab);
        let known = self.hulls.entry((partition, variable)).or_insert_with(|| new.clone());
        for (known, new) in known.iter_mut().zip(new) {
            *known = known.start.min(new.start)..known.end.max(new.end);
        }
    }

    fn touches(&self, partition: usize, variable: usize, hyperslab: &Hyperslab) -> bool {
        self.hulls.get(&(partition, variable)).is_some_and(|known| {
            let both = known.iter().zip(hull(hyperslab));
            both.into_iter().all(|(a, b)| a.start < b.end && b.start < a.end)
        })
    }
}

impl PieceLog {
    fn push(&mut self, partition: usize, piece: &PartitionPiece<&[u8]>) {
        let PartitionPiece { variable, hyperslab, bytes } = piece;
        self.newest.add(partition, *variable, hyperslab);
        let mut words = Words(std::mem::take(&mut self.memory));
        words.number(partition as u64);
        words.key(*variable, &hyperslab.start);
        let more = hyperslab.count.iter().chain(&hyperslab.stride);
        more.for_each(|&number| words.number(number));
        words.number(bytes.len() as u64);
        words.0.extend_from_slice(bytes);
        self.memory = words.0;
    }

    /// Moves what is in memory to the file if it is more than `limit` bytes. After an error it is
    /// still in memory.
    fn spill_beyond(&mut self, limit: u64, state: &mut FileState) -> Result<(), ArrayError> {
        if self.memory.len() as u64 <= limit && self.newest.pieces < MOST_PIECES {
            return Ok(());
        }
        self.newest.extents = spill_bytes(state, &self.memory)?;
        self.memory = Vec::new();
        self.spilled.push(std::mem::take(&mut self.newest));
        Ok(())
    }

    fn segments(&self) -> u64 {
        self.spilled.len() as u64 + u64::from(self.newest.pieces > 0)
    }

    /// The encoded pieces of a segment; those in memory are taken.
    fn take_bytes(&mut self, number: usize, state: &mut FileState) -> Result<Vec<u8>, ArrayError> {
        match self.spilled.get(number) {
            Some(segment) => read_spilled(state, &segment.extents),
            None => Ok(std::mem::take(&mut self.memory)),
        }
    }
}

/// A write that waits.
#[derive(Debug)]
struct DeferredPiece<'b> {
    partition: usize,
    /// Index of the variable in the partition.
    variable: usize,
    hyperslab: Hyperslab,
    /// As in the file, in row-major order.
    bytes: &'b [u8],
}

impl<'b> DeferredPiece<'b> {
    /// All pieces of a segment.
    fn decode_all(bytes: &'b [u8]) -> Result<Vec<Self>, ArrayError> {
        let mut reader = Reader(bytes);
        let mut all = Vec::new();
        while !reader.0.is_empty() {
            all.push(Self::decode(&mut reader).ok_or_else(garbled)?);
        }
        Ok(all)
    }

    fn decode(reader: &mut Reader<'b>) -> Option<Self> {
        let partition = reader.number()? as usize;
        let (variable, start) = reader.key()?;
        let count = reader.numbers(start.len())?;
        let stride = reader.numbers(start.len())?;
        let len = reader.number()? as usize;
        let hyperslab = Hyperslab { start, count, stride };
        Some(Self { partition, variable, hyperslab, bytes: reader.bytes(len)? })
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64 / self.hyperslab.elements().max(1)
    }
}

/// For each dimension, the places in two hyperslabs of the indices that both have.
fn common(one: &Hyperslab, other: &Hyperslab) -> Vec<Vec<(u64, u64)>> {
    let of_dimension = |dimension: usize| {
        let (start, stride) = (other.start[dimension], other.stride[dimension]);
        let in_other = |index: u64| {
            let distance = index.checked_sub(start)?;
            let place = distance / stride;
            (distance % stride == 0 && place < other.count[dimension]).then_some(place)
        };
        let all = 0..one.count[dimension];
        let places = all.filter_map(|place| {
            Some((place, in_other(one.start[dimension] + place * one.stride[dimension])?))
        });
        places.collect()
    };
    (0..one.count.len()).map(of_dimension).collect()
}

/// Copies the elements that two hyperslabs have in common from the bytes of one to those of the
/// other.
fn copy_common(from: &DeferredPiece<'_>, to: &Hyperslab, bytes: &mut [u8]) {
    let size = from.size() as usize;
    let places = common(&from.hyperslab, to);
    if places.iter().any(Vec::is_empty) {
        return;
    }
    // The place of each element in both, dimension by dimension.
    let mut elements = vec![(0, 0)];
    for (dimension, places) in places.iter().enumerate() {
        let (rows, own_rows) = (from.hyperslab.count[dimension], to.count[dimension]);
        elements = elements
            .into_iter()
            .flat_map(|(a, b)| places.iter().map(move |&(x, y)| (a * rows + x, b * own_rows + y)))
            .collect();
    }
    for (a, b) in elements {
        let (a, b) = (a as usize * size, b as usize * size);
        bytes[b..b + size].copy_from_slice(&from.bytes[a..a + size]);
    }
}

impl Partitioned {
    /// Keeps pieces until the next collective call, at most `limit` bytes of them in memory.
    pub(super) fn defer<'b>(
        &mut self,
        partition: usize,
        pieces: impl Iterator<Item = PartitionPiece<&'b [u8]>>,
        limit: u64,
        state: &mut FileState,
    ) -> Result<(), ArrayError> {
        for piece in pieces {
            // Nothing is added as long as there is no room.
            self.deferred.spill_beyond(limit, state)?;
            self.deferred.push(partition, &piece);
        }
        self.deferred.spill_beyond(limit, state)
    }

    /// Replaces what was read of a partition by what this rank has written since.
    pub(super) fn add_deferred<T: HasRequest>(
        &self,
        partition: usize,
        queue: &RequestQueue<T>,
        range: Range<u64>,
        bytes: &mut [u8],
        state: &mut FileState,
    ) -> Result<(), ArrayError> {
        let log = &self.deferred;
        if log.segments() == 0 {
            return Ok(());
        }
        let mut read: Vec<_> =
            pieces_to_read(queue, range, bytes).map(|(_, piece)| piece).collect();
        for segment in log.spilled.iter().chain([&log.newest]) {
            let is_touched = |piece: &PartitionPiece<&mut [u8]>| {
                segment.touches(partition, piece.variable, &piece.hyperslab)
            };
            if !read.iter().any(is_touched) {
                continue;
            }
            let spilled;
            let encoded = if segment.extents.is_empty() {
                log.memory.as_slice()
            } else {
                spilled = read_spilled(state, &segment.extents)?;
                &spilled
            };
            let written = DeferredPiece::decode_all(encoded)?;
            for from in written.iter().filter(|from| from.partition == partition) {
                for to in read.iter_mut().filter(|to| to.variable == from.variable) {
                    copy_common(from, &to.hyperslab, to.bytes);
                }
            }
        }
        Ok(())
    }

    /// Notes that chunks may have got places that other groups do not know. All ranks call it.
    pub(super) fn chunks_were_written(&mut self) {
        let is_indexed = |it: &Variable| !it.storage.filters.is_empty();
        if self.logical.variables.iter().any(is_indexed) {
            self.places_have_changed();
        }
    }
}

impl Dataset {
    /// Carries out the writes of all ranks that wait. After an error they wait on. Collective.
    pub(crate) fn flush_deferred_pieces(&mut self) -> Result<(), ArrayError> {
        if !self.has_netcdf4_partitions() || !self.state.mode.is_writable() {
            return Ok(());
        }
        let own = self.partitioned.as_ref().map_or(0, |it| it.deferred.segments());
        let ((), [most]) = self.state.agree_with_max(Ok(()), [own])?;
        for number in 0..most as usize {
            let Some(partitioned) = &mut self.partitioned else { return Ok(()) };
            let bytes = partitioned.deferred.take_bytes(number, &mut self.state);
            let is_in_memory = number >= partitioned.deferred.spilled.len();
            let bytes = self.state.agree(bytes)?;
            let written = self.put_segment(&bytes);
            if let (true, Some(partitioned)) = (is_in_memory, &mut self.partitioned)
                && !bytes.is_empty()
            {
                partitioned.deferred.memory = bytes;
            }
            written?;
        }
        if let Some(partitioned) = &mut self.partitioned {
            let done = std::mem::take(&mut partitioned.deferred);
            let extents = done.spilled.into_iter().flat_map(|segment| segment.extents);
            free_spilled(&mut self.state, extents);
        }
        Ok(())
    }

    /// Writes the pieces of a segment of the log. Collective.
    fn put_segment(&mut self, bytes: &[u8]) -> Result<(), ArrayError> {
        let Some(partitioned) = &self.partitioned else { return Ok(()) };
        let mut queues: Vec<RequestQueue<MappedRequest>> = Vec::new();
        queues.resize_with(partitioned.scheme.count, RequestQueue::default);
        let mut accesses = Vec::new();
        let deferred = self.state.agree(DeferredPiece::decode_all(bytes))?;
        for one in &deferred {
            let (partition, variable, size) = (one.partition, one.variable, one.size());
            let hyperslab = one.hyperslab.clone();
            let request = Request { partition, variable, hyperslab, size };
            let bytes = one.bytes.len() as u64;
            let selection = StreamSelection { first: 0, block: bytes, distance: bytes, blocks: 1 };
            queues[partition].push(MappedRequest { request, access: accesses.len(), selection });
            accesses.push(Access {
                variable,
                placement: placement::empty()?,
                hyperslab: None,
                records: 0,
                growth: Vec::new(),
                may_be_out_of_range: false,
                memory: WriteStream::raw(one.bytes),
            });
        }
        self.put_divided(&accesses, &queues)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hyperslab(of: &[(u64, u64, u64)]) -> Hyperslab {
        Hyperslab {
            start: of.iter().map(|it| it.0).collect(),
            count: of.iter().map(|it| it.1).collect(),
            stride: of.iter().map(|it| it.2).collect(),
        }
    }

    fn indices(of: &Hyperslab) -> Vec<Vec<u64>> {
        (0..of.count.len()).fold(vec![vec![]], |all, dimension| {
            let index = |n: u64| of.start[dimension] + n * of.stride[dimension];
            let longer = |known: Vec<u64>| {
                (0..of.count[dimension]).map(move |n| [known.clone(), vec![index(n)]].concat())
            };
            all.into_iter().flat_map(longer).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            both in proptest::collection::vec(
                ((0u64..4, 0u64..5, 1u64..4), (0u64..4, 0u64..5, 1u64..4)),
                0..4,
            ),
        ) {
            let (one, other): (Vec<_>, Vec<_>) = both.into_iter().unzip();
            let (written, read) = (hyperslab(&one), hyperslab(&other));
            let bytes: Vec<u8> = (0..written.elements()).flat_map(|n| [n as u8 + 1, 7]).collect();
            let mut log = PieceLog::default();
            let piece = PartitionPiece { variable: 3, hyperslab: written.clone(), bytes: &*bytes };
            log.push(2, &piece);
            let decoded = DeferredPiece::decode_all(&log.memory).unwrap();
            let from = &decoded[0];
            prop_assert_eq!((from.partition, from.variable), (2, 3));
            let mut found = vec![0; 2 * read.elements() as usize];
            copy_common(from, &read, &mut found);
            let written = indices(&written);
            if written.iter().any(|index| indices(&read).contains(index)) {
                prop_assert!(log.newest.touches(2, 3, &read));
            }
            let due = indices(&read).into_iter().flat_map(|index| {
                match written.iter().position(|it| *it == index) {
                    Some(place) => [place as u8 + 1, 7],
                    None => [0, 0],
                }
            });
            prop_assert!(found.into_iter().eq(due));
        }
    }
}
