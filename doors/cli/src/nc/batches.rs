//! [`batches`]: all data of a dataset, in parts of bounded size that lie together in the file.
//!
//! Record variables are interleaved in the file, so a batch has the same records of all of them
//! rather than many records of one.

use striate_array::SlabBatches;
use striate_array::format::{Header, StorageLayout};

use super::chunk_cover::{ChunkGrid, block_shape};

/// Bytes that a value of variable length is taken to have at least.
const LONG: u64 = 256;

/// A part of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VariablePart {
    /// Its index.
    pub(super) variable: usize,
    pub(super) start: Vec<u64>,
    pub(super) count: Vec<u64>,
    pub(super) bytes: u64,
}

/// All parts of all variables, in batches of at most `most` bytes, or of one element if that is
/// larger; in the same order on every rank.
pub(super) fn batches(
    header: &Header,
    most: u64,
) -> Box<dyn Iterator<Item = Vec<VariablePart>> + '_> {
    let fixed = indices(header, false).flat_map(move |variable| {
        let shape = header.shape(&header.variables[variable]);
        parts(header, variable, &shape, most)
    });
    let fixed = together(fixed, most);
    let size = header.record_size().unwrap_or(u64::MAX);
    let at_once = most / size.max(1);
    if size == 0 {
        return Box::new(fixed);
    }
    if at_once > 0 {
        let step = usize::try_from(at_once).unwrap_or(usize::MAX);
        let records = (0..header.records).step_by(step).map(move |first| {
            let count = at_once.min(header.records - first);
            let part = |variable| of_records(header, variable, first, count);
            indices(header, true).map(part).collect()
        });
        return Box::new(fixed.chain(records));
    }
    let parts = (0..header.records).flat_map(move |record| {
        indices(header, true).flat_map(move |variable| {
            let mut shape = header.shape(&header.variables[variable]);
            shape[0] = 1;
            parts(header, variable, &shape, most).map(move |mut part| {
                part.start[0] = record;
                part
            })
        })
    });
    Box::new(fixed.chain(together(parts, most)))
}

/// All parts of all variables between files of which one is chunked: each variable in blocks that
/// cut as few chunks as possible ([`block_shape`]), in batches of at most `most` bytes, or of one
/// chunk if that is larger.
pub(super) fn block_batches<'h>(
    from: &'h Header,
    to: &'h Header,
    most: u64,
) -> Box<dyn Iterator<Item = Vec<VariablePart>> + 'h> {
    let parts = (0..from.variables.len()).flat_map(move |variable| {
        let shape = from.shape(&from.variables[variable]);
        let size = from.variables[variable].external.size();
        let (source, destination) = (grid(from, variable, &shape), grid(to, variable, &shape));
        let block = block_shape(&shape, &source, &destination, (most / size).max(1));
        blocks(shape, block).map(move |(start, count)| {
            let bytes = count.iter().product::<u64>() * size;
            VariablePart { variable, start, count, bytes }
        })
    });
    Box::new(together(parts, most))
}

/// How a variable with such a shape is stored.
fn grid(header: &Header, variable: usize, shape: &[u64]) -> ChunkGrid {
    let known = &header.variables[variable];
    if let StorageLayout::Chunked(chunk) = &known.storage.layout
        && header.format.is_hdf5()
        && chunk.len() == shape.len()
    {
        return ChunkGrid { shape: chunk.clone(), filtered: !known.storage.filters.is_empty() };
    }
    // What lies together: a record, or all.
    let mut chunk = shape.to_vec();
    if header.is_record(known)
        && let Some(first) = chunk.first_mut()
    {
        *first = 1;
    }
    ChunkGrid { shape: chunk, filtered: false }
}

/// An array in blocks of a shape, the last ones cut.
fn blocks(shape: Vec<u64>, block: Vec<u64>) -> impl Iterator<Item = (Vec<u64>, Vec<u64>)> {
    let mut next = (!shape.contains(&0)).then(|| vec![0; shape.len()]);
    std::iter::from_fn(move || {
        let start = next.take()?;
        let lengths = start.iter().zip(&block).zip(&shape);
        let count = lengths.map(|((start, block), len)| (*block).min(len - start)).collect();
        if let Some(at) = (0..shape.len()).rev().find(|&at| start[at] + block[at] < shape[at]) {
            let mut after = start.clone();
            after[at] += block[at];
            after[at + 1..].fill(0);
            next = Some(after);
        }
        Some((start, count))
    })
}

/// As many parts at a time as have no more than so many bytes.
fn together(
    parts: impl Iterator<Item = VariablePart>,
    most: u64,
) -> impl Iterator<Item = Vec<VariablePart>> {
    let mut parts = parts.peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![parts.next()?];
        let mut bytes = batch[0].bytes;
        while let Some(part) = parts.next_if(|part| bytes.saturating_add(part.bytes) <= most) {
            bytes += part.bytes;
            batch.push(part);
        }
        Some(batch)
    })
}

/// The record variables, or the fixed ones.
fn indices(header: &Header, records: bool) -> impl Iterator<Item = usize> {
    let variables = header.variables.iter().enumerate();
    variables
        .filter(move |(_, variable)| header.is_record(variable) == records)
        .map(|(index, _)| index)
}

fn parts(
    header: &Header,
    variable: usize,
    shape: &[u64],
    most: u64,
) -> impl Iterator<Item = VariablePart> + use<> {
    let external = header.variables[variable].external;
    let size = external.size();
    // Nobody knows how long values of variable length are before they are read.
    let in_memory = if header.has_variable_length(external) { size.max(LONG) } else { size };
    SlabBatches::new(shape, (most / in_memory).max(1)).map(move |(start, count)| {
        let bytes = count.iter().product::<u64>() * size;
        VariablePart { variable, start, count, bytes }
    })
}

fn of_records(header: &Header, variable: usize, first: u64, records: u64) -> VariablePart {
    let known = &header.variables[variable];
    let mut count = header.shape(known);
    count[0] = records;
    let mut start = vec![0; count.len()];
    start[0] = first;
    let bytes = header.slab_size(known).unwrap_or(u64::MAX).saturating_mul(records);
    VariablePart { variable, start, count, bytes }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use striate_array::format::{Dimension, Variable};
    use striate_array::{Format, Type};

    use super::*;

    fn header(records: u64) -> Header {
        let mut header = Header::new(Format::Cdf2);
        header.records = records;
        for (name, len) in [("t", 0), ("x", 5), ("y", 7)] {
            header.dimensions.push(Dimension::classic(name, len));
        }
        let shapes: [(Type, &[u32]); 7] = [
            (Type::Int, &[]),
            (Type::Double, &[1, 2]),
            (Type::Short, &[0]),
            (Type::Byte, &[2]),
            (Type::Float, &[0, 1]),
            (Type::Double, &[0, 1, 2]),
            (Type::Char, &[1]),
        ];
        for (external, dimensions) in shapes {
            header.variables.push(Variable::new("v", external, dimensions.to_vec()));
        }
        header
    }

    #[test]
    fn every_element_is_in_one_batch() {
        for records in [0, 1, 9] {
            let header = header(records);
            let all: u64 =
                header.variables.iter().map(|v| super::super::info::size(&header, v)).sum();
            for most in [1, 8, 50, 310, 1000, 1 << 20] {
                let mut bytes = 0;
                let mut seen = HashSet::new();
                for batch in batches(&header, most) {
                    let sum: u64 = batch.iter().map(|part| part.bytes).sum();
                    assert!(sum <= most.max(8));
                    bytes += sum;
                    for part in batch {
                        assert!(seen.insert((part.variable, part.start)));
                    }
                }
                assert_eq!(bytes, all, "{records} records, {most} bytes");
            }
        }
    }

    #[test]
    fn every_element_is_in_one_block() {
        for (extent, block) in [
            (vec![], vec![]),
            (vec![7], vec![3]),
            (vec![5, 4, 6], vec![2, 4, 5]),
            (vec![3, 0], vec![1, 1]),
        ] {
            let mut seen = vec![0; extent.iter().product::<u64>() as usize];
            for (start, count) in blocks(extent.clone(), block.clone()) {
                for (begin, len) in striate_array::SlabBatches::new(&count, 1) {
                    assert!(len.iter().all(|&len| len == 1));
                    let at = start.iter().zip(&begin).zip(&extent);
                    seen[at.fold(0, |at, ((a, b), len)| at * len + a + b) as usize] += 1;
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{extent:?} {block:?} {seen:?}");
        }
    }

    #[test]
    fn few_batches_of_many_records() {
        let header = header(1000);
        let record = header.record_size().unwrap();
        let all: Vec<_> = batches(&header, 100 * record).collect();
        // The fixed variables come first, with nothing else.
        assert_eq!(all.len(), 11);
        assert_eq!(all[1].len(), 3);
        assert_eq!(all[1][0].count, [100]);
    }
}
