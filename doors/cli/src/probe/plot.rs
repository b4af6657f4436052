//! Two curves over the sorted targets: the bandwidth of each, and the aggregate of the first i.
//!
//! Each curve is drawn to its own scale, as high as its highest point; the numbers are in the
//! table.

use std::fmt::Write as _;

use super::{ProbeRow, rate};
use crate::picture::svg::{escaped, short_px};

/// Characters of the plot in a terminal.
const COLUMNS: usize = 64;
const LINES: usize = 10;

/// The plot for a terminal: bars for the aggregate, marks for the bandwidth.
pub(super) fn text(row: &ProbeRow, ascii: bool) -> String {
    let (full, faint, mark, edge) =
        if ascii { ('#', ':', 'o', '|') } else { ('█', '░', '●', '│') };
    let targets = row.measured();
    let columns = targets.len().min(COLUMNS);
    let width = if columns * 2 <= COLUMNS { 2 } else { 1 };
    let highest = (top(row, |target| target.0), top(row, |target| target.1));
    // The last target of each column, so that the slowest is always shown.
    let shown = |column: usize| (column + 1) * targets.len() / columns - 1;
    let level = |value: f64, highest: f64| (value / highest * LINES as f64).ceil() as usize;
    let mut text = String::new();
    for line in (1..=LINES).rev() {
        let mut drawn = format!("  {edge}");
        for column in 0..columns {
            let target = &targets[shown(column)];
            let bar = if shown(column) < row.kept { full } else { faint };
            let bar = if level(target.aggregate, highest.1) >= line { bar } else { ' ' };
            let is_mark = level(target.bandwidth, highest.0) == line;
            drawn.push(if is_mark { mark } else { bar });
            drawn.extend(std::iter::repeat_n(bar, width - 1));
        }
        text.push_str(drawn.trim_end());
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "   {mark} MiB/s, up to {}   {full} i × MiB/s, up to {}   {faint} dropped",
        rate(highest.0),
        rate(highest.1),
    );
    text
}

/// The highest value of a curve; more than 0.
fn top(row: &ProbeRow, of: impl Fn((f64, f64)) -> f64) -> f64 {
    let values = row.measured().iter().map(|target| of((target.bandwidth, target.aggregate)));
    values.fold(f64::MIN_POSITIVE, f64::max)
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 84.0;
const TOP: f64 = 40.0;
/// Room on the right for the numbers of the aggregate.
const RIGHT: f64 = 96.0;
const BELOW: f64 = 96.0;
const BANDWIDTH: &str = "#2f7fd8";
const AGGREGATE: &str = "#d9762b";
const GREY: &str = "#7b7f87";

/// The plot as a drawing that can be read on black and on white.
pub(super) fn svg(row: &ProbeRow) -> String {
    let targets = row.measured();
    let full = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BELOW);
    let kept = format!("{} of {} targets kept", row.kept, row.targets.len());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" \
         viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\" \
         fill=\"{GREY}\">\n",
        short_px(full.0),
        short_px(full.1),
        escaped(&kept),
    );
    if targets.is_empty() {
        let _ = writeln!(svg, "<text x=\"24\" y=\"26\">no target could be measured</text>");
        svg.push_str("</g>\n</svg>\n");
        return svg;
    }
    let highest = (top(row, |target| target.0), top(row, |target| target.1));
    let x = |number: f64| LEFT + WIDTH * (number - 0.5) / targets.len() as f64;
    let y = |value: f64, highest: f64| TOP + HEIGHT * (1.0 - value / highest);
    axes(&mut svg, highest, targets.len(), x);
    let curve = |of: &dyn Fn(usize) -> f64, highest: f64| {
        let point = |i: usize| {
            let place = (short_px(x(i as f64 + 1.0)), short_px(y(of(i), highest)));
            format!("{},{}", place.0, place.1)
        };
        (0..targets.len()).map(point).collect::<Vec<_>>().join(" ")
    };
    let curves = [
        (BANDWIDTH, curve(&|i| targets[i].bandwidth, highest.0)),
        (AGGREGATE, curve(&|i| targets[i].aggregate, highest.1)),
    ];
    for (colour, points) in curves {
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"/>"
        );
    }
    if let Some(aggregate) = row.peak.checked_sub(1).and_then(|at| targets.get(at)) {
        let (x, y) = (short_px(x(row.peak as f64)), short_px(y(aggregate.aggregate, highest.1)));
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{AGGREGATE}\"/>");
    }
    if row.kept < targets.len() {
        cut(&mut svg, x(row.kept as f64 + 0.5), row.kept);
    }
    captions(&mut svg, row, &kept);
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The frame, and both scales.
fn axes(svg: &mut String, highest: (f64, f64), targets: usize, x: impl Fn(f64) -> f64) {
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" \
         stroke=\"{GREY}\" stroke-opacity=\"0.5\"/>"
    );
    let right = LEFT + WIDTH + 8.0;
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let y = short_px(TOP + HEIGHT * (1.0 - part) + 4.0);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\" fill=\"{BANDWIDTH}\">{}</text>\n\
             <text x=\"{right}\" y=\"{y}\" fill=\"{AGGREGATE}\">{}</text>",
            LEFT - 8.0,
            rate(highest.0 * part),
            rate(highest.1 * part),
        );
    }
    let every = targets.div_ceil(12).max(1);
    for number in (1..=targets).step_by(every) {
        let place = short_px(x(number as f64));
        let below = TOP + HEIGHT + 18.0;
        let _ = writeln!(
            svg,
            "<text x=\"{place}\" y=\"{below}\" text-anchor=\"middle\">{number}</text>"
        );
    }
}

fn cut(svg: &mut String, x: f64, kept: usize) {
    let x = short_px(x);
    let _ = writeln!(
        svg,
        "<path class=\"cut\" d=\"M{x} {TOP}V{}\" fill=\"none\" stroke=\"{GREY}\" \
         stroke-dasharray=\"6 4\"/>\n\
         <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">cut after {kept}</text>",
        TOP + HEIGHT,
        TOP - 8.0,
    );
}

fn captions(svg: &mut String, row: &ProbeRow, kept: &str) {
    let lines = [
        (BANDWIDTH, "MiB/s of target i, sorted (left)".to_owned()),
        (AGGREGATE, format!("i × MiB/s (right); highest with {} targets", row.peak)),
        (GREY, format!("{kept}, {} MiB/s or more each; δ = {}", rate(row.lower_bound), row.delta)),
    ];
    for (i, (colour, line)) in lines.iter().enumerate() {
        let y = short_px(TOP + HEIGHT + 44.0 + 20.0 * i as f64);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{y}\" fill=\"{colour}\">{}</text>",
            escaped(line)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn the_drawing_has_both_curves_and_the_cut() {
        let svg = svg(&example());
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("class=\"cut\"").count(), 1);
        assert!(svg.contains("cut after 3") && svg.contains("highest with 3 targets"));
        // As many points as targets that were measured.
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split(' ').count(), 4);
    }

    #[test]
    fn the_text_has_a_bar_for_each_target() {
        let text = text(&example(), true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 1);
        // The highest line: the fastest target's mark, and the bar of the highest aggregate.
        assert_eq!(lines[0], "  |o o ##", "{text}");
        assert_eq!(lines[LINES - 1], "  |######::", "{text}");
    }
}
