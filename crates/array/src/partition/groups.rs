//! [`Groups`]: the assignment of partitions to groups of ranks.
//!
//! With at least as many partitions as ranks, every rank is a group and has one or more partitions;
//! with fewer, every group of ranks has one partition. Both assignments are balanced and
//! consecutive.

use std::ops::Range;

/// Groups of ranks, each with its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) ranks: usize,
    pub(crate) partitions: usize,
}

/// The share of number `to` when the numbers below `of` are split into `among` consecutive ranges.
fn share(of: usize, to: usize, among: usize) -> Range<usize> {
    let cut = |n: usize| (n as u128 * of as u128).div_ceil(among as u128) as usize;
    cut(to)..cut(to + 1)
}

impl Groups {
    /// Whether each group is one rank.
    pub(crate) const fn are_single(&self) -> bool {
        self.partitions >= self.ranks
    }

    pub(crate) const fn of_rank(&self, rank: usize) -> usize {
        if self.are_single() { rank } else { rank * self.partitions / self.ranks }
    }

    pub(crate) const fn of_partition(&self, k: usize) -> usize {
        if self.are_single() { k * self.ranks / self.partitions } else { k }
    }

    pub(crate) fn partitions_of(&self, group: usize) -> Range<usize> {
        if self.are_single() { share(self.partitions, group, self.ranks) } else { group..group + 1 }
    }

    pub(crate) fn ranks_of(&self, group: usize) -> Range<usize> {
        if self.are_single() { group..group + 1 } else { share(self.ranks, group, self.partitions) }
    }

    /// The rank of a group that accesses its partitions for `rank`. A member of the group is its
    /// own delegate.
    pub(crate) fn delegate(&self, rank: usize, group: usize) -> usize {
        let ranks = self.ranks_of(group);
        if ranks.contains(&rank) { rank } else { ranks.start + rank % ranks.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_and_rank_is_in_one_group() {
        for ranks in 1..20 {
            for partitions in 1..20 {
                let groups = Groups { ranks, partitions };
                let count = if groups.are_single() { ranks } else { partitions };
                let of_all = |each: &dyn Fn(usize) -> Range<usize>| -> Vec<usize> {
                    (0..count).flat_map(each).collect()
                };
                assert!(of_all(&|g| groups.partitions_of(g)).into_iter().eq(0..partitions));
                assert!(of_all(&|g| groups.ranks_of(g)).into_iter().eq(0..ranks));
                for group in 0..count {
                    assert!(groups.partitions_of(group).all(|k| groups.of_partition(k) == group));
                    assert!(groups.ranks_of(group).all(|rank| groups.of_rank(rank) == group));
                    let len = groups.ranks_of(group).len();
                    assert!(groups.are_single() || len >= ranks / partitions);
                    // Delegates are members of the group, and each serves about equally many ranks.
                    let mut acts = vec![0; ranks];
                    for rank in 0..ranks {
                        acts[groups.delegate(rank, group)] += 1;
                        if groups.of_rank(rank) == group {
                            assert_eq!(groups.delegate(rank, group), rank);
                        }
                    }
                    let most = acts.iter().max().copied().unwrap_or(0);
                    assert!(most <= ranks.div_ceil(len) + 1, "{acts:?}");
                }
            }
        }
    }
}
