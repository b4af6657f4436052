//! Bytes of partition pieces: between the memory of accesses, contiguous buffers and hyperslabs of
//! a partition.
//!
//! A range of a [`RequestQueue`]'s stream is a sequence of [`PartitionPiece`]s. Its bytes are those
//! of the file (converted, big-endian), one piece after the other, so a buffer needs no header:
//! both sides cut it by the same requests.

use std::ops::Range;

use striate_file::Gather;

use super::partition_io::PartitionPiece;
use super::request::{HasRequest, MappedRequest, RequestQueue};
use crate::ArrayError;
use crate::access::Access;
use crate::stream::{ReadStream, WriteStream};

/// Length of a range.
pub(super) const fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// The bytes of a range of a queue's stream, packed and converted from the memory of the accesses.
pub(super) fn pack(
    accesses: &[Access<WriteStream<'_>>],
    queue: &RequestQueue<MappedRequest>,
    range: Range<u64>,
) -> Result<Vec<u8>, ArrayError> {
    let mut bytes = vec![0; len(&range) as usize];
    let mut rest = bytes.as_mut_slice();
    for (mapped, elements) in queue.overlapping(range) {
        let size = mapped.request.size;
        let (piece, after) = rest.split_at_mut((len(&elements) * size) as usize);
        let memory: &dyn Gather = &accesses[mapped.access].memory;
        mapped.selection.gather(memory, elements.start * size, piece)?;
        rest = after;
    }
    Ok(bytes)
}

/// Converts and copies the bytes of a range of a queue's stream to the memory of the accesses.
pub(super) fn unpack(
    accesses: &mut [Access<ReadStream<'_>>],
    queue: &RequestQueue<MappedRequest>,
    range: Range<u64>,
    bytes: &[u8],
) -> Result<(), ArrayError> {
    let mut rest = bytes;
    for (mapped, elements) in queue.overlapping(range) {
        let size = mapped.request.size;
        let (piece, after) = rest.split_at((len(&elements) * size) as usize);
        let memory = &mut accesses[mapped.access].memory;
        mapped.selection.scatter(memory, elements.start * size, piece)?;
        rest = after;
    }
    Ok(())
}

/// The pieces of a range of a queue's stream: the partition of each, its hyperslab and its length
/// in bytes.
fn pieces_of<T: HasRequest>(
    queue: &RequestQueue<T>,
    range: Range<u64>,
) -> impl Iterator<Item = (usize, PartitionPiece<usize>)> {
    queue.overlapping(range).flat_map(|(item, elements)| {
        let request = item.request();
        let boxes = request.hyperslab.boxes(elements).into_iter();
        boxes.map(|hyperslab| {
            let bytes = (hyperslab.elements() * request.size) as usize;
            (request.partition, PartitionPiece { variable: request.variable, hyperslab, bytes })
        })
    })
}

/// The pieces of a range of a queue's stream, each with its part of `bytes`.
pub(super) fn pieces_to_write<'b, T: HasRequest>(
    queue: &'b RequestQueue<T>,
    range: Range<u64>,
    bytes: &'b [u8],
) -> impl Iterator<Item = (usize, PartitionPiece<&'b [u8]>)> {
    let mut rest = bytes;
    pieces_of(queue, range).map(move |(k, piece)| {
        let (bytes, after) = rest.split_at(piece.bytes);
        rest = after;
        (k, piece.with_bytes(bytes))
    })
}

/// The pieces of a range of a queue's stream, each with its part of the buffer `bytes`.
pub(super) fn pieces_to_read<'b, T: HasRequest>(
    queue: &'b RequestQueue<T>,
    range: Range<u64>,
    bytes: &'b mut [u8],
) -> impl Iterator<Item = (usize, PartitionPiece<&'b mut [u8]>)> {
    let mut rest = bytes;
    pieces_of(queue, range).map(move |(k, piece)| {
        let (bytes, after) = std::mem::take(&mut rest).split_at_mut(piece.bytes);
        rest = after;
        (k, piece.with_bytes(bytes))
    })
}
