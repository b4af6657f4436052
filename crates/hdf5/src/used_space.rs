//! [`UsedSpace`]: the bytes of a file that something in it refers to.
//!
//! A file that is opened with [`File::open_recording`] notes the metadata that is read;
//! [`File::used_space`] reads all of it and adds the places of elements. What is behind the last of
//! these bytes belongs to no state of the file. Gaps are only known as far as this crate reads:
//! lists of free space of the HDF5 library, for example, count as gaps.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow, Range};

use crate::dataset::Dataset;
use crate::model::{ChunkIndex, Layout, Object, ObjectKind};
use crate::{File, Result, Source};

/// The most ranges that are kept apart.
const MOST_RANGES: usize = 1 << 20;
/// Chunks that an index gives at a time.
const CHUNK_BATCH: usize = 4096;
/// Bytes of elements with descriptors that are read at a time, at least one element.
const ELEMENTS_AT_ONCE: u64 = 1 << 20;

/// Ranges of bytes that something refers to, merged where they meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedSpace {
    /// By their beginning.
    ranges: BTreeMap<u64, u64>,
    end: u64,
    overflowed: bool,
}

impl UsedSpace {
    /// Adds a range.
    pub fn add(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.end = self.end.max(range.end);
        if let Some((&begin, &end)) = self.ranges.range(..=range.start).next_back()
            && end >= range.start
        {
            range = begin..end.max(range.end);
        }
        while let Some((&begin, &end)) = self.ranges.range(range.start..=range.end).next() {
            range.end = range.end.max(end);
            self.ranges.remove(&begin);
        }
        if self.ranges.len() < MOST_RANGES {
            self.ranges.insert(range.start, range.end);
        } else {
            self.overflowed = true;
        }
    }

    /// The first byte behind all ranges.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Bytes before `end` that are in no range; `None` if there were more ranges than are kept.
    pub fn unused_before(&self, end: u64) -> Option<u64> {
        let used = self.ranges.iter().map(|(&from, &to)| to.min(end).saturating_sub(from));
        (!self.overflowed).then(|| end.saturating_sub(used.sum()))
    }
}

impl<S: Source> File<S> {
    /// All that something in the file refers to, for a file that was opened with
    /// [`File::open_recording`]. An error if any of the metadata cannot be read: then nobody knows
    /// what it refers to.
    pub fn used_space(&self) -> Result<UsedSpace> {
        let mut elements = UsedSpace::default();
        self.visit(&mut |_, object| {
            self.add_object(object, &mut elements)?;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut used = self.recorded();
        for (&from, &to) in &elements.ranges {
            used.add(from..to);
        }
        used.overflowed |= elements.overflowed;
        used.end = used.end.max(elements.end);
        Ok(used)
    }

    fn add_object(&self, object: &Object, used: &mut UsedSpace) -> Result<()> {
        for attribute in self.attributes(object)? {
            if attribute.datatype.has_descriptors() {
                self.values(&attribute.datatype, &attribute.value)?;
            }
        }
        match object.kind {
            ObjectKind::Group => self.links(object).map(drop),
            ObjectKind::Datatype => self.committed_datatype(object).map(drop),
            ObjectKind::Dataset => self.add_elements(&self.dataset(object)?, used),
        }
    }

    fn add_elements(&self, dataset: &Dataset, used: &mut UsedSpace) -> Result<()> {
        let base = self.superblock().base;
        let mut add = |address: u64, size: u64| {
            let from = base.saturating_add(address);
            used.add(from..from.saturating_add(size));
        };
        match &dataset.layout {
            Layout::Contiguous { address: Some(address), size } => add(address.0, *size),
            Layout::Chunked(layout) => {
                if let (ChunkIndex::Implicit { address: Some(address) }, Some(bytes)) =
                    (&layout.index, layout.bytes())
                {
                    let sizes = dataset.dataspace.sizes();
                    let counts = sizes.iter().zip(&layout.chunk);
                    let chunks = counts
                        .map(|(size, chunk)| size.div_ceil((*chunk).max(1)))
                        .fold(1, u64::saturating_mul);
                    add(address.0, bytes.saturating_mul(chunks));
                } else {
                    self.each_chunk(dataset, &mut add)?;
                }
            }
            _ => {}
        }
        if dataset.datatype.has_descriptors() {
            self.read_descriptors(dataset)?;
        }
        Ok(())
    }

    fn each_chunk(&self, dataset: &Dataset, add: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut from: Option<Vec<u64>> = None;
        loop {
            let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let batch = self.chunks(dataset, bound, CHUNK_BATCH)?;
            for chunk in &batch {
                add(chunk.address.0, chunk.size);
            }
            match batch.last() {
                Some(last) if batch.len() == CHUNK_BATCH => from = Some(last.offset.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Reads all elements of a dataset whose type has descriptors, and so the heaps that have their
    /// values.
    fn read_descriptors(&self, dataset: &Dataset) -> Result<()> {
        if matches!(dataset.layout, Layout::Virtual { .. } | Layout::External { .. }) {
            return Ok(());
        }
        let sizes = dataset.dataspace.sizes();
        if dataset.dataspace.elements().is_none_or(|elements| elements == 0) {
            return Ok(());
        }
        let element = u64::from(dataset.datatype.size).max(1);
        // The last dimensions whole as far as they fit, parts of one, and one index of the others.
        let mut count = vec![1; sizes.len()];
        let mut room = (ELEMENTS_AT_ONCE / element).max(1);
        for (at, &size) in sizes.iter().enumerate().rev() {
            count[at] = size.min(room);
            room /= count[at];
            if count[at] < size {
                break;
            }
        }
        let mut start = vec![0; sizes.len()];
        loop {
            let part: Vec<u64> = (start.iter().zip(&count).zip(&sizes))
                .map(|((start, count), size)| (*count).min(size - start))
                .collect();
            let mut bytes = vec![0; (part.iter().product::<u64>() * element) as usize];
            self.read_box(dataset, &start, &part, &mut bytes)?;
            self.values(&dataset.datatype, &bytes)?;
            let Some(at) = (0..sizes.len()).rev().find(|&at| start[at] + count[at] < sizes[at])
            else {
                return Ok(());
            };
            start[at] += count[at];
            start[at + 1..].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged() {
        let mut used = UsedSpace::default();
        for range in [10..20, 30..40, 20..25, 5..5, 38..50, 0..3] {
            used.add(range);
        }
        assert_eq!(used.ranges, BTreeMap::from([(0, 3), (10, 25), (30, 50)]));
        assert_eq!((used.end(), used.unused_before(60)), (50, Some(22)));
        assert_eq!(used.unused_before(35), Some(12));
        used.add(2..31);
        assert_eq!(used.ranges, BTreeMap::from([(0, 50)]));
    }
}
