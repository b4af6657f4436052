//! [`ReadAheadWindow`]: the bytes that were read ahead of an open file.

use std::ops::Range;

use striate_stack::Memory;

use super::pattern::Pattern;

/// What it takes to give a read out of a window, in nanoseconds, about; and for each byte.
const GIVE_OUT: f64 = 150.0;
const COPY: f64 = 0.1;

/// What was read ahead of an open file.
#[derive(Debug, Default)]
pub(super) struct ReadAheadWindow {
    pub(super) pattern: Pattern,
    pub(super) window: Vec<u8>,
    /// Where the window starts in the file.
    pub(super) start: u64,
    /// What of it may still be given out.
    pub(super) offered: Range<u64>,
    /// How much had changed, and when it was read.
    pub(super) changes: (u64, u64),
    pub(super) read_at: u64,
    /// How long a read takes as it is, in nanoseconds, about.
    pub(super) plain: f64,
    /// How long a read of the last windows took.
    cost: f64,
    /// How many reads are left as they are, because it did not gain; and how often that was so.
    pub(super) rest: u32,
    losses: u32,
}

impl ReadAheadWindow {
    /// Gives out what was read ahead.
    pub(super) fn give(&mut self, memory: &mut Memory<'_>, range: &Range<u64>) -> u64 {
        let place = (range.start - self.start) as usize..(range.end - self.start) as usize;
        let count = memory.fill(0, &self.window[place]) as u64;
        // Nothing is given out twice, unless the next read overlaps this one.
        match self.pattern.consumed(count) {
            (consumed, false) => self.offered.start = range.start + consumed,
            (consumed, true) => self.offered.end = range.end - consumed,
        }
        count
    }

    /// Notes how long a read took as it is. What takes longer than usual may have been interrupted.
    pub(super) fn note_plain(&mut self, time: f64) {
        let usual = self.plain;
        self.plain = if usual > 0.0 && time > usual { usual + (time - usual) / 16.0 } else { time };
    }

    /// Judges a window by what each of its reads, of this length, has cost. Once may be chance.
    pub(super) fn judge(&mut self, cost: f64, length: u64) {
        let cost = cost + GIVE_OUT + length as f64 * COPY;
        self.cost = if self.cost > 0.0 { f64::midpoint(self.cost, cost) } else { cost };
        if self.plain > 0.0 && self.cost > self.plain {
            self.losses = (self.losses + 1).min(10);
            if self.losses > 1 {
                self.rest = 64 << self.losses;
                // The next try is a small one, and judged for itself.
                self.pattern.start_small();
                self.cost = 0.0;
            }
        } else {
            self.losses = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_do_not_gain_are_left_alone_for_a_while() {
        let mut ahead = ReadAheadWindow::default();
        // An interruption does not make reads slow.
        for time in [90_000.0, 10_000.0, 99_000_000.0, 10_000.0] {
            ahead.note_plain(time);
        }
        assert!(ahead.plain <= 10_000.0);
        let mut judge = |cost| {
            ahead.judge(cost, 4096);
            (ahead.losses, ahead.rest)
        };
        // Nor does one slow window say much.
        assert_eq!([12_000.0, 1000.0].map(&mut judge), [(1, 0), (0, 0)]);
        // But of these every other is too slow, and of those all.
        assert_eq!([60_000.0, 1000.0, 1000.0].map(&mut judge), [(1, 0), (2, 256), (0, 256)]);
        assert_eq!([20_000.0; 4].map(judge), [(1, 256), (2, 256), (3, 512), (4, 1024)]);
    }
}
