//! [`SmallWrites`]: whether small writes follow each other so closely that it pays to buffer them.
//!
//! A program that writes a line now and then gains nothing by write-behind, and its last line is
//! what a user looks for when it has crashed. So only writes of a stream are buffered: neither the
//! first ones nor those after a pause.

use rustix::time::{ClockId, clock_gettime};

/// Writes after which more are expected.
const MANY: u32 = 32;

/// Milliseconds between two writes that are not of one stream. The coarse clock advances every few
/// milliseconds, but is cheap to read.
const PAUSE: i64 = 12;

/// The small writes of a rank to a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmallWrites {
    writes: u32,
    last: i64,
}

impl SmallWrites {
    /// Counts another write; returns whether it is part of a stream.
    pub(crate) fn count(&mut self) -> bool {
        let time = clock_gettime(ClockId::MonotonicCoarse);
        self.count_at(time.tv_sec * 1000 + time.tv_nsec / 1_000_000)
    }

    const fn count_at(&mut self, now: i64) -> bool {
        self.writes = if now - self.last > PAUSE { 1 } else { self.writes.saturating_add(1) };
        self.last = now;
        self.writes > MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_writes_and_those_after_a_pause_are_no_stream() {
        let mut stream = SmallWrites::default();
        assert!((0..MANY).all(|_| !stream.count_at(1000)));
        assert!(stream.count_at(1000) && stream.count_at(1000 + PAUSE));
        assert!(!stream.count_at(1001 + 2 * PAUSE));
        // A line now and then.
        assert!((0..10 * i64::from(MANY)).all(|i| !stream.count_at(2000 + i * (PAUSE + 1))));
        assert!((0..=MANY).fold(false, |_, _| stream.count()), "in no time");
    }
}
