//! [`HeatMap`]: bytes moved by offset and time, in cells whose height grows with the file.

use std::collections::HashMap;

use crate::model::{Cell, Heat};

/// Columns of time.
pub(crate) const COLUMNS: u32 = 96;
/// Rows of offsets.
pub(crate) const ROWS: u32 = 32;
/// The bytes of a row at first.
const FIRST_ROW: u64 = 512;

/// The squares of one file.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap {
    row_bytes: u64,
    cells: HashMap<(u32, u32), MovedBytes>,
}

/// Bytes that were moved in a square.
#[derive(Clone, Copy, Debug, Default)]
struct MovedBytes {
    read: u64,
    written: u64,
}

impl Default for HeatMap {
    fn default() -> Self {
        Self { row_bytes: FIRST_ROW, cells: HashMap::new() }
    }
}

impl HeatMap {
    /// Bytes were moved.
    pub(crate) fn add(&mut self, column: u32, offset: u64, length: u64, written: bool) {
        let Some(last) = length.checked_sub(1).map(|last| offset.saturating_add(last)) else {
            return;
        };
        while last / self.row_bytes >= ROWS.into() {
            self.coarser();
        }
        let column = column.min(COLUMNS - 1);
        let (first, last_row) = (offset / self.row_bytes, last / self.row_bytes);
        for row in first..=last_row {
            let from = (row * self.row_bytes).max(offset);
            let until = (row + 1).saturating_mul(self.row_bytes).saturating_sub(1).min(last);
            let cell = self.cells.entry((column, row as u32)).or_default();
            *(if written { &mut cell.written } else { &mut cell.read }) += until - from + 1;
        }
    }

    fn coarser(&mut self) {
        self.row_bytes *= 2;
        let mut cells: HashMap<_, MovedBytes> = HashMap::with_capacity(self.cells.len());
        for ((column, row), MovedBytes { read, written }) in self.cells.drain() {
            let cell = cells.entry((column, row / 2)).or_default();
            cell.read += read;
            cell.written += written;
        }
        self.cells = cells;
    }

    pub(crate) fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The squares, column by column.
    pub(crate) fn finish(self, column_ns: u64) -> Heat {
        let cell =
            |((column, row), MovedBytes { read, written })| Cell { column, row, read, written };
        let mut cells: Vec<Cell> = self.cells.into_iter().map(cell).collect();
        cells.sort_unstable_by_key(|cell| (cell.column, cell.row));
        Heat { column_ns, columns: COLUMNS, row_bytes: self.row_bytes, rows: ROWS, cells }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_in_its_square(
            moves in prop::collection::vec((0u32..100, 0u64..1 << 30, 0u64..1 << 22, any::<bool>()), 0..60)
        ) {
            let mut map = HeatMap::default();
            for (column, offset, length, written) in &moves {
                map.add(*column, *offset, *length, *written);
            }
            let heat = map.finish(7);
            for written in [false, true] {
                let told: u64 = heat.cells.iter().map(|cell| if written { cell.written } else { cell.read }).sum();
                let exact: u64 = moves.iter().filter(|moved| moved.3 == written).map(|moved| moved.2).sum();
                prop_assert_eq!(told, exact);
            }
            prop_assert!(heat.cells.iter().all(|cell| cell.row < ROWS && cell.column < COLUMNS));
            for cell in &heat.cells {
                let (from, until) = (u64::from(cell.row) * heat.row_bytes, u64::from(cell.row + 1) * heat.row_bytes);
                let meets = |(column, offset, length, _): &&(u32, u64, u64, bool)| {
                    (*column).min(COLUMNS - 1) == cell.column && *offset < until && offset + length > from
                };
                prop_assert!(moves.iter().any(|moved| meets(&moved)));
            }
        }
    }

    #[test]
    fn the_last_offset_ends_it() {
        let mut map = HeatMap::default();
        map.add(0, u64::MAX - 10, 100, true);
        assert!(map.finish(1).cells.iter().all(|cell| cell.row < ROWS));
    }
}
