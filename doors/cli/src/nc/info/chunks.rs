//! [`ChunkReport`]: how many chunks a variable has, how large they are, and where stripes cut them.

use std::ops::Bound;

use serde::Serialize;
use striate_datatype::Bytes;
use striate_hdf5::model::{ChunkIndex, Layout};
use striate_hdf5::{Dataset, File, Result, Source};

use crate::nc::hdf5_file::StoreSource;
use crate::number::{grouped, short};
use crate::table::{Side, Table};

/// Stripes of a store that does not say how long they are.
const STRIPE: u64 = 1 << 20;
/// Chunks whose index entries are read at once.
const CHUNK_BATCH: usize = 4096;
/// Sizes that are kept for the median; more chunks are sampled evenly.
const SAMPLES: usize = 1 << 16;

/// The length of a stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripeUnit(pub(super) u64);

impl StripeUnit {
    /// What the user says, or the store, or usual stripes.
    pub(super) fn new(asked: Option<u64>, source: &StoreSource) -> Self {
        let unit = asked.or_else(|| source.stripe_unit()).unwrap_or(STRIPE);
        Self(unit.max(1))
    }
}

/// The chunks of a variable.
#[derive(Debug, Serialize)]
pub(super) struct ChunkReport {
    index: &'static str,
    /// Chunks that the shape has.
    total: u64,
    /// Chunks that are stored.
    allocated: u64,
    /// Bytes of those.
    pub(super) bytes: u64,
    smallest: u64,
    median: u64,
    largest: u64,
    /// Chunks that begin where a stripe does.
    aligned: u64,
    /// Chunks that are in more than one stripe.
    crossing: u64,
}

impl ChunkReport {
    /// Of a chunked dataset.
    pub(super) fn new<S: Source>(
        file: &File<S>,
        dataset: &Dataset,
        StripeUnit(stripe): StripeUnit,
    ) -> Result<Self> {
        let Layout::Chunked(layout) = &dataset.layout else { return Ok(Self::empty("none", 0)) };
        let sizes = dataset.dataspace.sizes();
        let counts =
            sizes.iter().zip(&layout.chunk).map(|(size, chunk)| size.div_ceil((*chunk).max(1)));
        let total = counts.fold(1_u64, u64::saturating_mul);
        let mut report = Self::empty(index_name(&layout.index), total);
        report.smallest = u64::MAX;
        let mut sizes = SizeSample::default();
        let base = file.superblock().base;
        let mut from: Option<Vec<u64>> = None;
        loop {
            let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let batch = file.chunks(dataset, bound, CHUNK_BATCH)?;
            for chunk in &batch {
                report.allocated += 1;
                report.bytes = report.bytes.saturating_add(chunk.size);
                report.smallest = report.smallest.min(chunk.size);
                report.largest = report.largest.max(chunk.size);
                sizes.add(chunk.size);
                let begin = base.saturating_add(chunk.address.0);
                let last = begin.saturating_add(chunk.size.saturating_sub(1));
                report.aligned += u64::from(begin % stripe == 0);
                report.crossing += u64::from(begin / stripe != last / stripe);
            }
            match batch.last() {
                Some(last) if batch.len() == CHUNK_BATCH => from = Some(last.offset.clone()),
                _ => break,
            }
        }
        report.median = sizes.median();
        if report.allocated == 0 {
            report.smallest = 0;
        }
        Ok(report)
    }

    const fn empty(index: &'static str, total: u64) -> Self {
        Self {
            index,
            total,
            allocated: 0,
            bytes: 0,
            smallest: 0,
            median: 0,
            largest: 0,
            aligned: 0,
            crossing: 0,
        }
    }
}

const fn index_name(index: &ChunkIndex) -> &'static str {
    match index {
        ChunkIndex::BTree1 { .. } => "B-tree 1",
        ChunkIndex::Single { .. } => "single",
        ChunkIndex::Implicit { .. } => "implicit",
        ChunkIndex::FixedArray { .. } => "fixed array",
        ChunkIndex::ExtensibleArray { .. } => "ext. array",
        ChunkIndex::BTree2 { .. } => "B-tree 2",
    }
}

/// An even sample of sizes, of bounded length.
#[derive(Debug, Default)]
struct SizeSample {
    kept: Vec<u64>,
    /// One of so many is kept, as a power of two.
    every: u32,
    seen: u64,
}

impl SizeSample {
    fn add(&mut self, size: u64) {
        if self.seen.trailing_zeros() >= self.every || self.seen == 0 {
            if self.kept.len() == SAMPLES {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.every += 1;
            }
            if self.seen.trailing_zeros() >= self.every || self.seen == 0 {
                self.kept.push(size);
            }
        }
        self.seen += 1;
    }

    fn median(mut self) -> u64 {
        self.kept.sort_unstable();
        self.kept.get(self.kept.len() / 2).copied().unwrap_or_default()
    }
}

/// The table of chunks.
pub(super) fn chunk_table(rows: &[(String, &ChunkReport)], stripe: u64) -> String {
    let mut table = Table::new(&[
        ("variable", Side::Left),
        ("chunks", Side::Right),
        ("index", Side::Left),
        ("min", Side::Right),
        ("median", Side::Right),
        ("max", Side::Right),
        ("aligned", Side::Right),
        ("crossing", Side::Right),
    ]);
    for (path, report) in rows {
        let share =
            |part: u64| format!("{}%", short(part as f64 * 100.0 / report.allocated.max(1) as f64));
        table.row([
            path.clone(),
            match report.total - report.allocated.min(report.total) {
                0 => grouped(report.total),
                _ => format!("{} of {}", grouped(report.allocated), grouped(report.total)),
            },
            report.index.to_owned(),
            Bytes(report.smallest).to_string(),
            Bytes(report.median).to_string(),
            Bytes(report.largest).to_string(),
            share(report.aligned),
            share(report.crossing),
        ]);
    }
    format!(
        "\n  Chunks; 'aligned' begin on a stripe of {}, 'crossing' are in several\n\n{}",
        Bytes(stripe),
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_even_and_bounded() {
        let mut sample = SizeSample::default();
        for size in 0..1_000_000 {
            sample.add(size);
        }
        assert!(sample.kept.len() <= SAMPLES && sample.kept.len() >= SAMPLES / 4);
        let median = sample.median();
        assert!((499_000..501_000).contains(&median), "{median}");
    }
}
