//! Copy kernels: the innermost loops of packing, and the only `unsafe` pointer work of this crate.
//!
//! Each kernel is one loop over blocks; blocks of 1, 2, 4, 8, 16, 32 and 64 bytes are copied in
//! registers, others by what suits their length.

use super::Place;
use crate::node::Block;

/// Which side is written. Kernels are compiled once per direction, so that there is one of each.
pub(super) struct Direction;

impl Direction {
    /// From memory to the stream.
    pub(super) const PACK: bool = true;
    /// From the stream to memory.
    pub(super) const UNPACK: bool = false;
}

/// A regular nest of two loops over blocks: counts, and the steps of memory and stream in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub outer: Steps,
    pub inner: Steps,
}

/// One regular loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub count: u64,
    pub memory: i64,
    pub stream: i64,
}

/// Copies `len` bytes.
///
/// # Safety
/// Both sides of `place` hold `len` bytes, do not overlap, and the written one may be written.
#[inline]
pub(super) unsafe fn run<const DIRECTION: bool>(place: Place, len: u64) {
    let (from, to) = if DIRECTION == Direction::PACK {
        (place.memory, place.stream)
    } else {
        (place.stream, place.memory)
    };
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len as usize) };
}

/// Copies a block of a length known to the compiler: register moves.
///
/// # Safety
/// As for [`run`].
#[expect(clippy::inline_always, reason = "a call per block would cost more than the copy")]
#[inline(always)]
unsafe fn block<const DIRECTION: bool, const N: usize>(place: Place) {
    let (from, to) = if DIRECTION == Direction::PACK {
        (place.memory, place.stream)
    } else {
        (place.stream, place.memory)
    };
    // SAFETY: the caller's; arrays of bytes have no alignment.
    unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
}

/// Copies a grid of blocks of `len` bytes.
///
/// # Safety
/// As for [`run`], for every block of the grid.
pub(super) unsafe fn grid<const DIRECTION: bool>(grid: Grid, len: u64, place: Place) {
    // SAFETY: handed on, whatever the arm.
    unsafe {
        match len {
            1 => fixed_grid::<DIRECTION, 1>(grid, place),
            2 => fixed_grid::<DIRECTION, 2>(grid, place),
            4 => fixed_grid::<DIRECTION, 4>(grid, place),
            8 => fixed_grid::<DIRECTION, 8>(grid, place),
            12 => fixed_grid::<DIRECTION, 12>(grid, place),
            16 => fixed_grid::<DIRECTION, 16>(grid, place),
            24 => fixed_grid::<DIRECTION, 24>(grid, place),
            32 => fixed_grid::<DIRECTION, 32>(grid, place),
            64 => fixed_grid::<DIRECTION, 64>(grid, place),
            _ => any_grid(grid, place, |place| run::<DIRECTION>(place, len)),
        }
    }
}

/// # Safety
/// As for [`grid`].
unsafe fn fixed_grid<const DIRECTION: bool, const N: usize>(grid: Grid, place: Place) {
    let Grid { outer, inner } = grid;
    let step = |place: Place, n: i64| Place {
        memory: place.memory.wrapping_offset((n * inner.memory) as isize),
        stream: place.stream.wrapping_offset((n * inner.stream) as isize),
    };
    let mut row = place;
    for _ in 0..outer.count {
        let mut here = row;
        // SAFETY: every block is one of the grid's.
        unsafe {
            for _ in 0..inner.count / 4 {
                block::<DIRECTION, N>(here);
                block::<DIRECTION, N>(step(here, 1));
                block::<DIRECTION, N>(step(here, 2));
                block::<DIRECTION, N>(step(here, 3));
                here = step(here, 4);
            }
            for _ in 0..inner.count % 4 {
                block::<DIRECTION, N>(here);
                here = step(here, 1);
            }
        }
        row.memory = row.memory.wrapping_offset(outer.memory as isize);
        row.stream = row.stream.wrapping_offset(outer.stream as isize);
    }
}

fn any_grid(grid: Grid, place: Place, mut copy: impl FnMut(Place)) {
    let mut row = place;
    for _ in 0..grid.outer.count {
        let mut here = row;
        for _ in 0..grid.inner.count {
            copy(here);
            here.memory = here.memory.wrapping_offset(grid.inner.memory as isize);
            here.stream = here.stream.wrapping_offset(grid.inner.stream as isize);
        }
        row.memory = row.memory.wrapping_offset(grid.outer.memory as isize);
        row.stream = row.stream.wrapping_offset(grid.outer.stream as isize);
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
            64 => fixed_scattered::<DIRECTION, 64>(offsets, place),
            _ => {
                let mut here = place;
                for &offset in offsets {
                    run::<DIRECTION>(here.at(offset), len);
                    here = here.after(len);
                }
            }
        }
    }
}

/// # Safety
/// As for [`scattered`].
unsafe fn fixed_scattered<const DIRECTION: bool, const N: usize>(offsets: &[i64], place: Place) {
    let mut here = place;
    for &offset in offsets {
        // SAFETY: every block is one of the list's.
        unsafe { block::<DIRECTION, N>(here.at(offset)) };
        here = here.after(N as u64);
    }
}

/// Copies listed blocks of bytes.
///
/// # Safety
/// As for [`run`], for every block.
pub(super) unsafe fn listed<const DIRECTION: bool>(blocks: &[Block], place: Place) {
    let mut here = place;
    for block in blocks {
        // SAFETY: every block is one of the list's.
        unsafe { run::<DIRECTION>(here.at(block.offset), block.len) };
        here = here.after(block.len);
    }
}
