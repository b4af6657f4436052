//! The picture in a terminal: one character per cell, shaded by how much of it is touched.

use std::fmt::Write as _;

use super::Picture;
use crate::number::{grouped, short};

/// Untouched, three shades, full. Only a cell without a gap is shown as full.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 5] = ['.', ':', '+', '%', '#'];

impl Picture {
    /// The picture as indented lines, with the offset at which each row begins, and a legend.
    pub(crate) fn text(&self, ascii: bool) -> String {
        let grid = &self.grid;
        let shades = if ascii { ASCII_SHADES } else { SHADES };
        let edge = if ascii { '|' } else { '│' };
        // Characters are twice as high as wide: where there is room, a cell is two of them.
        let width = if grid.columns <= 32 { 2 } else { 1 };
        let offsets: Vec<String> =
            (0..grid.rows).map(|row| grouped(grid.offset(grid.row_start(row), 0))).collect();
        let gutter = offsets.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        for (row, offset) in offsets.iter().enumerate() {
            let mut line = format!("  {offset:>gutter$} {edge}");
            for cell in self.row(row) {
                let shade = cell.map_or(' ', |part| shades[shade(part)]);
                line.extend(std::iter::repeat_n(shade, width));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push_str(&self.legend(shades, gutter));
        text
    }

    fn legend(&self, shades: [char; 5], gutter: usize) -> String {
        let grid = &self.grid;
        let cell = grid.row_length as f64 / grid.columns as f64;
        let lines = grid.lines as f64 / grid.rows as f64;
        let unit = if grid.row_length > 1 { "bytes" } else { "byte" };
        let mut legend = format!("one row = {} {unit}", grouped(grid.row_length as i128));
        if cell > 1.0 || lines > 1.0 {
            let unit = if cell > 1.0 { "bytes" } else { "byte" };
            let _ = write!(legend, "; a cell = {} {unit}", short(cell));
        }
        if lines > 1.0 {
            let _ = write!(legend, " of {} rows", short(lines));
        }
        let [none, .., full] = shades;
        let part: String = shades[1..4].iter().collect();
        let mut text = format!("  {:gutter$}  {legend}\n", "");
        let _ = writeln!(text, "  {:gutter$}  {none} none  {part} a part  {full} all", "");
        if let Some(caveat) = self.caveat() {
            let _ = writeln!(text, "  {:gutter$}  {caveat}", "");
        }
        text
    }
}

fn shade(part: f64) -> usize {
    match part {
        part if part <= 0.0 => 0,
        part if part >= 1.0 => 4,
        part => 1 + (part * 3.0) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(notation: &str) -> Vec<String> {
        let picture = Picture::new(&notation.parse().unwrap(), 64, 16).unwrap().unwrap();
        picture.text(true).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_block_looks_like_a_block() {
        let lines = lines("subarray([4,6] of byte, [2,3] at [1,2])");
        assert_eq!(
            lines[..4],
            [
                "   0 |............",
                "   6 |....######..",
                "  12 |....######..",
                "  18 |............"
            ]
        );
        assert_eq!(lines[4].trim(), "one row = 6 bytes");
    }

    #[test]
    fn what_lies_outside_is_blank() {
        assert_eq!(lines("vector(2, 3, stride=5)")[..2], ["  0 |######....", "  5 |######"]);
    }

    #[test]
    fn offsets_may_be_negative() {
        assert_eq!(lines("vector(2, 1, stride=-2)")[0], "  -2 |##..");
    }

    #[test]
    fn only_exact_parts_are_none_or_all() {
        assert_eq!([0.0, 0.001, 0.5, 0.999, 1.0].map(shade), [0, 1, 2, 3, 4]);
    }
}
