//! Descriptors of stages in the program's table: their high numbers, and their protection.
//!
//! A descriptor that a stage keeps open has a high number ([`high`]), so that the program gets the
//! numbers that it gets without the stage. A program that closes all descriptors from 3 on, as
//! daemons do, must not close those of stages: a door asks [`may_close`] before it closes one, and
//! otherwise answers `EBADF`.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use striate_process::limits;

use crate::descriptor_table::has_own_table;
use crate::gate::is_within_itself;

/// Descriptors of stages are from here on, where they do not take the numbers that a program
/// expects …
const HIGH: RawFd = 640;
/// … or, where the process may not have so many, as far up as there are any.
const LOWEST: RawFd = 3;

/// As many numbers are known; those above are not protected.
const MOST: usize = 1 << 16;

static OWN: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

fn place(number: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((OWN.get(number / 64)?, 1 << (number % 64)))
}

/// A stage has it now.
pub(crate) fn note(number: RawFd) {
    if let Some((word, bit)) = place(number).filter(|_| !has_own_table()) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// It is closed, or the program has it.
#[inline]
pub fn forget(number: RawFd) {
    if let Some((word, bit)) = place(number)
        && word.load(Ordering::Relaxed) & bit != 0
        && !has_own_table()
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
    if !is_own(number) || has_own_table() {
        return true;
    }
    let within = is_within_itself();
    if within {
        forget(number);
    }
    within
}

/// What is left of a range of numbers without those that stages have, in parts with both ends. All
/// of it for stages.
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

/// Moves a descriptor to a high number, if there is one. Every descriptor that a stage keeps goes
/// this way, and every one that it has while the program's own call opens something: the program
/// gets the lowest number that is free, as it would without the stage.
pub fn high(descriptor: OwnedFd) -> OwnedFd {
    let high = || rustix::io::fcntl_dupfd_cloexec(&descriptor, HIGH);
    // A number above the limit of descriptors is never one of the program's.
    let moved = high().or_else(|_| limits::with_more_descriptors(high));
    let moved = moved.unwrap_or_else(|_| high_within_limit(descriptor));
    note(moved.as_raw_fd());
    moved
}

/// The same where the process may have few descriptors, or has used up the high ones.
#[cold]
fn high_within_limit(descriptor: OwnedFd) -> OwnedFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(HIGH, |limit| HIGH.min(RawFd::try_from(limit).unwrap_or(HIGH)));
    let mut room = limit / 4;
    while room < limit - LOWEST {
        if let Ok(moved) = rustix::io::fcntl_dupfd_cloexec(&descriptor, limit - room) {
            return moved;
        }
        room = (room * 2).max(1);
    }
    // From here on up any number is as good as another; it may be the one that it has.
    match rustix::io::fcntl_dupfd_cloexec(&descriptor, LOWEST) {
        Ok(moved) if moved.as_raw_fd() > descriptor.as_raw_fd() => moved,
        _ => descriptor,
    }
}

/// Another descriptor of the same open file, with a high number from the start.
pub fn high_copy(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let copied = || rustix::io::fcntl_dupfd_cloexec(descriptor, HIGH);
    if let Ok(copy) = copied().or_else(|_| limits::with_more_descriptors(copied)) {
        note(copy.as_raw_fd());
        return Ok(copy);
    }
    rustix::io::fcntl_dupfd_cloexec(descriptor, LOWEST).map(high)
}

/// A descriptor of the program, for as long as its call lasts.
pub fn borrow<'a>(directory: RawFd) -> BorrowedFd<'a> {
    // SAFETY: it is the program's descriptor, or stands for the current directory. The program
    // answers for it while its call lasts.
    unsafe { BorrowedFd::borrow_raw(directory) }
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
