//! [`Domains`]: file domains, the part of the file for which each aggregator of a collective call
//! is responsible.
//!
//! The range that the clients access is distributed over the aggregators in one of the ways of
//! [`DomainKind`]: the plain split of \[CHING\], and those of \[BARTZ\] that keep an aggregator on
//! the same locks and storage targets. An aggregator works through its domain in *windows*,
//! contiguous pieces no longer than its buffer, in ascending order.
//!
//! Every kind gives an aggregator equal chunks at a constant distance (one chunk where the domain
//! is contiguous), so one small type, `Chunks`, counts and finds the windows of all of them.
//! Nothing is listed: each question is answered by a few divisions, for a million aggregators and a
//! range of exabytes as for ten bytes.
//!
//! Except for the even split, a window holds whole units or lies inside of one, so that two windows
//! share a unit only if the unit is longer than the buffer.

mod chunks;
mod target_groups;
mod target_sets;
#[cfg(test)]
mod tests;

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

use chunks::{Chunks, WindowCut};
use target_groups::TargetGroups;
use target_sets::TargetSets;

/// A way to distribute a range over aggregators. Units are counted from the start of the file, not
/// of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainKind {
    /// Consecutive parts whose lengths differ by one byte at most.
    Even,
    /// Consecutive parts that begin and end on multiples of `unit` and whose lengths differ by one
    /// unit at most. The longer parts come first, so that with fewer units than aggregators the
    /// last ones have none.
    Aligned {
        /// Bytes of a lock or stripe.
        unit: NonZeroU64,
    },
    /// Units distributed round robin: unit `b` goes to aggregator `b` modulo their number.
    StaticCycling {
        /// Bytes of a lock or stripe.
        unit: NonZeroU64,
    },
    /// Aggregators in groups as large as the number of targets, a consecutive part of the range for
    /// each group, static cycling inside of the group: each aggregator of a full group accesses one
    /// target.
    ///
    /// The parts are cut between stripes of `targets × unit` bytes rather than between units, so
    /// that all aggregators of a group have the same number of units. Where the aggregators are not
    /// a multiple of the targets the last group is smaller: its part is smaller in proportion, and
    /// it cycles over as many aggregators as it has, which then access several targets. Fewer
    /// aggregators than targets are one such group.
    GroupCycling {
        /// Bytes of a stripe on one target.
        unit: NonZeroU64,
        /// Storage targets the file is striped over: unit `b` is on target `b` modulo their
        /// number.
        targets: NonZeroU32,
    },
    /// The x-OST pattern: every aggregator accesses exactly `x` targets.
    ///
    /// The targets form sets of `x` neighbours, and the aggregators are assigned to the sets round
    /// robin. The units of one set in one stripe form a row, which is contiguous; the aggregators
    /// of a set take its rows in turn (dealing single units instead would leave an aggregator with
    /// fewer than `x` targets).
    ///
    /// It is exact if `x` divides the targets and there are as many aggregators as sets, or a
    /// multiple. Otherwise: sets differ by one target and stay below `x` where `x` does not divide
    /// the targets; with fewer aggregators than sets, there are only as many sets as aggregators,
    /// larger than `x`; with a number of aggregators that is not a multiple of the sets, some sets
    /// have one aggregator more.
    XTarget {
        /// Bytes of a stripe on one target.
        unit: NonZeroU64,
        /// Storage targets the file is striped over: unit `b` is on target `b` modulo their
        /// number.
        targets: NonZeroU32,
        /// Targets that one aggregator accesses.
        x: NonZeroU32,
    },
}

impl DomainKind {
    /// The name used in hints, options and reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Aligned { .. } => "aligned",
            Self::StaticCycling { .. } => "static-cycling",
            Self::GroupCycling { .. } => "group-cycling",
            Self::XTarget { .. } => "x-target",
        }
    }
}

/// A range of the file distributed over aggregators, which process their parts in windows.
///
/// ```
/// use std::num::NonZeroU64;
/// use striate_layout::file_domain::{DomainKind, Domains};
///
/// let number = |n| NonZeroU64::new(n).unwrap();
/// let kind = DomainKind::StaticCycling { unit: number(10) };
/// let domains = Domains::new(kind, 5..48, number(2), number(100));
/// let of = |aggregator| (0..).map_while(move |i| domains.window(aggregator, i));
/// assert!(of.clone()(0).eq([5..10, 20..30, 40..48]));
/// assert!(of(1).eq([10..20, 30..40]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    kind: DomainKind,
    range: Range<u64>,
    aggregators: NonZeroU64,
    window: NonZeroU64,
}

/// The units of a range in aligned domains.
struct AlignedShares {
    /// The first unit of the range.
    first: u64,
    /// Units of an aggregator.
    share: u64,
    /// The number of aggregators that have one more.
    longer: u64,
}

impl Domains {
    /// Distributes `range` over `aggregators` whose windows have at most `window` bytes. A range
    /// that ends before it starts is empty.
    pub fn new(
        kind: DomainKind,
        range: Range<u64>,
        aggregators: NonZeroU64,
        window: NonZeroU64,
    ) -> Self {
        let end = range.end.max(range.start);
        Self { kind, range: range.start..end, aggregators, window }
    }

    /// The way the range is distributed.
    pub const fn kind(&self) -> DomainKind {
        self.kind
    }

    /// Number of aggregators.
    pub fn aggregators(&self) -> u64 {
        self.aggregators.get()
    }

    /// The range that is distributed.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Number of windows of an aggregator (0 for one that does not exist).
    pub fn windows(&self, aggregator: u64) -> u64 {
        self.chunks(aggregator).map_or(0, |chunks| chunks.windows())
    }

    /// The i-th window of the aggregator, not empty; `None` beyond the last.
    pub fn window(&self, aggregator: u64, i: u64) -> Option<Range<u64>> {
        self.chunks(aggregator)?.window(i)
    }

    /// Index of the aggregator's first window that ends after `offset` (the number of its windows
    /// if there is none).
    pub fn window_after(&self, aggregator: u64, offset: u64) -> u64 {
        self.chunks(aggregator).map_or(0, |chunks| chunks.window_after(offset))
    }

    /// The aggregator and the index of its window that contain the byte at `offset`; `None` outside
    /// of the range.
    pub fn owner(&self, offset: u64) -> Option<(u64, u64)> {
        if !self.range.contains(&offset) {
            return None;
        }
        let n = self.aggregators();
        let aggregator = match self.kind {
            DomainKind::Even => self.even_owner(offset),
            DomainKind::Aligned { unit } => {
                let AlignedShares { first, share, longer } = self.aligned_shares(unit.get());
                let unit = offset / unit - first;
                let in_longer = longer * (share + 1);
                if unit < in_longer {
                    unit / (share + 1)
                } else {
                    // There are units beyond the longer parts, so the others are not empty.
                    longer + (unit - in_longer) / share
                }
            }
            DomainKind::StaticCycling { unit } => offset / unit % n,
            DomainKind::GroupCycling { unit, targets } => {
                self.groups(unit, targets).owner(offset / unit)
            }
            DomainKind::XTarget { unit, targets, x } => {
                TargetSets::new(targets, x, self.aggregators).owner(offset / unit)
            }
        };
        Some((aggregator, self.window_after(aggregator, offset)))
    }

    /// First to last byte of an aggregator's domain; `None` if it is empty. If the kind cycles,
    /// bytes of other aggregators lie between them.
    pub fn extent(&self, aggregator: u64) -> Option<Range<u64>> {
        let chunks = self.chunks(aggregator)?;
        let last = chunks.windows().checked_sub(1)?;
        Some(chunks.window(0)?.start..chunks.window(last)?.end)
    }

    /// Most windows of any aggregator.
    ///
    /// Aggregators that take their chunks in turn differ by the chunk that the last turn does not
    /// reach, and by what the ends of the range cut off. The first in turn may lose windows to the
    /// cut at the start; the second has as many as any other, since a chunk that is cut at the end
    /// still has one window more than none. So of each turn only the first two are evaluated.
    pub fn rounds(&self) -> u64 {
        let n = self.aggregators();
        if self.range.is_empty() {
            return 0;
        }
        let (first, last) = (self.range.start, self.range.end - 1);
        let most = |candidates: &[u64]| candidates.iter().map(|&a| self.windows(a)).max();
        let rounds = match self.kind {
            DomainKind::Even => {
                Some((self.range.end - self.range.start).div_ceil(n).div_ceil(self.window.get()))
            }
            DomainKind::Aligned { .. } => most(&[0, 1]),
            DomainKind::StaticCycling { unit } => {
                let first = first / unit % n;
                most(&[first, (first + 1) % n])
            }
            DomainKind::GroupCycling { unit, targets } => {
                let groups = self.groups(unit, targets);
                let between = groups.most_stripes_between(first / unit, last / unit);
                let between = between * WindowCut::into_units(unit, self.window).pieces();
                let ends = [first, last].into_iter().flat_map(|offset| {
                    let group = groups.group_of(offset / unit);
                    groups.first_two(group, groups.part(group, &self.range).start / unit)
                });
                ends.map(|aggregator| self.windows(aggregator)).max().max(Some(between))
            }
            DomainKind::XTarget { unit, targets, x } => {
                let sets = TargetSets::new(targets, x, self.aggregators);
                let candidates = sets.unlike(first / unit, last / unit).into_iter();
                candidates
                    .flat_map(|set| sets.first_two(set, first / unit))
                    .map(|aggregator| self.windows(aggregator))
                    .max()
            }
        };
        rounds.unwrap_or(0)
    }

    /// The chunks of an aggregator; `None` if there is no such aggregator.
    fn chunks(&self, aggregator: u64) -> Option<Chunks> {
        let n = self.aggregators();
        if aggregator >= n {
            return None;
        }
        Some(match self.kind {
            DomainKind::Even => {
                let part = self.even_boundary(aggregator)..self.even_boundary(aggregator + 1);
                Chunks::one(part.clone(), part, WindowCut::anywhere(self.window))
            }
            DomainKind::Aligned { unit } => {
                let AlignedShares { first, share, longer } = self.aligned_shares(unit.get());
                let boundary = |index: u64| first + index * share + index.min(longer);
                let at = |index| boundary(index).saturating_mul(unit.get());
                let part = at(aggregator)..at(aggregator + 1);
                Chunks::one(self.within(&part), part, WindowCut::into_units(unit, self.window))
            }
            DomainKind::StaticCycling { unit } => Chunks {
                part: self.range(),
                first: aggregator.saturating_mul(unit.get()),
                len: unit.get(),
                distance: n.saturating_mul(unit.get()),
                cut: WindowCut::into_units(unit, self.window),
            },
            DomainKind::GroupCycling { unit, targets } => {
                let groups = self.groups(unit, targets);
                let (group, member) = groups.place(aggregator);
                Chunks {
                    part: groups.part(group, &self.range),
                    first: member.saturating_mul(unit.get()),
                    len: unit.get(),
                    distance: groups.members(group).saturating_mul(unit.get()),
                    cut: WindowCut::into_units(unit, self.window),
                }
            }
            DomainKind::XTarget { unit, targets, x } => {
                let sets = TargetSets::new(targets, x, self.aggregators);
                let rows = sets.rows(aggregator);
                Chunks {
                    part: self.range(),
                    first: rows.first.saturating_mul(unit.get()),
                    len: rows.len.saturating_mul(unit.get()),
                    distance: rows.distance.saturating_mul(unit.get()),
                    cut: WindowCut::into_units(unit, self.window),
                }
            }
        })
    }

    /// Where even domain `index` starts, or the last one ends.
    fn even_boundary(&self, index: u64) -> u64 {
        let len = u128::from(self.range.end - self.range.start);
        // At most `len`, since the index is at most the count.
        self.range.start + (len * u128::from(index) / u128::from(self.aggregators.get())) as u64
    }

    /// The last domain that starts at or before a byte of the range: the largest `i` for which
    /// ⌊len × i / n⌋ ≤ at, that is len × i < (at + 1) × n.
    fn even_owner(&self, offset: u64) -> u64 {
        let len = u128::from(self.range.end - self.range.start);
        let behind = u128::from(offset - self.range.start + 1) * u128::from(self.aggregators());
        ((behind - 1) / len) as u64
    }

    fn aligned_shares(&self, unit: u64) -> AlignedShares {
        let first = self.range.start / unit;
        let units = if self.range.is_empty() { 0 } else { (self.range.end - 1) / unit - first + 1 };
        AlignedShares { first, share: units / self.aggregators, longer: units % self.aggregators }
    }

    fn groups(&self, unit: NonZeroU64, targets: NonZeroU32) -> TargetGroups {
        TargetGroups::new(unit, targets, self.aggregators, &self.range)
    }

    fn within(&self, part: &Range<u64>) -> Range<u64> {
        part.start.max(self.range.start)..part.end.min(self.range.end)
    }
}
