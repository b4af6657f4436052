//! Planning of requests, without I/O: which blocks of an object are fetched by which requests, and
//! in which parts it is uploaded.
//!
//! A request costs as much time as megabytes do, so neighbouring blocks are fetched together, and
//! so are blocks with a small gap between them.

use std::ops::Range;

/// Bytes of a block of the cache.
pub const BLOCK: u64 = 256 << 10;

/// Blocks of one request at most.
pub(super) const RUN: u64 = 16;

/// Blocks that are fetched although nobody asked for them, if this saves a request.
const GAP: u64 = 2;

/// Runs of blocks that cover `wanted`, which ascends and may have duplicates: what one request
/// fetches each.
pub(super) fn runs(wanted: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in wanted {
        match runs.last_mut() {
            Some(run) if block < run.end => {}
            Some(run) if block - run.end <= GAP && block - run.start < RUN => run.end = block + 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

/// The blocks that hold some bytes.
pub(super) fn blocks(offset: u64, len: u64) -> Range<u64> {
    if len == 0 { 0..0 } else { offset / BLOCK..(offset + len).div_ceil(BLOCK) }
}

/// How an object is divided into the parts that are uploaded.
///
/// All but the last have the same length, as some servers want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadParts {
    /// Bytes of the object.
    pub len: u64,
    /// Bytes of a part.
    pub part: u64,
}

impl UploadParts {
    /// Bytes of a part, where the object is not so large that it would have too many.
    pub const USUAL: u64 = 8 << 20;
    /// S3's limits.
    pub const MOST: u64 = 10_000;
    const SMALLEST: u64 = 5 << 20;

    /// Of an object of `len` bytes, in parts of about `part` bytes.
    pub fn new(len: u64, part: u64) -> Self {
        let needed = len.div_ceil(Self::MOST).next_multiple_of(1 << 20);
        Self { len, part: part.max(needed).max(Self::SMALLEST) }
    }

    /// How many; at least one.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(self.part).max(1)
    }

    /// The bytes of one.
    pub fn range(&self, index: u64) -> Range<u64> {
        let start = (index * self.part).min(self.len);
        start..(start + self.part).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn near_blocks_share_a_request() {
        assert_eq!(runs([]), []);
        assert_eq!(runs([3]), [3..4]);
        assert_eq!(runs([0, 0, 1, 2, 2]), [0..3]);
        assert_eq!(runs([0, 3, 7]), [0..4, 7..8]);
        assert_eq!(runs(0..RUN + 1), [0..RUN, RUN..RUN + 1]);
    }

    proptest! {
        #[test]
        fn runs_cover_what_is_wanted_once(mut wanted in proptest::collection::vec(0u64..200, 0..60)) {
            wanted.sort_unstable();
            let runs = runs(wanted.iter().copied());
            for run in &runs {
                prop_assert!(run.end - run.start <= RUN);
                prop_assert!(wanted.contains(&run.start) && wanted.contains(&(run.end - 1)));
            }
            prop_assert!(runs.windows(2).all(|pair| pair[0].end <= pair[1].start));
            for block in wanted {
                prop_assert_eq!(runs.iter().filter(|run| run.contains(&block)).count(), 1);
            }
        }

        #[test]
        fn parts_tile_the_object(len in 0u64..1 << 46, part in 0u64..1 << 30) {
            let parts = UploadParts::new(len, part);
            let count = parts.count();
            prop_assert!(count <= UploadParts::MOST && parts.part >= 5 << 20);
            prop_assert_eq!(parts.range(0).start, 0);
            prop_assert_eq!(parts.range(count - 1).end, len);
            for index in [0, count / 2, count - 1] {
                let range = parts.range(index);
                prop_assert!(index + 1 == count || range.end - range.start == parts.part);
            }
        }
    }

    #[test]
    fn bytes_lie_in_blocks() {
        assert_eq!(blocks(5, 0), 0..0);
        assert_eq!(blocks(BLOCK - 1, 2), 0..2);
        assert_eq!(blocks(BLOCK, BLOCK), 1..2);
    }
}
