//! [`Space`]: the most space that files take on storage while a recording is replayed.
//!
//! It is computed before any file is created. Parts of a file that no call writes take no space;
//! parts are counted in blocks, as file systems do. In a file with very many parts the nearest ones
//! are counted as one.

use std::collections::{BTreeMap, HashMap};

use super::NodeId;

/// What storage is given out by.
const BLOCK: u64 = 4096;

/// Number of separate parts of a file that are tracked.
const MOST_PARTS: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Space {
    files: HashMap<NodeId, Extents>,
    now: u128,
    most: u128,
    /// The file that took most, and how much.
    largest: (NodeId, u64),
}

/// The parts of a file that take space: where they begin and end.
#[derive(Debug, Default)]
struct Extents(BTreeMap<u64, u64>);

impl Extents {
    fn sum(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    fn add(&mut self, mut start: u64, mut end: u64) {
        let touching: Vec<u64> = self
            .0
            .range(..=end)
            .rev()
            .take_while(|(_, until)| **until >= start)
            .map(|(from, _)| *from)
            .collect();
        for from in touching {
            if let Some(until) = self.0.remove(&from) {
                (start, end) = (start.min(from), end.max(until));
            }
        }
        self.0.insert(start, end);
        if self.0.len() > MOST_PARTS {
            self.join_nearest();
        }
    }

    /// Takes the two parts for one that have least between them.
    fn join_nearest(&mut self) {
        let parts = self.0.iter().zip(self.0.iter().skip(1));
        let nearest = parts.min_by_key(|((_, end), (next, _))| **next - **end);
        if let Some((first, second)) = nearest.map(|((a, _), (b, _))| (*a, *b))
            && let Some(end) = self.0.remove(&second)
        {
            self.0.insert(first, end);
        }
    }

    fn remove(&mut self, start: u64, end: u64) {
        let within: Vec<(u64, u64)> = self
            .0
            .range(..end)
            .filter(|(_, until)| **until > start)
            .map(|(a, b)| (*a, *b))
            .collect();
        for (from, until) in within {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, start);
            }
            if until > end {
                self.0.insert(end, until);
            }
        }
    }
}

impl Space {
    /// Bytes are written from an offset on.
    pub(super) fn takes(&mut self, node: NodeId, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let start = offset / BLOCK * BLOCK;
        let end = offset.saturating_add(length).checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        self.change(node, |extents| extents.add(start, end.max(start)));
    }

    /// Nothing is in a part of a file any more.
    pub(super) fn gives(&mut self, node: NodeId, offset: u64, length: u64) {
        let start = offset.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        let end = offset.saturating_add(length) / BLOCK * BLOCK;
        if start < end {
            self.change(node, |extents| extents.remove(start, end));
        }
    }

    /// A file ends at an offset.
    pub(super) fn ends(&mut self, node: NodeId, at: u64) {
        self.gives(node, at, u64::MAX);
    }

    /// A file was removed.
    pub(super) fn gone(&mut self, node: NodeId) {
        if let Some(extents) = self.files.remove(&node) {
            self.now = self.now.saturating_sub(extents.sum().into());
        }
    }

    fn change(&mut self, node: NodeId, act: impl FnOnce(&mut Extents)) {
        let extents = self.files.entry(node).or_default();
        let before = extents.sum();
        act(extents);
        let after = extents.sum();
        self.now = (self.now + u128::from(after)).saturating_sub(before.into());
        self.most = self.most.max(self.now);
        if after > self.largest.1 {
            self.largest = (node, after);
        }
    }

    /// The most that is taken at a time, on top of the files that exist at the beginning.
    pub(super) fn most(&self) -> u64 {
        u64::try_from(self.most).unwrap_or(u64::MAX)
    }

    /// The file that took most, and how much.
    pub(super) fn largest(&self) -> (NodeId, u64) {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_take_nothing() {
        let mut space = Space::default();
        space.takes(0, 1 << 60, 1);
        assert_eq!(space.most(), BLOCK);
        space.takes(0, 0, 10);
        space.takes(0, 100, 10);
        assert_eq!(space.most(), 2 * BLOCK);
        space.takes(1, 0, 100 * BLOCK);
        assert_eq!(space.largest(), (1, 100 * BLOCK));
        space.gone(1);
        space.takes(2, 0, 50 * BLOCK);
        assert_eq!(space.most(), 102 * BLOCK);
        space.ends(2, 1);
        space.takes(3, 0, 40 * BLOCK);
        assert_eq!((space.now, space.most()), (43 * u128::from(BLOCK), 102 * BLOCK));
        space.takes(4, 0, u64::MAX);
        space.takes(5, 7, u64::MAX);
        assert_eq!(space.most(), u64::MAX);
    }

    #[test]
    fn parts_are_joined_where_there_are_too_many() {
        let (mut space, mut written) = (Space::default(), 0);
        for n in 0..10_000_u64 {
            space.takes(0, n * n * BLOCK, BLOCK);
            written += BLOCK;
        }
        assert!(space.files[&0].0.len() <= MOST_PARTS);
        // Never less than there is, and never more than the file.
        assert!((written..=10_000 * 10_000 * BLOCK).contains(&space.most()));
    }
}
