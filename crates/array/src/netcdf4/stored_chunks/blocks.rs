//! [`write_blocks`]: pieces of memory that go to addresses of their own, as one access of the file.

use striate_file::{FileError, Gather, Memory};

use crate::ArrayError;
use crate::file_state::FileState;
use crate::placement;

/// Pieces of memory in the order of their addresses, with their positions in the stream.
#[derive(Debug)]
struct MemoryBlocks<'b> {
    blocks: Vec<(u64, &'b [u8])>,
    len: u64,
}

impl<'b> MemoryBlocks<'b> {
    fn new(blocks: &[(u64, &'b [u8])]) -> Self {
        let mut len = 0;
        let positioned = blocks.iter().map(|&(_, bytes)| {
            len += bytes.len() as u64;
            (len - bytes.len() as u64, bytes)
        });
        Self { blocks: positioned.collect(), len }
    }
}

impl Gather for MemoryBlocks<'_> {
    fn stream_len(&self) -> u64 {
        self.len
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let first = self.blocks.partition_point(|&(start, _)| start <= position);
        let (mut at, mut rest) = (position, stream);
        for &(start, bytes) in &self.blocks[first.saturating_sub(1)..] {
            if rest.is_empty() {
                break;
            }
            let from = &bytes[(at - start) as usize..];
            let len = from.len().min(rest.len());
            let (head, tail) = rest.split_at_mut(len);
            head.copy_from_slice(&from[..len]);
            (at, rest) = (at + len as u64, tail);
        }
        Ok(())
    }
}

/// Writes blocks of memory to their addresses, which do not overlap. Independent.
pub(super) fn write_blocks(
    state: &mut FileState,
    mut blocks: Vec<(u64, &[u8])>,
) -> Result<(), ArrayError> {
    blocks.retain(|(_, bytes)| !bytes.is_empty());
    if blocks.is_empty() {
        return Ok(());
    }
    // Space that is used again is anywhere.
    blocks.sort_unstable_by_key(|&(address, _)| address);
    let mut regions: Vec<(u64, u64)> = Vec::new();
    for &(address, bytes) in &blocks {
        match regions.last_mut() {
            Some((at, len)) if *at + *len == address => *len += bytes.len() as u64,
            _ => regions.push((address, bytes.len() as u64)),
        }
    }
    let place = placement::regions(regions.into_iter())?;
    match blocks.as_slice() {
        [(_, bytes)] => state.file.write_in(&place, *bytes)?,
        _ => state.file.write_in(&place, Memory::gathered(&MemoryBlocks::new(&blocks)))?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_stream() {
        let all: Vec<u8> = (0..50).collect();
        let blocks = [(0, &all[..7]), (100, &all[7..8]), (200, &all[8..40]), (300, &all[40..])];
        let memory = MemoryBlocks::new(&blocks);
        assert_eq!(memory.stream_len(), 50);
        for start in 0..=50 {
            for end in start..=50 {
                let mut part = vec![0; end - start];
                memory.gather(start as u64, &mut part).unwrap();
                assert_eq!(part, all[start..end]);
            }
        }
    }
}
