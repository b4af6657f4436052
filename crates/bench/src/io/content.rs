//! The contents of the files of a benchmark: every byte is a function of its offset.
//!
//! So a file can be verified whichever engine and rank wrote a part of it, and two ranks that write
//! the same byte write the same value. The function is cheap and has no branches, since it is
//! computed for every byte that a benchmark moves.

/// Bytes that are generated at a time when a file is compared.
const CHUNK: usize = 64 << 10;

/// The bytes of a file; files with different seeds differ nearly everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Which file.
    pub seed: u64,
}

/// A byte that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteMismatch {
    /// Its place.
    pub offset: u64,
    /// What is there.
    pub found: u8,
    /// What should be there.
    pub expected: u8,
}

impl Content {
    /// Eight bytes of the file, at eight times `index`.
    const fn word(self, index: u64) -> [u8; 8] {
        let start = self.seed.wrapping_mul(0xD134_2543_DE82_EF95);
        let product = (index ^ start).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product ^ (product >> 32)).to_le_bytes()
    }

    /// Fills `bytes` with what the file holds from `offset` on.
    pub fn fill(self, offset: u64, bytes: &mut [u8]) {
        let mut index = offset / 8;
        let skipped = (offset % 8) as usize;
        let mut rest = bytes;
        if skipped > 0 {
            let (head, tail) = rest.split_at_mut(rest.len().min(8 - skipped));
            head.copy_from_slice(&self.word(index)[skipped..skipped + head.len()]);
            (index, rest) = (index + 1, tail);
        }
        let mut words = rest.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.word(index));
            index += 1;
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&self.word(index)[..tail.len()]);
    }

    /// The first of `bytes` that is not what the file holds from `offset` on.
    pub fn mismatch(self, offset: u64, bytes: &[u8]) -> Option<ByteMismatch> {
        let mut expected = vec![0; CHUNK.min(bytes.len())];
        let mut at = offset;
        for chunk in bytes.chunks(CHUNK) {
            let expected = &mut expected[..chunk.len()];
            self.fill(at, expected);
            if let Some(index) = first_difference(chunk, expected) {
                let offset = at + index as u64;
                return Some(ByteMismatch {
                    offset,
                    found: chunk[index],
                    expected: expected[index],
                });
            }
            at += chunk.len() as u64;
        }
        None
    }
}

/// Index of the first byte in which two slices of equal length differ.
pub(super) fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    // Equality is one fast comparison; the place is looked for only where there is one.
    if a == b { None } else { a.iter().zip(b).position(|(a, b)| a != b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_as_in_the_whole() {
        let content = Content { seed: 7 };
        let mut whole = vec![0; 200];
        content.fill(0, &mut whole);
        for start in 0..40 {
            for len in [0, 1, 3, 7, 8, 9, 30, 100] {
                let mut part = vec![0; len];
                content.fill(start as u64, &mut part);
                assert_eq!(part, whole[start..start + len], "{start}, {len}");
            }
        }
    }

    #[test]
    fn one_wrong_byte_is_found() {
        let content = Content { seed: 0 };
        let mut bytes = vec![0; 200_000];
        content.fill(5, &mut bytes);
        assert_eq!(content.mismatch(5, &bytes), None);
        for index in [0, 65_535, 65_536, 199_999] {
            bytes[index] ^= 4;
            let mismatch = content.mismatch(5, &bytes).unwrap();
            assert_eq!(mismatch.offset, 5 + index as u64);
            assert_eq!(mismatch.found, mismatch.expected ^ 4);
            bytes[index] ^= 4;
        }
    }

    #[test]
    fn files_and_places_differ() {
        let mut a = vec![0; 4096];
        let mut b = a.clone();
        Content { seed: 1 }.fill(0, &mut a);
        Content { seed: 2 }.fill(0, &mut b);
        let same = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        assert!(same(&a, &b) < 64);
        assert!(same(&a[..2048], &a[2048..]) < 64);
        assert!(same(&a, &vec![0; 4096]) < 64);
    }
}
