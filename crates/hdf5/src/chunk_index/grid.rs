//! [`Grid`]: numbers of chunks in indexes that count them.
//!
//! Chunks are counted slowest dimension first, in the largest shape that the dataset can have. A
//! dimension without a limit comes before all others, wherever it is in the dataset.

use crate::model::{Dataspace, Dimension};

/// The chunks of a dataset.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    chunk: Vec<u64>,
    sizes: Vec<u64>,
    /// The dimensions in the order of counting.
    order: Vec<usize>,
    /// How many numbers one step of each of those is.
    strides: Vec<u64>,
    /// How many chunks the first of those can have; `None` without a limit.
    first: Option<u64>,
}

impl Grid {
    /// `None` if the numbers are beyond 64 bits. The rank is that of the dataspace.
    pub(super) fn new(dataspace: &Dataspace, chunk: &[u64]) -> Option<Self> {
        let dimensions = dataspace.dimensions();
        let mut order: Vec<usize> = (0..dimensions.len()).collect();
        let unlimited = dimensions.iter().position(|dimension| dimension.maximum.is_none());
        if let Some(unlimited) = unlimited {
            order[..=unlimited].rotate_right(1);
        }
        let count = |Dimension { maximum, .. }: Dimension, chunk: u64| {
            maximum.map(|maximum| maximum.div_ceil(chunk))
        };
        let mut strides = vec![1_u64; order.len()];
        for place in (1..order.len()).rev() {
            let dimension = order[place];
            // Of several dimensions without a limit no index counts; the B-trees do not.
            let chunks = count(dimensions[dimension], chunk[dimension]).unwrap_or(1);
            strides[place - 1] = strides[place].checked_mul(chunks)?;
        }
        let first = order.first().map(|&first| count(dimensions[first], chunk[first]));
        Some(Self {
            chunk: chunk.to_vec(),
            sizes: dataspace.sizes(),
            order,
            strides,
            first: first.unwrap_or(Some(1)),
        })
    }

    /// How many numbers there are; without a limit as many as 64 bits have.
    pub(super) fn count(&self) -> u64 {
        let first = self.first.unwrap_or(u64::MAX);
        self.strides.first().map_or(1, |stride| stride.saturating_mul(first))
    }

    /// The number of the chunk at some coordinates; `None` beyond 64 bits.
    pub(super) fn number(&self, offset: &[u64]) -> Option<u64> {
        let mut number = 0_u64;
        for (&dimension, &stride) in self.order.iter().zip(&self.strides) {
            let step = offset.get(dimension)? / self.chunk[dimension];
            number = number.checked_add(step.checked_mul(stride)?)?;
        }
        Some(number)
    }

    /// The coordinates of a chunk; `None` if it is outside of the dataset as it is now.
    pub(super) fn offset(&self, number: u64) -> Option<Vec<u64>> {
        let mut offset = vec![0; self.order.len()];
        let mut rest = number;
        for (&dimension, &stride) in self.order.iter().zip(&self.strides) {
            // A stride of 0: some other dimension has no chunks.
            let step = rest.checked_div(stride)?;
            rest %= stride;
            offset[dimension] = step.checked_mul(self.chunk[dimension])?;
        }
        let inside = offset.iter().zip(&self.sizes).all(|(offset, size)| offset < size);
        inside.then_some(offset)
    }

    /// The coordinates from how many chunks they are along each dimension.
    pub(super) fn scaled(&self, steps: &[u64]) -> Option<Vec<u64>> {
        steps.iter().zip(&self.chunk).map(|(step, chunk)| step.checked_mul(*chunk)).collect()
    }

    /// Whether coordinates are those of a chunk.
    pub(super) fn is_chunk(&self, offset: &[u64]) -> bool {
        offset.iter().zip(&self.chunk).all(|(offset, chunk)| offset % chunk == 0)
    }

    pub(super) fn rank(&self) -> usize {
        self.chunk.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unlimited_dimension_is_counted_first() {
        let fixed = Dimension { size: 5, maximum: Some(9) };
        let space = Dataspace::Simple(vec![fixed, Dimension::unlimited(7), Dimension::fixed(4)]);
        let grid = Grid::new(&space, &[2, 3, 4]).unwrap();
        // 5 chunks along the first dimension, 1 along the last.
        assert_eq!(grid.number(&[4, 6, 0]), Some(2 * 5 + 2));
        assert_eq!(grid.offset(12), Some(vec![4, 6, 0]));
        assert_eq!(grid.offset(13), None);
        assert_eq!(grid.count(), u64::MAX);
        let space = Dataspace::Simple(vec![fixed, Dimension::fixed(4)]);
        let grid = Grid::new(&space, &[2, 3]).unwrap();
        assert_eq!(grid.count(), 10);
        assert_eq!(grid.offset(5), Some(vec![4, 3]));
    }
}
