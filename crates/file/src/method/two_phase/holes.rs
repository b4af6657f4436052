//! [`Holes`]: which windows of a collective write have bytes that no rank writes.
//!
//! Only these are read back before they are written. Whether the accesses of all ranks tile a range
//! is decided from their descriptions: their boundary sums
//! ([`striate_datatype::Datatype::boundary`]) add up to that of the range if they do, and, but for
//! a chance of about 2⁻⁶⁰, only then. A range on which ranks overlap does not count as tiled and is
//! read back, too: that costs time but changes nothing.

use std::ops::Range;

use striate_comm::{Comm, CommError, Reduction};
use striate_datatype::Boundary;
use striate_layout::file_domain::Domains;

use crate::FileError;
use crate::access::FileSide;
use crate::method_selection::HoleCheck;

/// Windows that are checked one by one, over all aggregators; if there are more, in batches.
const CHECKED: u64 = 1 << 14;

/// See the module.
#[derive(Debug)]
pub(crate) enum Holes {
    /// Every byte is written.
    None,
    /// For each aggregator, batches of `batch` windows.
    Some { batch: u64, batches: u64, holes: Vec<bool> },
}

impl Holes {
    /// Checks every window. Collective unless the plan knows that the accesses tile the whole
    /// range.
    pub(crate) fn find(
        comm: &dyn Comm,
        domains: &Domains,
        file: &FileSide,
        check: Option<&HoleCheck>,
    ) -> Result<Self, FileError> {
        let Some(HoleCheck { point, .. }) = check.filter(|check| !check.tiled) else {
            return Ok(Self::None);
        };
        let rounds = domains.rounds().max(1);
        let per_aggregator = (CHECKED / domains.aggregators()).max(1);
        let batch = rounds.div_ceil(per_aggregator);
        let batches = rounds.div_ceil(batch);
        let mut halves = Vec::new();
        for ranges in ranges(domains, batch, batches) {
            let mut sum = Boundary::default();
            for range in &ranges {
                sum += file.boundary(range, point)?;
            }
            halves.extend(split(sum));
        }
        sum_over_ranks(comm, &mut halves)?;
        let mut holes = Vec::new();
        for (ranges, halves) in ranges(domains, batch, batches).zip(halves.chunks_exact(4)) {
            let whole: Boundary =
                ranges.iter().map(|r| point.interval(r.start as i64..r.end as i64)).sum();
            holes.push(join(halves) != whole);
        }
        Ok(Self::Some { batch, batches, holes })
    }

    /// Whether window `index` of the aggregator may have holes.
    pub(crate) fn in_window(&self, aggregator: Option<u64>, index: u64) -> bool {
        match self {
            Self::None => false,
            Self::Some { batch, batches, holes } => {
                let at = aggregator.unwrap_or(0) * batches + index / batch;
                holes.get(at as usize).copied().unwrap_or(true)
            }
        }
    }
}

/// The ranges of each batch of windows, aggregator by aggregator; adjacent ones are merged.
fn ranges(
    domains: &Domains,
    batch: u64,
    batches: u64,
) -> impl Iterator<Item = Vec<Range<u64>>> + '_ {
    (0..domains.aggregators()).flat_map(move |aggregator| {
        (0..batches).map(move |b| {
            let mut ranges: Vec<Range<u64>> = Vec::new();
            for index in b * batch..(b + 1) * batch {
                let Some(window) = domains.window(aggregator, index) else { break };
                match ranges.last_mut() {
                    Some(last) if last.end == window.start => last.end = window.end,
                    _ => ranges.push(window),
                }
            }
            ranges
        })
    })
}

/// Residues are added over the ranks as 64-bit numbers: sums of halves do not overflow.
fn split(sum: Boundary) -> [u64; 4] {
    let [a, b] = sum.to_words();
    [a & 0xffff_ffff, a >> 32, b & 0xffff_ffff, b >> 32]
}

fn join(halves: &[u64]) -> Boundary {
    const P: u128 = (1 << 61) - 1;
    let word = |low: u64, high: u64| ((u128::from(low) + (u128::from(high) << 32)) % P) as u64;
    Boundary::from_words([word(halves[0], halves[1]), word(halves[2], halves[3])])
}

fn sum_over_ranks(comm: &dyn Comm, halves: &mut [u64]) -> Result<(), CommError> {
    comm.allreduce_u64(Reduction::Sum, halves)
}
