//! [`Mutations`]: changes of seeds that are likely to reach what random bytes do not.

use crate::Random;

/// What the mutants of a format are made with.
#[derive(Clone, Copy, Debug)]
pub struct Mutations<'a> {
    /// Bytes at which numbers, lengths or words of the format end; every second new byte is one of
    /// them.
    pub bytes: &'a [u8],
    /// Sequences worth inserting: words of a language, long numbers.
    pub words: &'a [Vec<u8>],
    /// Offsets at which words are inserted are multiples of this.
    pub word_align: usize,
}

impl Default for Mutations<'_> {
    /// Bytes at which numbers end, and no words.
    fn default() -> Self {
        Self { bytes: &[0, 1, 4, 0x7F, 0x80, 0xFF], words: &[], word_align: 1 }
    }
}

/// The most bytes that are removed at a time.
const LONGEST_REMOVAL: usize = 40;
/// The most bytes of another seed that are inserted at a time.
const LONGEST_INSERTION: usize = 300;

impl Mutations<'_> {
    /// One of the seeds with one to five changes.
    pub fn mutant(&self, random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = random.of(seeds).clone();
        for _ in 0..=random.below(5) {
            self.change(random, &mut bytes, seeds);
        }
        bytes
    }

    fn byte(&self, random: &mut Random) -> u8 {
        if self.bytes.is_empty() || random.below(2) == 0 {
            random.byte()
        } else {
            *random.of(self.bytes)
        }
    }

    fn change(&self, random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = random.below(bytes.len() + 1);
        match random.below(10) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 | 2 if at < bytes.len() => bytes[at] = self.byte(random),
            3 => bytes.truncate(at),
            4 => bytes.insert(at, self.byte(random)),
            5 if !self.words.is_empty() => {
                let at = at - at % self.word_align;
                bytes.splice(at..at, random.of(self.words).iter().copied());
            }
            6 if !self.words.is_empty() => {
                let at = at - at % self.word_align;
                let end = (at + 1 + random.below(8)).min(bytes.len());
                bytes.splice(at..end, random.of(self.words).iter().copied());
            }
            7 => {
                let end = (at + random.below(LONGEST_REMOVAL)).min(bytes.len());
                bytes.drain(at..end);
            }
            8 => {
                let other = random.of(seeds);
                let from = random.below(other.len() + 1);
                let until = (from + random.below(LONGEST_INSERTION)).min(other.len());
                bytes.splice(at..at, other[from..until].iter().copied());
            }
            _ => {
                let other = random.of(seeds);
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_of_a_seed_are_the_same_every_time_and_differ_from_each_other() {
        let seeds = [b"contiguous(3 of byte)".to_vec(), Vec::new()];
        let words = [b"vector".to_vec()];
        let mutations = Mutations { words: &words, ..Mutations::default() };
        let mutants = || -> Vec<Vec<u8>> {
            let mut random = Random::new(7);
            (0..1000).map(|_| mutations.mutant(&mut random, &seeds)).collect()
        };
        let mut found = mutants();
        assert_eq!(found, mutants());
        assert!(found.iter().any(|bytes| bytes.windows(6).any(|part| part == b"vector")));
        found.sort();
        found.dedup();
        assert!(found.len() > 500, "{} mutants", found.len());
    }
}
