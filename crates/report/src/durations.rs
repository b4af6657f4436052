//! [`Durations`]: the distribution of the durations of calls, in bounded memory.
//!
//! Buckets are an eighth of an octave wide: medians are accurate to a twentieth, which is less than
//! the variation of times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets of an octave, as a power of two.
const FINE: u32 = 3;

/// How many calls took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<u16, u64>);

/// The bucket of a number of nanoseconds.
fn bucket(duration: u64) -> u16 {
    if duration < 1 << FINE {
        return duration as u16;
    }
    let octave = duration.ilog2();
    let within = (duration >> (octave - FINE)) as u16 & ((1 << FINE) - 1);
    ((octave - FINE + 1) << FINE) as u16 + within
}

/// The least number of nanoseconds in a bucket.
fn least(bucket: u16) -> u64 {
    let (octave, within) = (u32::from(bucket >> FINE), u128::from(bucket & ((1 << FINE) - 1)));
    let least = match octave {
        0 => within,
        _ => ((1 << FINE) + within).checked_shl(octave - 1).unwrap_or(u128::MAX),
    };
    u64::try_from(least).unwrap_or(u64::MAX)
}

/// The middle of a bucket.
fn middle(bucket: u16) -> f64 {
    let (from, to) = (least(bucket), least(bucket.saturating_add(1)));
    if bucket < 1 << FINE { from as f64 } else { f64::midpoint(from as f64, to as f64) }
}

impl Durations {
    /// Counts a call that took so many nanoseconds.
    pub fn add(&mut self, duration: u64) {
        *self.0.entry(bucket(duration)).or_default() += 1;
    }

    /// How many calls there are.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Nanoseconds that a part of the calls, from 0 to 1, takes at most; `None` of none.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let count = self.count();
        let place = (part.clamp(0.0, 1.0) * (count.checked_sub(1)? as f64)).round() as u64;
        self.at(place)
    }

    /// The duration of the call at a place, from 0 on, by the time they took.
    pub fn at(&self, place: u64) -> Option<f64> {
        let mut before = 0;
        for (bucket, count) in &self.0 {
            before += count;
            if place < before {
                return Some(middle(*bucket));
            }
        }
        None
    }

    /// The median.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// Buckets with the calls in each, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> {
        self.0.iter().map(|(bucket, count)| (*bucket, *count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn buckets_are_narrow(duration: u64) {
            let bucket = bucket(duration);
            prop_assert!(least(bucket) <= duration);
            prop_assert!(duration < least(bucket + 1) || least(bucket + 1) == u64::MAX);
            prop_assert!((middle(bucket) - duration as f64).abs() <= duration as f64 / 8.0);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_list(
            mut list in prop::collection::vec(0u64..1 << 40, 1..200),
            part in 0.0f64..1.0,
        ) {
            let mut durations = Durations::default();
            for duration in &list {
                durations.add(*duration);
            }
            list.sort_unstable();
            let exact = list[(part * (list.len() - 1) as f64).round() as usize] as f64;
            let found = durations.quantile(part).unwrap();
            prop_assert!((found - exact).abs() <= exact / 8.0, "{found} {exact}");
            prop_assert_eq!(durations.count(), list.len() as u64);
        }
    }

    #[test]
    fn of_none_there_is_no_median() {
        assert_eq!(Durations::default().median(), None);
    }
}
