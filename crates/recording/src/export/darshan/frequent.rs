//! [`Frequent`]: the four most frequent values.

use std::collections::BTreeMap;

/// Values that are followed. Those that come when there are as many are not counted, as Darshan
/// does it.
const MOST: usize = 32;

/// How often values occurred.
#[derive(Clone, Debug, Default)]
pub(super) struct Frequent(BTreeMap<u64, u64>);

impl Frequent {
    /// Counts a value; 0 is none.
    pub(super) fn add(&mut self, value: u64, times: u64) {
        if value != 0 && (self.0.len() < MOST || self.0.contains_key(&value)) {
            *self.0.entry(value).or_default() += times;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (value, times) in &other.0 {
            self.add(*value, *times);
        }
    }

    /// The four most frequent with how often they occurred, the larger first of those as frequent;
    /// 0 where there are fewer.
    pub(super) fn top(&self) -> [(u64, u64); 4] {
        let mut all: Vec<(u64, u64)> =
            self.0.iter().map(|(value, times)| (*value, *times)).collect();
        all.sort_by_key(|(value, times)| std::cmp::Reverse((*times, *value)));
        std::array::from_fn(|n| all.get(n).copied().unwrap_or_default())
    }
}
