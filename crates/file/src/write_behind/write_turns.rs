//! [`WriteTurns`]: ranks of a node write to a file one after the other, where the file system would
//! serialise them anyway.
//!
//! Most file systems let one writer into a file at a time. A second one sleeps in the kernel, and
//! to sleep and be woken takes longer than a small write: two processes that write 64 KiB each in
//! turn are slower than one that writes all of it. Ranks of a node know of each other, so they wait
//! here, awake, until the other is done.
//!
//! This is an optimisation, not a lock: nothing depends on it. A rank that has waited for the same
//! writer for [`PATIENCE`] writes at once, and takes the turn from that writer, which may be dead.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::WriteBehind;

/// How long a writer waits for another one to finish, and how many of them may come before it.
const PATIENCE: Duration = Duration::from_millis(2);
const MOST_WRITERS: u32 = 64;

/// Looks before a waiter yields its core.
const LOOKS: u32 = 200;

/// Number of writes that take no turn after a wait ended by its time limit: where writes take
/// longer, sleeping in the kernel is right.
const WITHOUT_TURN: u32 = 64;

/// Smaller writes are over before it matters; larger ones take longer than to sleep and be woken.
const WORTH_IT: RangeInclusive<usize> = 32 << 10..=4 << 20;

/// A rank's side of it.
#[derive(Debug)]
pub(super) struct WriteTurns {
    /// Whether the file system lets one writer in at a time.
    is_serial: bool,
    rank: usize,
    /// Writes so far that took a turn, and those to come that do not.
    writes: AtomicU32,
    without_turn: AtomicU32,
}

impl WriteTurns {
    pub(super) const fn new(is_serial: bool, rank: usize) -> Self {
        let (writes, without_turn) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { is_serial, rank, writes, without_turn }
    }

    fn takes_turn(&self, len: usize) -> bool {
        if !self.is_serial || !WORTH_IT.contains(&len) {
            return false;
        }
        let without_turn = self.without_turn.load(Ordering::Relaxed);
        if without_turn > 0 {
            self.without_turn.store(without_turn - 1, Ordering::Relaxed);
        }
        without_turn == 0
    }

    /// A number for a write, different from those that other ranks have at the same time.
    fn ticket(&self) -> u32 {
        let count = self.writes.fetch_add(1, Ordering::Relaxed);
        count << 8 | (self.rank as u32 + 1)
    }
}

impl WriteBehind {
    /// Runs `write`, which writes so many bytes, while no other rank of the node writes to the
    /// file, if they would wait for each other in the file system.
    pub(super) fn write_in_turn<T>(&self, len: usize, write: impl FnOnce() -> T) -> T {
        if !self.turns.takes_turn(len) {
            return write();
        }
        let writer = &self.shared.header().writer.0;
        let ticket = self.turns.ticket();
        if !take_turn(writer, ticket) {
            self.turns.without_turn.store(WITHOUT_TURN, Ordering::Relaxed);
        }
        let result = write();
        // Unless another rank took it.
        let _ = writer.compare_exchange(ticket, 0, Ordering::Release, Ordering::Relaxed);
        result
    }
}

/// Waits for the writers before this one; returns whether they finished in time.
fn take_turn(writer: &AtomicU32, ticket: u32) -> bool {
    let mut looks = 0_u32;
    // The writer for which the wait became long, since when, and how many of them there have been.
    let mut long: Option<(u32, Instant)> = None;
    let mut writers = 0;
    loop {
        let now = writer.load(Ordering::Relaxed);
        if now == 0 {
            if writer.compare_exchange(0, ticket, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
            continue;
        }
        looks = looks.wrapping_add(1);
        if !looks.is_multiple_of(LOOKS) {
            std::hint::spin_loop();
            continue;
        }
        match long {
            Some((before, since)) if before == now => {
                if since.elapsed() > PATIENCE {
                    let _ =
                        writer.compare_exchange(now, ticket, Ordering::Acquire, Ordering::Relaxed);
                    return false;
                }
            }
            _ if writers == MOST_WRITERS => return false,
            _ => {
                writers += 1;
                long = Some((now, Instant::now()));
            }
        }
        std::thread::yield_now();
    }
}
