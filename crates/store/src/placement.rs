//! The bytes that a request refers to: checks before anything is touched, and the walk of both
//! sides.
//!
//! [`Regions`] walks the two descriptions of a [`TypedRequest`] in step. Its bounds are checked up
//! front: in constant time by the bounds of the copies that are touched; only where those reach
//! outside, because a copy is used in part, by walking. So a request that is refused has touched
//! nothing, and one that is accepted needs no further checks.

use striate_datatype::{Cursor, Datatype, Pieces, TypeError};

use crate::error::Malformed;
use crate::store::{MemoryPlacement, Placement, Region, TypedRequest};

/// One past the largest offset of a byte.
pub const MAX_LEN: u64 = i64::MAX as u64;

/// Checks that `len` bytes at `offset` are within the offsets of an object.
pub fn check_extent(offset: u64, len: u64) -> Result<(), Malformed> {
    match offset.checked_add(len) {
        Some(end) if end <= MAX_LEN => Ok(()),
        _ => Err(Malformed::BeyondOffsets { offset, len }),
    }
}

impl Region {
    /// One past the last byte in the object.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Checks the region against the length of the memory handed over.
    pub fn check(&self, memory: usize) -> Result<(), Malformed> {
        check_extent(self.offset, self.len as u64)?;
        match self.memory.checked_add(self.len) {
            Some(end) if end <= memory => Ok(()),
            _ => Err(Malformed::OutsideMemory {
                low: self.memory as i128,
                high: self.memory as i128 + self.len as i128,
                len: memory,
            }),
        }
    }

    /// Checks a list; returns the number of its bytes.
    pub fn check_all(regions: &[Self], memory: usize) -> Result<u64, Malformed> {
        regions.iter().try_fold(0u64, |sum, region| {
            region.check(memory)?;
            Ok(sum.saturating_add(region.len as u64))
        })
    }

    /// The first byte and the length of what a list spans in the object; for messages.
    pub fn hull(regions: &[Self]) -> (u64, u64) {
        let low = regions.iter().map(|region| region.offset).min().unwrap_or(0);
        let high = regions.iter().map(|r| r.offset.saturating_add(r.len as u64)).max().unwrap_or(0);
        (low, high - low)
    }
}

impl Placement {
    /// `len` bytes that lie together from `offset` on.
    pub fn contiguous(offset: u64, len: u64) -> Self {
        Self { displacement: offset, datatype: bytes_type(), start: 0, len }
    }

    /// All copies that are touched, as one type whose offsets are those of the object.
    pub fn as_type(&self) -> Result<Datatype, TypeError> {
        let too_far = || TypeError::Overflow { what: "an offset in the file" };
        let end = self.start.checked_add(self.len).ok_or_else(too_far)?;
        let count = if self.len == 0 { 0 } else { end.div_ceil(self.datatype.size().max(1)) };
        let displacement = i64::try_from(self.displacement).map_err(|_| too_far())?;
        Datatype::contiguous(count, &self.datatype)?.displaced(displacement)
    }

    /// Copies of the datatype that the bytes lie in, the skipped ones included.
    pub fn copies(&self) -> u64 {
        match self.datatype.size() {
            0 => 0,
            size => self.start.saturating_add(self.len).div_ceil(size),
        }
    }
}

impl MemoryPlacement {
    /// Bytes that lie together from index `origin` on, `len` of them.
    pub fn contiguous(origin: usize, len: u64) -> Self {
        Self { origin, datatype: bytes_type(), count: len, start: 0 }
    }
}

fn bytes_type() -> Datatype {
    Datatype::from(striate_datatype::Element::U8)
}

impl TypedRequest {
    /// Checks the request against the length of the memory handed over, and returns the regions it
    /// stands for, in stream order.
    pub fn regions(&self, memory: usize) -> Result<Regions<'_>, Malformed> {
        let len = self.file.len;
        let stop = |start: u64| start.checked_add(len);
        if len > 0 && self.file.datatype.size() == 0 {
            return Err(Malformed::EmptyDescription { len });
        }
        let has = u128::from(self.memory.count) * u128::from(self.memory.datatype.size());
        if stop(self.memory.start).is_none_or(|end| u128::from(end) > has) && len > 0 {
            let has = has.saturating_sub(u128::from(self.memory.start));
            let has = u64::try_from(has).unwrap_or(u64::MAX);
            return Err(Malformed::MemoryTooShort { start: self.memory.start, has, needs: len });
        }
        if len == 0 {
            return Ok(Regions { pieces: None, memory: 0, file: 0, left: 0 });
        }
        if stop(self.file.start).is_none() {
            return Err(Malformed::BeyondOffsets { offset: self.file.start, len });
        }
        let used = (self.memory.start + len).div_ceil(self.memory.datatype.size());
        let inside = Side {
            name: "memory",
            datatype: &self.memory.datatype,
            copies: used,
            start: self.memory.start,
            base: self.memory.origin as i128,
        };
        let memory_cursor = inside.cursor(len, memory as i128, |low, high| {
            Malformed::OutsideMemory { low, high, len: memory }
        })?;
        let inside = Side {
            name: "file",
            datatype: &self.file.datatype,
            copies: self.file.copies(),
            start: self.file.start,
            base: i128::from(self.file.displacement),
        };
        let file_cursor = inside.cursor(len, i128::from(MAX_LEN), |low, high| {
            if low < 0 {
                return Malformed::BeforeStart { by: low.unsigned_abs() as u64 };
            }
            let len = u64::try_from(high - low).unwrap_or(u64::MAX);
            Malformed::BeyondOffsets { offset: u64::try_from(low).unwrap_or(u64::MAX), len }
        })?;
        Ok(Regions {
            pieces: Some(Pieces::new(memory_cursor, file_cursor)),
            memory: self.memory.origin as i128,
            file: i128::from(self.file.displacement),
            left: len,
        })
    }

    /// Where the request begins in the object as far as it is known without walking; for messages.
    pub fn first_offset(&self) -> u64 {
        let first = i128::from(self.file.displacement)
            + i128::from(self.file.datatype.first_offset())
            + match self.file.datatype.size() {
                0 => 0,
                size => {
                    i128::from(self.file.start / size) * i128::from(self.file.datatype.extent())
                }
            };
        u64::try_from(first).unwrap_or(0)
    }
}

/// One side of a request.
struct Side<'t> {
    name: &'static str,
    datatype: &'t Datatype,
    copies: u64,
    start: u64,
    base: i128,
}

impl<'t> Side<'t> {
    /// A cursor at `start`, after a check that `len` bytes from there on lie in `0..end`.
    fn cursor(
        &self,
        len: u64,
        end: i128,
        outside: impl Fn(i128, i128) -> Malformed,
    ) -> Result<Cursor<'t>, Malformed> {
        let mut cursor = Cursor::new(self.datatype, self.copies)
            .map_err(|source| Malformed::Description { side: self.name, source })?;
        cursor.seek(self.start);
        let (low, high) = self.hull();
        if low >= 0 && high <= end {
            return Ok(cursor);
        }
        let mut walk = cursor.clone();
        let mut left = len;
        while let Some(run) = walk.next_run(left) {
            left -= run.len;
            let low = self.base + i128::from(run.offset);
            let high = low + i128::from(run.len);
            if low < 0 || high > end {
                return Err(outside(low, high));
            }
        }
        Ok(cursor)
    }

    /// What the copies that are touched span, with all their bytes.
    fn hull(&self) -> (i128, i128) {
        let extent = i128::from(self.datatype.extent());
        let first = i128::from(self.start / self.datatype.size()) * extent;
        let last = i128::from(self.copies - 1) * extent;
        let low = self.base + i128::from(self.datatype.true_lower_bound());
        let high = self.base + i128::from(self.datatype.true_upper_bound());
        (low + first.min(last), high + first.max(last))
    }
}

/// The regions of a checked [`TypedRequest`], in stream order: inside of memory and of the offsets
/// of the object. In the object they ascend if the file description does.
#[derive(Clone, Debug)]
pub struct Regions<'r> {
    pieces: Option<Pieces<'r, 'r>>,
    memory: i128,
    file: i128,
    left: u64,
}

impl Iterator for Regions<'_> {
    type Item = Region;

    #[inline]
    fn next(&mut self) -> Option<Region> {
        let piece = self.pieces.as_mut()?.next_piece(self.left)?;
        self.left -= piece.len;
        Some(Region {
            memory: (self.memory + i128::from(piece.memory)) as usize,
            offset: (self.file + i128::from(piece.file)) as u64,
            len: piece.len as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(file: Placement, memory: MemoryPlacement) -> TypedRequest {
        TypedRequest { file, memory }
    }

    fn every_other(n: u64) -> Datatype {
        let one = Datatype::bytes(1).unwrap();
        let ty = Datatype::vector(n, 1, 2, &one).unwrap();
        Datatype::resized(&ty, 0, 2 * n as i64).unwrap()
    }

    #[test]
    fn both_sides_start_where_they_are_told() {
        let file = Placement { displacement: 100, datatype: every_other(3), start: 2, len: 3 };
        let memory = MemoryPlacement::contiguous(5, 3);
        let regions: Vec<_> = request(file, memory).regions(8).unwrap().collect();
        let places: Vec<_> = regions.iter().map(|r| (r.memory, r.offset, r.len)).collect();
        assert_eq!(places, [(5, 104, 1), (6, 106, 1), (7, 108, 1)]);
    }

    #[test]
    fn a_copy_used_in_part_may_reach_outside_with_the_rest() {
        let bytes = Datatype::bytes(10).unwrap();
        let memory = MemoryPlacement { origin: 0, datatype: bytes.clone(), count: 1, start: 0 };
        let file = Placement { displacement: 0, datatype: bytes, start: 0, len: 4 };
        let request = request(file, memory);
        assert_eq!(request.regions(4).unwrap().count(), 1);
        assert!(matches!(request.regions(3), Err(Malformed::OutsideMemory { .. })));
    }

    #[test]
    fn malformed_requests_are_told_apart() {
        let one = Datatype::bytes(1).unwrap();
        let empty = Datatype::bytes(0).unwrap();
        let check = |file, memory: MemoryPlacement| request(file, memory).regions(16).map(|_| ());
        let four = || MemoryPlacement::contiguous(0, 4);
        assert!(matches!(
            check(Placement::contiguous(0, 5), four()),
            Err(Malformed::MemoryTooShort { has: 4, needs: 5, .. })
        ));
        assert!(matches!(
            check(Placement { displacement: 0, datatype: empty, start: 0, len: 1 }, four()),
            Err(Malformed::EmptyDescription { .. })
        ));
        assert!(matches!(
            check(Placement::contiguous(MAX_LEN - 3, 4), four()),
            Err(Malformed::BeyondOffsets { .. })
        ));
        let before = Datatype::hindexed(&[(1, -1)], &one).unwrap();
        assert!(matches!(
            check(Placement { displacement: 0, datatype: before, start: 0, len: 1 }, four()),
            Err(Malformed::BeforeStart { by: 1 })
        ));
        assert!(matches!(
            check(Placement { displacement: 0, datatype: one, start: u64::MAX, len: 4 }, four()),
            Err(Malformed::BeyondOffsets { .. })
        ));
        assert!(matches!(
            check(Placement::contiguous(0, 4), MemoryPlacement::contiguous(13, 4)),
            Err(Malformed::OutsideMemory { low: 13, high: 17, len: 16 })
        ));
        assert_eq!(check(Placement::contiguous(u64::MAX, 0), four()), Ok(()));
    }
}
