//! The bitshuffle filter: all first bits of a block's elements, then all second ones, and so on;
//! alone, or with LZ4 or Zstandard behind it. It is decoded only.

use super::shuffle::unshuffle;
use super::{Codecs, FilterFault, lz4};

/// Elements of a block are a multiple of this.
const MULTIPLE: usize = 8;
/// Bytes of a block of the default size.
const DEFAULT_BLOCK: usize = 8192;
/// The fewest elements of a block of the default size.
const DEFAULT_ELEMENTS: usize = 128;

const SHORT: FilterFault = FilterFault::Damaged("it ends too early");

/// What the parameters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bitshuffle {
    size: usize,
    /// Elements of a block.
    block: usize,
    compressor: Option<BlockCompressor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockCompressor {
    Lz4,
    Zstd,
}

impl Bitshuffle {
    pub(super) fn new(parameters: &[u32]) -> Result<Self, FilterFault> {
        let [_, _, size, rest @ ..] = parameters else {
            return Err(FilterFault::Parameters("there are fewer than three"));
        };
        if *size == 0 {
            return Err(FilterFault::Parameters("elements of no bytes"));
        }
        let block = rest.first().copied().unwrap_or(0) as usize;
        let compressor = match rest.get(1).copied().unwrap_or(0) {
            0 => None,
            2 => Some(BlockCompressor::Lz4),
            3 => Some(BlockCompressor::Zstd),
            _ => return Err(FilterFault::Parameters("the compressor behind it")),
        };
        Ok(Self { size: *size as usize, block, compressor })
    }

    /// The number of bytes after decoding.
    pub(super) fn decode(
        &self,
        input: &[u8],
        output: &mut [u8],
        codecs: &mut Codecs,
    ) -> Result<usize, FilterFault> {
        let limit = output.len();
        let mut input = input;
        let (mut len, mut block) = (input.len(), self.block);
        if self.compressor.is_some() {
            let (stored_len, rest) = input.split_first_chunk::<8>().ok_or(SHORT)?;
            let (stored_block, rest) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
            input = rest;
            len = usize::try_from(u64::from_be_bytes(*stored_len)).unwrap_or(usize::MAX);
            block = u32::from_be_bytes(*stored_block) as usize / self.size;
        }
        let block = if block == 0 { self.default_block() } else { block };
        if !block.is_multiple_of(MULTIPLE) || !len.is_multiple_of(self.size) {
            return Err(FilterFault::Damaged("the size of a block"));
        }
        let output = output.get_mut(..len).ok_or(FilterFault::TooLong { limit })?;
        let group = MULTIPLE.saturating_mul(self.size);
        let (blocks, rest) = output.split_at_mut(len - len % group);
        for output in blocks.chunks_mut(block.saturating_mul(self.size)) {
            input = self.decode_block(input, output, codecs)?;
        }
        rest.copy_from_slice(input.get(..rest.len()).ok_or(SHORT)?);
        Ok(len)
    }

    /// The input behind a block.
    fn decode_block<'a>(
        &self,
        input: &'a [u8],
        output: &mut [u8],
        codecs: &mut Codecs,
    ) -> Result<&'a [u8], FilterFault> {
        let Some(compressor) = self.compressor else {
            let (bits, rest) = input.split_at_checked(output.len()).ok_or(SHORT)?;
            untranspose_bits(self.size, bits, output, &mut codecs.planes);
            return Ok(rest);
        };
        let (len, input) = input.split_first_chunk::<4>().ok_or(SHORT)?;
        let len = u32::from_be_bytes(*len) as usize;
        let (compressed, rest) = input.split_at_checked(len).ok_or(SHORT)?;
        let mut bits = std::mem::take(&mut codecs.block);
        bits.resize(output.len(), 0);
        let found = match compressor {
            BlockCompressor::Lz4 => lz4::decode_block(compressed, &mut bits),
            BlockCompressor::Zstd => codecs.zstd_decode(compressed, &mut bits),
        };
        if found.as_ref().is_ok_and(|&found| found == output.len()) {
            untranspose_bits(self.size, &bits, output, &mut codecs.planes);
        }
        codecs.block = bits;
        match found? {
            found if found == output.len() => Ok(rest),
            _ => Err(FilterFault::Damaged("the size of a block")),
        }
    }

    fn default_block(&self) -> usize {
        (DEFAULT_BLOCK / self.size / MULTIPLE * MULTIPLE).max(DEFAULT_ELEMENTS)
    }
}

/// Elements of `size` bytes from their transposed bits. The number of elements is a multiple of
/// eight; both buffers have the same length. `planes` is memory to work in.
pub(super) fn untranspose_bits(size: usize, input: &[u8], output: &mut [u8], planes: &mut Vec<u8>) {
    let count = input.len() / size;
    planes.resize(input.len(), 0);
    // A plane of bytes is eight rows of bits.
    for (rows, plane) in input.chunks_exact(count).zip(planes.chunks_exact_mut(count)) {
        let row = count / 8;
        let rows: [&[u8]; 8] = std::array::from_fn(|bit| &rows[bit * row..(bit + 1) * row]);
        for (at, bytes) in plane.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let bits = u64::from_le_bytes(rows.map(|row| row[at]));
            *bytes = transposed(bits).to_le_bytes();
        }
    }
    unshuffle(size, planes, output);
}

/// A square of eight times eight bits, transposed.
fn transposed(bits: u64) -> u64 {
    let exchange = |bits: u64, distance: u32, mask: u64| {
        let changed = (bits ^ bits >> distance) & mask;
        bits ^ changed ^ changed << distance
    };
    let bits = exchange(bits, 7, 0x00AA_00AA_00AA_00AA);
    let bits = exchange(bits, 14, 0x0000_CCCC_0000_CCCC);
    exchange(bits, 28, 0x0000_0000_F0F0_F0F0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        for (size, count) in [(1, 8), (2, 16), (3, 24), (8, 64)] {
            let elements: Vec<u8> = (0..size * count).map(|at| (at * 37 + at / 7) as u8).collect();
            let mut rows = vec![0_u8; elements.len()];
            for element in 0..count {
                for bit in 0..8 * size {
                    let value = elements[element * size + bit / 8] >> (bit % 8) & 1;
                    rows[bit * count / 8 + element / 8] |= value << (element % 8);
                }
            }
            let mut output = vec![0; elements.len()];
            untranspose_bits(size, &rows, &mut output, &mut Vec::new());
            assert_eq!(output, elements);
        }
    }
}
