//! Blosc: blocks of shuffled data in the format of its first generation, with one of five
//! compressors inside. It is decoded only.
//!
//! A block may be split: the bytes of a plane are then compressed apart from those of the others.

use super::bitshuffle::untranspose_bits;
use super::shuffle::unshuffle;
use super::{Codecs, FilterFault, blosclz, lz4};

const HEADER: usize = 16;
/// The version of the format, up to which all are alike.
const VERSION: u8 = 2;

// Flags.
const SHUFFLED: u8 = 0x01;
const COPIED: u8 = 0x02;
const BIT_SHUFFLED: u8 = 0x04;
const RESERVED: u8 = 0x08;
const NOT_SPLIT: u8 = 0x10;

/// Blocks are split into up to so many parts.
const SPLITS: usize = 16;
/// The fewest bytes of a part.
const SPLIT_BYTES: usize = 128;

const SHORT: FilterFault = FilterFault::Damaged("it ends too early");

/// What stands in front of the blocks.
#[derive(Clone, Copy, Debug)]
struct BloscHeader {
    flags: u8,
    element: usize,
    block: usize,
    compressor: InnerCompressor,
}

#[derive(Clone, Copy, Debug)]
enum InnerCompressor {
    BloscLz,
    Lz4,
    Snappy,
    Zlib,
    Zstd,
}

/// The number of bytes after decoding.
pub(super) fn decode(
    input: &[u8],
    output: &mut [u8],
    codecs: &mut Codecs,
) -> Result<usize, FilterFault> {
    let limit = output.len();
    let (head, _) = input.split_first_chunk::<HEADER>().ok_or(SHORT)?;
    let [version, _, flags, element, sizes @ ..] = *head;
    let [len, block, stored] = [0, 1, 2].map(|at| {
        sizes.as_chunks::<4>().0.get(at).map_or(0, |size| u32::from_le_bytes(*size) as usize)
    });
    if version > VERSION {
        return Err(FilterFault::Unsupported("a chunk in a format of Blosc's second generation"));
    }
    if flags & RESERVED != 0 {
        return Err(FilterFault::Damaged("a flag that does not exist"));
    }
    let input = input.get(..stored).ok_or(SHORT)?;
    let output = output.get_mut(..len).ok_or(FilterFault::TooLong { limit })?;
    if len == 0 {
        return Ok(0);
    }
    if flags & COPIED != 0 {
        output.copy_from_slice(input.get(HEADER..).filter(|i| i.len() == len).ok_or(SHORT)?);
        return Ok(len);
    }
    if block == 0 || block > len || element == 0 {
        return Err(FilterFault::Damaged("the size of a block or of an element"));
    }
    let compressor = match flags >> 5 {
        0 => InnerCompressor::BloscLz,
        1 => InnerCompressor::Lz4,
        2 => InnerCompressor::Snappy,
        3 => InnerCompressor::Zlib,
        4 => InnerCompressor::Zstd,
        _ => return Err(FilterFault::Unsupported("a compressor that Blosc does not name")),
    };
    let header = BloscHeader { flags, element: usize::from(element), block, compressor };
    let starts = input.get(HEADER..).ok_or(SHORT)?.as_chunks::<4>().0;
    if starts.len() < len.div_ceil(block) {
        return Err(SHORT);
    }
    let mut bytes = std::mem::take(&mut codecs.block);
    let decoded = output.chunks_mut(block).zip(starts).try_for_each(|(output, start)| {
        let start = u32::from_le_bytes(*start) as usize;
        header.decode_block(input.get(start..).ok_or(SHORT)?, output, &mut bytes, codecs)
    });
    codecs.block = bytes;
    decoded.map(|()| len)
}

impl BloscHeader {
    /// `bytes` is memory to work in.
    fn decode_block(
        &self,
        input: &[u8],
        output: &mut [u8],
        bytes: &mut Vec<u8>,
        codecs: &mut Codecs,
    ) -> Result<(), FilterFault> {
        let size = self.element;
        if self.flags & SHUFFLED != 0 && size > 1 {
            bytes.resize(output.len(), 0);
            self.decompress(input, bytes, codecs)?;
            unshuffle(size, bytes, output);
            return Ok(());
        }
        // Elements whose number is not a multiple of eight were left alone.
        let elements = output.len() / size;
        if self.flags & BIT_SHUFFLED == 0 || elements == 0 || !elements.is_multiple_of(8) {
            return self.decompress(input, output, codecs);
        }
        bytes.resize(output.len(), 0);
        self.decompress(input, bytes, codecs)?;
        let (bits, rest) = bytes.split_at(elements * size);
        let (output, rest_out) = output.split_at_mut(elements * size);
        untranspose_bits(size, bits, output, &mut codecs.planes);
        rest_out.copy_from_slice(rest);
        Ok(())
    }

    /// The parts of a block.
    fn decompress(
        &self,
        input: &[u8],
        output: &mut [u8],
        codecs: &mut Codecs,
    ) -> Result<(), FilterFault> {
        let len = output.len();
        let split = self.flags & NOT_SPLIT == 0
            && self.element <= SPLITS
            && len / self.element >= SPLIT_BYTES
            && len == self.block;
        let part = if split { len / self.element } else { len };
        if split && !len.is_multiple_of(self.element) {
            return Err(FilterFault::Damaged("the size of a block"));
        }
        let mut input = input;
        for output in output.chunks_exact_mut(part) {
            let (stored, rest) = input.split_first_chunk::<4>().ok_or(SHORT)?;
            let stored = u32::from_le_bytes(*stored) as usize;
            let (bytes, rest) = rest.split_at_checked(stored).ok_or(SHORT)?;
            input = rest;
            if stored == part {
                output.copy_from_slice(bytes);
            } else if self.decompress_part(bytes, output, codecs)? != part {
                return Err(FilterFault::Damaged("a block that is too short"));
            }
        }
        Ok(())
    }

    fn decompress_part(
        &self,
        input: &[u8],
        output: &mut [u8],
        codecs: &mut Codecs,
    ) -> Result<usize, FilterFault> {
        match self.compressor {
            InnerCompressor::BloscLz => blosclz::decode(input, output)
                .ok_or(FilterFault::Damaged("no BloscLZ data, or too long")),
            InnerCompressor::Lz4 => lz4::decode_block(input, output),
            InnerCompressor::Snappy => snap::raw::Decoder::new()
                .decompress(input, output)
                .map_err(|_| FilterFault::Damaged("no Snappy data, or too long")),
            InnerCompressor::Zlib => codecs.inflate(input, output),
            InnerCompressor::Zstd => codecs.zstd_decode(input, output),
        }
    }
}
