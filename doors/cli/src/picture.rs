//! A picture of an access pattern: which part of the bytes around it a type touches.
//!
//! The byte range is folded into rows, like the lines of a page, at a length that the loops of the
//! type suggest: a block of a matrix then looks like a block. [`Picture`] is a grid of cells, each
//! with the part of its bytes that are touched; [`text`] and [`svg`] show it.
//!
//! A cell is computed from places in the stream, by seeking, so that the time depends on the number
//! of cells and not on the number of runs. Types whose bytes do not ascend cannot be asked that
//! way: their first runs are walked, and the picture says so.

pub(crate) mod svg;
mod text;

use striate_datatype::{Cursor, Datatype, Loop, Node, Run, TypeError};

/// Rows of bytes above which an outer loop is preferred to give the row length.
const MANY_ROWS: u128 = 4096;

/// Rows that a picture needs at least to show a shape.
const FEW_ROWS: u128 = 16;

/// Seeks that one picture may cost.
const SEEKS: usize = 1 << 19;

/// Runs and cells that are walked at most where seeking is not possible.
const WALKED_RUNS: u64 = 100_000;
const WALKED_CELLS: u64 = 20_000_000;

/// How much finer the surroundings may be than the data before they are left out.
const SURROUNDINGS: u128 = 4096;

/// Cells in rows, and what they stand for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    grid: Grid,
    /// Part of the bytes touched, from 0 to 1; `None` for cells wholly outside of the range.
    cells: Vec<Option<f64>>,
    /// Whether a cell that stands for many rows shows some of them only.
    sampled: bool,
    /// Number of runs drawn, if not all are.
    first_runs: Option<u64>,
}

/// How bytes are folded into cells. Offsets are wider than the 64 bits of the type, so that no
/// arithmetic can leave their range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grid {
    /// Offset of the first byte of the first row.
    origin: i128,
    /// One past the last byte.
    end: i128,
    /// Bytes of a row.
    row_length: u128,
    /// Rows of bytes.
    lines: u128,
    columns: usize,
    rows: usize,
}

impl Picture {
    /// Draws one copy of `ty` on at most `columns` × `rows` cells; `None` if there is no byte.
    pub(crate) fn new(
        ty: &Datatype,
        columns: usize,
        rows: usize,
    ) -> Result<Option<Self>, TypeError> {
        if ty.size() == 0 {
            return Ok(None);
        }
        let grid = Grid::new(ty, columns, rows);
        let cursor = Cursor::new(ty, 1)?;
        let picture = if ty.is_ascending() {
            grid.draw_by_seeking(cursor)?
        } else {
            grid.draw_by_walking(cursor)
        };
        Ok(Some(picture))
    }

    /// The cells of row `row`, left to right.
    fn row(&self, row: usize) -> &[Option<f64>] {
        &self.cells[row * self.grid.columns..(row + 1) * self.grid.columns]
    }

    /// What the picture does not show, if anything.
    fn caveat(&self) -> Option<String> {
        if let Some(runs) = self.first_runs {
            let runs = crate::number::grouped(runs);
            return Some(format!("only the first {runs} runs are drawn: offsets do not ascend"));
        }
        self.sampled.then(|| "each cell is a sample of the many rows it stands for".into())
    }
}

impl Grid {
    fn new(ty: &Datatype, columns: usize, rows: usize) -> Self {
        let (low, high) = (i128::from(ty.true_lower_bound()), i128::from(ty.true_upper_bound()));
        let bounds = [ty.lower_bound(), ty.upper_bound()].map(i128::from);
        let (mut origin, mut end) =
            (low.min(bounds[0]).min(bounds[1]), high.max(bounds[0]).max(bounds[1]));
        if (end - origin).unsigned_abs() / SURROUNDINGS > (high - low).unsigned_abs() {
            (origin, end) = (low, high);
        }
        let len = (end - origin).unsigned_abs();
        let row_length = row_length(ty.root(), len, columns, rows);
        let lines = len.div_ceil(row_length);
        Self {
            origin,
            end,
            row_length,
            lines,
            columns: usize::try_from(row_length).map_or(columns, |length| length.min(columns)),
            rows: usize::try_from(lines).map_or(rows, |lines| lines.min(rows)),
        }
    }

    /// Where column `column` starts in a row.
    const fn column_start(&self, column: usize) -> u128 {
        column as u128 * self.row_length / self.columns as u128
    }

    /// The first line of row `row` of cells.
    const fn row_start(&self, row: usize) -> u128 {
        row as u128 * self.lines / self.rows as u128
    }

    fn offset(&self, line: u128, within: u128) -> i128 {
        let offset = self.origin + (line * self.row_length + within) as i128;
        offset.min(self.end)
    }

    /// Lines that stand for those of a row of cells: all of them, or some from all over, at uneven
    /// distances so that they do not fall in step with the loops of the type.
    fn lines_of(&self, row: usize) -> (Vec<u128>, bool) {
        let most = (SEEKS / (self.rows * (self.columns + 1))).max(1) as u128;
        let (start, end) = (self.row_start(row), self.row_start(row + 1));
        let count = end - start;
        if count <= most {
            return ((start..end).collect(), false);
        }
        let golden = |i: u128| i * 40_503 % 65_536; // the golden ratio's part of 2^16
        let line = |i: u128| start + (i * 65_536 + golden(i)) * count / (most * 65_536);
        ((0..most).map(line).collect(), true)
    }

    fn draw_by_seeking(self, mut cursor: Cursor<'_>) -> Result<Picture, TypeError> {
        let mut before = |offset: i128| -> Result<u64, TypeError> {
            cursor.seek_offset(i64::try_from(offset).unwrap_or(i64::MAX))?;
            Ok(cursor.position())
        };
        let mut cells = Vec::with_capacity(self.rows * self.columns);
        let mut sampled = false;
        for row in 0..self.rows {
            let (lines, some_only) = self.lines_of(row);
            sampled |= some_only;
            let mut touched = vec![0u128; self.columns];
            let mut area = vec![0u128; self.columns];
            for line in lines {
                let mut from = self.offset(line, 0);
                let mut skipped = before(from)?;
                for column in 0..self.columns {
                    let to = self.offset(line, self.column_start(column + 1));
                    let position = before(to)?;
                    touched[column] += u128::from(position - skipped);
                    area[column] += (to - from).unsigned_abs();
                    (from, skipped) = (to, position);
                }
            }
            cells.extend(touched.iter().zip(&area).map(|(&bytes, &area)| part(bytes, area)));
        }
        Ok(Picture { grid: self, cells, sampled, first_runs: None })
    }

    fn draw_by_walking(self, mut cursor: Cursor<'_>) -> Picture {
        let mut touched = vec![0u128; self.rows * self.columns];
        let (mut runs, mut work) = (0, 0);
        while runs < WALKED_RUNS && work < WALKED_CELLS {
            let Some(run) = cursor.next() else { break };
            runs += 1;
            work += self.add_run(run, &mut touched);
        }
        let cells = (0..self.rows)
            .flat_map(|row| (0..self.columns).map(move |column| (row, column)))
            .map(|(row, column)| part(touched[row * self.columns + column], self.area(row, column)))
            .collect();
        let first_runs = (cursor.remaining() > 0).then_some(runs);
        Picture { grid: self, cells, sampled: false, first_runs }
    }

    /// Adds the bytes of a run to the cells it touches. Returns how many that were.
    fn add_run(&self, run: Run, touched: &mut [u128]) -> u64 {
        let start = (i128::from(run.offset) - self.origin).unsigned_abs();
        let end = start + u128::from(run.len);
        let (first, last) = (start / self.row_length, (end - 1) / self.row_length);
        let mut work = 0;
        for row in self.row_of(first)..=self.row_of(last) {
            // Lines of this row of cells that the run touches; all but its first and last are full.
            let lines = self.row_start(row).max(first)..self.row_start(row + 1).min(last + 1);
            for column in 0..self.columns {
                let cell = self.column_start(column)..self.column_start(column + 1);
                let cut = |line: u128| {
                    let at = line * self.row_length;
                    let from = (at + cell.start).max(start);
                    (at + cell.end).min(end).saturating_sub(from)
                };
                let count = lines.end - lines.start;
                let mut bytes = cut(lines.start);
                if count > 1 {
                    bytes += (count - 2) * (cell.end - cell.start) + cut(lines.end - 1);
                }
                touched[row * self.columns + column] += bytes;
                work += 1;
            }
        }
        work
    }

    /// The row of cells that line `line` belongs to.
    fn row_of(&self, line: u128) -> usize {
        // The inverse of `row_start`, which rounds down.
        let row = ((line + 1) * self.rows as u128).div_ceil(self.lines) - 1;
        (row as usize).min(self.rows - 1)
    }

    /// Bytes of the range in a cell.
    fn area(&self, row: usize, column: usize) -> u128 {
        let (from, to) = (self.column_start(column), self.column_start(column + 1));
        let (first, past) = (self.row_start(row), self.row_start(row + 1));
        let whole = (past - first - 1) * (to - from);
        // Only the very last line can be short.
        let last = self.offset(past - 1, to) - self.offset(past - 1, from);
        whole + last.unsigned_abs()
    }
}

fn part(bytes: u128, area: u128) -> Option<f64> {
    (area > 0).then(|| (bytes as f64 / area as f64).min(1.0))
}

/// The length of a row that shows the pattern: the innermost constant distance between parts that
/// gives a number of rows one can draw exactly, or else a page filled line by line.
fn row_length(node: &Node, len: u128, columns: usize, rows: usize) -> u128 {
    let mut strides = Vec::new();
    collect_strides(node, &mut strides);
    let lines = |stride: u128| len.div_ceil(stride);
    let mut innermost_first =
        strides.into_iter().rev().map(u128::from).filter(|&stride| stride > 0 && stride < len);
    let Some(innermost) = innermost_first.next() else {
        return if matches!(node.kind(), Loop::Bytes) && len == u128::from(node.size()) {
            len
        } else {
            len.div_ceil(rows as u128).max(columns as u128).min(len)
        };
    };
    if lines(innermost) <= MANY_ROWS {
        return innermost;
    }
    innermost_first
        .find(|&stride| (FEW_ROWS..=MANY_ROWS).contains(&lines(stride)))
        .unwrap_or(innermost)
}

/// Distances of the repetitions on the way to the largest leaf, outermost first.
fn collect_strides(node: &Node, strides: &mut Vec<u64>) {
    match node.kind() {
        Loop::Bytes => {}
        Loop::Contig { child, .. } => {
            strides.push(reach(child).unsigned_abs());
            collect_strides(child, strides);
        }
        Loop::Vector { stride, child, .. } => {
            strides.push(stride.unsigned_abs());
            collect_strides(child, strides);
        }
        Loop::BlockIndexed { child, .. } => collect_strides(child, strides),
        Loop::Indexed { child, stride, .. } => {
            if !matches!(child.kind(), Loop::Bytes) {
                strides.push(stride.unsigned_abs());
            }
            collect_strides(child, strides);
        }
        Loop::Struct { fields } => {
            if let Some(largest) = fields.iter().max_by_key(|field| field.child.size()) {
                collect_strides(&largest.child, strides);
            }
        }
    }
}

/// Bytes from the first to the last of an ascending loop: what contiguous copies are apart.
fn reach(node: &Node) -> i64 {
    match node.kind() {
        Loop::Bytes => node.size() as i64,
        Loop::Contig { count, child } => reach(child).saturating_mul(*count as i64),
        Loop::Vector { count, stride, child } => {
            stride.saturating_mul(*count as i64 - 1).saturating_add(reach(child))
        }
        Loop::BlockIndexed { offsets, child } => {
            offsets.last().map_or(0, |offset| offset + reach(child))
        }
        Loop::Indexed { blocks, child, stride } => blocks.last().map_or(0, |block| {
            block.offset + stride.saturating_mul(block.len as i64 - 1) + reach(child)
        }),
        Loop::Struct { fields } => {
            fields.last().map_or(0, |field| field.offset + reach(&field.child))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(notation: &str, columns: usize, rows: usize) -> Picture {
        Picture::new(&notation.parse().unwrap(), columns, rows).unwrap().unwrap()
    }

    /// Bytes touched per cell, byte by byte.
    fn counted(picture: &Picture, notation: &str) -> Vec<Option<f64>> {
        let grid = &picture.grid;
        let mut touched = vec![0u128; grid.rows * grid.columns];
        let mut area = touched.clone();
        let cell = |offset: i128| {
            let at = (offset - grid.origin) as u128;
            let (line, within) = (at / grid.row_length, at % grid.row_length);
            let row = (0..grid.rows).rfind(|&row| grid.row_start(row) <= line).unwrap();
            let column = (0..grid.columns).rfind(|&c| grid.column_start(c) <= within).unwrap();
            row * grid.columns + column
        };
        for offset in grid.origin..grid.end {
            area[cell(offset)] += 1;
        }
        for run in notation.parse::<Datatype>().unwrap().flatten(1).unwrap() {
            for offset in run.offset..run.end() {
                touched[cell(offset.into())] += 1;
            }
        }
        touched.iter().zip(&area).map(|(&bytes, &area)| part(bytes, area)).collect()
    }

    #[test]
    fn cells_agree_with_counting_bytes() {
        for notation in [
            "bytes(1)",
            "bytes(1000)",
            "subarray([40,60] of i32, [10,20] at [5,30])",
            "subarray([20,10,12] of f64, [5,5,6] at [10,5,3])",
            "vector(37, 11, stride=29)",
            "vector(37, 11, stride=-29)",
            "vector(20, 40, stride=29)",
            "indexed([3 at 0, 500 at 77, 1 at 900] of i16)",
            "indexed([500 at 77, 3 at 0, 1 at 900] of i16)",
            "contiguous(9 of indexed([1 at 0, 2 at 3]))",
            "struct(3 of i32 at 100, 7 of vector(3, 1, stride=5) at 0)",
            "resized(vector(3, 5, stride=10), lb=-20, extent=100)",
        ] {
            for (columns, rows) in [(64, 16), (7, 3), (1, 1)] {
                let picture = picture(notation, columns, rows);
                assert_eq!(picture.cells, counted(&picture, notation), "{notation}");
            }
        }
    }

    #[test]
    fn a_row_is_what_the_loops_repeat() {
        for (notation, length) in [
            ("vector(768, 3KiB, stride=7596)", 7596),
            ("subarray([40,60] of i32, [10,20] at [5,30])", 240),
            ("bytes(100)", 100),
            ("contiguous(9 of indexed([1 at 0, 2 at 3]))", 5),
            // Too many rows of 2,400 bytes to draw: planes are rows.
            ("subarray([600,600,600] of i32, [300,300,300] at [0,300,0])", 1_440_000),
            // Too many rows, but no other loop: they are sampled.
            ("subarray([9000,500] of byte, [4500,100] at [0,300])", 500),
        ] {
            assert_eq!(picture(notation, 64, 16).grid.row_length, length, "{notation}");
        }
    }

    #[test]
    fn samples_show_the_block() {
        let picture = picture("subarray([900000,500] of byte, [450000,100] at [0,250])", 10, 4);
        assert!(picture.sampled);
        for row in 0..2 {
            let parts: Vec<f64> = picture.row(row).iter().map(|cell| cell.unwrap()).collect();
            assert_eq!(parts, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        }
        assert!(picture.row(2).iter().all(|cell| *cell == Some(0.0)));
    }

    #[test]
    fn huge_types_are_drawn_without_walking() {
        for notation in [
            "vector(1000000000, 1, stride=2)",
            "vector(1000000000, 1 of f64, stride=-2)",
            "vector(3037000499, 1, stride=3037000499)",
            "bytes(9223372036854775807)",
            "hindexed([1 at -9223372036854775807, 1 at -1])",
        ] {
            let picture = picture(notation, 64, 16);
            assert!(picture.cells.iter().flatten().any(|&part| part > 0.0), "{notation}");
        }
    }

    #[test]
    fn nothing_has_no_picture() {
        assert_eq!(Picture::new(&Datatype::bytes(0).unwrap(), 64, 16), Ok(None));
    }
}
