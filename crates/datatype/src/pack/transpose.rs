//! Transposition of 8-byte elements in registers.
//!
//! A reordered nest (see [`super::nest`]) often is a plain transposition: elements that neighbour
//! in memory go to distant places of the stream and the other way round. Eight by eight of them fit
//! in eight registers, so that both sides are touched a whole line at a time.

use super::Position;
use super::kernel::{Direction, Steps};

/// Bytes of the elements this works for.
const ELEMENT: i64 = 8;

/// Elements of a register.
const SIDE: u64 = 8;

/// Copies as much as possible of a tile at every place: `moved` steps through neighbours in memory,
/// `inner` through neighbours in the stream. Returns how many of each were copied: the first `.0`
/// of `moved` for the first `.1` of `inner`. `prepare` is called with each place before it is
/// copied.
///
/// # Safety
/// As for [`super::kernel::grid`] with blocks of `len` bytes, at every place.
pub(super) unsafe fn tiles<const DIRECTION: bool>(
    moved: Steps,
    inner: Steps,
    len: u64,
    places: impl Iterator<Item = Position>,
    prepare: impl FnMut(Position),
) -> (u64, u64) {
    #[cfg(target_arch = "x86_64")]
    if len as i64 == ELEMENT
        && moved.memory == ELEMENT
        && inner.stream == ELEMENT
        && super::simd::Avx512::is_present()
    {
        let squares =
            Squares { moved, inner, rows: moved.count / SIDE, columns: inner.count / SIDE };
        // SAFETY: handed on; the processor has the instructions.
        unsafe { avx512::copy::<DIRECTION>(&squares, places, prepare) };
        return (squares.rows * SIDE, squares.columns * SIDE);
    }
    let _ = (moved, inner, len, places, prepare);
    (0, 0)
}

/// The part of a tile that is whole squares.
struct Squares {
    moved: Steps,
    inner: Steps,
    rows: u64,
    columns: u64,
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_si512, _mm512_shuffle_i64x2, _mm512_storeu_si512,
        _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
    };

    use super::{Direction, Position, SIDE, Squares};

    /// # Safety
    /// As for [`super::tiles`], on a processor with AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn copy<const DIRECTION: bool>(
        squares: &Squares,
        places: impl Iterator<Item = Position>,
        mut prepare: impl FnMut(Position),
    ) {
        let Squares { moved, inner, rows, columns } = *squares;
        let (from_step, to_step) = if DIRECTION == Direction::PACK {
            (inner.memory as isize, moved.stream as isize)
        } else {
            (moved.stream as isize, inner.memory as isize)
        };
        for place in places {
            prepare(place);
            for row in 0..rows as i64 {
                for column in 0..columns as i64 {
                    let here = place.step(&moved, row * SIDE as i64);
                    let (from, to) = here.step(&inner, column * SIDE as i64).sides::<DIRECTION>();
                    // SAFETY: the eight lines of either side are eight neighbours of eight blocks
                    // of the tile each.
                    unsafe { square(from, from_step, to, to_step) };
                }
            }
        }
    }

    /// Lanes 0 and 2 of each operand.
    const EVEN: i32 = 0x88;
    /// Lanes 1 and 3 of each operand.
    const ODD: i32 = 0xdd;

    /// Transposes 8 × 8 elements of 8 bytes: line i of the one side is column i of the other.
    ///
    /// # Safety
    /// Each side holds eight lines of 64 bytes at its step, the sides do not overlap, and the
    /// processor has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn square(from: *const u8, from_step: isize, to: *mut u8, to_step: isize) {
        let line = |i: isize| {
            // SAFETY: the caller's.
            unsafe { _mm512_loadu_si512(from.wrapping_offset(i * from_step).cast()) }
        };
        let store = |i: isize, line: __m512i| {
            // SAFETY: the caller's.
            unsafe { _mm512_storeu_si512(to.wrapping_offset(i * to_step).cast(), line) };
        };
        let pair = |i: isize| {
            let (a, b) = (line(i), line(i + 1));
            (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
        };
        let (pairs01, pairs23, pairs45, pairs67) = (pair(0), pair(2), pair(4), pair(6));
        for (odd_column, [a, b, c, d]) in [
            (0, [pairs01.0, pairs23.0, pairs45.0, pairs67.0]),
            (1, [pairs01.1, pairs23.1, pairs45.1, pairs67.1]),
        ] {
            let (low, high) =
                (_mm512_shuffle_i64x2::<EVEN>(a, b), _mm512_shuffle_i64x2::<EVEN>(c, d));
            store(odd_column, _mm512_shuffle_i64x2::<EVEN>(low, high));
            store(odd_column + 4, _mm512_shuffle_i64x2::<ODD>(low, high));
            let (low, high) =
                (_mm512_shuffle_i64x2::<ODD>(a, b), _mm512_shuffle_i64x2::<ODD>(c, d));
            store(odd_column + 2, _mm512_shuffle_i64x2::<EVEN>(low, high));
            store(odd_column + 6, _mm512_shuffle_i64x2::<ODD>(low, high));
        }
    }
}
