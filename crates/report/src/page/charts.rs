//! Rates over time, sizes of requests, calls at the same time.

use std::fmt::Write as _;

use super::axis::{Frame, Tick, nice, nice_size, size_ticks, time_ticks};
use super::html::{Column, TableCell, escaped, folded, key, number, section, table, word};
use crate::formatting::{grouped, part, percent, rate as per_second, size, time};
use crate::model::{Model, SizeRow, Transfers};

/// More labels than these beneath a chart would lie on each other.
const LABELS: usize = 14;

/// Tips of a chart with columns, as the script takes them.
pub(super) fn tips(tips: &[String]) -> String {
    let json = serde_json::to_string(tips).unwrap_or_default();
    format!(" data-tips=\"{}\"", escaped(&json))
}

/// The names of both directions, where they are drawn.
fn legend() -> String {
    let keys = [key("read", "reads upward"), key("write", "writes downward")];
    format!("<p class=\"legend\">{}</p>", keys.concat())
}

/// Bars from a middle line: both values of each column, from 0 to 1.
fn mirrored(columns: &[(f64, f64)], gap: f64) -> String {
    let width = 1000.0 / columns.len().max(1) as f64;
    let (mut up, mut down) = (String::new(), String::new());
    for (place, (read, written)) in columns.iter().enumerate() {
        let (x, w) = (place as f64 * width + gap / 2.0, width - gap);
        // What is there can be seen.
        let height = |value: f64| if value > 0.0 { (value * 500.0).max(6.0) } else { 0.0 };
        if *read > 0.0 {
            let _ = write!(up, "M{x:.1} 500v-{:.0}h{w:.1}v{:.0}z", height(*read), height(*read));
        }
        if *written > 0.0 {
            let _ = write!(
                down,
                "M{x:.1} 500v{:.0}h{w:.1}v-{:.0}z",
                height(*written),
                height(*written)
            );
        }
    }
    format!(
        "<path class=\"read\" d=\"{up}\"/><path class=\"write\" d=\"{down}\"/><path class=\"middle\" d=\"M0 500H1000\"/>"
    )
}

/// Ticks of a mirrored scale.
fn both_ways(ticks: &[Tick]) -> Vec<Tick> {
    let down = ticks.iter().skip(1).map(|(place, text)| (0.5 - place / 2.0, text.clone()));
    let up = ticks.iter().map(|(place, text)| (0.5 + place / 2.0, text.clone()));
    down.chain(up).collect()
}

/// Bytes per second over time.
pub(super) fn rate(model: &Model) -> String {
    let rate = &model.rate;
    let most = rate.read.iter().chain(&rate.written).copied().max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let to_second = |bytes: u64| (bytes as f64 / (rate.bin_ns as f64 / 1e9)) as u64;
    let top = nice_size(to_second(most).max(1));
    let share = |bytes: u64| to_second(bytes) as f64 / top as f64;
    let columns: Vec<(f64, f64)> = rate
        .read
        .iter()
        .zip(&rate.written)
        .map(|(read, written)| (share(*read), share(*written)))
        .collect();
    let between = |place: usize| {
        let from = place as u64 * rate.bin_ns;
        format!("{} to {}", time(from), time(from + rate.bin_ns))
    };
    let tip = |place: usize| {
        format!(
            "{}: {} read, {} written, {} calls",
            between(place),
            per_second(rate.read[place], rate.bin_ns),
            per_second(rate.written[place], rate.bin_ns),
            grouped(rate.calls[place])
        )
    };
    let all: Vec<String> = (0..columns.len()).map(tip).collect();
    let length = rate.bin_ns * columns.len() as u64;
    let frame = Frame {
        label: "Bytes per second over time, reads upward and writes downward",
        height: 220,
        across: &time_ticks(length),
        up: &both_ways(&size_ticks(top, true)),
        data: tips(&all),
    };
    let rows = (0..columns.len())
        .filter(|place| rate.calls[*place] + rate.read[*place] + rate.written[*place] > 0);
    let rows = rows.map(|place| {
        vec![
            TableCell::text(between(place)),
            TableCell::text(per_second(rate.read[place], rate.bin_ns)),
            TableCell::text(per_second(rate.written[place], rate.bin_ns)),
            TableCell::text(grouped(rate.calls[place])),
        ]
    });
    let data = table(
        "Rates over time",
        &[word("time"), number("read"), number("written"), number("calls begun")],
        rows,
        false,
    );
    let content =
        [legend(), frame.around(&mirrored(&columns, 0.0)), folded("Numbers of this chart", &data)];
    section(
        "rate",
        "Rate over time",
        "Bytes per second of all processes together.",
        &content.concat(),
    )
}

/// The range of a row in words.
fn range(row: &SizeRow) -> String {
    match row.from {
        0 => "0 B".into(),
        from if row.below == from + 1 => size(from),
        from => format!("{} to {}", size(from), size(row.below)),
    }
}

/// What is shown of transfers, and how.
type TransferFigure = fn(&Transfers) -> u64;
type Text = fn(u64) -> String;

/// Requests by size.
pub(super) fn sizes(model: &Model) -> String {
    let rows = &model.sizes;
    if rows.is_empty() {
        return String::new();
    }
    let views: [(&str, TransferFigure, Text); 3] = [
        ("calls", |transfers| transfers.calls, grouped),
        ("bytes", |transfers| transfers.bytes, size),
        ("time", |transfers| transfers.time_ns, time),
    ];
    let across: Vec<Tick> = (0..rows.len())
        .step_by(rows.len().div_ceil(LABELS))
        .map(|place| ((place as f64 + 0.5) / rows.len() as f64, size(rows[place].from)))
        .collect();
    let mut panels = String::new();
    let mut options = String::new();
    for (n, (name, of, text)) in views.iter().enumerate() {
        let most =
            rows.iter().flat_map(|row| [of(&row.reads), of(&row.writes)]).max().unwrap_or(0).max(1);
        let top = match *name {
            "bytes" => nice_size(most),
            _ => nice(most as f64) as u64,
        };
        let share = |value: u64| value as f64 / top as f64;
        let columns: Vec<(f64, f64)> =
            rows.iter().map(|row| (share(of(&row.reads)), share(of(&row.writes)))).collect();
        let tip = |row: &SizeRow| {
            format!(
                "{}: {} of reads, {} of writes",
                range(row),
                text(of(&row.reads)),
                text(of(&row.writes))
            )
        };
        let ticks = [(0.0, "0".into()), (0.5, text(top / 2)), (1.0, text(top))];
        let label =
            format!("{name} of reads (upward) and writes (downward) by the size of requests");
        let frame = Frame {
            label: &label,
            height: 220,
            across: &across,
            up: &both_ways(&ticks),
            data: tips(&rows.iter().map(tip).collect::<Vec<_>>()),
        };
        let hidden = if n == 0 { "" } else { " data-later" };
        let _ = write!(
            panels,
            "<div class=\"panel sizes\" id=\"sizes-{n}\"{hidden}>{}</div>",
            frame.around(&mirrored(&columns, 1000.0 / rows.len() as f64 / 6.0))
        );
        let _ = write!(options, "<option value=\"sizes-{n}\">{name}</option>");
    }
    let columns: [Column; 7] = [
        word("size"),
        number("reads"),
        number("bytes read"),
        number("time"),
        number("writes"),
        number("bytes written"),
        number("time"),
    ];
    let cells = |row: &SizeRow| {
        vec![
            TableCell::text(range(row)),
            TableCell::text(grouped(row.reads.calls)),
            TableCell::text(size(row.reads.bytes)),
            TableCell::text(time(row.reads.time_ns)),
            TableCell::text(grouped(row.writes.calls)),
            TableCell::text(size(row.writes.bytes)),
            TableCell::text(time(row.writes.time_ns)),
        ]
    };
    let data = table("Requests by size", &columns, rows.iter().map(cells), false);
    let chooser = format!(
        "<p class=\"choose\" data-script><label for=\"sizes-choice\">Show</label> <select id=\"sizes-choice\" data-chooses>{options}</select></p>"
    );
    let content = [chooser, legend(), panels, folded("Numbers of this chart", &data)];
    section(
        "sizes",
        "Sizes of requests",
        "How many bytes reads and writes ask for, in steps of two.",
        &content.concat(),
    )
}

/// Calls at the same time.
pub(super) fn concurrency(model: &Model) -> String {
    let levels = &model.concurrency.levels;
    let busy: u64 = levels.iter().map(|level| level.time_ns).sum();
    if busy == 0 {
        return String::new();
    }
    let row = |place: usize| {
        let level = levels[place];
        let next = levels.get(place + 1).map_or(model.concurrency.most + 1, |level| level.calls);
        let name = if level.calls < 9 || next <= level.calls + 1 {
            grouped(level.calls)
        } else {
            format!("{} to {}", grouped(level.calls), grouped(next - 1))
        };
        let share = part(level.time_ns, busy);
        let bar = format!(
            "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"plain\" width=\"{:.0}\" height=\"10\"/></svg>",
            (share * 1000.0).max(2.0)
        );
        vec![
            TableCell::text(name),
            TableCell::html(bar),
            TableCell::text(percent(share)),
            TableCell::text(time(level.time_ns)),
        ]
    };
    let data = table(
        "Calls in progress at the same time",
        &[word("calls"), word("part"), number("of busy time"), number("time")],
        (0..levels.len()).map(row),
        false,
    );
    let lead = "Number of calls in progress at the same time, while there was at least one.";
    section("together", "Calls at the same time", lead, &data)
}
