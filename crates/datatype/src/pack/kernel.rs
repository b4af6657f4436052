//! Copy kernels for runs and for blocks of a few bytes, whose length the compiler knows.
//!
//! The kernels here and in [`super::rows`] are faster than a loop over memcpy because they know the
//! next blocks: both sides of a later block are prefetched, the written one for writing.

#![expect(clippy::inline_always, reason = "a call per block would cost more than its copy")]

use super::Position;
use super::rows::{self, Regular, Scattered};
use super::simd::{self, LINE};

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
pub(super) const AHEAD: u64 = 2048;

impl Position {
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
pub(super) unsafe fn run<const DIRECTION: bool>(place: Position, len: u64) {
    if place.streaming && len as usize >= rows::STREAMED {
        let row = Regular { steps: Steps { count: 1, memory: 0, stream: 0 }, len: len as usize };
        // SAFETY: the caller's.
        return unsafe { rows::copy::<DIRECTION>(&row, std::iter::once(place)) };
    }
    let (from, to) = place.sides::<DIRECTION>();
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len as usize) };
}

/// Whether there is a kernel for grids of such blocks. Whole lines that go around the caches are
/// better copied by [`super::rows`].
pub(super) const fn has_grid(len: u64, place: Position) -> bool {
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
    place: Position,
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
    place: Position,
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
    place: Position,
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
fn prefetch_group<const DIRECTION: bool, const N: usize>(row: &Steps, here: Position) {
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
pub(super) unsafe fn scattered<const DIRECTION: bool>(offsets: &[i64], len: u64, place: Position) {
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
                rows::copy::<DIRECTION>(&row, std::iter::once(place));
            }
        }
    }
}

/// # Safety
/// As for [`scattered`].
unsafe fn fixed_scattered<const DIRECTION: bool, const N: usize>(offsets: &[i64], place: Position) {
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
