//! The rows of a benchmark of datasets as a table.

use std::fmt::Write as _;

use striate_bench::array::{ArrayOp, ArrayOptions, ArrayResults, ArrayRow, Layout, Scope};
use striate_datatype::Bytes;

use super::super::ratio_table;
use super::super::rows::{COST_COLUMNS, cost_cells};
use super::layouts;
use crate::number::{counted, short};
use crate::table::{Side, Table};
use crate::terminal;

/// What was found, for people.
pub(super) fn render(results: &ArrayResults, options: &ArrayOptions) -> String {
    let Some(first) = results.rows.first() else { return String::new() };
    let mut text = heading(first, results, options) + "\n\n";
    if let Some(targets) = &options.targets {
        let factors = results.rows.iter().find(|row| !row.slower.is_empty());
        let factors = factors.map_or(&[][..], |row| &row.slower);
        let factors: Vec<String> = factors.iter().map(|factor| format!("{factor:.1}")).collect();
        let _ = writeln!(text, "{}: {}\n", layouts::told(targets), factors.join(", "));
    }
    let has_data = first.block.is_some();
    let repetitions = match options.repeat {
        1 => "1 repetition".into(),
        n => format!("median of {n} [95 % interval]"),
    };
    let costs = if has_data { ", and what the calls cost a client" } else { " of headers" };
    let _ = writeln!(text, "{}", terminal::heading(&format!("MiB/s, {repetitions}{costs}")));
    let laid = first.layout.is_some();
    let name = if laid { "layout" } else { "api" };
    let mut columns = vec![("", Side::Left), ("", Side::Left), (name, Side::Left)];
    columns.extend([("MiB/s", Side::Right), ("", Side::Left), ("seconds", Side::Right)]);
    if laid {
        columns.extend(["spread", "partitions", "exchange"].map(|name| (name, Side::Right)));
    }
    if has_data {
        columns.extend(COST_COLUMNS);
    }
    let mut table = Table::new(&columns);
    for row in &results.rows {
        let name = row.layout.map_or(row.api, Layout::name);
        let mut cells = vec![row.op.name().into(), scope(row).into(), name.into()];
        let [low, high] = row.ci95;
        let interval = format!("[{}–{}]", short(low), short(high));
        cells.push(short(row.median_mib_s));
        cells.push(if row.samples.len() > 1 { interval } else { String::new() });
        cells.push(format!("{:.4}", row.median_s));
        if laid {
            cells.extend(layout_cells(row));
        }
        if has_data {
            cells.extend(cost_cells(row.cost.as_ref()));
        }
        table.row(cells);
    }
    text.push_str(&table.render());
    text.push_str(&ratio_table(&results.ratios));
    for peer in &results.peers {
        let _ = writeln!(text, "peer: {peer}");
    }
    text
}

/// How much the samples vary, how many partitions there were, and the part of the exchange.
fn layout_cells(row: &ArrayRow) -> [String; 3] {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let none = || "-".to_owned();
    let partitions = row.exchange.as_ref().map(|exchange| {
        let [least, most] = [exchange.partitions.iter().min(), exchange.partitions.iter().max()];
        match (least, most) {
            (Some(least), Some(most)) if least != most => format!("{least}–{most}"),
            (Some(all), _) => all.to_string(),
            _ => none(),
        }
    });
    // Of the data calls, so it says nothing about what is around them.
    let exchange = row.exchange.as_ref().filter(|_| row.scope == Scope::Data);
    [
        row.spread.map_or_else(none, percent),
        partitions.unwrap_or_else(none),
        exchange.map_or_else(none, |exchange| percent(exchange.median_share)),
    ]
}

fn heading(first: &ArrayRow, results: &ArrayResults, options: &ArrayOptions) -> String {
    let files = match first.files {
        1 => format!("a {} file", first.format),
        n => counted(n, &format!("{} file", first.format)),
    };
    let store = options.store.as_deref().unwrap_or("unknown file system");
    let (ranks, variables) = (counted(first.ranks, "rank"), counted(first.variables, "variable"));
    let size = match first.block {
        Some(block) => format!(", {} in blocks of {}", Bytes(first.bytes), Bytes(block)),
        None => format!(", headers of {}", Bytes(first.bytes)),
    };
    let calls = match (first.block, results.rows.iter().any(|row| row.nonblocking)) {
        (None, _) => "",
        (_, true) => ", collective and nonblocking",
        (_, false) => ", collective",
    };
    let verified = match results.rows.iter().any(|row| !row.read_by.is_empty()) {
        _ if !options.verify => "not verified",
        true => "verified, by the other libraries as well",
        false => "verified",
    };
    format!(
        "{}: {ranks}{calls}, {files} with {variables} on {store} ({}){size}, {verified}",
        first.workload,
        options.directory.display(),
    )
}

/// What is timed.
fn scope(row: &ArrayRow) -> &'static str {
    match (row.op, row.scope) {
        (ArrayOp::Write | ArrayOp::Read, Scope::Data) => "data",
        (ArrayOp::Write, Scope::Whole) => "create to close",
        (ArrayOp::Read, Scope::Whole) => "open to close",
        (ArrayOp::Create | ArrayOp::Open, _) => "and close",
    }
}
