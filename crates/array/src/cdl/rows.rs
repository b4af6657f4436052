//! [`RowPrinter`]: rows of values of a variable, in lines of bounded length.
//!
//! A token is never divided. The position in the line lives in [`LineWriter`], which exists for the
//! whole text: `ncdump` does not begin anew with every declaration that it breaks, so what was
//! printed before decides where a line ends.

use std::io::{self, Write};

use super::element::{Element, Style};
use super::text::{self, TextRow};

/// Breaks lines at a maximum length.
pub(super) struct LineWriter<'w> {
    pub(super) out: &'w mut dyn Write,
    /// Bytes in the line.
    position: usize,
    /// Bytes of a line at most.
    most: usize,
    /// Blanks before lines, by the depth of groups.
    indent: usize,
}

impl<'w> LineWriter<'w> {
    /// At the beginning of a line; lines of data have at most `line` bytes.
    pub(super) fn new(out: &'w mut dyn Write, line: usize) -> Self {
        Self { out, position: 0, most: line.saturating_sub(2), indent: 0 }
    }

    /// Moves lines to the right, for what is inside of something.
    pub(super) const fn indent_more(&mut self) {
        self.indent += 2;
    }

    /// Moves lines back to the left.
    pub(super) const fn indent_less(&mut self) {
        self.indent = self.indent.saturating_sub(2);
    }

    /// Prints the blanks at the beginning of a line.
    pub(super) fn indentation(&mut self) -> io::Result<()> {
        write!(self.out, "{:1$}", "", self.indent)
    }

    /// The blanks at the beginning of a line.
    pub(super) fn indentation_text(&self) -> String {
        " ".repeat(self.indent)
    }

    /// Prints a token, on a new line if the current one is full; a delimiter stays on the line.
    pub(super) fn put(&mut self, text: &[u8]) -> io::Result<()> {
        if text.len() + self.position > self.most && text.len() > 2 {
            self.out.write_all(b"\n")?;
            self.indentation()?;
            self.out.write_all(b"    ")?;
            self.position = 4 + self.indent;
        }
        if text.ends_with(b"\n") {
            self.position = self.indent;
        } else {
            self.position += text.len();
        }
        self.out.write_all(text)
    }

    /// Begins the data of a variable: its name, and the place of the first row.
    pub(super) fn begin_data(&mut self, name: &[u8], rank: usize) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        self.indentation()?;
        self.out.write_all(b" ")?;
        text::name(self.out, name)?;
        if rank <= 1 {
            self.position = name.len() + 4 + self.indent;
            self.out.write_all(b" = ")
        } else {
            self.position = 2 + self.indent;
            self.out.write_all(b" =\n  ")
        }
    }
}

/// Braces around the records of inner unlimited dimensions, without which the text would not say
/// where a record ends.
#[derive(Clone, Debug, Default)]
struct RecordBraces {
    /// For each such dimension, the rows of one record of the dimension before it.
    rows: Vec<u64>,
}

impl RecordBraces {
    fn new(shape: &[u64], is_unlimited: &[bool]) -> Self {
        let before_last = shape.len().saturating_sub(1);
        let inner =
            is_unlimited.iter().enumerate().skip(1).filter(|(_, is_unlimited)| **is_unlimited);
        let rows = inner.map(|(level, _)| {
            let outer = shape.get(level..before_last).unwrap_or_default();
            outer.iter().fold(1_u64, |rows, len| rows.saturating_mul(*len)).max(1)
        });
        Self { rows: rows.collect() }
    }

    /// How many begin before a row.
    fn open(&self, row: u64) -> usize {
        self.rows.iter().filter(|rows| row.is_multiple_of(**rows)).count()
    }

    /// How many end after a row.
    fn close(&self, row: u64) -> usize {
        self.open(row.saturating_add(1))
    }
}

/// Prints rows of values, one for each index of all but the last dimension.
pub(super) struct RowPrinter<'l, 'w> {
    line: &'l mut LineWriter<'w>,
    braces: RecordBraces,
    columns: u64,
    /// The next value's column.
    column: u64,
    /// Rows that are complete.
    row: u64,
    rows: u64,
}

impl<'l, 'w> RowPrinter<'l, 'w> {
    /// For the rows of an array that is not empty. `is_unlimited` says which dimensions are; empty
    /// means that at most the first is.
    pub(super) fn new(line: &'l mut LineWriter<'w>, shape: &[u64], is_unlimited: &[bool]) -> Self {
        let columns = shape.last().copied().unwrap_or(1).max(1);
        // Beyond 2⁶⁴ elements the last row is never reached.
        let elements = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
        let rows = elements.unwrap_or(u64::MAX) / columns;
        let braces = RecordBraces::new(shape, is_unlimited);
        Self { line, braces, columns, column: 0, row: 0, rows }
    }

    pub(super) fn values<T: Element>(
        &mut self,
        values: &[T],
        fill: Option<T>,
        style: &Style,
    ) -> io::Result<()> {
        self.each(values, |text, value| {
            if fill.is_some_and(|fill| value.is_fill(fill)) {
                text.push(b'_');
            } else {
                value.print(text, style);
            }
        })
    }

    pub(super) fn each<T: Copy>(
        &mut self,
        values: &[T],
        mut print: impl FnMut(&mut Vec<u8>, T),
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for &value in values {
            text.clear();
            print(&mut text, value);
            self.token(&mut text)?;
        }
        Ok(())
    }

    /// Prints a value.
    pub(super) fn token(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        self.begin_row()?;
        self.column += 1;
        if self.column < self.columns {
            text.extend_from_slice(b", ");
            return self.line.put(text);
        }
        text.resize(text.len() + self.braces.close(self.row), b'}');
        self.line.put(text)?;
        self.end_row()
    }

    pub(super) fn text(&mut self, row: &mut TextRow, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.column == 0 {
                self.begin_row()?;
                self.line.out.write_all(b"\"")?;
            }
            let remaining = usize::try_from(self.columns - self.column).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(remaining.min(bytes.len()));
            row.put(self.line.out, part)?;
            self.column += part.len() as u64;
            bytes = rest;
            if self.column == self.columns {
                *row = TextRow::default();
                self.line.out.write_all(b"\"")?;
                let braces = vec![b'}'; self.braces.close(self.row)];
                self.line.put(&braces)?;
                self.end_row()?;
            }
        }
        Ok(())
    }

    /// Ends a variable of a truncated file. The text in place of the missing values is not valid
    /// CDL.
    pub(super) fn end_truncated(
        &mut self,
        is_text: bool,
        elements: u64,
        available: u64,
    ) -> io::Result<()> {
        let out = &mut self.line.out;
        if is_text && self.column > 0 {
            out.write_all(b"\", ")?;
        }
        let missing = elements - available;
        let (values, are) = if elements == 1 { ("value", "is") } else { ("values", "are") };
        writeln!(out, "<{missing} of {elements} {values} {are} not in the file> ;")
    }

    fn begin_row(&mut self) -> io::Result<()> {
        if self.column == 0 {
            for _ in 0..self.braces.open(self.row) {
                self.line.put(b"{")?;
            }
        }
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.column = 0;
        self.row += 1;
        if self.row == self.rows {
            self.line.put(b" ;")?;
            return self.line.put(b"\n");
        }
        self.line.put(b",\n")?;
        self.line.put(b"  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_inner_unlimited_dimensions_are_in_braces() {
        let mut out = Vec::new();
        let mut line = LineWriter::new(&mut out, 80);
        let shape = [2, 2, 2, 1];
        let mut rows = RowPrinter::new(&mut line, &shape, &[true, true, false, true]);
        let style = Style { format: None, digits: 7 };
        rows.values(&[1_i32, 2, 3, 4, 5, 6, 7, 8], None, &style).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "{{1},\n  {2},\n  {3},\n  {4}},\n  {{5},\n  {6},\n  {7},\n  {8}} ;\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_are_broken_where_they_are_indented() {
        let mut out = Vec::new();
        let mut line = LineWriter::new(&mut out, 20);
        line.indent_more();
        line.begin_data(b"v", 1).unwrap();
        let mut rows = RowPrinter::new(&mut line, &[6], &[]);
        let style = Style { format: None, digits: 7 };
        rows.values(&[1000_i32, 2000, 3000, 4000, 5000, 6000], None, &style).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "\n   v = 1000, \n      2000, 3000, \n      4000, 5000, \n      6000 ;\n");
    }
}
