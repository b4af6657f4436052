//! [`FreeList`]: space of a file that nothing refers to.

use std::collections::{BTreeMap, BTreeSet};

/// Space that can be used again: blocks that do not touch. What it gives out follows from the calls
/// before alone, so ranks that make the same calls get the same addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeList {
    /// Bytes by address.
    blocks: BTreeMap<u64, u64>,
    /// Bytes and address.
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeList {
    /// Adds space of which no byte is in the list; blocks that touch become one.
    pub fn add(&mut self, mut address: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        let before = self.blocks.range(..address).next_back();
        if let Some((&begin, &len)) = before.filter(|&(&begin, &len)| begin + len == address) {
            self.remove_block(begin, len);
            (address, bytes) = (begin, bytes + len);
        }
        if let Some(&len) = self.blocks.get(&(address + bytes)) {
            self.remove_block(address + bytes, len);
            bytes += len;
        }
        self.insert_block(address, bytes);
    }

    /// Takes a block at a multiple of `boundary`: from the smallest block that has room for it.
    pub fn take(&mut self, boundary: u64, bytes: u64) -> Option<u64> {
        if bytes == 0 {
            return None;
        }
        let fitting = self.by_size.range((bytes, 0)..).find_map(|&(len, begin)| {
            let at = begin.checked_next_multiple_of(boundary)?;
            (at - begin <= len - bytes).then_some((begin, len, at))
        });
        let (begin, len, at) = fitting?;
        self.remove_block(begin, len);
        self.insert_block(begin, at - begin);
        self.insert_block(at + bytes, begin + len - (at + bytes));
        Some(at)
    }

    /// Removes the block that ends at `end`, but nothing below `low`; returns where it began.
    pub(crate) fn take_end(&mut self, end: u64, low: u64) -> Option<u64> {
        let (&begin, &len) = self.blocks.last_key_value()?;
        if begin + len != end || low >= end {
            return None;
        }
        self.remove_block(begin, len);
        let cut = begin.max(low);
        self.insert_block(begin, cut - begin);
        Some(cut)
    }

    /// Address and bytes of each block, in the order of addresses.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.blocks.iter().map(|(&address, &bytes)| (address, bytes))
    }

    /// The share of one of several ranks: blocks in the order of addresses, cut so that all have
    /// equally many bytes.
    pub(crate) fn share(&self, rank: u64, ranks: u64) -> Vec<(u64, u64)> {
        let total: u128 = self.blocks.values().map(|&bytes| u128::from(bytes)).sum();
        let cut = |rank: u64| (total * u128::from(rank) / u128::from(ranks.max(1))) as u64;
        let (low, high) = (cut(rank), cut(rank + 1));
        let mut before = 0;
        let mut share = Vec::new();
        for (address, bytes) in self.blocks() {
            let first = low.saturating_sub(before).min(bytes);
            let end = high.saturating_sub(before).min(bytes);
            if first < end {
                share.push((address + first, end - first));
            }
            before += bytes;
        }
        share
    }

    fn insert_block(&mut self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.blocks.insert(address, bytes);
            self.by_size.insert((bytes, address));
        }
    }

    fn remove_block(&mut self, address: u64, bytes: u64) {
        self.blocks.remove(&address);
        self.by_size.remove(&(bytes, address));
    }
}

#[cfg(test)]
mod tests {
    use striate_testing::splitmix::SplitMix64;

    use super::*;

    /// Compared with a table of all bytes.
    #[test]
    fn no_byte_is_given_twice_or_lost() {
        const LEN: usize = 400;
        for seed in 0..300 {
            let random = &mut SplitMix64::new(seed);
            let mut list = FreeList::default();
            let mut free = [false; LEN];
            let mut taken: Vec<(u64, u64)> = vec![(0, LEN as u64)];
            for _ in 0..200 {
                let bytes = 1 + random.below(30);
                let boundary = *random.pick(&[1, 1, 8, 32]);
                if random.once_in(2) && !taken.is_empty() {
                    let at = random.below(taken.len() as u64) as usize;
                    let (address, bytes) = taken.swap_remove(at);
                    list.add(address, bytes);
                    free[address as usize..(address + bytes) as usize].fill(true);
                } else if let Some(address) = list.take(boundary, bytes) {
                    assert_eq!(address % boundary, 0);
                    let range = address as usize..(address + bytes) as usize;
                    assert!(free[range.clone()].iter().all(|&free| free), "case {seed}");
                    free[range].fill(false);
                    taken.push((address, bytes));
                } else {
                    let fits = (0..LEN - bytes as usize).step_by(boundary as usize);
                    let is_free = |at: usize| free[at..at + bytes as usize].iter().all(|&one| one);
                    assert!(!fits.into_iter().any(is_free), "case {seed}: {bytes} bytes fit");
                }
                let mut found = [false; LEN];
                let mut last = None;
                for (address, bytes) in list.blocks() {
                    assert!(last.is_none_or(|end| end < address), "case {seed}: blocks touch");
                    last = Some(address + bytes);
                    found[address as usize..(address + bytes) as usize].fill(true);
                }
                assert_eq!(found, free, "case {seed}");
                assert_eq!(list.blocks.len(), list.by_size.len());
            }
        }
    }

    #[test]
    fn shares_are_all_there_is() {
        let mut list = FreeList::default();
        for (address, bytes) in [(0, 100), (200, 1), (300, 50), (1000, 9)] {
            list.add(address, bytes);
        }
        assert_eq!(list.share(1, 4), [(40, 40)]);
        assert_eq!(list.share(2, 4), [(80, 20), (200, 1), (300, 19)]);
        for ranks in 1..20 {
            let mut all = FreeList::default();
            for (address, bytes) in (0..ranks).flat_map(|rank| list.share(rank, ranks)) {
                all.add(address, bytes);
            }
            assert_eq!(all, list);
        }
    }

    #[test]
    fn the_smallest_block_that_fits_is_used() {
        let mut list = FreeList::default();
        for (address, bytes) in [(0, 100), (200, 20), (300, 50)] {
            list.add(address, bytes);
        }
        assert_eq!(list.take(1, 0), None);
        assert_eq!(list.take(1, 15), Some(200));
        assert_eq!(list.take(8, 48), Some(0), "300 is no multiple of 8");
        assert_eq!(list.take(1, 50), Some(300));
        assert_eq!(list.take(1, 60), None);
        assert_eq!(list.blocks().collect::<Vec<_>>(), [(48, 52), (215, 5)]);
        assert_eq!(list.take_end(221, 0), None);
        assert_eq!(list.take_end(220, 220), None);
        assert_eq!(list.take_end(220, 217), Some(217));
        assert_eq!(list.take_end(217, 0), Some(215));
        assert_eq!(list.blocks().collect::<Vec<_>>(), [(48, 52)]);
    }
}
