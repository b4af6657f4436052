//! Regular loop nests, carried out in the order that suits the cache.
//!
//! The stream prescribes where each block goes, not when it is copied. A nest whose innermost loop
//! takes large steps through memory while another takes small ones (the transposition from
//! cell-major memory to variable-major files, as in FLASH) would touch every cache line of memory
//! once per small step. Moving the loop with the smallest step inwards touches it once.

use super::kernel::{self, Direction, Grid, Steps};
use super::{Place, whole};
use crate::node::Node;

/// Loops taken into one plan; what is deeper is left to recursion.
const MAX_LOOPS: usize = 8;

/// Steps within a cache line are worth moving inwards.
const CACHE_LINE: u64 = 64;

/// Blocks of the inner loop in one tile of a reordered nest: they share their cache lines with the
/// neighbours that the moved loop visits next, so all must stay in the first-level cache.
const TILE: u64 = 32;

/// A loop that is executed once.
const ONCE: Steps = Steps { count: 1, memory: 0, stream: 0 };

/// Copies `count` copies of `child`, `stride` bytes apart.
pub(super) fn copy<const DIRECTION: bool>(count: u64, stride: i64, child: &Node, place: Place) {
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
        return each(loops, place, &mut |place| whole::<DIRECTION>(bottom, place));
    }
    let len = bottom.size();
    let may_reorder = DIRECTION == Direction::PACK || is_disjoint(loops, len);
    if may_reorder && let Some(moved) = loop_to_move(loops) {
        let (outer, inner) = move_inwards(loops, moved);
        return each(outer, place, &mut |place| tiled::<DIRECTION>(inner[0], inner[1], len, place));
    }
    let inner = loops[depth - 1];
    let (outer, loops) =
        if depth > 1 { (loops[depth - 2], &loops[..depth - 2]) } else { (ONCE, &[][..]) };
    // SAFETY: the grids are the nest, which is inside of the memory and the stream by the invariant of
    // the parent module.
    each(loops, place, &mut |place| unsafe {
        kernel::grid::<DIRECTION>(Grid { outer, inner }, len, place);
    });
}

/// Calls `copy` at every place of the nest, in order.
fn each(loops: &[Steps], place: Place, copy: &mut impl FnMut(Place)) {
    let Some((outer, loops)) = loops.split_first() else {
        return copy(place);
    };
    let mut here = place;
    for _ in 0..outer.count {
        each(loops, here, copy);
        here.memory = here.memory.wrapping_offset(outer.memory as isize);
        here.stream = here.stream.wrapping_offset(outer.stream as isize);
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

/// Copies the loops `moved` and `inner` tile by tile.
fn tiled<const DIRECTION: bool>(moved: Steps, inner: Steps, len: u64, place: Place) {
    for start in (0..inner.count).step_by(TILE as usize) {
        let tile = Steps { count: TILE.min(inner.count - start), ..inner };
        for moved_start in (0..moved.count).step_by(TILE as usize) {
            let outer = Steps { count: TILE.min(moved.count - moved_start), ..moved };
            let shift = |of: fn(&Steps) -> i64| {
                (of(&inner) * start as i64 + of(&moved) * moved_start as i64) as isize
            };
            let here = Place {
                memory: place.memory.wrapping_offset(shift(|steps| steps.memory)),
                stream: place.stream.wrapping_offset(shift(|steps| steps.stream)),
            };
            // SAFETY: each tile is part of the nest; see above.
            unsafe { kernel::grid::<DIRECTION>(Grid { outer, inner: tile }, len, here) };
        }
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
