//! Copies regular loop nests in the order that suits the cache.
//!
//! The stream prescribes where each block goes, not when it is copied. A nest whose innermost loop
//! takes large steps through memory while another takes small ones (the transposition from
//! cell-major memory to variable-major files, as in FLASH) would touch every cache line of memory
//! once per small step. Moving the loop with the smallest step inwards touches it once.

use super::kernel::{self, Direction, Steps};
use super::rows::{self, Regular, RowBlock};
use super::{Position, transpose, whole};
use crate::node::{Loop, Node};

/// Loops taken into one plan; what is deeper is left to recursion.
const MAX_LOOPS: usize = 8;

/// Steps within a cache line are worth moving inwards.
const CACHE_LINE: u64 = 64;

/// Blocks of the inner loop in one tile of a reordered nest: they share their cache lines with the
/// neighbours that the moved loop visits next, so all must stay in the first-level cache.
const TILE: u64 = 32;

/// Pieces of an irregular node that are listed before it is copied many times.
const MAX_PIECES: usize = 64;

/// A loop that is executed once.
const ONCE: Steps = Steps { count: 1, memory: 0, stream: 0 };

/// Copies `count` copies of `child`, `stride` bytes apart.
pub(super) fn copy<const DIRECTION: bool>(count: u64, stride: i64, child: &Node, place: Position) {
    let mut loops = [ONCE; MAX_LOOPS];
    loops[0] = Steps { count, memory: stride, stream: child.size() as i64 };
    let mut depth = 1;
    let mut bottom = child;
    while let Some((count, stride, child)) = bottom.repetition()
        && depth < MAX_LOOPS
    {
        loops[depth] = Steps { count, memory: stride, stream: child.size() as i64 };
        depth += 1;
        bottom = child;
    }
    let loops = &mut loops[..depth];
    if !bottom.is_bytes() {
        return copies::<DIRECTION>(loops, bottom, place);
    }
    let len = bottom.size();
    let may_reorder = DIRECTION == Direction::PACK || is_disjoint(loops, len);
    if may_reorder && let Some(moved) = loop_to_move(loops) {
        let (outer, inner) = move_inwards(loops, moved);
        return reordered::<DIRECTION>(outer, inner[0], inner[1], len, place);
    }
    blocks::<DIRECTION>(loops, len, place);
}

/// Copies the blocks of a nest in the order of its loops; there is at least one loop.
fn blocks<const DIRECTION: bool>(loops: &[Steps], len: u64, place: Position) {
    let (inner, outer) = match *loops {
        [ref loops @ .., outer, inner] if kernel::has_grid(len, place) => {
            // SAFETY: the blocks are those of a nest which is inside of the memory and the stream,
            // by the invariant of the parent module.
            return Walk::new(loops, place).for_each(|place| unsafe {
                kernel::grid::<DIRECTION>(outer, inner, len, place);
            });
        }
        [inner] if kernel::has_grid(len, place) => {
            // SAFETY: as above.
            return unsafe { kernel::grid::<DIRECTION>(ONCE, inner, len, place) };
        }
        [ref outer @ .., inner] => (inner, outer),
        [] => return,
    };
    let row = Regular { steps: inner, len: len as usize };
    // SAFETY: as above.
    unsafe { rows::copy::<DIRECTION>(&row, Walk::new(outer, place)) };
}

/// Copies a node that is not a run of bytes at every place of a nest.
///
/// One of few pieces is listed once, so that the kernel sees all the blocks to come and not those
/// of one copy only. The list has a fixed size: nothing grows with the type.
fn copies<const DIRECTION: bool>(loops: &[Steps], node: &Node, place: Position) {
    let mut pieces = [RowBlock::default(); MAX_PIECES];
    let Some(count) = list_pieces(node, 0, 0, &mut pieces) else {
        return Walk::new(loops, place).for_each(|place| whole::<DIRECTION>(node, place));
    };
    // SAFETY: the pieces are those of the node at each place; see `blocks`.
    unsafe { rows::copy::<DIRECTION>(&pieces[..count], Walk::new(loops, place)) };
}

/// Lists the pieces of `node`, if they are few.
fn list_pieces(node: &Node, memory: i64, stream: u64, list: &mut [RowBlock]) -> Option<usize> {
    if node.span().pieces > list.len() as u64 {
        return None;
    }
    let mut count = 0;
    let mut add = |child: &Node, offset: i64, start: u64| {
        count += list_pieces(child, memory + offset, stream + start, &mut list[count..])?;
        Some(())
    };
    match node.kind() {
        Loop::Bytes => {
            list[0] = RowBlock { memory, stream, len: node.size() as usize };
            return Some(1);
        }
        Loop::Contig { .. } | Loop::Vector { .. } => {
            let (copies, stride, child) = node.repetition()?;
            for i in 0..copies {
                add(child, i as i64 * stride, i * child.size())?;
            }
        }
        Loop::BlockIndexed { offsets, child } => {
            for (i, &offset) in offsets.iter().enumerate() {
                add(child, offset, i as u64 * child.size())?;
            }
        }
        Loop::Indexed { blocks, child, stride } => {
            for block in blocks {
                if node.is_list_of_bytes() {
                    list[count] = RowBlock {
                        memory: memory + block.offset,
                        stream: stream + block.start,
                        len: block.len as usize,
                    };
                    count += 1;
                    continue;
                }
                for i in 0..block.len {
                    let start = (block.start + i) * child.size();
                    let offset = memory + block.offset + i as i64 * stride;
                    count += list_pieces(child, offset, stream + start, &mut list[count..])?;
                }
            }
        }
        Loop::Struct { fields } => {
            for field in fields {
                add(&field.child, field.offset, field.start)?;
            }
        }
    }
    Some(count)
}

/// The places a nest visits, in the order of its loops.
#[derive(Clone)]
struct Walk<'a> {
    loops: &'a [Steps],
    index: [u64; MAX_LOOPS],
    place: Position,
    left: u64,
}

impl<'a> Walk<'a> {
    fn new(loops: &'a [Steps], place: Position) -> Self {
        // The blocks of a nest are fewer than its bytes, which fit.
        let left = loops.iter().map(|steps| steps.count).product();
        Self { loops, index: [0; MAX_LOOPS], place, left }
    }
}

impl Iterator for Walk<'_> {
    type Item = Position;

    #[inline]
    fn next(&mut self) -> Option<Position> {
        self.left = self.left.checked_sub(1)?;
        let here = self.place;
        for (steps, index) in self.loops.iter().zip(&mut self.index).rev() {
            *index += 1;
            if *index < steps.count {
                self.place = self.place.step(steps, 1);
                break;
            }
            *index = 0;
            self.place = self.place.step(steps, 1 - steps.count as i64);
        }
        Some(here)
    }
}

/// The loop that should run just outside of the innermost one, if any is worth it.
fn loop_to_move(loops: &[Steps]) -> Option<usize> {
    let (inner, others) = loops.split_last()?;
    let (index, smallest) =
        others.iter().enumerate().min_by_key(|(_, steps)| steps.memory.unsigned_abs())?;
    let worth_it =
        smallest.memory.unsigned_abs() < CACHE_LINE && inner.memory.unsigned_abs() >= CACHE_LINE;
    worth_it.then_some(index)
}

/// Splits the nest into the loops that stay outside and the two of the tile.
fn move_inwards(loops: &mut [Steps], moved: usize) -> (&[Steps], &[Steps]) {
    let last = loops.len() - 1;
    loops[moved..last].rotate_left(1);
    loops.split_at(last - 1)
}

/// Copies a nest whose two innermost loops touch the same lines of memory again and again.
fn reordered<const DIRECTION: bool>(
    outer: &[Steps],
    moved: Steps,
    inner: Steps,
    len: u64,
    place: Position,
) {
    let walk = Walk::new(outer, place);
    let mut later = walk.clone().skip(1);
    let prepare = |place: Position| {
        // What is in the caches already would only be slowed down.
        if place.streaming
            && let Some(next) = later.next()
        {
            prefetch_tile::<DIRECTION>(moved, inner, len, next);
        }
    };
    // SAFETY: the tiles are the nest, which is inside of the memory and the stream; see `blocks`.
    let (rows, columns) =
        unsafe { transpose::tiles::<DIRECTION>(moved, inner, len, walk.clone(), prepare) };
    if (rows, columns) == (moved.count, inner.count) {
        return;
    }
    // What is left: an edge of whole rows, and one of the ends of the rows before it.
    for place in walk {
        let below = Steps { count: moved.count - rows, ..moved };
        tiled::<DIRECTION>(below, inner, len, place.step(&moved, rows as i64));
        let rows = Steps { count: rows, ..moved };
        let beside = Steps { count: inner.count - columns, ..inner };
        tiled::<DIRECTION>(rows, beside, len, place.step(&inner, columns as i64));
    }
}

/// Copies two loops tile by tile, each small enough to stay in the first-level cache.
fn tiled<const DIRECTION: bool>(moved: Steps, inner: Steps, len: u64, place: Position) {
    for start in (0..inner.count).step_by(TILE as usize) {
        let tile = Steps { count: TILE.min(inner.count - start), ..inner };
        for moved_start in (0..moved.count).step_by(TILE as usize) {
            let outer = Steps { count: TILE.min(moved.count - moved_start), ..moved };
            let here = place.step(&inner, start as i64).step(&moved, moved_start as i64);
            blocks::<DIRECTION>(&[outer, tile], len, here);
        }
    }
}

/// Asks for the lines that a tile touches on both sides, if it is small.
fn prefetch_tile<const DIRECTION: bool>(moved: Steps, inner: Steps, len: u64, place: Position) {
    if moved.count > TILE || inner.count > TILE {
        return;
    }
    let line = CACHE_LINE as usize;
    let row = ((moved.count - 1) * moved.memory.unsigned_abs() + len) as usize;
    let low = place.at((moved.count as i64 - 1) * moved.memory.min(0));
    for i in 0..inner.count as i64 {
        let row_start = low.step(&inner, i);
        (0..row).step_by(line).for_each(|at| row_start.prefetch_memory::<DIRECTION>(at));
    }
    for i in 0..moved.count as i64 {
        let row_start = place.step(&moved, i);
        let row = (inner.count * len) as usize;
        (0..row).step_by(line).for_each(|at| row_start.prefetch_stream::<DIRECTION>(at));
    }
}

/// Whether the blocks of a nest surely do not overlap in memory, so that their order is free.
fn is_disjoint(loops: &[Steps], len: u64) -> bool {
    let mut sorted = [ONCE; MAX_LOOPS];
    let sorted = &mut sorted[..loops.len()];
    sorted.copy_from_slice(loops);
    sorted.sort_unstable_by_key(|steps| steps.memory.unsigned_abs());
    let mut reach = len;
    for steps in sorted {
        let step = steps.memory.unsigned_abs();
        if steps.count > 1 && step < reach {
            return false;
        }
        // Inside of the checked memory: no overflow.
        reach += (steps.count - 1) * step;
    }
    true
}
