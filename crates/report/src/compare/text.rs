//! Rendering of a comparison for terminals.

use std::fmt::Write as _;

use super::{Change, Comparison, Kind, Unit, Verdict};
use crate::formatting::{counted, grouped, short, size, time};
use crate::text::table;

/// A comparison as text. What is the same on both sides is only counted, unless all is wanted.
pub fn render(comparison: &Comparison, all: bool) -> String {
    render_within(comparison, all, None)
}

/// The same, with tables that fit a width, if there is one.
pub fn render_within(comparison: &Comparison, all: bool, width: Option<usize>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "A  {}\nB  {}\n", comparison.a, comparison.b);
    let shown: Vec<&Change> =
        comparison.changes.iter().filter(|change| all || change.verdict != Verdict::Same).collect();
    let head = [">A", ">B", ">B – A", ">B / A", "95 % interval", "", ""];
    let mut subject = None;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut first = vec![String::new()];
    first.extend(head.iter().map(|cell| (*cell).to_owned()));
    rows.push(first);
    for change in &shown {
        if subject != Some(&change.subject) {
            subject = Some(&change.subject);
            let mut cells = vec![change.subject.clone()];
            cells.resize(head.len() + 1, String::new());
            if change.subject != "all" {
                rows.push(cells);
            }
        }
        rows.push(cells(change));
    }
    if shown.is_empty() {
        out.push_str("Nothing differs.\n");
    } else {
        out.push_str(&table(&rows, width));
    }
    let same = comparison.changes.len() - shown.len();
    if same > 0 && !shown.is_empty() {
        let _ = writeln!(
            out,
            "\n{} the same on both sides.",
            counted(same as u64, "number is", "numbers are")
        );
    }
    for (side, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !only.is_empty() {
            let _ = writeln!(out, "\nOnly in {side}:");
            for name in only {
                let _ = writeln!(out, "  {name}");
            }
        }
    }
    if comparison.changes.iter().any(|change| change.p.is_some()) {
        let over = match comparison.kind {
            Kind::Recordings => "over the calls of these two recordings",
            Kind::Runs | Kind::Benchmarks => "over repetitions",
        };
        let _ = writeln!(
            out,
            "\nTests {over} (Mann and Whitney, 5 %, corrected for their number). Sums of times are not tested."
        );
    }
    out
}

fn cells(change: &Change) -> Vec<String> {
    let indent = if change.subject == "all" { "" } else { "  " };
    let number = |value: f64| shown(&change.unit, value);
    let sign = if change.difference < 0.0 { "-" } else { "+" };
    let difference = match change.difference {
        0.0 => "0".into(),
        difference => format!("{sign}{}", number(difference.abs())),
    };
    vec![
        format!("{indent}{}", change.what),
        number(change.a),
        number(change.b),
        difference,
        change.ratio.map_or("–".into(), |ratio| format!("{} ×", short(ratio))),
        change
            .ci95
            .map_or(String::new(), |[low, high]| format!("[{}–{}]", short(low), short(high))),
        verdict(change).into(),
        change.p.map_or(String::new(), |p| {
            if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
        }),
    ]
}

/// The verdict in words. All calls together can differ where their medians may not.
fn verdict(change: &Change) -> &'static str {
    let differs = change.p.is_some_and(|p| p < 0.05);
    if differs && change.verdict == Verdict::NotSignificant {
        return "median may be the same";
    }
    change.verdict.words()
}

fn shown(unit: &Unit, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let value = value.abs();
    match unit {
        Unit::Count => format!("{sign}{}", grouped(value as u64)),
        Unit::Bytes => format!("{sign}{}", size(value as u64)),
        Unit::Nanoseconds => format!("{sign}{}", time(value as u64)),
        Unit::BytesPerSecond => format!("{sign}{}/s", size(value as u64)),
        Unit::Other(name) => format!("{sign}{} {name}", short(value)).trim_end().to_owned(),
    }
}
