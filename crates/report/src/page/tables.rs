//! Files, processes and functions as tables with bars.

use std::fmt::Write as _;

use super::html::{Column, TableCell, escaped, folded, key, number, path, section, table, word};
use crate::formatting::{counted, grouped, part, percent, size, time};
use crate::model::{Class, FileRow, Model, Rest, Sums};

/// A bar of time by class, as long as its part of the longest.
fn bar(sums: &Sums, longest: u64) -> String {
    let mut out = String::from(
        "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
    );
    let (mut x, mut words) = (0.0, Vec::new());
    for class in Class::ALL {
        let time_ns = sums.time_ns.of(class);
        if time_ns == 0 {
            continue;
        }
        let width = part(time_ns, longest) * 1000.0;
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{x:.1}\" width=\"{width:.1}\" height=\"10\"/>",
            class.name()
        );
        x += width;
        words.push(format!("{} {}", class.name(), time(time_ns)));
    }
    let _ = write!(out, "</svg><span class=\"said\">{}</span>", escaped(&words.join(", ")));
    out
}

fn legend() -> String {
    let keys = Class::ALL.map(|class| key(class.name(), class.name()));
    format!("<p class=\"legend\">Bars from the left:{}</p>", keys.concat())
}

/// How the reads and writes of a file follow each other.
fn pattern(row: &FileRow) -> String {
    let all = row.sequential + row.strided + row.random;
    let most = [(row.sequential, "sequential"), (row.strided, "strided"), (row.random, "random")];
    match most.into_iter().max_by_key(|(count, _)| *count) {
        Some((count, name)) if all > 0 => format!("{} {name}", percent(part(count, all))),
        _ => "–".into(),
    }
}

fn rest(rest: &Rest, of: &str) -> String {
    if rest.count == 0 {
        return String::new();
    }
    format!(
        "<p class=\"note\">{} {of} are not listed: {}, {} read, {} written, {}.</p>",
        grouped(rest.count),
        counted(rest.sums.calls.all(), "call", "calls"),
        size(rest.sums.bytes_read),
        size(rest.sums.bytes_written),
        time(rest.sums.time_ns.all())
    )
}

/// Rows that are seen at once; the others can be unfolded.
const SHOWN: usize = 12;

/// A table of which the first rows are seen at once.
fn listed(caption: &str, columns: &[Column], mut rows: Vec<Vec<TableCell>>, what: &str) -> String {
    if rows.len() <= SHOWN + 3 {
        return table(caption, columns, rows, true);
    }
    let more = rows.split_off(SHOWN);
    let heading = format!("{} more {what}", grouped(more.len() as u64));
    let more = table(&format!("{caption}, continued"), columns, more, true);
    table(caption, columns, rows, true) + &folded(&heading, &more)
}

/// The path of a row, and how many files it stands for.
fn file_name(row: &FileRow) -> String {
    let files = row.files.map_or(String::new(), |files| {
        format!(" <span class=\"soft\">{}</span>", counted(files, "file", "files"))
    });
    path(&row.path) + &files
}

/// The files with most time.
pub(super) fn files(model: &Model) -> String {
    if model.files.is_empty() {
        return String::new();
    }
    let longest = model.files.iter().map(|row| row.sums.time_ns.all()).max().unwrap_or(1);
    let rows = model.files.iter().map(|row| {
        let time_ns = row.sums.time_ns.all();
        vec![
            TableCell::html(file_name(row)).by(&row.path),
            TableCell::html(bar(&row.sums, longest)).by(time_ns),
            TableCell::number(time(time_ns), time_ns),
            TableCell::number(size(row.sums.bytes_read), row.sums.bytes_read),
            TableCell::number(size(row.sums.bytes_written), row.sums.bytes_written),
            TableCell::number(grouped(row.sums.calls.all()), row.sums.calls.all()),
            TableCell::number(grouped(row.opens), row.opens),
            TableCell::number(grouped(row.processes), row.processes),
            TableCell::text(pattern(row)),
        ]
    });
    let columns = [
        word("file"),
        word("time by kind"),
        number("time"),
        number("read"),
        number("written"),
        number("calls"),
        number("opens"),
        number("processes"),
        word("pattern"),
    ];
    let content = [
        legend(),
        listed("Files by time in calls", &columns, rows.collect(), "files"),
        rest(&model.other_files, "more files"),
    ];
    section("files", "Files", "Those with most time in calls.", &content.concat())
}

/// The processes.
pub(super) fn processes(model: &Model) -> String {
    if model.processes.is_empty() {
        return String::new();
    }
    let longest = model.processes.iter().map(|row| row.sums.time_ns.all()).max().unwrap_or(1);
    let rows = model.processes.iter().map(|row| {
        let time_ns = row.sums.time_ns.all();
        let name = row.rank.map_or(grouped(u64::from(row.process)).replace(',', ""), |rank| {
            format!("rank {rank}")
        });
        let span = row.until_ns.saturating_sub(row.from_ns);
        vec![
            TableCell::number(name, row.rank.unwrap_or(row.process)),
            TableCell::html(bar(&row.sums, longest)).by(time_ns),
            TableCell::number(time(time_ns), time_ns),
            TableCell::number(percent(part(time_ns, span)), part(time_ns, span)),
            TableCell::number(size(row.sums.bytes_read), row.sums.bytes_read),
            TableCell::number(size(row.sums.bytes_written), row.sums.bytes_written),
            TableCell::number(grouped(row.sums.calls.all()), row.sums.calls.all()),
            TableCell::text(&row.host),
            TableCell::html(path(&row.command)).by(&row.command),
        ]
    });
    let columns = [
        word("process"),
        word("time by kind"),
        number("time in calls"),
        number("of its time"),
        number("read"),
        number("written"),
        number("calls"),
        word("host"),
        word("command"),
    ];
    let content = [
        legend(),
        listed("Processes", &columns, rows.collect(), "processes"),
        rest(&model.other_processes, "more processes"),
    ];
    section("processes", "Processes", "What each did.", &content.concat())
}

/// The functions that were called.
pub(super) fn functions(model: &Model) -> String {
    if model.functions.is_empty() {
        return String::new();
    }
    let rows = model.functions.iter().map(|row| {
        let at = |part: f64| row.durations.quantile(part).unwrap_or(0.0);
        vec![
            TableCell::html(format!("<code>{}</code>", escaped(&row.name))).by(&row.name),
            TableCell::number(grouped(row.calls), row.calls),
            TableCell::number(grouped(row.failed), row.failed),
            TableCell::number(size(row.bytes), row.bytes),
            TableCell::number(time(row.time_ns), row.time_ns),
            TableCell::number(time(at(0.5) as u64), at(0.5)),
            TableCell::number(time(at(0.99) as u64), at(0.99)),
        ]
    });
    let columns = [
        word("function"),
        number("calls"),
        number("failed"),
        number("bytes"),
        number("time"),
        number("median"),
        number("99 of 100 below"),
    ];
    let data = table("Functions by time", &columns, rows, true);
    section("functions", "Functions", "What was called, and how long calls took.", &data)
}
