//! [`Stats`]: what calls cost, as the characteristics of \[CHING\], counted at the store.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use striate_layout::characteristics::Method;

/// What one or more calls of a rank cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that read or write data.
    pub calls: u64,
    /// Bytes the program asked to read or write.
    pub wanted: u64,
    /// Bytes of file regions that requests to the store were for. A read-modify-write counts its
    /// write here, and its read in [`Stats::read_back`].
    pub accessed: u64,
    /// Requests to the store in the direction of the call; a list or a description is one.
    pub operations: u64,
    /// Bytes that writes have read back, in order not to change them.
    pub read_back: u64,
    /// Requests that read them back.
    pub read_backs: u64,
    /// Bytes sent to other ranks, or copied to memory from which another rank writes or reads
    /// them.
    pub resent: u64,
    /// Contiguous regions that requests were made of.
    pub regions: u64,
}

impl Stats {
    /// Bytes of a contiguous region, on average.
    pub const fn region_size(&self) -> u64 {
        match self.accessed.checked_div(self.regions) {
            Some(size) => size,
            None => 0,
        }
    }

    pub(crate) const fn to_words(self) -> [u64; 8] {
        let Self { calls, wanted, accessed, operations, read_back, read_backs, resent, regions } =
            self;
        [calls, wanted, accessed, operations, read_back, read_backs, resent, regions]
    }

    pub(crate) const fn from_words(words: [u64; 8]) -> Self {
        let [calls, wanted, accessed, operations, read_back, read_backs, resent, regions] = words;
        Self { calls, wanted, accessed, operations, read_back, read_backs, resent, regions }
    }

    #[inline]
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.to_words();
        for (word, other) in words.iter_mut().zip(other.to_words()) {
            *word = with(*word, other);
        }
        Self::from_words(words)
    }
}

impl Add for Stats {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }
}

impl AddAssign for Stats {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Stats {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_sub)
    }
}

impl Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// How the last call that moved data was carried out, on this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallReport {
    /// The method.
    pub method: Method,
    /// The kind of file domains, if the method has such.
    pub domains: Option<&'static str>,
    /// Whether ranks exchanged data in shared memory (`true`) or by messages; `None` if they did
    /// not.
    pub in_memory: Option<bool>,
    /// What it cost this rank.
    pub stats: Stats,
}
