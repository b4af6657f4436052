//! Copies of a cache line or less, prefetches and streaming stores, per instruction set.
//!
//! Two sets are enough: AVX-512 where the processor has it (a line is one register, and a mask
//! copies any shorter length without a branch), and what every processor has.

#![expect(clippy::inline_always, reason = "these are single instructions")]

/// Bytes of a cache line, and of the widest register used.
pub(super) const LINE: usize = 64;

/// How lines are copied. Every method copies from `from` to `to`.
pub(super) trait Lines {
    /// Copies a line.
    ///
    /// # Safety
    /// Both sides hold [`LINE`] bytes, do not overlap, and the processor has the instructions.
    unsafe fn line(from: *const u8, to: *mut u8);

    /// Copies a line around the caches.
    ///
    /// # Safety
    /// As for [`Lines::line`]; `to` is aligned to a line.
    unsafe fn stream(from: *const u8, to: *mut u8);

    /// Copies at most a line.
    ///
    /// # Safety
    /// Both sides hold `len` bytes, `len` is at most [`LINE`], they do not overlap, and the
    /// processor has the instructions.
    unsafe fn short(from: *const u8, to: *mut u8, len: usize);
}

/// What every processor has.
pub(super) struct Portable;

impl Lines for Portable {
    #[inline(always)]
    unsafe fn line(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { registers::<LINE>(from, to) };
    }

    #[inline(always)]
    unsafe fn stream(from: *const u8, to: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            #[expect(clippy::cast_ptr_alignment, reason = "loads need none, and `to` has it")]
            let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
            for part in 0..4 {
                // SAFETY: the caller's; a quarter of a line is aligned as its line is.
                unsafe {
                    _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part)));
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller's.
        unsafe {
            Self::line(from, to);
        }
    }

    #[inline(always)]
    unsafe fn short(from: *const u8, to: *mut u8, len: usize) {
        // Two halves that may overlap make any length of their class.
        // SAFETY: in each arm both halves are inside of the `len` bytes.
        unsafe {
            match len {
                33..=64 => halves::<32>(from, to, len),
                17..=32 => halves::<16>(from, to, len),
                9..=16 => halves::<8>(from, to, len),
                5..=8 => halves::<4>(from, to, len),
                3..=4 => halves::<2>(from, to, len),
                1..=2 => halves::<1>(from, to, len),
                _ => {}
            }
        }
    }
}

/// Copies `N` bytes in registers.
///
/// # Safety
/// Both sides hold `N` bytes and do not overlap.
#[inline(always)]
pub(super) unsafe fn registers<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's; arrays of bytes have no alignment.
    unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
}

/// Copies the first and the last `N` of `len` bytes.
///
/// # Safety
/// Both sides hold `len` bytes, `len` is at least `N`, and they do not overlap.
#[inline(always)]
unsafe fn halves<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe {
        registers::<N>(from, to);
        registers::<N>(from.add(len - N), to.add(len - N));
    }
}

/// AVX-512: a line is a register.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Whether this processor has it.
    #[inline]
    pub(super) fn is_present() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }
}

#[cfg(target_arch = "x86_64")]
impl Lines for Avx512 {
    #[inline(always)]
    unsafe fn line(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512};
        // SAFETY: the caller's.
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast())) };
    }

    #[inline(always)]
    unsafe fn stream(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
        // SAFETY: the caller's.
        unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())) };
    }

    #[inline(always)]
    unsafe fn short(from: *const u8, to: *mut u8, len: usize) {
        use std::arch::x86_64::{_mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8};
        let mask = if len == 0 { 0 } else { u64::MAX >> (LINE - len) };
        // SAFETY: the caller's; bytes outside of the mask are neither read nor written.
        unsafe {
            _mm512_mask_storeu_epi8(to.cast(), mask, _mm512_maskz_loadu_epi8(mask, from.cast()));
        }
    }
}

/// Asks for a line that will be read. Any address will do.
#[inline(always)]
pub(super) fn will_read(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory in the sense of the language, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for a line that will be written. Any address will do.
#[inline(always)]
pub(super) fn will_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // The intrinsic becomes a prefetch for reading unless the whole program is compiled for newer
    // processors; all 64-bit ones accept the instruction.
    // SAFETY: as for `will_read`.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Makes streaming stores visible to other cores before what follows.
#[inline]
pub(super) fn end_of_streaming() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence has no preconditions.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Aligned([u8; LINE]);

    fn check<L: Lines>() {
        let from: Vec<u8> = (1..=128).collect();
        for start in 0..LINE {
            for len in 0..=LINE {
                let mut to = [0; 2 * LINE];
                // SAFETY: both sides hold a line from `start` on.
                unsafe { L::short(from[start..].as_ptr(), to[start..].as_mut_ptr(), len) };
                let mut expected = [0; 2 * LINE];
                expected[start..start + len].copy_from_slice(&from[start..start + len]);
                assert_eq!(to, expected, "{start} {len}");
            }
            let mut to = [0; 2 * LINE];
            // SAFETY: both sides hold a line from `start` on.
            unsafe { L::line(from[start..].as_ptr(), to[start..].as_mut_ptr()) };
            assert_eq!(to[start..start + LINE], from[start..start + LINE]);

            let mut to = Aligned([0; LINE]);
            // SAFETY: both sides hold a line, and the written one is aligned.
            unsafe { L::stream(from[start..].as_ptr(), to.0.as_mut_ptr()) };
            end_of_streaming();
            assert_eq!(to.0, from[start..start + LINE]);
        }
    }

    #[test]
    fn portable_lines_are_exact() {
        check::<Portable>();
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx512_lines_are_exact() {
        if Avx512::is_present() {
            check::<Avx512>();
        }
    }
}
