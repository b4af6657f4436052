//! [`SmallWrites`]: whether small writes follow each other so closely that it pays to have them wait for more.
//!
//! Nothing is gained for a program that writes a line now and then, and the last one is what somebody looks for when it has
//! died. So only writes of a stream wait, which the first ones and those after a pause are not.

use rustix::time::{ClockId, clock_gettime};

/// Writes after which more are expected.
const MANY: u32 = 32;

/// Milliseconds between two writes that are not of one stream. The clock moves on every few milliseconds, but takes next to
/// nothing to read.
const PAUSE: i64 = 12;

/// The small writes of a rank to a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmallWrites {
    count: u32,
    last: i64,
}

impl SmallWrites {
    /// Another write; whether it is one of many.
    pub(crate) fn goes_on(&mut self) -> bool {
        let time = clock_gettime(ClockId::MonotonicCoarse);
        self.goes_on_at(time.tv_sec * 1000 + time.tv_nsec / 1_000_000)
    }

    const fn goes_on_at(&mut self, now: i64) -> bool {
        self.count = if now - self.last > PAUSE { 1 } else { self.count.saturating_add(1) };
        self.last = now;
        self.count > MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_and_those_after_a_pause_do_not_wait() {
        let mut stream = SmallWrites::default();
        assert!((0..MANY).all(|_| !stream.goes_on_at(1000)));
        assert!(stream.goes_on_at(1000) && stream.goes_on_at(1000 + PAUSE));
        assert!(!stream.goes_on_at(1001 + 2 * PAUSE));
        // A line now and then.
        assert!((0..10 * i64::from(MANY)).all(|i| !stream.goes_on_at(2000 + i * (PAUSE + 1))));
        assert!((0..=MANY).fold(false, |_, _| stream.goes_on()), "in no time");
    }
}
