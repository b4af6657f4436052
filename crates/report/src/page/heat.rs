//! The chart of offsets over time, with a choice of files.

use std::fmt::Write as _;

use super::axis::{Frame, nice_size, time_ticks};
use super::html::{TableCell, escaped, folded, number, path as html_path, table, word};
use super::timeline::digit;
use crate::formatting::{cut_path, size, time};
use crate::model::{FileRow, Heat, Model};

/// Shades of bytes.
const SHADES: u32 = 4;

/// The section.
pub(super) fn section(model: &Model) -> String {
    let files: Vec<(&FileRow, &Heat)> =
        model.files.iter().filter_map(|row| Some((row, row.heat.as_ref()?))).collect();
    if files.is_empty() {
        return String::new();
    }
    let mut panels = String::new();
    let mut options = String::new();
    for (n, (row, heat)) in files.iter().enumerate() {
        let name = escaped(&cut_path(&row.path, 70));
        let later = if n == 0 { "" } else { " data-later" };
        let _ = write!(options, "<option value=\"file-{n}\">{name}</option>");
        let _ = write!(
            panels,
            "<div class=\"panel\" id=\"file-{n}\"{later}><h3>{}</h3>{}</div>",
            html_path(&row.path),
            panel(row, heat)
        );
    }
    let chooser = format!(
        "<p class=\"choose\" data-script><label for=\"file-choice\">File</label> <select id=\"file-choice\" data-chooses>{options}</select></p>"
    );
    super::html::section(
        "offsets",
        "Offsets over time",
        "Where in a file bytes were read and written, and when. The stronger the colour, the more bytes.",
        &[chooser, panels].concat(),
    )
}

/// Both directions of a file, as far as there are any.
fn panel(row: &FileRow, heat: &Heat) -> String {
    let mut out = String::new();
    let last_row = heat.cells.iter().map(|cell| cell.row).max().unwrap_or(0);
    let top = nice_size(u64::from(last_row + 1).saturating_mul(heat.row_bytes));
    for written in [false, true] {
        let of = |cell: &crate::model::Cell| if written { cell.written } else { cell.read };
        let cells: Vec<(u32, u32, u64)> = heat
            .cells
            .iter()
            .filter(|cell| of(cell) > 0)
            .map(|cell| (cell.column, cell.row, of(cell)))
            .collect();
        if cells.is_empty() {
            continue;
        }
        let (class, word) = if written { ("write", "written") } else { ("read", "read") };
        let label = format!("Where in {} bytes were {word}, over time", row.path);
        let length = heat.column_ns * u64::from(heat.columns);
        let frame = Frame {
            label: &label,
            height: 190,
            across: &time_ticks(length),
            up: &[(0.0, "0".into()), (0.5, size(top / 2)), (1.0, size(top))],
            data: format!(
                " data-heat=\"{}\" data-columns=\"{}\" data-rows=\"{}\" data-column=\"{}\" data-row=\"{}\" data-top=\"{top}\" data-word=\"{word}\"",
                levels(heat, &cells),
                heat.columns,
                heat.rows,
                heat.column_ns,
                heat.row_bytes,
            ),
        };
        let bytes: u64 = cells.iter().map(|cell| cell.2).sum();
        let _ = write!(
            out,
            "<p class=\"legend\"><span class=\"key {class}\"></span>{} {word}</p>{}",
            size(bytes),
            frame.around(&drawn(heat, &cells, top, class))
        );
    }
    out.push_str(&folded("Numbers of this chart", &numbers(heat)));
    out
}

/// Bytes of all squares, as powers of two.
fn levels(heat: &Heat, cells: &[(u32, u32, u64)]) -> String {
    let mut grid = vec![digit(0); (heat.columns * heat.rows) as usize];
    for (column, row, bytes) in cells {
        if let Some(place) = grid.get_mut((row * heat.columns + column) as usize) {
            *place = digit(u64::from(bytes.ilog2()) + 1);
        }
    }
    grid.into_iter().collect()
}

/// A path for each shade; squares of a row that touch become one.
fn drawn(heat: &Heat, cells: &[(u32, u32, u64)], top: u64, class: &str) -> String {
    let logs = cells.iter().map(|cell| f64::from(cell.2.ilog2()));
    let (least, most) =
        logs.fold((f64::MAX, 0f64), |(least, most), log| (least.min(log), most.max(log)));
    let shade = |bytes: u64| {
        if most <= least {
            return SHADES - 1;
        }
        let place = (f64::from(bytes.ilog2()) - least) / (most - least);
        ((place * f64::from(SHADES)) as u32).min(SHADES - 1)
    };
    let mut rows: Vec<Vec<Option<u32>>> =
        vec![vec![None; heat.columns as usize]; heat.rows as usize];
    for (column, row, bytes) in cells {
        if let Some(place) =
            rows.get_mut(*row as usize).and_then(|row| row.get_mut(*column as usize))
        {
            *place = Some(shade(*bytes));
        }
    }
    let mut paths = vec![String::new(); SHADES as usize];
    let width = 1000.0 / f64::from(heat.columns);
    let high = heat.row_bytes as f64 / top as f64 * 1000.0;
    for (row, columns) in rows.iter().enumerate() {
        let mut column = 0;
        while column < columns.len() {
            let (from, found) = (column, columns[column]);
            while column < columns.len() && columns[column] == found {
                column += 1;
            }
            if let Some(shade) = found {
                let (x, w) = (from as f64 * width, (column - from) as f64 * width);
                let y = 1000.0 - row as f64 * high;
                let _ = write!(paths[shade as usize], "M{x:.1} {y:.1}h{w:.1}v-{high:.1}h-{w:.1}z");
            }
        }
    }
    let mut out = String::new();
    for (shade, path) in paths.iter().enumerate() {
        let _ = write!(out, "<path class=\"{class} shade-{shade}\" d=\"{path}\"/>");
    }
    out
}

/// The same in a table: by eighths of the file, since squares are many.
fn numbers(heat: &Heat) -> String {
    const PARTS: u32 = 8;
    let last = heat.cells.iter().map(|cell| cell.row).max().unwrap_or(0) + 1;
    let rows = (0..PARTS.min(last)).map(|n| {
        let parts = PARTS.min(last);
        let (from, until) = (n * last / parts, (n + 1) * last / parts);
        let within = heat.cells.iter().filter(|cell| (from..until).contains(&cell.row));
        let (mut read, mut written, mut first, mut final_) = (0, 0, u32::MAX, 0);
        for cell in within {
            read += cell.read;
            written += cell.written;
            first = first.min(cell.column);
            final_ = final_.max(cell.column + 1);
        }
        let when = if first == u32::MAX {
            "–".into()
        } else {
            let at = |column: u32| time(u64::from(column) * heat.column_ns);
            format!("{} to {}", at(first), at(final_))
        };
        let at = |row: u32| size(u64::from(row) * heat.row_bytes);
        vec![
            TableCell::text(format!("{} to {}", at(from), at(until))),
            TableCell::text(size(read)),
            TableCell::text(size(written)),
            TableCell::text(when),
        ]
    });
    table(
        "Bytes by offset",
        &[word("offset"), number("read"), number("written"), word("when")],
        rows,
        false,
    )
}
