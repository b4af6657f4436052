//! [`ChunkedSlab`]: a hyperslab of a variable in chunks, as one description of the file and one of
//! memory.
//!
//! A box of chunks without filters is regular: its chunks follow each other at equal distances, and
//! so do the elements in a chunk. Along a dimension, a hyperslab meets a chunk at its beginning,
//! many whole ones, and one at its end; each kind is one loop over chunks ([`ChunkRun`]). The loops
//! over chunks of all dimensions, and inside of them the loops over elements, are a datatype whose
//! bytes ascend in the file. The same loops with the strides of memory are the order in which the
//! elements are taken from memory. No chunk is enumerated, whatever their number.

use std::ops::Range;

use striate_datatype::{Datatype, TypeError};
use striate_hdf5::write::ChunkBox;

use crate::partition::Hyperslab;

/// A hyperslab in a box of chunks.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedSlab {
    /// Its bytes in the file, ascending; offsets are those of the file.
    pub(crate) file: Datatype,
    /// The same bytes in the stream of the hyperslab, whose elements are in row-major order.
    pub(crate) stream: Datatype,
}

/// Chunks along one dimension that a hyperslab meets in the same way, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkRun {
    /// The first chunk.
    chunk: u64,
    /// How many there are.
    repeat: u64,
    /// Chunks from one to the next.
    step: u64,
    /// The first element inside of each.
    first: u64,
    /// Elements of the hyperslab in each.
    count: u64,
    /// The number of the first element in the hyperslab.
    element: u64,
}

/// The runs of chunks from `chunks`, each `len` elements long, that `count` elements at distances
/// `stride` meet.
fn chunk_runs(start: u64, count: u64, stride: u64, len: u64, chunks: &Range<u64>) -> Vec<ChunkRun> {
    let before = |chunk: u64| chunk.saturating_mul(len).saturating_sub(start).div_ceil(stride);
    let (mut element, end) = (before(chunks.start), before(chunks.end).min(count));
    let mut runs: Vec<ChunkRun> = Vec::new();
    while element < end {
        let index = start + element * stride;
        let (chunk, first) = (index / len, index % len);
        let count = ((len - first - 1) / stride + 1).min(end - element);
        let whole = len.is_multiple_of(stride) && first < stride && count == len / stride;
        let (repeat, step) = if whole {
            ((end - element) / count, 1)
        } else if stride.is_multiple_of(len) {
            // One element in each, and equally many chunks are skipped.
            (end - element, stride / len)
        } else {
            (1, 1)
        };
        runs.push(ChunkRun { chunk, repeat, step, first, count, element });
        element += repeat * count;
    }
    runs
}

/// What the loops of all dimensions need.
struct LoopNest<'a> {
    hyperslab: &'a Hyperslab,
    runs: Vec<Vec<ChunkRun>>,
    /// The box's first chunk in each dimension.
    origin: &'a [u64],
    /// Bytes of the file from one chunk to the next in each dimension.
    chunk_strides: Vec<u64>,
    /// Bytes from one element of a chunk to the next in each dimension.
    element_strides: Vec<u64>,
    /// Bytes from one element of the stream to the next in each dimension.
    stream_strides: Vec<u64>,
    size: u64,
}

/// Row-major strides of an array of elements of `size` bytes.
fn row_major(shape: &[u64], size: u64) -> Result<Vec<u64>, TypeError> {
    let mut strides = vec![0; shape.len()];
    let mut step = size;
    for (stride, &len) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.checked_mul(len.max(1)).ok_or(FAR)?;
    }
    Ok(strides)
}

const FAR: TypeError = TypeError::Overflow { what: "an offset in the file" };

fn product(a: u64, b: u64) -> Result<i64, TypeError> {
    a.checked_mul(b).and_then(|product| i64::try_from(product).ok()).ok_or(FAR)
}

impl ChunkedSlab {
    /// The part of a hyperslab in a box of chunks of shape `chunk`, with elements of `size` bytes;
    /// `None` if there is none.
    pub(crate) fn new(
        hyperslab: &Hyperslab,
        chunk: &[u64],
        size: u64,
        within: &ChunkBox,
    ) -> Result<Option<Self>, TypeError> {
        let mut runs = Vec::with_capacity(chunk.len());
        for (dimension, &len) in chunk.iter().enumerate() {
            let (first, count) = (within.origin[dimension], within.shape[dimension]);
            let of_dimension = chunk_runs(
                hyperslab.start[dimension],
                hyperslab.count[dimension],
                hyperslab.stride[dimension],
                len,
                &(first..first.saturating_add(count)),
            );
            if of_dimension.is_empty() {
                return Ok(None);
            }
            runs.push(of_dimension);
        }
        let nest = LoopNest {
            hyperslab,
            runs,
            origin: &within.origin,
            chunk_strides: row_major(&within.shape, within.stride)?,
            element_strides: row_major(chunk, size)?,
            stream_strides: row_major(&hyperslab.count, size)?,
            size,
        };
        let mut slab = nest.over_chunks(&mut Vec::new())?;
        let address = i64::try_from(within.address.0).map_err(|_| FAR)?;
        slab.file = slab.file.displaced(address)?;
        Ok(Some(slab))
    }
}

impl LoopNest<'_> {
    /// The loops over chunks from a dimension on, with the runs of the dimensions before.
    fn over_chunks(&self, chosen: &mut Vec<ChunkRun>) -> Result<ChunkedSlab, TypeError> {
        let dimension = chosen.len();
        let Some(runs) = self.runs.get(dimension) else { return self.over_elements(chosen) };
        let (mut file, mut stream) = (Vec::new(), Vec::new());
        for run in runs {
            chosen.push(*run);
            let inner = self.over_chunks(chosen)?;
            chosen.pop();
            let chunk_stride = self.chunk_strides[dimension];
            let stream_stride = self.stream_strides[dimension];
            let step = product(run.step, chunk_stride)?;
            let repeated = Datatype::hvector(run.repeat, 1, step, &inner.file)?;
            let offset = product(run.chunk - self.origin[dimension], chunk_stride)?;
            file.push((1, offset, repeated));
            let step = product(run.count, stream_stride)?;
            let repeated = Datatype::hvector(run.repeat, 1, step, &inner.stream)?;
            stream.push((1, product(run.element, stream_stride)?, repeated));
        }
        Ok(ChunkedSlab { file: Datatype::structure(&file)?, stream: Datatype::structure(&stream)? })
    }

    /// The loops over the elements of a chunk.
    fn over_elements(&self, chosen: &[ChunkRun]) -> Result<ChunkedSlab, TypeError> {
        let mut file = Datatype::bytes(self.size)?;
        let mut stream = file.clone();
        let mut first = 0_i64;
        for (dimension, run) in chosen.iter().enumerate().rev() {
            let element = self.element_strides[dimension];
            // The stride of a single element has no meaning, and may overflow.
            let (step, stream_step) = if run.count == 1 {
                (0, 0)
            } else {
                let step = product(self.hyperslab.stride[dimension], element)?;
                (step, product(1, self.stream_strides[dimension])?)
            };
            file = Datatype::hvector(run.count, 1, step, &file)?;
            stream = Datatype::hvector(run.count, 1, stream_step, &stream)?;
            first = first.checked_add(product(run.first, element)?).ok_or(FAR)?;
        }
        Ok(ChunkedSlab { file: file.displaced(first)?, stream })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use striate_datatype::{Cursor, Pieces};
    use striate_hdf5::model::Address;

    use super::*;

    /// Start, count, stride, length of a chunk, first chunk and chunks of the box.
    type Along = (u64, u64, u64, u64, u64, u64);

    /// Element by element: offsets in the file of each byte of the stream.
    fn expected(hyperslab: &Hyperslab, chunk: &[u64], size: u64, of: &ChunkBox) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let total: u64 = hyperslab.count.iter().product();
        for number in 0..total {
            let mut rest = number;
            let mut index = vec![0; chunk.len()];
            for d in (0..chunk.len()).rev() {
                index[d] = hyperslab.start[d] + rest % hyperslab.count[d] * hyperslab.stride[d];
                rest /= hyperslab.count[d];
            }
            let place: Vec<u64> = index.iter().zip(chunk).map(|(i, c)| i / c).collect();
            let Some(address) = of.address_of(&place) else { continue };
            let within = index.iter().zip(chunk).fold(0, |all, (i, c)| all * c + i % c);
            all.push((address.0 + within * size, number * size));
        }
        all.sort_unstable();
        all
    }

    fn found(slab: &ChunkedSlab, size: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let file = Cursor::new(&slab.file, 1).unwrap();
        let stream = Cursor::new(&slab.stream, 1).unwrap();
        let mut pieces = Pieces::new(stream, file);
        while let Some(piece) = pieces.next_piece(size) {
            assert_eq!(piece.len, size);
            all.push((piece.file as u64, piece.memory as u64));
        }
        all
    }

    proptest! {
        #[test]
        fn every_element_is_where_its_chunk_is(
            dimensions in proptest::collection::vec(
                (0_u64..9, 1_u64..12, 1_u64..7, 1_u64..6, 0_u64..3, 1_u64..8), 1..4),
            size in prop::sample::select(vec![1_u64, 4]),
            gap in 0_u64..5,
        ) {
            let of = |f: fn(&Along) -> u64| -> Vec<u64> {
                dimensions.iter().map(f).collect()
            };
            let hyperslab =
                Hyperslab { start: of(|d| d.0), count: of(|d| d.1), stride: of(|d| d.2) };
            let chunk = of(|d| d.3);
            let bytes = chunk.iter().product::<u64>() * size;
            let within = ChunkBox {
                origin: of(|d| d.4),
                shape: of(|d| d.5),
                address: Address(1000),
                stride: bytes + gap,
            };
            let expected = expected(&hyperslab, &chunk, size, &within);
            match ChunkedSlab::new(&hyperslab, &chunk, size, &within).unwrap() {
                None => prop_assert!(expected.is_empty()),
                Some(slab) => {
                    prop_assert!(slab.file.is_ascending());
                    prop_assert_eq!(found(&slab, size), expected);
                }
            }
        }
    }

    /// A description has the size of what it describes, not of the number of chunks.
    #[test]
    fn a_million_chunks_are_few_loops() {
        let shape = vec![4_000, 4_000];
        let hyperslab = Hyperslab { start: vec![3, 5], count: shape, stride: vec![1, 1] };
        let within = ChunkBox {
            origin: vec![0, 0],
            shape: vec![1_001, 1_002],
            address: Address(0),
            stride: 64,
        };
        let slab = ChunkedSlab::new(&hyperslab, &[4, 4], 4, &within).unwrap().unwrap();
        assert_eq!(slab.file.size(), 4_000 * 4_000 * 4);
        assert!(slab.file.root().nodes() < 100, "{} nodes", slab.file.root().nodes());
    }
}
