//! The LZ4 filter: blocks in LZ4's block format, each with its length in front.

use super::FilterFault;

/// Bytes of a block if the parameters say nothing.
const DEFAULT_BLOCK: usize = 1 << 30;
/// Bytes of a block at least, whatever the parameters say: a block says itself how long it is.
const SMALLEST_BLOCK: usize = 4096;

const SHORT: FilterFault = FilterFault::Damaged("it ends too early");

/// The number of bytes after decoding one block.
pub(super) fn decode_block(input: &[u8], output: &mut [u8]) -> Result<usize, FilterFault> {
    lz4_flex::block::decompress_into(input, output)
        .map_err(|_| FilterFault::Damaged("no LZ4 data, or too long"))
}

/// The number of bytes after decoding.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Result<usize, FilterFault> {
    let limit = output.len();
    let (len, input) = input.split_first_chunk::<8>().ok_or(SHORT)?;
    let (block, mut input) = input.split_first_chunk::<4>().ok_or(SHORT)?;
    let len = usize::try_from(u64::from_be_bytes(*len)).unwrap_or(usize::MAX);
    let output = output.get_mut(..len).ok_or(FilterFault::TooLong { limit })?;
    let block = u32::from_be_bytes(*block) as usize;
    if block == 0 && len > 0 {
        return Err(FilterFault::Damaged("blocks of no bytes"));
    }
    for output in output.chunks_mut(block.max(1)) {
        let (stored, rest) = input.split_first_chunk::<4>().ok_or(SHORT)?;
        let stored = u32::from_be_bytes(*stored) as usize;
        let (bytes, rest) = rest.split_at_checked(stored).ok_or(SHORT)?;
        input = rest;
        if stored == output.len() {
            output.copy_from_slice(bytes);
        } else if decode_block(bytes, output)? != output.len() {
            return Err(FilterFault::Damaged("a block that is too short"));
        }
    }
    Ok(len)
}

/// The number of bytes after encoding, unless there is no room for them. `packed` is memory to work
/// in.
pub(super) fn encode(
    block: usize,
    input: &[u8],
    output: &mut [u8],
    packed: &mut Vec<u8>,
) -> Option<usize> {
    let block = match block {
        0 => DEFAULT_BLOCK,
        block => block.max(SMALLEST_BLOCK),
    };
    let block = block.min(input.len()).max(1);
    let mut at = 0;
    let mut put = |bytes: &[u8], output: &mut [u8]| {
        output.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
        at += bytes.len();
        Some(at)
    };
    put(&(input.len() as u64).to_be_bytes(), output)?;
    let mut end = put(&(block as u32).to_be_bytes(), output)?;
    packed.resize(lz4_flex::block::get_maximum_output_size(block), 0);
    for input in input.chunks(block) {
        let len = lz4_flex::block::compress_into(input, packed).ok()?;
        let bytes = if len < input.len() { &packed[..len] } else { input };
        put(&(bytes.len() as u32).to_be_bytes(), output)?;
        end = put(bytes, output)?;
    }
    Some(end)
}
