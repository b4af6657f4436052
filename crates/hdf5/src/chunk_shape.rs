//! Shapes of chunks for variables whose definition gives none.
//!
//! [`ChunkRule::shape`] is pure, and in whole numbers: ranks on machines of different kinds get the
//! same. Chunks are to have about 4 MiB. \[BARTZ\] found that netCDF-C's rule of that time gives
//! chunks of one element if all dimensions are unlimited, and extended it; the extended one is the
//! default.

/// Bytes that a chunk is to have at most.
pub const DEFAULT_CHUNK_BYTES: u64 = 4 << 20;

/// Bytes of a chunk of a variable whose only dimension is unlimited.
pub const ONLY_UNLIMITED_BYTES: u64 = 4 << 10;

/// How the shape of a chunk follows from dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChunkRule {
    /// netCDF-C's: an unlimited dimension gets 1, all others the same number of elements, such that
    /// the chunk has its bytes.
    NetcdfC,
    /// The same, unless all dimensions are unlimited: then the fastest varying one, which is the
    /// last, gets all elements of a chunk. If it is the only one, the chunk has 4 KiB, as in
    /// netCDF-C today: most such variables are coordinates of a few records.
    #[default]
    LastUnlimited,
}

impl ChunkRule {
    /// The shape of a chunk with elements of `size` bytes. `lengths` are those of the dimensions,
    /// `None` for an unlimited one. A chunk is never longer than a dimension that is not unlimited.
    pub fn shape(self, lengths: &[Option<u64>], size: u64) -> Vec<u32> {
        let elements = DEFAULT_CHUNK_BYTES / size.max(1);
        let fixed = lengths.iter().flatten().count() as u32;
        let edge = edge(elements, fixed.max(1));
        let mut shape: Vec<u32> = lengths
            .iter()
            .map(|length| match length {
                None => 1,
                Some(length) => edge.min(*length).max(1) as u32,
            })
            .collect();
        if self == Self::LastUnlimited
            && fixed == 0
            && let Some(last) = shape.last_mut()
        {
            let elements =
                if lengths.len() == 1 { ONLY_UNLIMITED_BYTES / size.max(1) } else { elements };
            *last = elements.max(1) as u32;
        }
        shape
    }
}

/// The longest edge of a cube of so many dimensions that has no more than so many elements.
fn edge(elements: u64, dimensions: u32) -> u64 {
    let fits = |edge: u64| edge.checked_pow(dimensions).is_some_and(|cube| cube <= elements);
    let (mut low, mut high) = (0, elements + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The number of chunks that an array takes, in each dimension.
pub fn chunk_counts(lengths: &[u64], shape: &[u32]) -> Vec<u64> {
    let counts = lengths.iter().zip(shape);
    counts.map(|(length, &edge)| length.div_ceil(u64::from(edge).max(1))).collect()
}

/// The elements of chunks that lie beyond the array: stored, and never used. `None` if there are
/// more than 64 bits count.
pub fn unused_elements(lengths: &[u64], shape: &[u32]) -> Option<u64> {
    let counts = chunk_counts(lengths, shape);
    let stored = counts.iter().zip(shape).try_fold(1_u64, |elements, (&count, &edge)| {
        elements.checked_mul(count.checked_mul(u64::from(edge))?)
    })?;
    let used = lengths.iter().try_fold(1_u64, |elements, &length| elements.checked_mul(length))?;
    stored.checked_sub(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: [ChunkRule; 2] = [ChunkRule::NetcdfC, ChunkRule::LastUnlimited];

    #[test]
    fn an_unlimited_dimension_gets_one_and_the_others_the_same() {
        for rule in RULES {
            assert_eq!(rule.shape(&[Some(1 << 30)], 1), [4 << 20]);
            assert_eq!(rule.shape(&[Some(5000), Some(5000)], 4), [1024, 1024]);
            assert_eq!(rule.shape(&[None, Some(5000), Some(5000)], 4), [1, 1024, 1024]);
            // 4 MiB / 8 B is 2¹⁹, whose cube root is 80.6.
            assert_eq!(rule.shape(&[Some(100), None, Some(100), Some(90)], 8), [80, 1, 80, 80]);
            assert_eq!(rule.shape(&[None, Some(3), Some(5000)], 4), [1, 3, 1024]);
            assert_eq!(rule.shape(&[], 4), [0; 0]);
        }
    }

    #[test]
    fn all_dimensions_unlimited() {
        // One element, where the extended rule has 4 MiB.
        assert_eq!(ChunkRule::NetcdfC.shape(&[None], 1), [1]);
        assert_eq!(ChunkRule::NetcdfC.shape(&[None, None], 8), [1, 1]);
        assert_eq!(ChunkRule::default().shape(&[None], 1), [4 << 10]);
        assert_eq!(ChunkRule::default().shape(&[None], 4), [1 << 10]);
        assert_eq!(ChunkRule::default().shape(&[None, None, None], 8), [1, 1, 1 << 19]);
    }

    #[test]
    fn a_space_of_three_by_three_in_chunks_of_two_by_two() {
        assert_eq!(chunk_counts(&[3, 3], &[2, 2]), [2, 2]);
        assert_eq!(unused_elements(&[3, 3], &[2, 2]), Some(7));
        assert_eq!(unused_elements(&[4, 2], &[2, 2]), Some(0));
        assert_eq!(unused_elements(&[0, 2], &[2, 2]), Some(0));
        assert_eq!(unused_elements(&[u64::MAX, u64::MAX], &[2, 2]), None);
    }

    proptest! {
        #[test]
        fn chunks_are_full_but_not_too_long(
            lengths in prop::collection::vec(
                prop_oneof![Just(None), any::<u64>().prop_map(Some), (0_u64..99).prop_map(Some)],
                1..9,
            ),
            size in prop_oneof![1_u64..20, any::<u64>()],
        ) {
            for rule in RULES {
                let shape = rule.shape(&lengths, size);
                prop_assert_eq!(shape.len(), lengths.len());
                let elements: u64 = shape.iter().map(|&edge| u64::from(edge)).product();
                prop_assert!(elements == 1 || elements * size <= DEFAULT_CHUNK_BYTES);
                for (length, &edge) in lengths.iter().zip(&shape) {
                    prop_assert!(edge >= 1);
                    prop_assert!(length.is_none_or(|length| u64::from(edge) <= length.max(1)));
                }
            }
        }

        #[test]
        fn edges_are_roots(elements in 0_u64..1 << 23, dimensions in 1_u32..9) {
            let edge = edge(elements, dimensions);
            prop_assert!(edge.pow(dimensions) <= elements);
            prop_assert!((edge + 1).checked_pow(dimensions).is_none_or(|cube| cube > elements));
        }
    }
}
