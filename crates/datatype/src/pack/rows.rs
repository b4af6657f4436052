//! Rows of blocks: the kernel for everything that is not a few bytes.
//!
//! A [`Row`] is a sequence of blocks, regular or listed, that is copied at one place after the
//! other. While a block is copied, the lines of a later one are asked for, across the end of the
//! row too; copies far larger than the caches go around them, line by line, where blocks are long
//! enough.

#![expect(clippy::inline_always, reason = "a call per block would cost more than its copy")]

use std::ops::Range;

use super::Position;
use super::kernel::{AHEAD, Direction, Steps};
use super::simd::{self, LINE, Lines, Portable};
use crate::node::Block;

/// Blocks between the one that is copied and the one that is prefetched, at most: more lines than
/// this the first-level cache would not hold until they are needed.
const MOST_AHEAD: usize = 64;

/// Blocks at least this long are worth streaming when packing: lines that two blocks share are few.
const STREAMED_PACK: usize = 256;

/// The same when unpacking, where every block ends in two lines that must keep their other bytes.
const STREAMED_UNPACK: usize = 768;

/// A single run at least this long is worth streaming either way.
pub(super) const STREAMED: usize = STREAMED_UNPACK;

/// A block of a row: where it lies relative to the row, on both sides, and its length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowBlock {
    pub memory: i64,
    pub stream: u64,
    pub len: usize,
}

/// Blocks that are copied in order, at one place after the other.
pub(super) trait Row {
    /// Whether all blocks have one length.
    const UNIFORM: bool;
    /// Number of blocks; at least one.
    fn count(&self) -> usize;
    /// The blocks from one on up to another.
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = RowBlock>;
    /// The usual length of a block.
    fn typical_len(&self) -> usize;
}

/// Blocks of one length at regular steps.
pub(super) struct Regular {
    pub steps: Steps,
    pub len: usize,
}

impl Row for Regular {
    const UNIFORM: bool = true;

    #[inline(always)]
    fn count(&self) -> usize {
        self.steps.count as usize
    }

    #[inline(always)]
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = RowBlock> {
        let Self { steps, len } = *self;
        range.map(move |i| RowBlock {
            memory: i as i64 * steps.memory,
            stream: i as u64 * steps.stream as u64,
            len,
        })
    }

    fn typical_len(&self) -> usize {
        self.len
    }
}

/// Blocks of one length at listed offsets of memory.
pub(super) struct Scattered<'a> {
    pub offsets: &'a [i64],
    pub len: usize,
}

impl Row for Scattered<'_> {
    const UNIFORM: bool = true;

    #[inline(always)]
    fn count(&self) -> usize {
        self.offsets.len()
    }

    #[inline(always)]
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = RowBlock> {
        let (len, start) = (self.len, range.start);
        self.offsets[range].iter().enumerate().map(move |(i, &memory)| RowBlock {
            memory,
            stream: ((start + i) * len) as u64,
            len,
        })
    }

    fn typical_len(&self) -> usize {
        self.len
    }
}

/// Listed runs of bytes.
impl Row for [Block] {
    const UNIFORM: bool = false;

    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = RowBlock> {
        self[range].iter().map(|&Block { offset, len, start }| RowBlock {
            memory: offset,
            stream: start,
            len: len as usize,
        })
    }

    fn typical_len(&self) -> usize {
        let (first, last) = (self[0], self[self.len() - 1]);
        (last.start + last.len - first.start) as usize / self.len()
    }
}

/// Any blocks.
impl Row for [RowBlock] {
    const UNIFORM: bool = false;

    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = RowBlock> {
        self[range].iter().copied()
    }

    fn typical_len(&self) -> usize {
        self.iter().map(|block| block.len).sum::<usize>() / self.len().max(1)
    }
}

/// Copies a row of blocks at every place.
///
/// # Safety
/// At every place, both sides of every block hold its bytes, do not overlap, and the written one
/// may be written.
pub(super) unsafe fn copy<const DIRECTION: bool>(
    row: &(impl Row + ?Sized),
    places: impl Iterator<Item = Position> + Clone,
) {
    let ahead = (AHEAD as usize / row.typical_len().max(1)).clamp(1, MOST_AHEAD);
    #[cfg(target_arch = "x86_64")]
    if simd::Avx512::is_present() {
        // SAFETY: handed on; the processor has the instructions.
        return unsafe { copy_avx512::<DIRECTION>(row, places, ahead) };
    }
    // SAFETY: handed on.
    unsafe { copy_with::<DIRECTION, Portable, _>(row, places, ahead) };
}

/// # Safety
/// As for [`copy`], on a processor with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn copy_avx512<const DIRECTION: bool>(
    row: &(impl Row + ?Sized),
    places: impl Iterator<Item = Position> + Clone,
    ahead: usize,
) {
    // SAFETY: handed on.
    unsafe { copy_with::<DIRECTION, simd::Avx512, _>(row, places, ahead) };
}

/// # Safety
/// As for [`copy`], on a processor with the instructions of `L`.
#[inline(always)]
unsafe fn copy_with<const DIRECTION: bool, L: Lines, R: Row + ?Sized>(
    row: &R,
    places: impl Iterator<Item = Position> + Clone,
    ahead: usize,
) {
    let count = row.count();
    // The row that holds the block `ahead` of the last one of this row.
    let mut later = places.clone().skip(ahead.div_ceil(count));
    for place in places {
        let next_row = later.next().unwrap_or(place);
        // Up to here the later block is one of this row.
        let inside = count.saturating_sub(ahead);
        let pairs = [
            (0..inside, place, count - inside..count),
            (inside..count, next_row, 0..count - inside),
        ];
        for (now, later_place, later) in pairs {
            for (block, next) in row.blocks(now).zip(row.blocks(later)) {
                let next = NextBlock::new(later_place, next);
                // SAFETY: the block is one of the caller's.
                unsafe {
                    if place.streaming {
                        block_around::<DIRECTION, L, R>(place, block, next);
                    } else {
                        block_through::<DIRECTION, L, R>(place, block, next);
                    }
                }
            }
        }
    }
}

/// A later block, to be asked for while another is copied.
#[derive(Clone, Copy)]
struct NextBlock {
    place: Position,
    len: usize,
}

impl NextBlock {
    #[inline(always)]
    fn new(place: Position, block: RowBlock) -> Self {
        Self { place: place.at(block.memory).after(block.stream), len: block.len }
    }

    /// Whether the block has a line there. Blocks of one length need no comparison.
    #[inline(always)]
    fn has<R: Row + ?Sized>(&self, at: usize) -> bool {
        R::UNIFORM || at < self.len
    }
}

/// Calls `line` at every whole line of `len` bytes from `start` on, and returns where they end.
/// Four at a time: fewer instructions per line let the processor look further ahead.
#[inline(always)]
fn each_line(start: usize, len: usize, line: impl Fn(usize)) -> usize {
    let mut at = start;
    while at + 4 * LINE <= len {
        line(at);
        line(at + LINE);
        line(at + 2 * LINE);
        line(at + 3 * LINE);
        at += 4 * LINE;
    }
    while at + LINE <= len {
        line(at);
        at += LINE;
    }
    at
}

/// Copies a block, and asks for the lines of a later one.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn block_through<const DIRECTION: bool, L: Lines, R: Row + ?Sized>(
    place: Position,
    block: RowBlock,
    next: NextBlock,
) {
    let (from, to) = place.at(block.memory).after(block.stream).sides::<DIRECTION>();
    let end = each_line(0, block.len, |at| {
        if next.has::<R>(at) {
            next.place.prefetch::<DIRECTION>(at);
        }
        // SAFETY: a line inside of the block.
        unsafe { L::line(from.add(at), to.add(at)) };
    });
    if end < block.len {
        next.place.prefetch::<DIRECTION>(end);
        // SAFETY: the end of the block; a whole line that overlaps the one before costs less than a
        // part of one.
        unsafe {
            if end > 0 {
                let last = block.len - LINE;
                L::line(from.add(last), to.add(last));
            } else {
                L::short(from, to, block.len);
            }
        }
    }
}

/// Copies a block around the caches, if that pays for a block like this.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn block_around<const DIRECTION: bool, L: Lines, R: Row + ?Sized>(
    place: Position,
    block: RowBlock,
    next: NextBlock,
) {
    let (from, to) = place.at(block.memory).after(block.stream).sides::<DIRECTION>();
    let least = if DIRECTION == Direction::PACK { STREAMED_PACK } else { STREAMED_UNPACK };
    let whole_lines = DIRECTION == Direction::UNPACK
        && to.align_offset(LINE) == 0
        && block.len.is_multiple_of(LINE);
    if block.len < least && !whole_lines {
        // SAFETY: handed on.
        return unsafe { block_through::<DIRECTION, L, R>(place, block, next) };
    }
    let head = to.align_offset(LINE).min(block.len);
    // Not even an empty write may touch a line that is streamed.
    if head > 0 {
        // SAFETY: the start of the block, up to its first whole line.
        unsafe { L::short(from, to, head) };
    }
    let (next_from, _) = next.place.sides::<DIRECTION>();
    let end = each_line(head, block.len, |at| {
        if next.has::<R>(at) {
            simd::will_read(next_from.wrapping_add(at));
        }
        // SAFETY: a line inside of the block, aligned where it is written.
        unsafe { L::stream(from.add(at), to.add(at)) };
    });
    if end < block.len {
        // SAFETY: the end of the block.
        unsafe { L::short(from.add(end), to.add(end), block.len - end) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies rows of blocks of `len` bytes with the instructions of `L` and compares with a loop.
    fn check<const DIRECTION: bool, L: Lines>(len: usize, gap: usize, streaming: bool) {
        const COUNT: usize = 23;
        const PLACES: usize = 3;
        let row_bytes = COUNT * (len + gap);
        let filled = |n: usize, factor: usize| -> Vec<u8> {
            (0..n).map(|i| (i * factor + (i >> 8)) as u8).collect()
        };
        let mut memory = filled(PLACES * row_bytes + 64, 131);
        let mut stream = filled(PLACES * COUNT * len + 64, 167);
        let (mut expected_memory, mut expected_stream) = (memory.clone(), stream.clone());
        for i in 0..PLACES * COUNT {
            let (at, position) = (3 + i * (len + gap), 5 + i * len);
            let (memory, stream) = (
                &mut expected_memory[at..at + len],
                &mut expected_stream[position..position + len],
            );
            if DIRECTION == Direction::PACK {
                stream.copy_from_slice(memory);
            } else {
                memory.copy_from_slice(stream);
            }
        }
        let steps = Steps { count: COUNT as u64, memory: (len + gap) as i64, stream: len as i64 };
        let place = Position {
            memory: memory[3..].as_mut_ptr(),
            stream: stream[5..].as_mut_ptr(),
            streaming,
        };
        let places = (0..PLACES as i64).map(|i| {
            let next = Steps { count: 1, memory: row_bytes as i64, stream: (COUNT * len) as i64 };
            place.step(&next, i)
        });
        // SAFETY: both buffers hold all rows; the caller names instructions that are there.
        unsafe { copy_with::<DIRECTION, L, _>(&Regular { steps, len }, places, 4) };
        simd::end_of_streaming();
        assert!(memory == expected_memory, "memory: {len} bytes, gap {gap}");
        assert!(stream == expected_stream, "stream: {len} bytes, gap {gap}");
    }

    fn check_all<L: Lines>() {
        for len in [1, 7, 40, 63, 64, 65, 128, 255, 256, 257, 320, 768, 1000, 2048] {
            for gap in [0, 1, 64, 100] {
                for streaming in [false, true] {
                    check::<{ Direction::PACK }, L>(len, gap, streaming);
                    check::<{ Direction::UNPACK }, L>(len, gap, streaming);
                }
            }
        }
    }

    #[test]
    fn portable_rows_are_exact() {
        check_all::<Portable>();
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx512_rows_are_exact() {
        if simd::Avx512::is_present() {
            check_all::<simd::Avx512>();
        }
    }
}
