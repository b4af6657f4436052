//! [`Operations`]: the compound operations that regions of a file become; pure.
//!
//! Regions are taken one by one from an iterator, which may be the cursor of a description: what is
//! held is one operation. Regions that touch in the file become one extent, although they may lie
//! apart in memory; of reads, also regions with a small gap: an extent costs as much as some KiB.

use std::num::NonZeroU64;

use crate::store::Region;

/// What one operation may carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationLimits {
    /// Extents.
    pub(super) extents: usize,
    /// Bytes.
    pub(super) bytes: usize,
    /// Pieces of memory: bounds what a description of single bytes takes.
    pub(super) pieces: usize,
    /// Bytes that may lie between two regions of one extent, which are read in vain.
    pub(super) gap: u64,
}

/// Bytes of a strip that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StripExtent {
    /// Where in the strip.
    pub(super) offset: u64,
    /// How many.
    pub(super) len: usize,
    /// In how many pieces of memory.
    pub(super) pieces: usize,
}

/// Bytes of memory that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPiece {
    /// Bytes of the extent before it that are not wanted.
    pub(super) skipped: usize,
    /// Index of the first byte.
    pub(super) memory: usize,
    /// How many.
    pub(super) len: usize,
}

/// Extents of one strip, and the pieces of memory of all of them, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StripOperation {
    /// The index of the strip.
    pub(super) strip: u64,
    pub(super) extents: Vec<StripExtent>,
    pub(super) pieces: Vec<MemoryPiece>,
}

impl StripOperation {
    /// Where its last byte ends in the file.
    pub(super) fn end(&self, strip: NonZeroU64) -> u64 {
        let ends = self.extents.iter().map(|extent| extent.offset + extent.len as u64);
        self.strip * strip.get() + ends.max().unwrap_or(0)
    }

    /// The extents, each with its pieces.
    pub(super) fn parts(&self) -> impl Iterator<Item = (StripExtent, &[MemoryPiece])> {
        let mut rest = self.pieces.as_slice();
        self.extents.iter().map(move |extent| {
            let (pieces, others) = rest.split_at(extent.pieces);
            rest = others;
            (*extent, pieces)
        })
    }
}

/// The operations of regions, in their order.
#[derive(Debug)]
pub(super) struct Operations<R> {
    regions: R,
    /// What is left of the last region.
    rest: Option<Region>,
    strip: NonZeroU64,
    limits: OperationLimits,
}

impl<R: Iterator<Item = Region>> Operations<R> {
    pub(super) fn new(regions: R, strip: NonZeroU64, limits: OperationLimits) -> Self {
        Self { regions, rest: None, strip, limits }
    }
}

impl<R: Iterator<Item = Region>> Iterator for Operations<R> {
    type Item = StripOperation;

    fn next(&mut self) -> Option<StripOperation> {
        let mut operation: Option<StripOperation> = None;
        let mut bytes = 0;
        while let Some(region) = self.rest.take().or_else(|| self.regions.next()) {
            if region.len == 0 {
                continue;
            }
            let (strip, offset) = (region.offset / self.strip, region.offset % self.strip);
            let inside = usize::try_from(self.strip.get() - offset).unwrap_or(usize::MAX);
            let current = operation.get_or_insert_with(|| StripOperation {
                strip,
                extents: Vec::new(),
                pieces: Vec::new(),
            });
            let gap = current.gap_before(offset).filter(|gap| *gap <= self.limits.gap);
            let skipped = gap.unwrap_or(0) as usize;
            let full = bytes + skipped >= self.limits.bytes
                || current.pieces.len() == self.limits.pieces
                || (gap.is_none() && current.extents.len() == self.limits.extents);
            if current.strip != strip || full {
                self.rest = Some(region);
                break;
            }
            let len = region.len.min(inside).min(self.limits.bytes - bytes - skipped);
            bytes += skipped + len;
            current.add(offset, MemoryPiece { skipped, memory: region.memory, len }, gap.is_some());
            if len < region.len {
                self.rest = Some(Region {
                    memory: region.memory + len,
                    offset: region.offset + len as u64,
                    len: region.len - len,
                });
            }
        }
        operation
    }
}

impl StripOperation {
    /// Bytes between the last extent and the offset; `None` if it lies before that.
    fn gap_before(&self, offset: u64) -> Option<u64> {
        let last = self.extents.last()?;
        offset.checked_sub(last.offset + last.len as u64)
    }

    fn add(&mut self, offset: u64, piece: MemoryPiece, joined: bool) {
        let Some(extent) = self.extents.last_mut().filter(|_| joined) else {
            self.extents.push(StripExtent { offset, len: piece.len, pieces: 1 });
            self.pieces.push(piece);
            return;
        };
        extent.len += piece.skipped + piece.len;
        match self.pieces.last_mut() {
            Some(last) if piece.skipped == 0 && last.memory + last.len == piece.memory => {
                last.len += piece.len;
            }
            _ => {
                extent.pieces += 1;
                self.pieces.push(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: OperationLimits = OperationLimits { extents: 4, bytes: 64, pieces: 16, gap: 0 };

    fn operations(regions: &[Region], strip: u64, limits: OperationLimits) -> Vec<StripOperation> {
        let strip = NonZeroU64::new(strip).unwrap();
        Operations::new(regions.iter().copied(), strip, limits).collect()
    }

    fn region(memory: usize, offset: u64, len: usize) -> Region {
        Region { memory, offset, len }
    }

    #[test]
    fn a_long_region_is_dealt_to_strips() {
        let all = operations(&[region(5, 30, 100)], 50, LIMITS);
        let extents: Vec<_> =
            all.iter().map(|o| (o.strip, o.extents[0].offset, o.extents[0].len)).collect();
        assert_eq!(extents, [(0, 30, 20), (1, 0, 50), (2, 0, 30)]);
        assert_eq!(all[1].pieces, [MemoryPiece { skipped: 0, memory: 25, len: 50 }]);
        assert_eq!(all[2].end(NonZeroU64::new(50).unwrap()), 130);
    }

    #[test]
    fn touching_regions_are_one_extent_of_several_pieces() {
        let all = operations(&[region(10, 0, 4), region(0, 4, 4), region(4, 8, 2)], 50, LIMITS);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].extents, [StripExtent { offset: 0, len: 10, pieces: 2 }]);
        let pieces = [
            MemoryPiece { skipped: 0, memory: 10, len: 4 },
            MemoryPiece { skipped: 0, memory: 0, len: 6 },
        ];
        assert_eq!(all[0].pieces, pieces);
    }

    #[test]
    fn strided_regions_fill_operations() {
        let regions: Vec<_> = (0..9).map(|n| region(n, 2 * n as u64, 1)).collect();
        let counts: Vec<_> =
            operations(&regions, 1000, LIMITS).iter().map(|o| o.extents.len()).collect();
        assert_eq!(counts, [4, 4, 1]);
        let all = operations(&regions, 1000, OperationLimits { gap: 1, ..LIMITS });
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].extents, [StripExtent { offset: 0, len: 17, pieces: 9 }]);
        assert_eq!(all[0].pieces[1], MemoryPiece { skipped: 1, memory: 1, len: 1 });
    }

    proptest! {
        /// Every byte comes once, in the order of the stream, within the limits.
        #[test]
        fn all_bytes_in_order(
            regions in prop::collection::vec((0u64..300, 0usize..90), 0..40),
            strip in 1u64..200,
            bytes in 1usize..100,
            gap in 0u64..40,
        ) {
            let mut memory = 0;
            let regions: Vec<_> = regions.into_iter().map(|(offset, len)| {
                let region = region(memory, offset, len);
                memory += len + 1;
                region
            }).collect();
            let limits = OperationLimits { bytes, gap, ..LIMITS };
            let mut found = Vec::new();
            for operation in operations(&regions, strip, limits) {
                prop_assert!(operation.extents.len() <= limits.extents && operation.pieces.len() <= limits.pieces);
                prop_assert!(operation.extents.iter().map(|e| e.len).sum::<usize>() <= bytes);
                for (extent, pieces) in operation.parts() {
                    prop_assert!(extent.offset + extent.len as u64 <= strip);
                    let mut at = operation.strip * strip + extent.offset;
                    for piece in pieces {
                        at += piece.skipped as u64;
                        prop_assert!(piece.skipped as u64 <= gap);
                        for index in 0..piece.len {
                            found.push((piece.memory + index, at));
                            at += 1;
                        }
                    }
                }
            }
            let expected: Vec<_> = regions.iter()
                .flat_map(|r| (0..r.len).map(|n| (r.memory + n, r.offset + n as u64)))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
