//! [`Table`]: a table whose columns are aligned and fit the terminal.

pub(crate) use striate_report::table::Side;

use crate::terminal;

/// Rows of cells under a header.
#[derive(Debug)]
pub(crate) struct Table(striate_report::table::Table);

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        Self(striate_report::table::Table::new(columns))
    }

    /// Columns that a narrow terminal does without, the first of these first. Names that there are
    /// not are ignored.
    pub(crate) fn spare(self, names: &[&str]) -> Self {
        Self(self.0.spare(names))
    }

    /// Adds a row, one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.row(cells);
    }

    /// The table as lines for the terminal, each indented by two spaces.
    pub(crate) fn render(&self) -> String {
        self.0.within(terminal::width())
    }
}
