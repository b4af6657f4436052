//! Which descriptors are the stages' own.
//!
//! They are in the same table of the kernel as those of the program, which may close all that it does not know
//! (`close_range(3, ~0)`, `closefrom`, a loop over all numbers). Without its log, its directories and its locks a stage
//! would lose files; so a door keeps the program from closing these, and says that there is nothing of that number.
//!
//! A bit for each number, without a lock: the process may be copied at any moment. Closing one from within the stack
//! clears its bit ([`forget`]), as closing all others does nothing here.

use std::ops::RangeInclusive;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors from here on are not known. Linux does not give more to a process unless told to.
const MOST: usize = 1 << 20;
const WORDS: usize = MOST / 64;

static OWN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

fn word(descriptor: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(descriptor).ok()?;
    Some((OWN.get(number / 64)?, 1 << (number % 64)))
}

/// A stage keeps this descriptor.
pub(crate) fn note(descriptor: RawFd) {
    if let Some((word, bit)) = word(descriptor) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// A descriptor is closed by whoever has opened it.
pub fn forget(descriptor: RawFd) {
    if let Some((word, bit)) = word(descriptor) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Whether a descriptor is a stage's own.
#[inline]
pub fn is_own(descriptor: RawFd) -> bool {
    word(descriptor).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The parts of a range of numbers that are not stages' own.
pub fn without_own(range: RangeInclusive<u32>) -> Vec<RangeInclusive<u32>> {
    let (mut start, last) = range.into_inner();
    let mut parts = Vec::new();
    let words = start as usize / 64..WORDS.min(last as usize / 64 + 1);
    for place in words {
        let mut bits = OWN[place].load(Ordering::Relaxed);
        while bits != 0 {
            let own = place as u32 * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            if own < start || own > last {
                continue;
            }
            if own > start {
                parts.push(start..=own - 1);
            }
            start = own + 1;
        }
    }
    if start <= last {
        parts.push(start..=last);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_out_what_is_own() {
        // Numbers that no test has open.
        for own in [900_000, 900_001, 900_063, 900_064, 900_200] {
            note(own);
        }
        assert!(is_own(900_063) && !is_own(900_062) && !is_own(-1) && !is_own(RawFd::MAX));
        let parts = without_own(900_000..=u32::MAX);
        assert_eq!(parts, [900_002..=900_062, 900_065..=900_199, 900_201..=u32::MAX]);
        assert_eq!(without_own(900_000..=900_001), []);
        assert_eq!(without_own(900_010..=900_020), [900_010..=900_020]);
        forget(900_200);
        assert_eq!(without_own(900_100..=900_300), [900_100..=900_300]);
    }
}
