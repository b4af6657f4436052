//! [`Distinct`]: an estimate of the number of different items, without storing them (the sketch of
//! Flajolet and others).

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

const BITS: u32 = 12;
const REGISTERS: usize = 1 << BITS;

/// Counts different things to within a few percent.
#[derive(Clone, Debug)]
pub(crate) struct Distinct(Box<[u8]>);

impl Default for Distinct {
    fn default() -> Self {
        Self(vec![0; REGISTERS].into())
    }
}

impl Distinct {
    /// Something was there.
    pub(crate) fn add(&mut self, what: impl Hash) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(what);
        let register = (hash >> (64 - BITS)) as usize;
        let zeros = (hash << BITS | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        self.0[register] = self.0[register].max(zeros);
    }

    /// How many different ones.
    pub(crate) fn estimate(&self) -> u64 {
        let n = REGISTERS as f64;
        let sum: f64 = self.0.iter().map(|zeros| 0.5f64.powi((*zeros).into())).sum();
        let raw = 0.7213 / (1.0 + 1.079 / n) * n * n / sum;
        let empty = self.0.iter().map(|zeros| u64::from(*zeros == 0)).sum::<u64>();
        let estimate = if raw <= 2.5 * n && empty > 0 { n * (n / empty as f64).ln() } else { raw };
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_right_within_a_few_percent() {
        for exact in [0u64, 1, 100, 3000, 20_000, 300_000] {
            let mut distinct = Distinct::default();
            (0..exact).chain(0..exact).for_each(|n| distinct.add(n));
            let off = distinct.estimate().abs_diff(exact);
            assert!(off * 20 <= exact, "{} of {exact}", distinct.estimate());
        }
    }
}
