//! [`SplitMix64`]: numbers that look random, and are the same for the same seed on every machine.
//!
//! Tests make cases from numbers alone, so that a failing case can be run again by its number.

/// The generator of Steele, Lea and Flood. Sequences of neighbouring seeds have nothing in common.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// The next number, from 0 to below a limit. Small limits only: it is the remainder.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    /// True once in so many times.
    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of a list that is not empty.
    pub const fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// The next number, evenly from 0 to 1.
    pub const fn draw_unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Spreads a number over all bits.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    /// The first numbers of the reference implementation.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut numbers = SplitMix64::new(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([numbers.draw(), numbers.draw()], first);
    }
}
