//! [`UploadParts`]: how an object is divided into the parts that are uploaded.

use std::ops::Range;

/// How an object is divided into the parts that are uploaded.
///
/// All but the last have the same length, as some servers want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadParts {
    /// Bytes of the object.
    pub len: u64,
    /// Bytes of a part.
    pub part: u64,
}

impl UploadParts {
    /// Bytes of a part, where the object is not so large that it would have too many.
    pub const USUAL: u64 = 8 << 20;
    /// S3's limits.
    pub const MOST: u64 = 10_000;
    const SMALLEST: u64 = 5 << 20;

    /// Of an object of `len` bytes, in parts of about `part` bytes.
    pub fn new(len: u64, part: u64) -> Self {
        let needed = len.div_ceil(Self::MOST).next_multiple_of(1 << 20);
        Self { len, part: part.max(needed).max(Self::SMALLEST) }
    }

    /// How many; at least one.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(self.part).max(1)
    }

    /// The bytes of one.
    pub fn range(&self, index: u64) -> Range<u64> {
        let start = (index * self.part).min(self.len);
        start..(start + self.part).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_tile_the_object(len in 0u64..1 << 46, part in 0u64..1 << 30) {
            let parts = UploadParts::new(len, part);
            let count = parts.count();
            prop_assert!(count <= UploadParts::MOST && parts.part >= 5 << 20);
            prop_assert_eq!(parts.range(0).start, 0);
            prop_assert_eq!(parts.range(count - 1).end, len);
            for index in [0, count / 2, count - 1] {
                let range = parts.range(index);
                prop_assert!(index + 1 == count || range.end - range.start == parts.part);
            }
        }
    }
}
