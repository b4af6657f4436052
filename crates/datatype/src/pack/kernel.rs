//! Copy kernels: the innermost loops of packing.
//!
//! There are two: *grid* copies blocks of a few bytes, whose length the compiler knows, and *rows*
//! copies anything else. What makes them faster than a loop over memcpy is that they know what comes
//! next: both sides of a later block are prefetched, the written one for writing, and copies far
//! larger than the caches go around them line by line.

#![expect(clippy::inline_always, reason = "a call per block would cost more than its copy")]

use super::Place;
use super::simd::{self, LINE, Lines, Portable};
use crate::node::Block;

/// Which side is written. Kernels are compiled once per direction, so that there is one of each.
pub(super) struct Direction;

impl Direction {
    /// From memory to the stream.
    pub(super) const PACK: bool = true;
    /// From the stream to memory.
    pub(super) const UNPACK: bool = false;
}

/// One regular loop over blocks: how often, and the steps of memory and stream in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub count: u64,
    pub memory: i64,
    pub stream: i64,
}

/// Data in flight between the block that is copied and the one that is prefetched.
const AHEAD: u64 = 1024;

const MOST_AHEAD: usize = 64;

/// Blocks at least this long are worth streaming when packing: lines that two blocks share are few.
const STREAMED_PACK: usize = 256;

/// The same when unpacking, where every block ends in two lines that must keep their other bytes.
const STREAMED_UNPACK: usize = 768;

impl Place {
    #[inline(always)]
    pub(super) fn step(self, steps: &Steps, n: i64) -> Self {
        Self {
            memory: self.memory.wrapping_offset((n * steps.memory) as isize),
            stream: self.stream.wrapping_offset((n * steps.stream) as isize),
            ..self
        }
    }

    /// (from, to)
    #[inline(always)]
    pub(super) fn sides<const DIRECTION: bool>(self) -> (*const u8, *mut u8) {
        if DIRECTION == Direction::PACK {
            (self.memory.cast_const(), self.stream)
        } else {
            (self.stream.cast_const(), self.memory)
        }
    }

    /// Asks for both lines that are `at` bytes further on.
    #[inline(always)]
    pub(super) fn prefetch<const DIRECTION: bool>(self, at: usize) {
        self.prefetch_memory::<DIRECTION>(at);
        self.prefetch_stream::<DIRECTION>(at);
    }

    /// Asks for the line of memory that is `at` bytes further on.
    #[inline(always)]
    pub(super) fn prefetch_memory<const DIRECTION: bool>(self, at: usize) {
        let address = self.memory.wrapping_add(at);
        if DIRECTION == Direction::PACK {
            simd::will_read(address);
        } else {
            simd::will_write(address);
        }
    }

    /// Asks for the line of the stream that is `at` bytes further on.
    #[inline(always)]
    pub(super) fn prefetch_stream<const DIRECTION: bool>(self, at: usize) {
        let address = self.stream.wrapping_add(at);
        if DIRECTION == Direction::PACK {
            simd::will_write(address);
        } else {
            simd::will_read(address);
        }
    }
}

/// Copies `len` bytes.
///
/// # Safety
/// Both sides of `place` hold `len` bytes, do not overlap, and the written one may be written.
#[inline]
pub(super) unsafe fn run<const DIRECTION: bool>(place: Place, len: u64) {
    if place.streaming && len as usize >= STREAMED_UNPACK {
        let row = Regular { steps: Steps { count: 1, memory: 0, stream: 0 }, len: len as usize };
        // SAFETY: the caller's.
        return unsafe { rows::<DIRECTION>(&row, std::iter::once(place)) };
    }
    let (from, to) = place.sides::<DIRECTION>();
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len as usize) };
}

/// Whether there is a kernel for grids of such blocks. Whole lines that go around the caches are
/// better copied by [`rows`].
pub(super) const fn has_grid(len: u64, place: Place) -> bool {
    matches!(len, 1 | 2 | 4 | 8 | 12 | 16 | 24 | 32) || (len == 64 && !place.streaming)
}

/// Copies a grid of blocks of `len` bytes, for lengths that [`has_grid`] names.
///
/// # Safety
/// As for [`run`], for every block of the grid.
pub(super) unsafe fn grid<const DIRECTION: bool>(
    outer: Steps,
    inner: Steps,
    len: u64,
    place: Place,
) {
    // SAFETY: handed on, whatever the arm.
    unsafe {
        match len {
            1 => fixed_grid::<DIRECTION, 1>(outer, inner, place),
            2 => fixed_grid::<DIRECTION, 2>(outer, inner, place),
            4 => fixed_grid::<DIRECTION, 4>(outer, inner, place),
            8 => fixed_grid::<DIRECTION, 8>(outer, inner, place),
            12 => fixed_grid::<DIRECTION, 12>(outer, inner, place),
            16 => fixed_grid::<DIRECTION, 16>(outer, inner, place),
            24 => fixed_grid::<DIRECTION, 24>(outer, inner, place),
            32 => fixed_grid::<DIRECTION, 32>(outer, inner, place),
            64 => fixed_grid::<DIRECTION, 64>(outer, inner, place),
            _ => debug_assert!(false, "no grid of {len} bytes"),
        }
    }
}

/// # Safety
/// As for [`grid`].
unsafe fn fixed_grid<const DIRECTION: bool, const N: usize>(
    outer: Steps,
    inner: Steps,
    place: Place,
) {
    let long = inner.count > 2 * AHEAD / N as u64;
    let mut row = place;
    for _ in 0..outer.count {
        // SAFETY: every row is one of the grid's.
        unsafe {
            if long {
                fixed_row::<DIRECTION, N, true>(inner, row);
            } else {
                fixed_row::<DIRECTION, N, false>(inner, row);
            }
        }
        row = row.step(&outer, 1);
    }
}

/// Copies a row of blocks that neighbour in the stream. Those that fill a line of it are copied
/// together, so that a prefetch is due once per line.
///
/// # Safety
/// As for [`grid`].
#[inline(always)]
unsafe fn fixed_row<const DIRECTION: bool, const N: usize, const PREFETCH: bool>(
    row: Steps,
    place: Place,
) {
    let group = LINE / N;
    let mut here = place;
    for _ in 0..row.count as usize / group {
        if PREFETCH {
            prefetch_group::<DIRECTION, N>(&row, here);
        }
        for i in 0..group {
            let (from, to) = here.step(&row, i as i64).sides::<DIRECTION>();
            // SAFETY: every block is one of the row's.
            unsafe { simd::registers::<N>(from, to) };
        }
        here = here.step(&row, group as i64);
    }
    for _ in 0..row.count as usize % group {
        let (from, to) = here.sides::<DIRECTION>();
        // SAFETY: every block is one of the row's.
        unsafe { simd::registers::<N>(from, to) };
        here = here.step(&row, 1);
    }
}

/// Asks for what a later group of a row touches: a line of the stream, and its lines of memory.
#[inline(always)]
fn prefetch_group<const DIRECTION: bool, const N: usize>(row: &Steps, here: Place) {
    let group = (LINE / N) as i64;
    let far = row.memory.unsigned_abs() >= LINE as u64;
    let ahead = if far { 32 } else { AHEAD as i64 / N as i64 };
    let later = here.step(row, ahead);
    later.prefetch::<DIRECTION>(0);
    // Blocks closer than a line share lines: one prefetch per line, not per block.
    let apart = row.memory.abs().min(LINE as i64) * row.memory.signum();
    for i in 1..group * apart.abs() / LINE as i64 {
        let step =
            if apart.abs() < LINE as i64 { LINE as i64 * apart.signum() } else { row.memory };
        later.at(i * step).prefetch_memory::<DIRECTION>(0);
    }
}

/// Copies blocks of `len` bytes at listed offsets of memory.
///
/// # Safety
/// As for [`run`], for every block.
pub(super) unsafe fn scattered<const DIRECTION: bool>(offsets: &[i64], len: u64, place: Place) {
    // SAFETY: handed on, whatever the arm.
    unsafe {
        match len {
            1 => fixed_scattered::<DIRECTION, 1>(offsets, place),
            2 => fixed_scattered::<DIRECTION, 2>(offsets, place),
            4 => fixed_scattered::<DIRECTION, 4>(offsets, place),
            8 => fixed_scattered::<DIRECTION, 8>(offsets, place),
            16 => fixed_scattered::<DIRECTION, 16>(offsets, place),
            32 => fixed_scattered::<DIRECTION, 32>(offsets, place),
            _ => {
                let row = Scattered { offsets, len: len as usize };
                rows::<DIRECTION>(&row, std::iter::once(place));
            }
        }
    }
}

/// # Safety
/// As for [`scattered`].
unsafe fn fixed_scattered<const DIRECTION: bool, const N: usize>(offsets: &[i64], place: Place) {
    let ahead = AHEAD as usize / 2 / N;
    for (i, &offset) in offsets.iter().enumerate() {
        let here = place.after((i * N) as u64);
        if let Some(&next) = offsets.get(i + ahead) {
            here.at(next).after((ahead * N) as u64).prefetch::<DIRECTION>(0);
        }
        let (from, to) = here.at(offset).sides::<DIRECTION>();
        // SAFETY: every block is one of the list's.
        unsafe { simd::registers::<N>(from, to) };
    }
}

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
    /// Block `i`.
    fn block(&self, i: usize) -> RowBlock;
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
    fn block(&self, i: usize) -> RowBlock {
        let Self { steps, len } = *self;
        RowBlock { memory: i as i64 * steps.memory, stream: i as u64 * steps.stream as u64, len }
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
    fn block(&self, i: usize) -> RowBlock {
        RowBlock { memory: self.offsets[i], stream: (i * self.len) as u64, len: self.len }
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
    fn block(&self, i: usize) -> RowBlock {
        let Block { offset, len, start } = self[i];
        RowBlock { memory: offset, stream: start, len: len as usize }
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
    fn block(&self, i: usize) -> RowBlock {
        self[i]
    }

    fn typical_len(&self) -> usize {
        self.iter().map(|block| block.len).sum::<usize>() / self.len().max(1)
    }
}

/// Copies a row of blocks at every place.
///
/// # Safety
/// As for [`run`], for every block at every place.
pub(super) unsafe fn rows<const DIRECTION: bool>(
    row: &(impl Row + ?Sized),
    places: impl Iterator<Item = Place> + Clone,
) {
    let ahead = (AHEAD as usize / row.typical_len().max(1)).clamp(1, MOST_AHEAD);
    #[cfg(target_arch = "x86_64")]
    if simd::Avx512::is_present() {
        // SAFETY: handed on; the processor has the instructions.
        return unsafe { rows_avx512::<DIRECTION>(row, places, ahead) };
    }
    // SAFETY: handed on.
    unsafe { rows_with::<DIRECTION, Portable, _>(row, places, ahead) };
}

/// # Safety
/// As for [`rows`], on a processor with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn rows_avx512<const DIRECTION: bool>(
    row: &(impl Row + ?Sized),
    places: impl Iterator<Item = Place> + Clone,
    ahead: usize,
) {
    // SAFETY: handed on.
    unsafe { rows_with::<DIRECTION, simd::Avx512, _>(row, places, ahead) };
}

/// # Safety
/// As for [`rows`], on a processor with the instructions of `L`.
#[inline(always)]
unsafe fn rows_with<const DIRECTION: bool, L: Lines, R: Row + ?Sized>(
    row: &R,
    places: impl Iterator<Item = Place> + Clone,
    ahead: usize,
) {
    let count = row.count();
    // The row that holds the block `ahead` of the last one of this row.
    let mut later = places.clone().skip(ahead.div_ceil(count));
    for place in places {
        let next_row = later.next().unwrap_or(place);
        let inside = count.saturating_sub(ahead);
        // SAFETY: the blocks are the caller's.
        unsafe {
            if place.streaming {
                for i in 0..inside {
                    let next = Next::new(row, place, i + ahead);
                    block_around::<DIRECTION, L>(place, row.block(i), next);
                }
                for i in inside..count {
                    let next = Next::new(row, next_row, (i + ahead - count).min(count - 1));
                    block_around::<DIRECTION, L>(place, row.block(i), next);
                }
            } else {
                for i in 0..inside {
                    let next = Next::new(row, place, i + ahead);
                    block_through::<DIRECTION, L>(place, row.block(i), next);
                }
                for i in inside..count {
                    let next = Next::new(row, next_row, (i + ahead - count).min(count - 1));
                    block_through::<DIRECTION, L>(place, row.block(i), next);
                }
            }
        }
    }
}

/// A later block, to be asked for while another is copied.
#[derive(Clone, Copy)]
struct Next {
    place: Place,
    len: usize,
}

impl Next {
    #[inline(always)]
    fn new<R: Row + ?Sized>(row: &R, place: Place, i: usize) -> Self {
        let block = row.block(i);
        // Blocks of one length need no comparison of lengths.
        let len = if R::UNIFORM { usize::MAX } else { block.len };
        Self { place: place.at(block.memory).after(block.stream), len }
    }
}

/// Copies a block, and asks for the lines of a later one.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn block_through<const DIRECTION: bool, L: Lines>(
    place: Place,
    block: RowBlock,
    next: Next,
) {
    let (from, to) = place.at(block.memory).after(block.stream).sides::<DIRECTION>();
    let line = |at: usize| {
        if at < next.len {
            next.place.prefetch::<DIRECTION>(at);
        }
        // SAFETY: a line inside of the block.
        unsafe { L::line(from.add(at), to.add(at)) };
    };
    let mut at = 0;
    // Fewer instructions per line let the processor look further ahead.
    while at + 4 * LINE <= block.len {
        (0..4).for_each(|i| line(at + i * LINE));
        at += 4 * LINE;
    }
    while at + LINE <= block.len {
        line(at);
        at += LINE;
    }
    if at < block.len {
        next.place.prefetch::<DIRECTION>(at);
        // SAFETY: the end of the block.
        unsafe { L::short(from.add(at), to.add(at), block.len - at) };
    }
}

/// Copies a block around the caches, if that pays for a block like this.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn block_around<const DIRECTION: bool, L: Lines>(place: Place, block: RowBlock, next: Next) {
    let (from, to) = place.at(block.memory).after(block.stream).sides::<DIRECTION>();
    let least = if DIRECTION == Direction::PACK { STREAMED_PACK } else { STREAMED_UNPACK };
    let whole_lines = DIRECTION == Direction::UNPACK
        && to.align_offset(LINE) == 0
        && block.len.is_multiple_of(LINE);
    if block.len < least && !whole_lines {
        // SAFETY: handed on.
        return unsafe { block_through::<DIRECTION, L>(place, block, next) };
    }
    let mut at = to.align_offset(LINE).min(block.len);
    // SAFETY: three parts of the block: up to the first whole line, whole lines, the rest.
    unsafe {
        // Not even an empty write may touch a line that is streamed.
        if at > 0 {
            L::short(from, to, at);
        }
        while at + LINE <= block.len {
            if at < next.len {
                simd::will_read(next.place.sides::<DIRECTION>().0.wrapping_add(at));
            }
            L::stream(from.add(at), to.add(at));
            at += LINE;
        }
        if at < block.len {
            L::short(from.add(at), to.add(at), block.len - at);
        }
    }
}
