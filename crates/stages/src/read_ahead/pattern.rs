//! [`Pattern`]: recognises reads at a constant distance, and predicts the next ones.

use std::ops::Range;

/// How a read follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    /// It starts where that ended.
    Next,
    /// It starts this far from where that started.
    Stride(i64),
}

/// How many reads are fetched together at first.
const FIRST_REACH: u64 = 4;

/// The reads of an open file.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    last: Option<Range<u64>>,
    step: Option<Spacing>,
    /// How often the step was the same.
    repeats: u32,
    /// How many reads are to be fetched together next.
    reach: u64,
}

impl Pattern {
    /// Notes a read.
    pub(super) fn observe(&mut self, read: &Range<u64>) {
        let step = self.last.as_ref().map(|last| {
            if read.start == last.end {
                Spacing::Next
            } else {
                Spacing::Stride(read.start.wrapping_sub(last.start) as i64)
            }
        });
        if step.is_some() && step == self.step {
            self.repeats = self.repeats.saturating_add(1);
        } else {
            (self.step, self.repeats, self.reach) = (step, 1, FIRST_REACH);
        }
        self.last = Some(read.clone());
    }

    /// How many bytes of a read the next one will not ask for again, and whether that one lies
    /// before.
    pub(super) fn consumed(&self, length: u64) -> (u64, bool) {
        match self.step {
            Some(Spacing::Stride(stride)) => (stride.unsigned_abs().min(length), stride < 0),
            _ => (length, false),
        }
    }

    /// Fetches few reads together next.
    pub(super) fn start_small(&mut self) {
        self.reach = FIRST_REACH;
    }

    /// What to fetch with the read that was noted last, and how many reads that would do for;
    /// `None` if it is not known, or not worth it. At most `window` bytes, of which at least one in
    /// `waste` is wanted.
    pub(super) fn plan(&mut self, window: u64, waste: u64) -> Option<(Range<u64>, u64)> {
        let read = self.last.clone()?;
        let length = read.end - read.start;
        let (unit, backward) = match self.step? {
            Spacing::Next => (length, false),
            Spacing::Stride(stride) => (stride.unsigned_abs(), stride < 0),
        };
        if self.repeats < 2 || unit == 0 || length == 0 {
            return None;
        }
        let fitting = window.checked_sub(length)? / unit + 1;
        let reads = self.reach.min(fitting);
        let span = (reads - 1) * unit + length;
        if reads < 2 || span > waste.saturating_mul(reads * length) {
            return None;
        }
        let range = if backward {
            read.end.saturating_sub(span)..read.end
        } else {
            read.start..read.start.checked_add(span).filter(|end| *end < i64::MAX as u64)?
        };
        self.reach = self.reach.saturating_mul(2);
        Some((range, reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(reads: &[Range<u64>], window: u64, waste: u64) -> Vec<Option<(Range<u64>, u64)>> {
        let mut pattern = Pattern::default();
        let plan = |read: &Range<u64>| {
            pattern.observe(read);
            pattern.plan(window, waste)
        };
        reads.iter().map(plan).collect()
    }

    #[test]
    fn the_third_read_of_a_sequence_is_the_first_to_fetch() {
        let reads = [0..10, 10..25, 25..30, 45..50, 50..60];
        assert_eq!(plans(&reads, 1000, 1), [None, None, Some((25..45, 4)), None, None]);
        // The window holds one read, or not even that.
        let reads = [0..10, 10..20, 20..30];
        assert_eq!(plans(&reads, 19, 1), [None, None, None]);
        assert_eq!(plans(&reads, 5, 1), [None, None, None]);
    }

    #[test]
    fn strides_go_forward_and_backward() {
        let forward = [0..10, 100..110, 200..210];
        assert_eq!(plans(&forward, 1000, 10)[2], Some((200..510, 4)));
        assert_eq!(plans(&forward, 1000, 7)[2], None);
        let backward = [500..510, 400..410, 300..310];
        assert_eq!(plans(&backward, 1000, 10)[2], Some((0..310, 4)));
        assert_eq!(plans(&backward, 150, 10)[2], Some((200..310, 2)));
        // Reading the same bytes repeatedly is not a pattern.
        assert_eq!(plans(&[7..9, 7..9, 7..9], 1000, 10), [None, None, None]);
    }

    #[test]
    fn a_pattern_that_lasts_reaches_further() {
        let mut pattern = Pattern::default();
        let reached: Vec<_> = (0..6)
            .filter_map(|n| {
                pattern.observe(&(n * 10..n * 10 + 10));
                pattern.plan(200, 1).map(|(_, reads)| reads)
            })
            .collect();
        assert_eq!(reached, [4, 8, 16, 20]);
    }
}
