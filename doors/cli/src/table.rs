//! Columns that line up.
//!
//! Cells are single lines of text; a column is as wide as its widest cell, up to a limit beyond which a
//! cell moves the rest of its own line only. Numbers stand to the right, words to the left.

use std::fmt::Write as _;

/// The widest column: a cell may be as long as whoever wrote a file likes.
const WIDEST: usize = 200;

/// Which side the cells of a column stand at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Rows of cells under a header.
#[derive(Debug)]
pub(crate) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        let header = columns.iter().map(|column| column.0.to_owned()).collect();
        Self { sides: columns.iter().map(|column| column.1).collect(), rows: vec![header] }
    }

    /// Adds a row, one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines, each indented by two spaces.
    pub(crate) fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).filter(|&len| len <= WIDEST).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), side) in row.iter().zip(&widths).zip(&self.sides) {
                line.push_str("  ");
                let _ = match side {
                    Side::Left => write!(line, "{cell:<width$}"),
                    Side::Right => write!(line, "{cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("method", Side::Left), ("ops", Side::Right)]);
        table.row(["posix".into(), "768".into()]);
        table.row(["two-phase".into(), "1".into()]);
        assert_eq!(table.render(), "  method     ops\n  posix      768\n  two-phase    1\n");
    }

    #[test]
    fn a_cell_of_any_length_is_shown() {
        let mut table = Table::new(&[("name", Side::Left), ("size", Side::Right)]);
        table.row(["x".repeat(1 << 20), "7".into()]);
        table.row(["y".into(), "8".into()]);
        let lines: Vec<usize> = table.render().lines().map(str::len).collect();
        assert_eq!(lines, [2 + 4 + 2 + 4, 2 + (1 << 20) + 2 + 4, 2 + 4 + 2 + 4]);
    }
}
