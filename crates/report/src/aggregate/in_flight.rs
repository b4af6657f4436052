//! [`InFlight`]: how many calls are in flight at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::{Concurrency, Level};

/// Levels that are listed individually; higher ones in powers of two.
const FINE: u64 = 8;

/// Calls that have begun, by their ends.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    ends: BinaryHeap<Reverse<u64>>,
    now: u64,
    most: u64,
    /// Time at each level.
    levels: Vec<u64>,
    weighted: u128,
}

impl InFlight {
    /// A call began. Calls come in the order of their beginnings.
    pub(crate) fn begin(&mut self, start: u64, duration: u64) {
        self.go_to(start);
        if duration > 0 {
            self.ends.push(Reverse(start.saturating_add(duration)));
            self.most = self.most.max(self.ends.len() as u64);
        }
    }

    fn go_to(&mut self, time: u64) {
        while let Some(Reverse(end)) = self.ends.peek().copied() {
            if end > time {
                break;
            }
            self.pass(end);
            self.ends.pop();
        }
        self.pass(time);
    }

    fn pass(&mut self, until: u64) {
        let passed = until.saturating_sub(self.now);
        let under_way = self.ends.len() as u64;
        if passed > 0 && under_way > 0 {
            let place = place(under_way);
            if self.levels.len() <= place {
                self.levels.resize(place + 1, 0);
            }
            self.levels[place] += passed;
            self.weighted += u128::from(under_way) * u128::from(passed);
        }
        self.now = self.now.max(until);
    }

    /// Time with calls, and how many.
    pub(crate) fn finish(mut self) -> (u64, Concurrency) {
        self.go_to(u64::MAX - 1);
        let busy: u64 = self.levels.iter().sum();
        let mean = if busy == 0 { 0.0 } else { self.weighted as f64 / busy as f64 };
        let level = |(place, time_ns): (usize, u64)| Level { calls: least(place), time_ns };
        let levels = self.levels.into_iter().enumerate().map(level);
        let levels = levels.filter(|level| level.time_ns > 0).collect();
        (busy, Concurrency { most: self.most, mean, levels })
    }
}

/// The place of a level in the list.
fn place(calls: u64) -> usize {
    if calls <= FINE {
        return calls as usize;
    }
    FINE as usize + (64 - ((calls - 1) / FINE).leading_zeros()) as usize
}

/// The least level at a place.
fn least(place: usize) -> u64 {
    match (place as u64).checked_sub(FINE) {
        None | Some(0) => place as u64,
        Some(octave) => (FINE << (octave - 1)) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_by_level() {
        let mut in_flight = InFlight::default();
        // 0–10 one, 10–20 two, 20–30 one, 40–45 one.
        for (start, duration) in [(0, 20), (10, 20), (35, 0), (40, 5)] {
            in_flight.begin(start, duration);
        }
        let (busy, concurrency) = in_flight.finish();
        assert_eq!((busy, concurrency.most), (35, 2));
        let levels: Vec<_> =
            concurrency.levels.iter().map(|level| (level.calls, level.time_ns)).collect();
        assert_eq!(levels, [(1, 25), (2, 10)]);
        assert!((concurrency.mean - 45.0 / 35.0).abs() < 1e-12);
    }

    #[test]
    fn places_and_levels_agree() {
        for (calls, level) in
            [(1, 1), (8, 8), (9, 9), (16, 9), (17, 17), (32, 17), (33, 33), (1000, 513)]
        {
            assert_eq!(least(place(calls)), level, "{calls}");
        }
    }
}
