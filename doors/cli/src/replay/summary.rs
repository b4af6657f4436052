//! The result of a replay, as text.

use std::fmt::Write as _;

use striate_datatype::{Bytes, counted};
use striate_replay::Outcome;

use crate::number::grouped;
use crate::table::{Side, Table};
use crate::terminal::heading;

/// The summary.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let total = outcome.total();
    let _ = writeln!(
        text,
        "{} of {} and {}, by {}",
        counted(total.calls, "call"),
        count(outcome.processes, "process", "processes"),
        count(outcome.threads, "thread", "threads"),
        count(outcome.workers, "worker", "workers"),
    );
    let mut times =
        Table::new(&[("", Side::Left), ("recorded", Side::Right), ("replayed", Side::Right)]);
    times.row(["time".into(), time(outcome.time_recorded), time(outcome.time_replayed)]);
    times.row(["in calls".into(), time(total.time_recorded), time(total.time_replayed)]);
    let bytes = [total.bytes_recorded, total.bytes_replayed].map(|bytes| Bytes(bytes).to_string());
    let [recorded, replayed] = bytes;
    times.row(["bytes".into(), recorded, replayed]);
    let _ = writeln!(text, "\n{}", times.render().trim_end());

    let columns =
        ["calls", "bytes", "time recorded", "time replayed"].map(|name| (name, Side::Right));
    let mut functions = Table::new(&[&[("function", Side::Left)][..], &columns].concat());
    let mut rows: Vec<_> = outcome.functions.iter().collect();
    rows.sort_by_key(|(name, figures)| (std::cmp::Reverse(figures.time_recorded), **name));
    for (name, figures) in rows {
        let bytes = figures.bytes_replayed;
        functions.row([
            (*name).to_owned(),
            grouped(figures.calls),
            if bytes > 0 { Bytes(bytes).to_string() } else { String::new() },
            time(figures.time_recorded),
            time(figures.time_replayed),
        ]);
    }
    let _ = writeln!(text, "\n{}", functions.render().trim_end());
    remarks(outcome, &mut text);
    differences(outcome, &mut text);
    text
}

fn remarks(outcome: &Outcome, text: &mut String) {
    let mut lines = Vec::new();
    if outcome.made_first > 0 {
        let bytes = Bytes(outcome.made_bytes);
        let made = grouped(outcome.made_first);
        lines.push(format!("{made} files and directories were created first ({bytes})"));
    }
    for (what, count) in &outcome.made_good {
        lines.push(format!("{what} between calls, for what was not recorded: {}", grouped(*count)));
    }
    for (function, count) in &outcome.noted {
        lines.push(format!("{function}: {} only reported to stages", grouped(*count)));
    }
    for (reason, count) in &outcome.skipped {
        lines.push(format!("{} left out: {reason}", counted(*count, "call")));
    }
    if outcome.layer_calls > 0 {
        let calls = counted(outcome.layer_calls, "MPI-IO call");
        lines.push(format!("{calls} not repeated: the calls beneath them are"));
    }
    if outcome.waits_given_up > 0 {
        lines.push(format!("{} abandoned: no progress", counted(outcome.waits_given_up, "wait")));
    }
    lines.extend(outcome.complaints.iter().chain(&outcome.failures).cloned());
    if outcome.interrupted {
        let (made, all) = (grouped(outcome.total().calls), grouped(outcome.records));
        lines.push(format!("it was interrupted: {made} of {all} calls were made"));
    }
    if let Some(root) = &outcome.root {
        lines.push(format!("the files are in {}", root.display()));
    }
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

fn differences(outcome: &Outcome, text: &mut String) {
    let count = outcome.differences_count();
    if count == 0 && outcome.interrupted {
        return;
    }
    if count == 0 {
        let _ = writeln!(text, "\nAll results are as recorded.");
        return;
    }
    let kinds: Vec<String> = outcome
        .differences
        .iter()
        .map(|(kind, count)| format!("{} {}", grouped(*count), kind.name()))
        .collect();
    let title = format!("{} came out otherwise: {}", counted(count, "call"), kinds.join(", "));
    let _ = writeln!(text, "\n{}", heading(&title));
    let columns = ["call", "process", "function", "path", "recorded", "replayed"];
    let mut table = Table::new(&columns.map(|name| (name, Side::Left)));
    for difference in &outcome.first_differences {
        table.row([
            grouped(difference.number),
            difference.process.to_string(),
            difference.function.to_owned(),
            difference.path.display().to_string(),
            difference.recorded.clone(),
            difference.replayed.clone(),
        ]);
    }
    text.push_str(&table.render());
    let listed = outcome.first_differences.len() as u64;
    if listed < count {
        let _ = writeln!(text, "  and {} more", grouped(count - listed));
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number as i128), if number == 1 { one } else { many })
}

/// Nanoseconds with a unit.
fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} us", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}
