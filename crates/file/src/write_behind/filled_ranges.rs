//! [`FilledRanges`]: which bytes of a window have been written to it.

use std::ops::Range;

/// Ranges that a window can have at a time.
const MOST: usize = 16;

/// Ranges that neither touch nor overlap, ascending. Of a fixed size, since it lies in memory that
/// processes share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilledRanges {
    count: u32,
    list: [(u32, u32); MOST],
}

impl FilledRanges {
    /// Adds a range, which is not empty; returns whether there was room for it.
    pub(super) fn add(&mut self, range: Range<u32>) -> bool {
        let count = self.count as usize;
        // The ranges that it touches are merged with it.
        let first = self.list[..count].partition_point(|(_, end)| *end < range.start);
        let last = self.list[..count].partition_point(|(start, _)| *start <= range.end);
        if first == last {
            if count == MOST {
                return false;
            }
            self.list.copy_within(first..count, first + 1);
            self.list[first] = (range.start, range.end);
            self.count += 1;
            return true;
        }
        let joined = (range.start.min(self.list[first].0), range.end.max(self.list[last - 1].1));
        self.list[first] = joined;
        self.list.copy_within(last..count, first + 1);
        self.count -= (last - first - 1) as u32;
        true
    }

    /// Whether they cover a window of this length.
    pub(super) fn cover(&self, len: u32) -> bool {
        self.list[..self.count as usize] == [(0, len)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.list[..self.count as usize].iter().map(|(start, end)| *start as usize..*end as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_ranges_are_the_bytes_that_were_added(
            puts in prop::collection::vec((0..100u32, 1..30u32), 0..60),
        ) {
            let (mut ranges, mut bytes) = (FilledRanges::default(), [false; 200]);
            for (start, len) in puts {
                let before = ranges;
                if ranges.add(start..start + len) {
                    bytes[start as usize..(start + len) as usize].fill(true);
                } else {
                    prop_assert_eq!(before.count as usize, MOST);
                    prop_assert_eq!(ranges, before);
                }
                let mut found = [false; 200];
                for range in ranges.iter() {
                    found[range].fill(true);
                }
                prop_assert_eq!(found, bytes);
                let runs = bytes.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                prop_assert_eq!(ranges.iter().count(), runs);
            }
            ranges.add(0..200);
            prop_assert!(ranges.cover(200) && !ranges.cover(201));
        }
    }
}
