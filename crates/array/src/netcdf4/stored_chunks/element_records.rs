//! Records: elements of one chunk as bytes, as ranks send them to the owner of the chunk, and as
//! they wait in memory or in an arena. Records of a chunk are applied in their order.
//!
//! A record has the elements of a hyperslab, or those of a mask ([`ElementMask`]), which many small
//! hyperslabs become.

use striate_datatype::Cursor;
use striate_file::Gather;

use super::message::{Reader, Words, garbled};
use super::{in_chunk, within};
use crate::ArrayError;
use crate::access::Access;
use crate::stream::WriteStream;

const SLAB: u64 = 0;
const MASKED: u64 = 1;

/// The place of a chunk in the grid, and what all chunks of its variable have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkGeometry<'c> {
    pub(super) place: &'c [u64],
    pub(super) shape: &'c [u64],
    /// Bytes of an element.
    pub(super) size: u64,
}

/// Which elements of a chunk have values.
#[derive(Debug)]
pub(super) struct ElementMask(Vec<u8>);

impl ElementMask {
    /// Of a chunk of that many elements.
    pub(super) fn new(elements: u64) -> Self {
        Self(vec![0; elements.div_ceil(8) as usize])
    }

    fn set(&mut self, elements: std::ops::Range<usize>) {
        for at in elements {
            self.0[at / 8] |= 1 << (at % 8);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// The numbers of the elements that have values.
    fn elements(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |byte: u8| (0..8).filter(move |bit| byte >> bit & 1 == 1);
        self.0.iter().enumerate().flat_map(move |(at, &byte)| bits(byte).map(move |b| at * 8 + b))
    }
}

/// Appends the elements of an access that lie in a chunk; returns how many they are.
pub(super) fn push_slab(
    records: &mut Words,
    access: &Access<WriteStream<'_>>,
    chunk: ChunkGeometry<'_>,
) -> Result<u64, ArrayError> {
    let Some(hyperslab) = &access.hyperslab else { return Ok(0) };
    let Some(part) = within(hyperslab, chunk.shape, chunk.place) else { return Ok(0) };
    let Some(slab) = in_chunk(hyperslab, chunk.shape, chunk.size, chunk.place)? else {
        return Ok(0);
    };
    let before = records.0.len();
    records.number(SLAB);
    for list in [&part.start, &part.count, &part.stride] {
        for &one in list {
            records.number(one);
        }
    }
    let mut cursor = Cursor::new(&slab.stream, 1)?;
    while let Some(run) = cursor.next_run(u64::MAX) {
        let at = records.0.len();
        records.0.resize(at + run.len as usize, 0);
        if let Err(error) = access.memory.gather(run.offset as u64, &mut records.0[at..]) {
            records.0.truncate(before);
            return Err(error.into());
        }
    }
    Ok(part.elements())
}

/// The record of the elements of a chunk that a mask has.
pub(super) fn masked(mask: &ElementMask, chunk: &[u8], size: u64) -> Vec<u8> {
    let size = size as usize;
    let mut record = Words::default();
    record.number(MASKED);
    record.0.extend_from_slice(&mask.0);
    record.0.reserve_exact(mask.count() as usize * size);
    for element in mask.elements() {
        record.0.extend_from_slice(&chunk[element * size..(element + 1) * size]);
    }
    record.0
}

/// Applies records to a chunk, and adds their elements to a mask.
pub(super) fn apply(
    records: &[u8],
    of: ChunkGeometry<'_>,
    chunk: &mut [u8],
    mut mask: Option<&mut ElementMask>,
) -> Result<(), ArrayError> {
    let mut reader = Reader(records);
    let size = of.size as usize;
    while !reader.0.is_empty() {
        match reader.number().ok_or_else(garbled)? {
            SLAB => {
                let part = reader.hyperslab(of.shape.len()).ok_or_else(garbled)?;
                let Some(slab) = in_chunk(&part, of.shape, of.size, of.place)? else { continue };
                let mut cursor = Cursor::new(&slab.file, 1)?;
                while let Some(run) = cursor.next_run(u64::MAX) {
                    let bytes = reader.bytes(run.len as usize).ok_or_else(garbled)?;
                    let at = run.offset as usize;
                    let place = chunk.get_mut(at..at + bytes.len()).ok_or_else(garbled)?;
                    place.copy_from_slice(bytes);
                    if let Some(mask) = &mut mask {
                        mask.set(at / size..(at + bytes.len()) / size);
                    }
                }
            }
            MASKED => {
                let elements = of.shape.iter().product::<u64>();
                let bits = reader.bytes(elements.div_ceil(8) as usize).ok_or_else(garbled)?;
                let given = ElementMask(bits.to_vec());
                for element in given.elements() {
                    let bytes = reader.bytes(size).ok_or_else(garbled)?;
                    let place = chunk.get_mut(element * size..(element + 1) * size);
                    place.ok_or_else(garbled)?.copy_from_slice(bytes);
                    if let Some(mask) = &mut mask {
                        mask.set(element..element + 1);
                    }
                }
            }
            _ => return Err(garbled()),
        }
    }
    Ok(())
}
