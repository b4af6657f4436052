//! File domains: which aggregator of a collective call is in charge of which part of the file.
//!
//! [`EvenDomains`] is the plain split of \[CHING\]: the range that all clients touch together, cut
//! into equal parts. The parts differ by one byte at most, rather than leaving a short last one, so
//! that no aggregator waits for another and the split is defined by two numbers.

use std::num::NonZeroU64;
use std::ops::Range;

/// A range of the file cut into consecutive domains of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvenDomains {
    range: Range<u64>,
    count: NonZeroU64,
}

impl EvenDomains {
    /// Cuts `range` into `count` domains. A range that ends before it starts is empty.
    pub fn new(range: Range<u64>, count: NonZeroU64) -> Self {
        let end = range.end.max(range.start);
        Self { range: range.start..end, count }
    }

    /// Number of domains.
    pub const fn count(&self) -> NonZeroU64 {
        self.count
    }

    /// Bytes of the longest domain.
    pub const fn longest(&self) -> u64 {
        (self.range.end - self.range.start).div_ceil(self.count.get())
    }

    /// The domain of aggregator `index`; `None` if there is no such aggregator.
    pub fn domain(&self, index: u64) -> Option<Range<u64>> {
        (index < self.count.get()).then(|| self.boundary(index)..self.boundary(index + 1))
    }

    /// Where domain `index` starts, or the last one ends.
    fn boundary(&self, index: u64) -> u64 {
        let len = u128::from(self.range.end - self.range.start);
        // At most `len`, since the index is at most the count.
        self.range.start + (len * u128::from(index) / u128::from(self.count.get())) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn domains(range: Range<u64>, count: u64) -> EvenDomains {
        EvenDomains::new(range, NonZeroU64::new(count).unwrap())
    }

    #[test]
    fn ten_bytes_over_four() {
        let split = domains(100..110, 4);
        let all: Vec<_> = (0..5).map(|i| split.domain(i)).collect();
        assert_eq!(all, [Some(100..102), Some(102..105), Some(105..107), Some(107..110), None]);
        assert_eq!(split.longest(), 3);
    }

    proptest! {
        #[test]
        fn domains_tile_the_range(start: u64, end: u64, count in 1u64..200) {
            let split = domains(start..end, count);
            let mut at = start;
            for index in 0..count {
                let domain = split.domain(index).unwrap();
                prop_assert_eq!(domain.start, at);
                let len = domain.end - domain.start;
                prop_assert!(len == split.longest() || len + 1 == split.longest());
                at = domain.end;
            }
            prop_assert_eq!(at, end.max(start));
        }
    }
}
