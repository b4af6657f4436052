//! Writers of one file, one after the other.
//!
//! Most file systems let one writer into a file at a time. Who finds another there sleeps in the kernel, and to sleep and be
//! woken takes longer than a small write: two processes that wrote 64 KiB each in turn were slower than one that wrote all of
//! it (ARCHITECTURE.md). Ranks of a node know of each other, so they wait here, awake, until the other is out.
//!
//! It is a courtesy, not a lock: nothing depends on it. Who has waited for one of them for [`PATIENCE`] goes ahead, and takes
//! the place of that one, who may be dead.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::WriteBehind;

/// How long a writer waits for another to be done, and how many of them may come before him.
const PATIENCE: Duration = Duration::from_millis(2);
const OTHERS: u32 = 64;

/// Looks before he lets others run.
const LOOKS: u32 = 200;

/// Writes that do not mind when he did so in vain: where they take longer, they are waited for asleep.
const IN_A_HURRY: u32 = 64;

/// Smaller writes are over before it matters; larger ones take longer than to sleep and be woken.
const WORTH_IT: RangeInclusive<usize> = 32 << 10..=4 << 20;

impl WriteBehind {
    /// Runs `write`, which writes so many bytes, while no other rank of the node writes to the file, if they would wait for
    /// each other.
    pub(super) fn one_by_one<T>(&self, len: usize, write: impl FnOnce() -> T) -> T {
        if !self.is_serial || !WORTH_IT.contains(&len) {
            return write();
        }
        let hurry = self.hurry.load(Ordering::Relaxed);
        if hurry > 0 {
            self.hurry.store(hurry - 1, Ordering::Relaxed);
            return write();
        }
        let writer = &self.shared.head().writer.0;
        let mine = self.sign();
        if !enter(writer, mine) {
            self.hurry.store(IN_A_HURRY, Ordering::Relaxed);
        }
        let result = write();
        // Unless somebody took the place.
        let _ = writer.compare_exchange(mine, 0, Ordering::Release, Ordering::Relaxed);
        result
    }

    /// A number for a write, unlike those that others have at the same time.
    fn sign(&self) -> u32 {
        let count = self.writes.fetch_add(1, Ordering::Relaxed);
        count << 8 | (self.rank as u32 + 1)
    }
}

/// Waits for the writers before; whether that was not in vain.
fn enter(writer: &AtomicU32, mine: u32) -> bool {
    let mut looks = 0_u32;
    // Who was there when the wait became long, since when, and how many have been.
    let mut long: Option<(u32, Instant)> = None;
    let mut others = 0;
    loop {
        let now = writer.load(Ordering::Relaxed);
        if now == 0 {
            if writer.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
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
                        writer.compare_exchange(now, mine, Ordering::Acquire, Ordering::Relaxed);
                    return false;
                }
            }
            _ if others == OTHERS => return false,
            _ => {
                others += 1;
                long = Some((now, Instant::now()));
            }
        }
        std::thread::yield_now();
    }
}
