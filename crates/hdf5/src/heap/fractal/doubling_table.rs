//! [`DoublingTable`]: which block an offset of a fractal heap is in.
//!
//! An indirect block has rows of equally many children. Those of the first two rows have the
//! starting size, those of each further row twice that of the row before. Children up to the
//! largest direct size are direct blocks, larger ones are indirect blocks with such a table.

use super::header::HeapHeader;

/// The sizes of a heap's blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoublingTable {
    /// Children of a row.
    pub(super) width: u64,
    /// Bytes of a child of the first row.
    pub(super) start: u64,
    /// Rows whose children are direct blocks.
    pub(super) direct_rows: u32,
    /// Bytes of an offset.
    pub(super) offset_width: usize,
    /// Bytes of a length, if objects can be as large as direct blocks.
    pub(super) length_width: usize,
    bits: u32,
}

/// A child of an indirect block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockPlace {
    pub(super) row: u32,
    pub(super) column: u32,
    /// Where it begins in the block's address space.
    pub(super) begin: u64,
    /// How much of that it has.
    pub(super) size: u64,
}

impl DoublingTable {
    /// `None` if the sizes make no table.
    pub(super) fn new(header: &HeapHeader) -> Option<Self> {
        let (width, start) = (u64::from(header.width), header.start);
        let powers = [width, start, header.maximum_direct];
        if !powers.iter().all(|size| size.is_power_of_two())
            || header.maximum_direct < start
            || header.maximum_direct > u64::from(u32::MAX)
            || !(1..=64).contains(&header.bits)
            || width.ilog2() + start.ilog2() >= u32::from(header.bits)
        {
            return None;
        }
        Some(Self {
            width,
            start,
            direct_rows: header.maximum_direct.ilog2() - start.ilog2() + 2,
            offset_width: usize::from(header.bits).div_ceil(8),
            length_width: (header.maximum_direct.ilog2() as usize).div_ceil(8),
            bits: u32::from(header.bits),
        })
    }

    /// Bits of the space of the first row.
    const fn first_row_bits(&self) -> u32 {
        self.width.ilog2() + self.start.ilog2()
    }

    /// Where an offset in a block is; `None` if it is beyond the largest heap.
    pub(super) fn place(&self, offset: u64) -> Option<BlockPlace> {
        if self.bits < 64 && offset >> self.bits != 0 {
            return None;
        }
        if offset >> self.first_row_bits() == 0 {
            let column = offset / self.start;
            let (begin, size) = (column * self.start, self.start);
            return Some(BlockPlace { row: 0, column: column as u32, begin, size });
        }
        let row = offset.ilog2() - self.first_row_bits() + 1;
        // Row 1 begins where the first row's space ends, and each row doubles what is before it.
        let row_begin = 1_u64 << (self.first_row_bits() + row - 1);
        let size = self.start << (row - 1);
        let column = (offset - row_begin) / size;
        Some(BlockPlace { row, column: column as u32, begin: row_begin + column * size, size })
    }

    /// Rows of an indirect block with so much space.
    pub(super) fn rows_of(&self, size: u64) -> u32 {
        (size.ilog2() + 1).saturating_sub(self.first_row_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow twin: all children, one after the other.
    #[test]
    fn places_are_those_of_a_walk_over_all_children() {
        let table = DoublingTable {
            width: 4,
            start: 8,
            direct_rows: 3,
            offset_width: 2,
            length_width: 1,
            bits: 10,
        };
        let mut begin = 0;
        for row in 0..6 {
            let size = if row == 0 { 8 } else { 8 << (row - 1) };
            for column in 0..4 {
                let place = BlockPlace { row, column, begin, size };
                assert_eq!(table.place(begin), Some(place));
                assert_eq!(table.place(begin + size - 1), Some(place));
                begin += size;
            }
        }
        assert_eq!(begin, 1024);
        assert_eq!(table.place(1024), None);
        // A child of 64 bytes has two rows of four children of 8.
        assert_eq!(table.rows_of(64), 2);
    }
}
