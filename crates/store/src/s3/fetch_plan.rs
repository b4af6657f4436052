//! Which blocks of an object are fetched by which requests: planning, without I/O.
//!
//! A request costs as much time as megabytes do, so neighbouring blocks are fetched together, and
//! so are blocks with a small gap between them.

use std::ops::Range;

use super::BLOCK;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn near_blocks_share_a_request() {
        let ends = |wanted: &[u64]| -> Vec<(u64, u64)> {
            runs(wanted.iter().copied()).into_iter().map(|run| (run.start, run.end)).collect()
        };
        assert_eq!(ends(&[]), []);
        assert_eq!(ends(&[3]), [(3, 4)]);
        assert_eq!(ends(&[0, 0, 1, 2, 2]), [(0, 3)]);
        assert_eq!(ends(&[0, 3, 7]), [(0, 4), (7, 8)]);
        assert_eq!(runs(0..=RUN), [0..RUN, RUN..RUN + 1]);
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
    }

    #[test]
    fn bytes_lie_in_blocks() {
        assert_eq!(blocks(5, 0), 0..0);
        assert_eq!(blocks(BLOCK - 1, 2), 0..2);
        assert_eq!(blocks(BLOCK, BLOCK), 1..2);
    }
}
