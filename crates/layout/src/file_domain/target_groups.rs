//! [`TargetGroups`]: aggregators in groups as large as the number of targets, for group cycling
//! \[BARTZ\].
//!
//! Stripe `s` of `S` goes to the group of aggregator ⌊s × n / S⌋, that is to group ⌊s × n / (S ×
//! targets)⌋: even where the groups are alike, in proportion where the last is smaller.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct TargetGroups {
    aggregators: u64,
    targets: u64,
    /// Bytes of a stripe over all targets.
    stripe: u64,
    /// The stripes that the range reaches into.
    stripes: Range<u64>,
}

impl TargetGroups {
    pub(super) fn new(
        unit: NonZeroU64,
        targets: NonZeroU32,
        aggregators: NonZeroU64,
        range: &Range<u64>,
    ) -> Self {
        let targets = u64::from(targets.get());
        // A stripe too long for 64 bits is longer than any file, which saturation keeps.
        let stripe = unit.get().saturating_mul(targets);
        let end =
            if range.is_empty() { range.start / stripe } else { (range.end - 1) / stripe + 1 };
        let stripes = range.start / stripe..end;
        Self { aggregators: aggregators.get(), targets, stripe, stripes }
    }

    /// Which group an aggregator is in, and its place there.
    pub(super) const fn place(&self, aggregator: u64) -> (u64, u64) {
        (aggregator / self.targets, aggregator % self.targets)
    }

    /// Aggregators in a group.
    pub(super) fn members(&self, group: u64) -> u64 {
        self.targets.min(self.aggregators - group * self.targets)
    }

    /// The aggregator of a unit.
    pub(super) fn owner(&self, unit: u64) -> u64 {
        let group = self.group_of(unit);
        group * self.targets + unit % self.members(group)
    }

    /// The group whose part holds a unit.
    pub(super) fn group_of(&self, unit: u64) -> u64 {
        let stripe = u128::from(unit / self.targets - self.stripes.start);
        (stripe * u128::from(self.aggregators) / (self.count() * u128::from(self.targets))) as u64
    }

    /// What a group works on.
    pub(super) fn part(&self, group: u64, range: &Range<u64>) -> Range<u64> {
        let at = |group| self.first_stripe(group).saturating_mul(self.stripe);
        at(group).max(range.start)..at(group + 1).min(range.end)
    }

    /// The first two aggregators of a group to take a turn from `unit` on.
    pub(super) fn first_two(&self, group: u64, unit: u64) -> [u64; 2] {
        let members = self.members(group);
        [unit, unit + 1].map(|unit| group * self.targets + unit % members)
    }

    /// Most stripes of any group between those of two units. They have all their aggregators and
    /// whole stripes, and their shares differ by one at most: the larger share occurs if the
    /// smaller does not add up to what they have together.
    pub(super) fn most_stripes_between(&self, low: u64, high: u64) -> u64 {
        let (low, high) = (self.group_of(low) + 1, self.group_of(high));
        if low >= high {
            return 0;
        }
        let together = u128::from(self.first_stripe(high) - self.first_stripe(low));
        let share = self.count() * u128::from(self.targets) / u128::from(self.aggregators);
        let larger = together > share * u128::from(high - low);
        share as u64 + u64::from(larger)
    }

    fn count(&self) -> u128 {
        u128::from(self.stripes.end - self.stripes.start)
    }

    /// The first stripe of a group, or of what is behind the last one: the least `s` for which
    /// ⌊s × n / (S × targets)⌋ is the group.
    fn first_stripe(&self, group: u64) -> u64 {
        let before = u128::from(group) * u128::from(self.targets);
        let before = before.min(u128::from(self.aggregators));
        let stripes = (self.count() * before).div_ceil(u128::from(self.aggregators));
        self.stripes.start + stripes as u64
    }
}
