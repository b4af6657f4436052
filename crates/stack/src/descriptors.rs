//! The numbers of descriptors that stages have in the program's table.
//!
//! A program that closes everything from 3 on, as many do when they become daemons, closes what it has opened itself. What
//! stages have open is none of its business: doors ask [`may_close`] first, and answer as if there were nothing.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::descriptor_table::is_apart;
use crate::gate::is_within_itself;

/// As many numbers are known; those above are not protected.
const MOST: usize = 1 << 16;

static OWN: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

fn place(number: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((OWN.get(number / 64)?, 1 << (number % 64)))
}

/// A stage has it now.
pub(crate) fn note(number: RawFd) {
    if let Some((word, bit)) = place(number).filter(|_| !is_apart()) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Nobody has it any more, or the program has it.
#[inline]
pub fn forget(number: RawFd) {
    if let Some((word, bit)) = place(number)
        && word.load(Ordering::Relaxed) & bit != 0
        && !is_apart()
    {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

fn is_own(number: RawFd) -> bool {
    place(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Whether a descriptor is the caller's to close: the program's, or it is a stage that closes it.
#[inline]
pub fn may_close(number: RawFd) -> bool {
    if !is_own(number) || is_apart() {
        return true;
    }
    let within = is_within_itself();
    if within {
        forget(number);
    }
    within
}

/// What is left of a range of numbers without those that stages have, in parts with both ends. All of it for stages.
pub fn without_own(first: u32, last: u32) -> Vec<(u32, u32)> {
    let mut parts = Vec::new();
    let mut from = Some(first);
    let end = (MOST as u32 - 1).min(last);
    if !is_within_itself() {
        for own in (first..=end).filter(|number| is_own(*number as RawFd)) {
            if let Some(from) = from.filter(|from| *from < own) {
                parts.push((from, own - 1));
            }
            from = own.checked_add(1);
        }
    }
    parts.extend(from.filter(|from| *from <= last).map(|from| (from, last)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_what_stages_have() {
        // No other test has so many.
        let (a, b) = (60_000, 60_001);
        note(a);
        note(b);
        note(MOST as RawFd);
        assert!(!may_close(a) && may_close(59_999) && may_close(MOST as RawFd) && may_close(-1));
        assert_eq!(without_own(59_000, 59_001), [(59_000, 59_001)]);
        let cut = [(59_990, 59_999), (60_002, u32::MAX)];
        assert_eq!(without_own(59_990, u32::MAX), cut);
        assert_eq!(without_own(60_000, 60_001), []);
        assert_eq!(without_own(60_001, 60_002), [(60_002, 60_002)]);
        {
            let _within = crate::gate::mark_within();
            assert_eq!(without_own(60_000, 60_001), [(60_000, 60_001)]);
            assert!(may_close(a));
        }
        forget(b);
        assert!(may_close(a) && may_close(b));
    }
}
