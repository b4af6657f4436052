//! [`SlabBatches`]: an array as a sequence of slabs of bounded size.

/// Splits an array into slabs in the order of the file, each with at most a given number of
/// elements. Yields start and count per dimension.
///
/// A slab contains as many whole rows, planes and so on as fit, or a part of one row.
#[derive(Clone, Debug)]
pub struct SlabBatches {
    shape: Vec<u64>,
    /// The dimension that is split; inner ones are taken whole, outer ones index by index.
    cut: usize,
    /// Indices of that dimension in a slab.
    step: u64,
    /// Start of the next slab; `None` after the last.
    next: Option<Vec<u64>>,
}

impl SlabBatches {
    /// Slabs of at most `most` elements, which is at least 1.
    pub fn new(shape: &[u64], most: u64) -> Self {
        let mut below = 1u64;
        let mut cut = shape.len();
        while cut > 0 && below.saturating_mul(shape[cut - 1]) <= most {
            cut -= 1;
            below *= shape[cut];
        }
        // The whole array fits: the first dimension is one slab.
        let (cut, step) = match cut.checked_sub(1) {
            Some(cut) => (cut, (most / below.max(1)).max(1)),
            None => (0, shape.first().copied().unwrap_or(1)),
        };
        let next = (!shape.contains(&0)).then(|| vec![0; shape.len()]);
        Self { shape: shape.to_vec(), cut, step, next }
    }
}

impl Iterator for SlabBatches {
    type Item = (Vec<u64>, Vec<u64>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next.take()?;
        let mut count = vec![1; start.len()];
        let Some(&len) = self.shape.get(self.cut) else { return Some((start, count)) };
        let below = self.cut + 1;
        count[below..].copy_from_slice(&self.shape[below..]);
        count[self.cut] = self.step.min(len - start[self.cut]);

        let mut after = start.clone();
        after[self.cut] += count[self.cut];
        let mut dimension = self.cut;
        while after[dimension] == self.shape[dimension] && dimension > 0 {
            after[dimension] = 0;
            dimension -= 1;
            after[dimension] += 1;
        }
        self.next = (after[0] < self.shape[0]).then_some(after);
        Some((start, count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The number of an element in the order of the file.
    fn number(shape: &[u64], index: &[u64]) -> u64 {
        shape.iter().zip(index).fold(0, |number, (len, index)| number * len + index)
    }

    proptest! {
        #[test]
        fn slabs_are_contiguous_and_cover_the_array(
            shape in proptest::collection::vec(0u64..6, 0..5),
            most in 1u64..40,
        ) {
            let mut done = 0;
            for (start, count) in SlabBatches::new(&shape, most) {
                let elements: u64 = count.iter().product();
                prop_assert!((1..=most).contains(&elements));
                // Contiguous: the first element follows the previous slab, the last one is the end
                // of this.
                prop_assert_eq!(number(&shape, &start), done);
                let last: Vec<u64> =
                    start.iter().zip(&count).map(|(start, count)| start + count - 1).collect();
                prop_assert_eq!(number(&shape, &last), done + elements - 1);
                done += elements;
            }
            prop_assert_eq!(done, shape.iter().product::<u64>());
        }
    }

    #[test]
    fn large_arrays_are_not_walked() {
        let shape = [u64::MAX, u64::MAX, 1000];
        let mut pieces = SlabBatches::new(&shape, 1 << 20);
        assert_eq!(pieces.next(), Some((vec![0, 0, 0], vec![1, 1048, 1000])));
        assert_eq!(pieces.next(), Some((vec![0, 1048, 0], vec![1, 1048, 1000])));
        assert_eq!(SlabBatches::new(&[], 5).collect::<Vec<_>>(), [(vec![], vec![])]);
    }
}
