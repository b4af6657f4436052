//! [`Hyperslab`] and [`StreamSelection`]: the part of an access in one partition, and its position
//! in the stream of the access.
//!
//! The intersection of a hyperslab with a range of indices along one dimension is a hyperslab. In
//! the stream of the whole access it is a sequence of blocks of equal length at equal distance: the
//! outer dimensions count the blocks, the divided dimension and the inner ones are their content.
//! So memory of any layout that can produce any part of its stream can produce the stream for a
//! partition, and no description of memory has to be cut.

use std::ops::Range;

use striate_file::{FileError, Gather, Scatter};

/// Blocks shorter than this are not copied one by one.
const SHORT: u64 = 1 << 10;
/// Bytes of the stream that are fetched at once for several short blocks.
const FETCH: u64 = 64 << 10;

/// A selection of elements of a variable that was checked against it: start, count and stride per
/// dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hyperslab {
    pub(crate) start: Vec<u64>,
    pub(crate) count: Vec<u64>,
    pub(crate) stride: Vec<u64>,
}

/// Blocks of a stream, of equal length and at equal distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamSelection {
    /// Position of the first block.
    pub(crate) first: u64,
    /// Bytes of a block.
    pub(crate) block: u64,
    /// Bytes from one block to the next.
    pub(crate) distance: u64,
    pub(crate) blocks: u64,
}

impl Hyperslab {
    /// Its intersection with a range of indices of a dimension, with indices relative to the
    /// range's start, and the position of that in the stream of elements of `size` bytes. The
    /// caller has checked that no size overflows.
    pub(crate) fn within(
        &self,
        dimension: usize,
        range: &Range<u64>,
        size: u64,
    ) -> Option<(Self, StreamSelection)> {
        if self.count.contains(&0) {
            return None;
        }
        let (start, stride) = (self.start[dimension], self.stride[dimension]);
        let before = |index: u64| index.saturating_sub(start).div_ceil(stride);
        let low = before(range.start);
        let high = before(range.end).min(self.count[dimension]);
        if low >= high {
            return None;
        }
        let inner = self.count[dimension + 1..].iter().product::<u64>() * size;
        let mut own = self.clone();
        own.start[dimension] = start + low * stride - range.start;
        own.count[dimension] = high - low;
        let selection = StreamSelection {
            first: low * inner,
            block: (high - low) * inner,
            distance: self.count[dimension] * inner,
            blocks: self.count[..dimension].iter().product(),
        };
        Some((own, selection))
    }

    /// Whether all of its indices along a dimension are smaller than `index`.
    pub(crate) fn ends_before(&self, dimension: usize, index: u64) -> bool {
        let (start, count) = (self.start[dimension], self.count[dimension]);
        count == 0 || start + (count - 1) * self.stride[dimension] < index
    }

    pub(crate) fn elements(&self) -> u64 {
        self.count.iter().product()
    }

    /// A range of its elements, counted in their order, as at most two hyperslabs per dimension.
    pub(crate) fn boxes(&self, elements: Range<u64>) -> Vec<Self> {
        let mut all = Vec::new();
        let mut fixed = Vec::new();
        self.cut(&mut fixed, elements, &mut all);
        all
    }

    /// Adds the hyperslabs of a range of the elements that have the indices `fixed` in the first
    /// dimensions.
    fn cut(&self, fixed: &mut Vec<u64>, elements: Range<u64>, all: &mut Vec<Self>) {
        if elements.is_empty() {
            return;
        }
        let depth = fixed.len();
        let Some(&len) = self.count.get(depth) else {
            all.push(self.boxed(fixed, 0..1));
            return;
        };
        let inner: u64 = self.count[depth + 1..].iter().product();
        if elements == (0..len * inner) {
            all.push(self.boxed(fixed, 0..len));
            return;
        }
        let (low, high) = (elements.start.div_ceil(inner), elements.end / inner);
        if !elements.start.is_multiple_of(inner) {
            let row = low - 1;
            let end = elements.end.min(low * inner) - row * inner;
            fixed.push(row);
            self.cut(fixed, elements.start - row * inner..end, all);
            fixed.pop();
        }
        if low < high {
            all.push(self.boxed(fixed, low..high));
        }
        if !elements.end.is_multiple_of(inner) && high >= low {
            fixed.push(high);
            self.cut(fixed, 0..elements.end - high * inner, all);
            fixed.pop();
        }
    }

    /// All elements with the indices `fixed` in the first dimensions, and `range` in the next one.
    fn boxed(&self, fixed: &[u64], range: Range<u64>) -> Self {
        let mut own = self.clone();
        let mut limit = |dimension: usize, range: Range<u64>| {
            own.start[dimension] += range.start * own.stride[dimension];
            own.count[dimension] = range.end - range.start;
        };
        for (dimension, &index) in fixed.iter().enumerate() {
            limit(dimension, index..index + 1);
        }
        if fixed.len() < self.count.len() {
            limit(fixed.len(), range);
        }
        own
    }
}

impl StreamSelection {
    #[cfg(test)]
    const fn bytes(&self) -> u64 {
        self.block * self.blocks
    }

    /// The runs (position, length) in the whole stream of `len` selected bytes from `position` on.
    fn runs(&self, position: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self { first, block, distance, .. } = *self;
        let end = position + len;
        let mut at = position;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (number, inside) = (at / block, at % block);
            let len = (block - inside).min(end - at);
            at += len;
            Some((first + number * distance + inside, len))
        })
    }

    /// Whether blocks are so short and dense that several are fetched at once.
    const fn is_fine(&self) -> bool {
        self.blocks > 1 && self.block < SHORT && self.distance / self.block <= 16
    }

    /// Copies the selected bytes from `position` on to `part`.
    pub(crate) fn gather(
        &self,
        whole: &dyn Gather,
        position: u64,
        part: &mut [u8],
    ) -> Result<(), FileError> {
        let mut rest = part;
        if !self.is_fine() {
            for (at, len) in self.runs(position, rest.len() as u64) {
                let (this, after) = rest.split_at_mut(len as usize);
                whole.gather(at, this)?;
                rest = after;
            }
            return Ok(());
        }
        // Fetched again whenever a block ends after it.
        let mut fetched = Vec::new();
        let mut range = 0..0;
        for (at, len) in self.runs(position, rest.len() as u64) {
            if at + len > range.end {
                let remaining = rest.len() as u64 - len;
                let span = len + remaining.div_ceil(self.block) * self.distance;
                range = at..(at + span.min(FETCH).max(len)).min(whole.stream_len());
                fetched.resize((range.end - range.start) as usize, 0);
                whole.gather(at, &mut fetched)?;
            }
            let (this, after) = rest.split_at_mut(len as usize);
            this.copy_from_slice(&fetched[(at - range.start) as usize..][..len as usize]);
            rest = after;
        }
        Ok(())
    }

    /// Copies `part` to the selected bytes from `position` on.
    pub(crate) fn scatter(
        &self,
        whole: &mut dyn Scatter,
        position: u64,
        part: &[u8],
    ) -> Result<(), FileError> {
        let mut rest = part;
        for (at, len) in self.runs(position, rest.len() as u64) {
            let (this, after) = rest.split_at(len as usize);
            whole.scatter(at, this)?;
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// The indices in the variable, in order.
    fn indices(hyperslab: &Hyperslab) -> Vec<Vec<u64>> {
        let mut all = vec![vec![]];
        for i in 0..hyperslab.count.len() {
            all = all
                .into_iter()
                .flat_map(|index: Vec<u64>| {
                    (0..hyperslab.count[i]).map(move |n| {
                        let at = hyperslab.start[i] + n * hyperslab.stride[i];
                        index.iter().copied().chain([at]).collect()
                    })
                })
                .collect();
        }
        all
    }

    #[derive(Debug)]
    struct CountedBytes(Vec<u8>, AtomicU32);

    impl Gather for CountedBytes {
        fn stream_len(&self) -> u64 {
            self.0.len() as u64
        }
        fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            stream.copy_from_slice(&self.0[position as usize..][..stream.len()]);
            Ok(())
        }
    }

    impl Scatter for CountedBytes {
        fn stream_len(&self) -> u64 {
            self.0.len() as u64
        }
        fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError> {
            self.0[position as usize..][..stream.len()].copy_from_slice(stream);
            Ok(())
        }
    }

    fn hyperslabs() -> impl Strategy<Value = Hyperslab> {
        proptest::collection::vec((0u64..4, 0u64..5, 1u64..4), 1..5).prop_map(|each| Hyperslab {
            start: each.iter().map(|it| it.0).collect(),
            count: each.iter().map(|it| it.1).collect(),
            stride: each.iter().map(|it| it.2).collect(),
        })
    }

    proptest! {
        #[test]
        fn intersections_with_all_partitions_make_up_the_access(
            hyperslab in hyperslabs(),
            dimension in 0usize..5,
            cuts in proptest::collection::vec(0u64..16, 0..5),
            size in 1u64..5,
            from in 0u64..1000,
            len in 0u64..1000,
        ) {
            let dimension = dimension % hyperslab.count.len();
            let mut cuts = cuts;
            cuts.extend([0, 16]);
            cuts.sort_unstable();
            let all = indices(&hyperslab);
            let stream: Vec<u8> = (0..all.len() as u64 * size).map(|byte| byte as u8).collect();
            let whole = CountedBytes(stream.clone(), AtomicU32::new(0));
            let mut back = CountedBytes(vec![0; stream.len()], AtomicU32::new(0));
            let mut total = 0;
            for pair in cuts.windows(2) {
                let range = pair[0]..pair[1];
                // The twin: element by element.
                let mut expected = Vec::new();
                let mut places = Vec::new();
                for (number, index) in all.iter().enumerate() {
                    if range.contains(&index[dimension]) {
                        let at = number * size as usize;
                        expected.extend_from_slice(&stream[at..at + size as usize]);
                        let mut index = index.clone();
                        index[dimension] -= range.start;
                        places.push(index);
                    }
                }
                let Some((own, selection)) = hyperslab.within(dimension, &range, size) else {
                    prop_assert_eq!(expected.len(), 0);
                    continue;
                };
                prop_assert_eq!(indices(&own), places);
                prop_assert_eq!(selection.bytes(), expected.len() as u64);
                let mut part = vec![0; expected.len()];
                selection.gather(&whole, 0, &mut part).unwrap();
                prop_assert_eq!(&part, &expected);
                // Any part of it.
                let from = from % (expected.len() as u64);
                let len = len % (expected.len() as u64 - from + 1);
                let mut some = vec![0; len as usize];
                selection.gather(&whole, from, &mut some).unwrap();
                prop_assert_eq!(&some[..], &expected[from as usize..(from + len) as usize]);
                selection.scatter(&mut back, 0, &part).unwrap();
                total += part.len();
            }
            prop_assert_eq!(total, stream.len());
            prop_assert_eq!(back.0, stream);
        }

        #[test]
        fn boxes_are_the_elements_in_order(
            hyperslab in hyperslabs(),
            from in 0u64..700,
            len in 0u64..700,
        ) {
            let all = indices(&hyperslab);
            let total = all.len() as u64;
            let from = if total == 0 { 0 } else { from % total };
            let end = from + len % (total - from + 1);
            let boxes = hyperslab.boxes(from..end);
            prop_assert!(boxes.len() <= 2 * hyperslab.count.len());
            let found: Vec<_> = boxes.iter().flat_map(indices).collect();
            prop_assert_eq!(&found[..], &all[from as usize..end as usize]);
        }
    }

    #[test]
    fn a_scalar_is_one_box() {
        let scalar = Hyperslab { start: vec![], count: vec![], stride: vec![] };
        assert_eq!(scalar.boxes(0..1), std::slice::from_ref(&scalar));
        assert_eq!(scalar.boxes(0..0), []);
    }

    #[test]
    fn short_blocks_are_fetched_many_at_a_time() {
        let hyperslab = Hyperslab { start: vec![0, 0], count: vec![10_000, 4], stride: vec![1, 1] };
        let (_, selection) = hyperslab.within(1, &(1..2), 8).unwrap();
        let whole = CountedBytes((0..320_000).map(|byte| byte as u8).collect(), AtomicU32::new(0));
        let mut part = vec![0; 80_000];
        selection.gather(&whole, 0, &mut part).unwrap();
        let expected = whole.0.chunks(32).flat_map(|row| row[8..16].to_vec());
        assert!(part.iter().copied().eq(expected));
        let fetches = whole.1.into_inner();
        assert!(fetches <= 6, "{fetches} fetches");
    }
}
