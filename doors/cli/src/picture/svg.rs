//! The picture as a drawing: one self-contained SVG.
//!
//! It may end up on paper, in a page or in a dark viewer: there is no background, the text is a
//! grey that can be read on black and on white, and cells are one colour, more or less opaque.

use std::fmt::Write as _;

use super::Picture;
use crate::number::{grouped, short};

const WIDTH: f64 = 768.0;
const HIGHEST: f64 = 384.0;
const MARGIN: f64 = 24.0;
/// Room for the line that names the row length.
const TOP: f64 = 44.0;
/// Room for the offsets of the rows.
const LEFT: f64 = 150.0;
const LINE: f64 = 20.0;
/// Characters of a caption that fit.
const CAPTION: usize = 120;

impl Picture {
    /// The drawing with `title` and further lines below it.
    pub(crate) fn svg(&self, title: &str, lines: &[String]) -> String {
        let grid = &self.grid;
        let cell = (WIDTH / grid.columns as f64, (HIGHEST / grid.rows as f64).min(24.0));
        let height = cell.1 * grid.rows as f64;
        let mut caption: Vec<String> = vec![shortened(title)];
        caption.extend(lines.iter().map(|line| shortened(line)));
        caption.push(self.scale());
        caption.extend(self.caveat());
        let full = (
            LEFT + WIDTH + MARGIN,
            TOP + height + MARGIN + LINE * caption.len() as f64 + MARGIN / 2.0,
        );

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" \
             viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n\
             <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\" fill=\"#7b7f87\">\n",
            short_px(full.0),
            short_px(full.1),
            escaped(title),
        );
        self.row_ruler(&mut svg);
        self.row_offsets(&mut svg, cell.1);
        for (i, line) in caption.iter().enumerate() {
            let y = short_px(TOP + height + MARGIN + LINE * i as f64 + 6.0);
            let weight = if i == 0 { " font-weight=\"bold\"" } else { "" };
            let _ =
                writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\"{weight}>{}</text>", escaped(line));
        }
        svg.push_str("</g>\n<g shape-rendering=\"crispEdges\" fill=\"#2f7fd8\">\n");
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{}\" fill=\"#7b7f87\" \
             fill-opacity=\"0.12\"/>",
            short_px(height),
        );
        self.cells_in(&mut svg, cell);
        svg.push_str("</g>\n</svg>\n");
        svg
    }

    /// An arrow as long as a row, with the number of bytes it stands for.
    fn row_ruler(&self, svg: &mut String) {
        let (right, y) = (LEFT + WIDTH, TOP - 10.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y}H{right}m-6 -4l6 4l-6 4M{0} {1}l-6 4l6 4\" fill=\"none\" \
             stroke=\"#7b7f87\"/>\n<text x=\"{2}\" y=\"{3}\" text-anchor=\"middle\">one row = {4} \
             bytes</text>",
            LEFT + 6.0,
            y - 4.0,
            LEFT + WIDTH / 2.0,
            y - 8.0,
            grouped(self.grid.row_length as i128),
        );
    }

    /// The offset at which the first row begins, and some of the others.
    fn row_offsets(&self, svg: &mut String, cell_height: f64) {
        let grid = &self.grid;
        let every = (LINE / cell_height).ceil().max(1.0) as usize;
        for row in (0..grid.rows).step_by(every.max(grid.rows.div_ceil(8))) {
            let y = short_px(TOP + row as f64 * cell_height + 11.0);
            let offset = grouped(grid.offset(grid.row_start(row), 0));
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{offset}</text>",
                LEFT - 8.0
            );
        }
    }

    /// One rectangle per stretch of equal cells.
    fn cells_in(&self, svg: &mut String, (width, height): (f64, f64)) {
        // Three digits are more than the eye can distinguish, and make equal cells equal.
        let opacity = |cell: &Option<f64>| cell.map_or(0, |part| (part * 1000.0).ceil() as u32);
        for row in 0..self.grid.rows {
            let mut column = 0;
            for stretch in self.row(row).chunk_by(|a, b| opacity(a) == opacity(b)) {
                let part = opacity(&stretch[0]);
                if part > 0 {
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" \
                         fill-opacity=\"{}\"/>",
                        short_px(LEFT + column as f64 * width),
                        short_px(TOP + row as f64 * height),
                        short_px(stretch.len() as f64 * width),
                        short_px(height),
                        // The faintest cell can still be seen.
                        short_px(f64::from(part) / 1000.0 * 0.85 + 0.15),
                    );
                }
                column += stretch.len();
            }
        }
    }

    fn scale(&self) -> String {
        let grid = &self.grid;
        let bytes = short(grid.row_length as f64 / grid.columns as f64);
        let rows = short(grid.lines as f64 / grid.rows as f64);
        format!("{} rows; a cell is {bytes} bytes × {rows} rows", grouped(grid.lines as i128))
    }
}

/// A coordinate without needless digits.
pub(crate) fn short_px(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= CAPTION {
        return text.to_owned();
    }
    text.chars().take(CAPTION - 1).chain(['…']).collect()
}

pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cells_are_one_rectangle() {
        let ty = "subarray([4,6] of byte, [2,3] at [1,2])".parse().unwrap();
        let picture = Picture::new(&ty, 192, 96).unwrap().unwrap();
        let svg = picture.svg("a < b & c", &["second".into()]);
        // The frame and one stretch in each of two rows.
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains("one row = 6 bytes"));
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    }

    #[test]
    fn captions_are_cut() {
        assert_eq!(shortened(&"x".repeat(500)).chars().count(), CAPTION);
    }
}
