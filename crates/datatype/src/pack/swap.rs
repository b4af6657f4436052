//! [`swap_copy`] and [`swap_in_place`]: copies that reverse the bytes of every element, between
//! big-endian files and little-endian memory, as fast as plain copies.
//!
//! The loops are plain Rust, compiled once per instruction set. The compiler makes one shuffle per
//! register of them, as fast as shuffles written by hand; only what reaches far beyond the caches
//! needs more, because it is written around them (see [`simd`](super::simd)).
//!
//! `unsafe` is here for two reasons, both argued where they occur: a function of an instruction set
//! is called after the processor has been asked, and a streaming store needs the address of a line.

#![expect(clippy::inline_always, reason = "the loops are compiled once per instruction set")]

use super::STREAMING;
use super::simd::{self, LINE, Lines, Portable};

/// Copies elements of `width` bytes and reverses the bytes of each.
///
/// Both slices may lie at any address. A `width` of 1 is a plain copy.
///
/// ```
/// let mut file = [0; 4];
/// striate_datatype::swap_copy(&[1, 2, 3, 4], &mut file, 2);
/// assert_eq!(file, [2, 1, 4, 3]);
/// ```
///
/// # Panics
/// If `width` is none of 1, 2, 4 and 8, or the slices do not hold equally many whole elements.
pub fn swap_copy(from: &[u8], to: &mut [u8], width: usize) {
    assert_eq!(from.len(), to.len(), "both sides of a copy have the same length");
    assert_whole(from.len(), width);
    match width {
        2 => InstructionSet::of(from.len()).copy::<2>(from, to),
        4 => InstructionSet::of(from.len()).copy::<4>(from, to),
        8 => InstructionSet::of(from.len()).copy::<8>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Reverses the bytes of every element of `width` bytes, where it lies.
///
/// # Panics
/// If `width` is none of 1, 2, 4 and 8, or `bytes` does not hold whole elements.
pub fn swap_in_place(bytes: &mut [u8], width: usize) {
    assert_whole(bytes.len(), width);
    match width {
        2 => InstructionSet::of(bytes.len()).in_place::<2>(bytes),
        4 => InstructionSet::of(bytes.len()).in_place::<4>(bytes),
        8 => InstructionSet::of(bytes.len()).in_place::<8>(bytes),
        _ => {}
    }
}

fn assert_whole(len: usize, width: usize) {
    assert!(matches!(width, 1 | 2 | 4 | 8), "there are no elements of {width} bytes");
    assert!(len.is_multiple_of(width), "{len} bytes are no whole elements of {width}");
}

/// Bytes of one element.
trait Reversible: Copy {
    /// The same bytes, the last one first.
    fn reversed(self) -> Self;
}

macro_rules! elements {
    ($($size:literal: $integer:ty),+) => {$(
        impl Reversible for [u8; $size] {
            #[inline(always)]
            fn reversed(self) -> Self {
                <$integer>::from_ne_bytes(self).swap_bytes().to_ne_bytes()
            }
        }
    )+};
}

elements!(2: u16, 4: u32, 8: u64);

/// Instruction sets that differ in their shuffles.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    /// What every processor has.
    Portable,
}

impl InstructionSet {
    /// Best first.
    const ALL: &[Self] = &[
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Ssse3,
        Self::Portable,
    ];

    /// The best one for that many bytes. A few are swapped before the processor has been asked.
    #[inline]
    fn of(len: usize) -> Self {
        if len <= LINE {
            return Self::Portable;
        }
        Self::ALL.iter().copied().find(|set| set.is_present()).unwrap_or(Self::Portable)
    }

    #[inline]
    fn is_present(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => simd::Avx512::is_present() && is_x86_feature_detected!("avx512vl"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => is_x86_feature_detected!("ssse3"),
            Self::Portable => true,
        }
    }

    /// Copies with this set, or with what every processor has if this one does not have it.
    fn copy<const N: usize>(self, from: &[u8], to: &mut [u8])
    where
        [u8; N]: Reversible,
    {
        #[cfg(target_arch = "x86_64")]
        if self.is_present() {
            // SAFETY: the processor has the instructions.
            unsafe {
                match self {
                    Self::Avx512 => return x86::copy_avx512::<N>(from, to),
                    Self::Avx2 => return x86::copy_avx2::<N>(from, to),
                    Self::Ssse3 => return x86::copy_ssse3::<N>(from, to),
                    Self::Portable => {}
                }
            }
        }
        // SAFETY: every processor has the instructions.
        unsafe { copy::<N, Portable>(from, to) };
    }

    /// Swaps with this set, or with what every processor has if this one does not have it.
    fn in_place<const N: usize>(self, bytes: &mut [u8])
    where
        [u8; N]: Reversible,
    {
        #[cfg(target_arch = "x86_64")]
        if self.is_present() {
            // SAFETY: the processor has the instructions.
            unsafe {
                match self {
                    Self::Avx512 => return x86::in_place_avx512::<N>(bytes),
                    Self::Avx2 => return x86::in_place_avx2::<N>(bytes),
                    Self::Ssse3 => return x86::in_place_ssse3::<N>(bytes),
                    Self::Portable => {}
                }
            }
        }
        in_place::<N>(bytes);
    }
}

/// The loops, once per instruction set.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Portable, Reversible, simd};

    macro_rules! compiled_for {
        ($features:literal, $lines:ty, $copy:ident, $in_place:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $copy<const N: usize>(from: &[u8], to: &mut [u8])
            where
                [u8; N]: Reversible,
            {
                // SAFETY: the caller has checked for the instructions, which include those of
                // `Lines`.
                unsafe { super::copy::<N, $lines>(from, to) };
            }

            #[target_feature(enable = $features)]
            pub(super) fn $in_place<const N: usize>(bytes: &mut [u8])
            where
                [u8; N]: Reversible,
            {
                super::in_place::<N>(bytes);
            }
        };
    }

    compiled_for!("avx512f,avx512bw,avx512vl", simd::Avx512, copy_avx512, in_place_avx512);
    compiled_for!("avx2", Portable, copy_avx2, in_place_avx2);
    compiled_for!("ssse3", Portable, copy_ssse3, in_place_ssse3);
}

/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn copy<const N: usize, L: Lines>(from: &[u8], to: &mut [u8])
where
    [u8; N]: Reversible,
{
    // A line that is written around the caches holds whole elements, or it is not written so.
    let head = to.as_ptr().align_offset(LINE);
    if (to.len() as u64) < STREAMING || !head.is_multiple_of(N) || head > to.len() {
        return copy_elements::<N>(from, to);
    }
    let (from_head, from) = from.split_at(head);
    let (to_head, to) = to.split_at_mut(head);
    copy_elements::<N>(from_head, to_head);
    let (from_lines, from_tail) = from.as_chunks::<LINE>();
    let (to_lines, to_tail) = to.as_chunks_mut::<LINE>();
    for (from, to) in from_lines.iter().zip(to_lines) {
        let mut line = *from;
        in_place::<N>(&mut line);
        // SAFETY: both hold a line and are apart; the lines of `to` begin at a multiple of a line;
        // the caller vouches for the instructions.
        unsafe { L::stream(line.as_ptr(), to.as_mut_ptr()) };
    }
    simd::end_of_streaming();
    copy_elements::<N>(from_tail, to_tail);
}

#[inline(always)]
fn copy_elements<const N: usize>(from: &[u8], to: &mut [u8])
where
    [u8; N]: Reversible,
{
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
        *to = from.reversed();
    }
}

#[inline(always)]
fn in_place<const N: usize>(bytes: &mut [u8])
where
    [u8; N]: Reversible,
{
    for element in bytes.as_chunks_mut::<N>().0 {
        *element = element.reversed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 131 + (i >> 8) * 29 + 7) as u8).collect()
    }

    /// The obvious loop.
    fn expected(from: &[u8], width: usize) -> Vec<u8> {
        let mut to = from.to_vec();
        to.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        to
    }

    fn check<const N: usize>(set: InstructionSet)
    where
        [u8; N]: Reversible,
    {
        let source = noise(400);
        for len in (0..300).filter(|len: &usize| len.is_multiple_of(N)) {
            for (from, to) in (0..16).map(|i| (i, 0)).chain((0..16).map(|i| (3, i))) {
                let from = &source[from..from + len];
                let mut memory = vec![0xaa; 400];
                set.copy::<N>(from, &mut memory[to..to + len]);
                assert_eq!(memory[to..to + len], expected(from, N), "{set:?} {N} {len}");
                assert!(memory[..to].iter().chain(&memory[to + len..]).all(|&b| b == 0xaa));

                memory[to..to + len].copy_from_slice(from);
                set.in_place::<N>(&mut memory[to..to + len]);
                assert_eq!(memory[to..to + len], expected(from, N), "{set:?} {N} {len} in place");
                assert!(memory[..to].iter().chain(&memory[to + len..]).all(|&b| b == 0xaa));
            }
        }
        // Long enough to be written around the caches, with a head and a tail, or unaligned.
        let len = STREAMING as usize + 200;
        let source = noise(len);
        for to in [0, N, 24, 3] {
            let mut memory = vec![0xaa; len + 80];
            set.copy::<N>(&source, &mut memory[to..to + len]);
            assert!(memory[to..to + len] == expected(&source, N), "{set:?} {N} streamed to {to}");
            assert!(memory[..to].iter().chain(&memory[to + len..]).all(|&b| b == 0xaa));
        }
    }

    #[test]
    fn every_instruction_set_swaps_as_the_obvious_loop_does() {
        for &set in InstructionSet::ALL.iter().filter(|set| set.is_present()) {
            check::<2>(set);
            check::<4>(set);
            check::<8>(set);
        }
    }

    #[test]
    fn the_public_functions_take_every_width() {
        for width in [1, 2, 4, 8] {
            for len in (0..300).filter(|len: &usize| len.is_multiple_of(width)) {
                let source = noise(len);
                let mut to = vec![0; len];
                swap_copy(&source, &mut to, width);
                assert_eq!(to, expected(&source, width), "{width} {len}");
                swap_in_place(&mut to, width);
                assert_eq!(to, source, "{width} {len}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "no whole elements")]
    fn a_part_of_an_element_is_refused() {
        swap_in_place(&mut [0; 7], 4);
    }
}
