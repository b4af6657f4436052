//! Tables whose columns are aligned and fit the terminal.
//!
//! A column is as wide as its widest cell. Numbers are aligned to the right, words to the left.
//! Where the terminal is too narrow, [`Table::within`] changes as little as necessary, in this
//! order: names of columns take several lines; optional columns are left out, and named below;
//! words take several lines; a table that is still too wide is split into blocks, one below
//! another, each of which begins with the first column.

use std::fmt::Write as _;

/// A column of words does not become narrower than this.
const NARROWEST: usize = 12;
/// A name of a column that is not longer than this stays in one line.
const SHORT: usize = 6;
/// Spaces before each column.
const GAP: usize = 2;
/// Longer cells do not make their column wider: names in files may be of any length.
const WIDEST: usize = 200;

/// Which side the cells of a column stand at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// As words do.
    Left,
    /// As numbers do.
    Right,
}

/// Rows of cells under a header.
#[derive(Debug)]
pub struct Table {
    names: Vec<String>,
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
    /// Columns by their numbers, those that are left out first in front.
    spare: Vec<usize>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Side)]) -> Self {
        Self {
            names: columns.iter().map(|column| column.0.to_owned()).collect(),
            sides: columns.iter().map(|column| column.1).collect(),
            rows: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Columns that a narrow terminal does without, the first of these first. Names that there are
    /// not are ignored.
    #[must_use]
    pub fn spare(mut self, names: &[&str]) -> Self {
        let place = |name: &&str| self.names.iter().position(|found| found == name);
        self.spare = names.iter().filter_map(place).collect();
        self
    }

    /// Adds a row, one cell per column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines, each indented by two spaces, of so many columns at most.
    pub fn within(&self, width: Option<usize>) -> String {
        let all: Vec<usize> = (0..self.sides.len()).collect();
        let natural = |column: &usize| Shown {
            column: *column,
            width: self.widest_cell(*column).max(self.names[*column].chars().count()),
        };
        let mut shown: Vec<Shown> = all.iter().map(natural).collect();
        let Some(width) = width.filter(|width| total(&shown) > *width) else {
            return self.block(&shown, CellOverflow::InOneLine);
        };
        self.break_names(&mut shown, width);
        let mut left_out = Vec::new();
        for &column in &self.spare {
            if total(&shown) > width {
                shown.retain(|one| one.column != column);
                left_out.push(self.names[column].as_str());
            }
        }
        self.narrow(&mut shown, width);
        let mut text = String::new();
        for block in blocks(&shown, width) {
            text.push_str(&self.block(&block, CellOverflow::InSeveral));
        }
        if !left_out.is_empty() {
            let _ = writeln!(text, "  --wide shows more: {}", left_out.join(", "));
        }
        text
    }

    fn widest_cell(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(WIDEST)
    }

    /// Lets names of columns take several lines, those first that gain most by it, until all fit.
    fn break_names(&self, shown: &mut [Shown], width: usize) {
        let least = |column: usize| {
            let name = &self.names[column];
            let words = name.split(' ').map(|word| word.chars().count());
            let whole = name.chars().count();
            let name = if whole <= SHORT { whole } else { words.max().unwrap_or(0) };
            self.widest_cell(column).max(name)
        };
        while total(shown) > width {
            let gain = |one: &&mut Shown| one.width - least(one.column);
            let Some(most) = shown.iter_mut().max_by_key(gain) else { return };
            let least = least(most.column);
            if most.width == least {
                return;
            }
            most.width = least;
        }
    }

    /// Takes from the widest columns of words until all fit, or none can give more.
    fn narrow(&self, shown: &mut [Shown], width: usize) {
        while total(shown) > width {
            let words = shown.iter_mut().filter(|one| self.sides[one.column] == Side::Left);
            let Some(widest) = words.max_by_key(|one| one.width) else { return };
            if widest.width <= NARROWEST {
                return;
            }
            widest.width -= 1;
        }
    }

    /// The lines of some columns.
    fn block(&self, shown: &[Shown], long: CellOverflow) -> String {
        let mut text = String::new();
        let cells = |cells: &[String]| -> Vec<Vec<String>> {
            let cell = |one: &Shown| (cells.get(one.column).map_or("", String::as_str), one.width);
            let lines = |(cell, width)| match long {
                CellOverflow::InOneLine => vec![String::from(cell)],
                CellOverflow::InSeveral => broken(cell, width),
            };
            shown.iter().map(cell).map(lines).collect()
        };
        self.lines(&mut text, &cells(&self.names), shown, true);
        for row in &self.rows {
            self.lines(&mut text, &cells(row), shown, false);
        }
        text
    }

    /// A row, as many lines as its cells need. Those of a header stand at the bottom.
    fn lines(&self, text: &mut String, cells: &[Vec<String>], shown: &[Shown], header: bool) {
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let mut whole = String::new();
            for (one, cell) in shown.iter().zip(cells) {
                let above = if header { height - cell.len() } else { 0 };
                let part = line.checked_sub(above).and_then(|line| cell.get(line));
                let (part, width) = (part.map_or("", String::as_str), one.width);
                whole.push_str(&" ".repeat(GAP));
                let _ = match self.sides[one.column] {
                    Side::Left => write!(whole, "{part:<width$}"),
                    Side::Right => write!(whole, "{part:>width$}"),
                };
            }
            text.push_str(whole.trim_end());
            text.push('\n');
        }
    }
}

/// What becomes of cells that are wider than their column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellOverflow {
    /// They move the rest of their line.
    InOneLine,
    /// They are broken.
    InSeveral,
}

/// A column by its number, and how wide it is.
#[derive(Clone, Copy, Debug)]
struct Shown {
    column: usize,
    width: usize,
}

fn total(shown: &[Shown]) -> usize {
    shown.iter().map(|one| GAP + one.width).sum()
}

/// The columns in groups that fit; each begins with the first column.
fn blocks(shown: &[Shown], width: usize) -> Vec<Vec<Shown>> {
    let Some((first, others)) = shown.split_first() else { return Vec::new() };
    let mut blocks = vec![vec![*first]];
    for one in others {
        let last = blocks.last_mut();
        match last.filter(|block| block.len() == 1 || total(block) + GAP + one.width <= width) {
            Some(block) => block.push(*one),
            None => blocks.push(vec![*first, *one]),
        }
    }
    blocks
}

/// A cell in lines of so many columns: broken after spaces, commas, slashes and hyphens, else
/// anywhere.
fn broken(cell: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let chars: Vec<char> = cell.chars().collect();
    let mut rest = &chars[..];
    let mut lines = Vec::new();
    while rest.len() > width {
        let at_space = rest[..=width].iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
        let at_mark = || {
            let mark = rest[..width].iter().rposition(|c| matches!(c, ',' | '/' | '-'));
            mark.map(|at| at + 1)
        };
        let (line, tail) = rest.split_at(at_space.or_else(at_mark).unwrap_or(width));
        lines.push(line.iter().collect::<String>().trim_end().to_owned());
        rest = &tail[tail.iter().take_while(|c| **c == ' ').count()..];
    }
    lines.push(rest.iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("method", Side::Left), ("ops", Side::Right)]);
        table.row(["posix".into(), "768".into()]);
        table.row(["two-phase".into(), "1".into()]);
        let text = "  method     ops\n  posix      768\n  two-phase    1\n";
        assert_eq!(table.within(None), text);
        assert_eq!(table.within(Some(16)), text);
    }

    #[test]
    fn a_cell_of_any_length_is_shown() {
        let mut table = Table::new(&[("name", Side::Left), ("size", Side::Right)]);
        table.row(["x".repeat(1 << 20), "7".into()]);
        table.row(["y".into(), "8".into()]);
        let lines = |width| -> Vec<usize> { table.within(width).lines().map(str::len).collect() };
        assert_eq!(lines(None), [208, 2 + (1 << 20) + 6, 208]);
        let broken = lines(Some(80));
        assert!(broken.iter().all(|&len| len <= 80), "{broken:?}");
        assert_eq!(table.within(Some(80)).matches('x').count(), 1 << 20);
    }

    #[test]
    fn a_narrow_terminal_gets_names_in_lines_then_fewer_columns() {
        let columns = [("method", Side::Left), ("region size", Side::Right), ("ops", Side::Right)];
        let mut table = Table::new(&columns).spare(&["ops", "nothing"]);
        table.row(["posix".into(), "512 B".into(), "16,384".into()]);
        assert_eq!(
            table.within(Some(24)),
            "          region\n  method    size     ops\n  posix    512 B  16,384\n"
        );
        assert_eq!(
            table.within(Some(20)),
            "          region\n  method    size\n  posix    512 B\n  --wide shows more: ops\n"
        );
    }

    #[test]
    fn words_take_several_lines_and_the_rest_comes_in_blocks() {
        let mut table = Table::new(&[("file", Side::Left), ("size", Side::Right)]);
        table.row(["/a/path/of/some/file.nc and more".into(), "12".into()]);
        assert_eq!(
            table.within(Some(24)),
            "  file              size\n  /a/path/of/some/    12\n  file.nc and more\n"
        );
        let columns: Vec<String> = (0..9).map(|n| format!("c{n}")).collect();
        let columns: Vec<(&str, Side)> =
            columns.iter().map(|name| (name.as_str(), Side::Right)).collect();
        let mut table = Table::new(&columns);
        table.row((0..9).map(|n| (1000 + n).to_string()));
        let text = table.within(Some(20));
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
        assert_eq!(text.matches("1000").count(), 4, "{text}");
        assert!((0..9).all(|n| text.contains(&(1000 + n).to_string())), "{text}");
    }

    #[test]
    fn every_cell_is_shown_whole_at_any_width() {
        let mut table = Table::new(&[("a", Side::Left), ("b", Side::Left), ("n", Side::Right)]);
        table.row(["one two three four five".into(), "x".repeat(50), "77".into()]);
        for width in 40..90 {
            let text = table.within(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            assert_eq!(text.matches('x').count(), 50, "{width}\n{text}");
        }
    }
}
