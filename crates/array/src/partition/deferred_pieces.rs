//! Independent writes to chunks of netCDF-4 partitions that have no computed place.
//!
//! Only the group of a partition knows where such chunks are, and several ranks may have elements
//! of one. So the write waits in memory until all ranks meet, and goes the way of a collective one
//! then. The rank itself reads what it wrote.

use super::Partitioned;
use super::independent::too_much_waits;
use super::partition_io::PartitionPiece;
use super::piece_bytes::pieces_to_read;
use super::request::{HasRequest, MappedRequest, Request, RequestQueue};
use super::selection::{Hyperslab, StreamSelection};
use crate::access::Access;
use crate::format::Variable;
use crate::stream::WriteStream;
use crate::{ArrayError, Dataset, placement};

/// A write that waits.
#[derive(Debug)]
pub(crate) struct DeferredPiece {
    partition: usize,
    /// Index of the variable in the partition.
    variable: usize,
    hyperslab: Hyperslab,
    /// As in the file, in row-major order.
    bytes: Vec<u8>,
}

impl DeferredPiece {
    pub(super) fn new(partition: usize, piece: PartitionPiece<&[u8]>) -> Self {
        let PartitionPiece { variable, hyperslab, bytes } = piece;
        Self { partition, variable, hyperslab, bytes: bytes.to_vec() }
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
fn copy_common(from: &DeferredPiece, to: &Hyperslab, bytes: &mut [u8]) {
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
    /// Keeps pieces until the next collective call.
    pub(super) fn defer<'b>(
        &mut self,
        partition: usize,
        pieces: impl Iterator<Item = PartitionPiece<&'b [u8]>>,
        limit: u64,
    ) -> Result<(), ArrayError> {
        let mut waiting: u64 = self.deferred.iter().map(|one| one.bytes.len() as u64).sum();
        for piece in pieces {
            waiting += piece.bytes.len() as u64;
            if waiting > limit {
                return Err(too_much_waits(&self.logical, limit));
            }
            self.deferred.push(DeferredPiece::new(partition, piece));
        }
        Ok(())
    }

    /// Replaces what was read of a partition by what this rank has written since.
    pub(super) fn add_deferred<T: HasRequest>(
        &self,
        partition: usize,
        queue: &RequestQueue<T>,
        range: std::ops::Range<u64>,
        bytes: &mut [u8],
    ) {
        let of_partition = |one: &&DeferredPiece| one.partition == partition;
        if !self.deferred.iter().any(|one| of_partition(&one)) {
            return;
        }
        for (_, piece) in pieces_to_read(queue, range, bytes) {
            let all = self.deferred.iter().filter(of_partition);
            for deferred in all.filter(|one| one.variable == piece.variable) {
                copy_common(deferred, &piece.hyperslab, &mut *piece.bytes);
            }
        }
    }

    /// Notes that chunks may have got places that other groups do not know. All ranks call it.
    pub(super) fn chunks_were_written(&mut self) {
        let is_indexed = |it: &Variable| !it.storage.filters.is_empty();
        if self.logical.variables.iter().any(is_indexed) {
            self.changes += 1;
            self.has_uncommitted_chunks = true;
        }
    }
}

impl Dataset {
    /// Carries out the writes of all ranks that wait. Collective.
    pub(crate) fn flush_deferred_pieces(&mut self) -> Result<(), ArrayError> {
        if !self.has_netcdf4_partitions() || !self.state.mode.is_writable() {
            return Ok(());
        }
        let Some(partitioned) = &mut self.partitioned else { return Ok(()) };
        let deferred = std::mem::take(&mut partitioned.deferred);
        let count = partitioned.scheme.count;
        let ((), [waiting]) = self.state.agree_with_max(Ok(()), [deferred.len() as u64])?;
        if waiting == 0 {
            return Ok(());
        }
        let mut queues: Vec<RequestQueue<MappedRequest>> = Vec::new();
        queues.resize_with(count, RequestQueue::default);
        let mut accesses = Vec::new();
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
                memory: WriteStream::raw(&one.bytes),
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
            let from =
                DeferredPiece { partition: 0, variable: 0, hyperslab: written.clone(), bytes };
            let mut found = vec![0; 2 * read.elements() as usize];
            copy_common(&from, &read, &mut found);
            let written = indices(&written);
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
