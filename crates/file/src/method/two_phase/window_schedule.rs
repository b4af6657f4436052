//! [`WindowSchedule`]: in which order an aggregator goes through the windows of its domain.
//!
//! In the order of the file, all aggregators would often need bytes of the same group at the same
//! time: where blocks are larger than windows, each window has bytes of one rank only, and domains
//! begin with blocks of the same rank. One link would then carry everything and the others nothing.
//! So there is a cursor for every other group, and the next window is one that the least busy group
//! has bytes in. Where each window has bytes of all groups, that is the order of the file.
//!
//! Pure: it counts nothing but windows.

use std::collections::BTreeSet;

use striate_layout::file_domain::Domains;

use crate::access::FileSide;

/// Windows that are remembered as taken, at most; then the lowest ones come first.
const REMEMBERED: usize = 4096;

/// The first window of the aggregator from `from` on in which `file` has bytes.
pub(super) fn next_window(
    domains: &Domains,
    aggregator: u64,
    file: &FileSide,
    from: u64,
) -> Option<u64> {
    let mut index = from;
    loop {
        let window = domains.window(aggregator, index)?;
        let part = file.within(&window);
        if !part.is_empty() {
            return Some(index);
        }
        let next = file.offset_of(part.start).filter(|_| part.start < file.len())?;
        index = domains.window_after(aggregator, next).max(index + 1);
    }
}

/// A rank, and the next window in which it has bytes, counted from where its group is.
struct RankCursor<'a> {
    file: &'a FileSide,
    next: Option<u64>,
}

/// The next window of a group that was not taken.
struct GroupCursor<'a> {
    ranks: Vec<RankCursor<'a>>,
    next: Option<u64>,
}

/// See the module.
pub(super) struct WindowSchedule<'a> {
    domains: &'a Domains,
    aggregator: u64,
    groups: Vec<GroupCursor<'a>>,
    /// Windows that were taken and that a group still has before it.
    taken: BTreeSet<u64>,
}

impl<'a> WindowSchedule<'a> {
    /// For an aggregator's domain, and the accesses of the ranks of each group.
    pub(super) fn new(
        domains: &'a Domains,
        aggregator: u64,
        groups: impl Iterator<Item = Vec<&'a FileSide>>,
    ) -> Self {
        let groups = groups
            .map(|files| {
                let ranks: Vec<_> = files
                    .into_iter()
                    .map(|file| RankCursor {
                        file,
                        next: next_window(domains, aggregator, file, 0),
                    })
                    .collect();
                let next = ranks.iter().filter_map(|rank| rank.next).min();
                GroupCursor { ranks, next }
            })
            .collect();
        Self { domains, aggregator, groups, taken: BTreeSet::new() }
    }

    /// Whether the group has bytes in windows that were not taken.
    pub(super) fn needs_more(&self, group: usize) -> bool {
        self.groups[group].next.is_some()
    }

    /// Takes the next window of the group for which `busy` is least; `None` if all windows with
    /// bytes were taken.
    pub(super) fn take<K: Ord>(&mut self, busy: impl Fn(usize) -> K) -> Option<u64> {
        let left = (0..self.groups.len()).filter_map(|i| Some((i, self.groups[i].next?)));
        let (_, window) = if self.taken.len() >= REMEMBERED {
            left.min_by_key(|&(_, next)| next)?
        } else {
            left.min_by_key(|&(i, _)| busy(i))?
        };
        self.taken.insert(window);
        let (domains, aggregator, taken) = (self.domains, self.aggregator, &self.taken);
        for group in &mut self.groups {
            while let Some(next) = group.next
                && taken.contains(&next)
            {
                for rank in group.ranks.iter_mut().filter(|rank| rank.next == Some(next)) {
                    rank.next = next_window(domains, aggregator, rank.file, next + 1);
                }
                group.next = group.ranks.iter().filter_map(|rank| rank.next).min();
            }
        }
        match self.groups.iter().filter_map(|group| group.next).min() {
            Some(lowest) => self.taken = self.taken.split_off(&lowest),
            None => self.taken.clear(),
        }
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use striate_datatype::Datatype;
    use striate_layout::file_domain::DomainKind;

    use super::*;
    use crate::view::View;

    /// Rank `rank` of `ranks` with every `ranks`-th block.
    fn strided(rank: u64, ranks: u64, block: u64, count: u64) -> FileSide {
        let bytes = Datatype::bytes(block).unwrap();
        let filetype = Datatype::resized(&bytes, 0, (ranks * block) as i64).unwrap();
        let view = View::new(rank * block, &bytes, &filetype).unwrap();
        FileSide::new(&view, 0, count * block).unwrap()
    }

    fn domains(total: u64, aggregators: u64, window: u64) -> Domains {
        let number = |n| NonZeroU64::new(n).unwrap();
        Domains::new(DomainKind::Even, 0..total, number(aggregators), number(window))
    }

    #[test]
    fn every_window_is_taken_once() {
        let files: Vec<FileSide> = (0..4).map(|rank| strided(rank, 4, 100, 16)).collect();
        let domains = domains(6400, 2, 30);
        for aggregator in 0..2 {
            let groups = files.iter().map(|file| vec![file]);
            let mut schedule = WindowSchedule::new(&domains, aggregator, groups);
            let mut seen = BTreeSet::new();
            while let Some(window) = schedule.take(|group| (group + 3) % 4) {
                assert!(seen.insert(window), "window {window}");
            }
            assert!(seen.into_iter().eq(0..domains.windows(aggregator)));
            assert!((0..4).all(|group| !schedule.needs_more(group)));
        }
    }

    /// Blocks of 64 windows: in the order of the file, 4 aggregators need the same rank at a time.
    #[test]
    fn large_blocks_keep_all_groups_busy() {
        let (ranks, block, count) = (4, 64, 4);
        let files: Vec<FileSide> =
            (0..ranks).map(|rank| strided(rank, ranks, block, count)).collect();
        let domains = domains(ranks * block * count, 4, 1);
        let mut sent = vec![vec![0u64; 4]; 4];
        for (own, sent) in (0..4).zip(&mut sent) {
            let groups = files.iter().map(|file| vec![file]);
            let mut schedule = WindowSchedule::new(&domains, own as u64, groups);
            for _ in 0..32 {
                let busy = |group: usize| (group == own, sent[group], (group + 4 - own) % 4);
                let window = schedule.take(busy).unwrap();
                let offset = domains.window(own as u64, window).unwrap().start;
                sent[(offset / block % ranks) as usize] += 1;
            }
        }
        for group in 0..4 {
            let of_group: u64 = sent.iter().map(|sent| sent[group]).sum();
            assert!((30..=34).contains(&of_group), "{sent:?}");
        }
    }

    /// With small blocks every window has bytes of all groups: the order is that of the file.
    #[test]
    fn small_blocks_are_taken_in_the_order_of_the_file() {
        let files: Vec<FileSide> = (0..4).map(|rank| strided(rank, 4, 2, 100)).collect();
        let domains = domains(800, 2, 16);
        let mut schedule = WindowSchedule::new(&domains, 1, files.iter().map(|file| vec![file]));
        let order = std::iter::from_fn(|| schedule.take(|group| group));
        assert!(order.eq(0..25));
    }
}
