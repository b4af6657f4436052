//! [`TargetSets`]: targets in sets of neighbours, each with its own aggregators, for the x-OST
//! pattern \[BARTZ\].
//!
//! Everything here counts units of the file; unit `b` lies on target `b` modulo their number, in
//! stripe `b` divided by it.

use std::num::{NonZeroU32, NonZeroU64};

#[derive(Clone, Debug)]
pub(super) struct TargetSets {
    targets: u64,
    aggregators: u64,
    sets: u64,
}

/// The units of one aggregator: contiguous rows at a constant distance.
#[derive(Clone, Debug)]
pub(super) struct UnitRows {
    pub first: u64,
    pub len: u64,
    pub distance: u64,
}

impl TargetSets {
    pub(super) fn new(targets: NonZeroU32, x: NonZeroU32, aggregators: NonZeroU64) -> Self {
        let targets = u64::from(targets.get());
        let aggregators = aggregators.get();
        let sets = targets.div_ceil(u64::from(x.get())).min(aggregators);
        Self { targets, aggregators, sets }
    }

    /// The aggregator of a unit.
    pub(super) fn owner(&self, unit: u64) -> u64 {
        let set = self.set_of(unit);
        let member = unit / self.targets % self.members(set);
        set + member * self.sets
    }

    /// The units of an aggregator.
    pub(super) fn rows(&self, aggregator: u64) -> UnitRows {
        let (set, member) = (aggregator % self.sets, aggregator / self.sets);
        let first_target = self.first_target(set);
        UnitRows {
            first: member.saturating_mul(self.targets).saturating_add(first_target),
            len: self.first_target(set + 1) - first_target,
            distance: self.members(set).saturating_mul(self.targets),
        }
    }

    /// The first two aggregators of a set to take a turn from `unit` on.
    pub(super) fn first_two(&self, set: u64, unit: u64) -> [u64; 2] {
        let passed = unit % self.targets >= self.first_target(set + 1);
        let row = unit / self.targets + u64::from(passed);
        [row, row + 1].map(|row| set + row % self.members(set) * self.sets)
    }

    /// Sets among which is one like every other set, for a range from one unit to another: as
    /// large, with as many aggregators and with the same rows.
    pub(super) fn unlike(&self, first: u64, last: u64) -> [u64; 7] {
        let (first, last) = (self.set_of(first), self.set_of(last));
        let (larger, with_more) = (self.targets % self.sets, self.aggregators % self.sets);
        [0, larger, with_more, first, first + 1, last, last + 1].map(|set| set.min(self.sets - 1))
    }

    fn set_of(&self, unit: u64) -> u64 {
        let target = unit % self.targets;
        // There are no more sets than targets, so the size is not 0.
        let (size, larger) = (self.targets / self.sets, self.targets % self.sets);
        let in_larger = larger * (size + 1);
        if target < in_larger { target / (size + 1) } else { larger + (target - in_larger) / size }
    }

    /// The first target of a set, or of what is behind the last one. The larger sets come first.
    fn first_target(&self, set: u64) -> u64 {
        set * (self.targets / self.sets) + set.min(self.targets % self.sets)
    }

    /// Aggregators of a set: those that leave it when divided by the number of sets.
    const fn members(&self, set: u64) -> u64 {
        (self.aggregators - set).div_ceil(self.sets)
    }
}
