//! The rows of a benchmark of file I/O as a table.

use std::fmt::Write as _;

use striate_bench::io::{Cost, IoOptions, IoResults, IoRow, Wire};
use striate_datatype::Bytes;

use super::ratio_table;
use crate::number::{counted, grouped, short};
use crate::table::{Side, Table};
use crate::terminal;

/// What was found, for people.
pub(super) fn render(results: &IoResults, options: &IoOptions) -> String {
    let Some(first) = results.rows.first() else { return String::new() };
    let calls = if first.collective { "collective" } else { "independent" };
    let files = if first.file_per_process { "a file per rank" } else { "one file" };
    let store = options.store.as_deref().unwrap_or("unknown file system");
    let verified = if options.verify { "every byte verified" } else { "not verified" };
    // On servers the name of the store says where it is.
    let on_servers = results.rows.iter().any(|row| wire_of(row).is_some());
    let place =
        if on_servers { String::new() } else { format!(" ({})", options.directory.display()) };
    let mut text = format!(
        "{}: {}, {calls}, {files} on {store}{place}, {} in blocks of {}, {verified}\n\n",
        first.workload,
        counted(first.ranks, "rank"),
        Bytes(first.bytes),
        Bytes(first.block),
    );
    let repetitions = match options.repeat {
        1 => "1 repetition".into(),
        n => format!("median of {n} [95 % interval]"),
    };
    let heading = format!("MiB/s, {repetitions}, and what a call costs a client");
    let _ = writeln!(text, "{}", terminal::heading(&heading));
    let mut columns = vec![("", Side::Left), ("api", Side::Left), ("method", Side::Left)];
    columns.extend([("MiB/s", Side::Right), ("", Side::Left)]);
    columns.extend(COST_COLUMNS);
    if on_servers {
        columns.extend(WIRE_COLUMNS);
    }
    // Columns that a narrow terminal leaves out, the least informative first.
    let spare =
        ["per server", "region size", "resent", "their bytes", "wanted", "requests", "accessed"];
    let mut table = Table::new(&columns).spare(&spare);
    for row in &results.rows {
        let mut cells = vec![row.op.name().into(), row.api.clone(), method_cell(row)];
        cells.extend(rate_cells(row));
        cells.extend(cost_cells(row.cost.as_ref()));
        if on_servers {
            cells.extend(wire_cells(wire_of(row)));
        }
        table.row(cells);
    }
    text.push_str(&table.render());
    text.push_str(&ratio_table(&results.ratios));
    if options.files.keep {
        text.push_str(&kept(first, options));
    }
    text
}

/// Where the files are that stay.
fn kept(first: &IoRow, options: &IoOptions) -> String {
    let Some(name) = &options.files.name else { return String::new() };
    match (first.file_per_process, first.ranks) {
        (true, ranks) if ranks > 1 => format!("\nKept: {}.0 to .{}\n", name.display(), ranks - 1),
        _ => format!("\nKept: {}\n", name.display()),
    }
}

/// The method, and what it came to.
fn method_cell(row: &IoRow) -> String {
    let method = row.method.as_deref().unwrap_or("-");
    match (row.chosen, row.domains) {
        (Some(chosen), Some(domains)) => format!("{method}: {chosen}, {domains}"),
        (Some(what), None) => format!("{method}: {what}"),
        (None, Some(domains)) => format!("{method}, {domains}"),
        (None, None) => method.to_owned(),
    }
}

fn rate_cells(row: &IoRow) -> [String; 2] {
    let [low, high] = row.ci95;
    let interval = if row.samples.len() > 1 {
        format!("[{}–{}]", short(low), short(high))
    } else {
        String::new()
    };
    [short(row.median_mib_s), interval]
}

/// The characteristics of a method, as columns of a table.
pub(crate) const COST_COLUMNS: [(&str, Side); 5] = [
    ("wanted", Side::Right),
    ("accessed", Side::Right),
    ("operations", Side::Right),
    ("resent", Side::Right),
    ("region size", Side::Right),
];

/// The cells of [`COST_COLUMNS`].
pub(crate) fn cost_cells(cost: Option<&Cost>) -> [String; 5] {
    let Some(cost) = cost else { return std::array::from_fn(|_| "-".into()) };
    [
        Bytes(cost.wanted).to_string(),
        Bytes(cost.accessed).to_string(),
        grouped(cost.operations),
        cost.resent.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string()),
        Bytes(cost.region_size).to_string(),
    ]
}

/// What a call sends to servers besides data, as columns of a table.
pub(crate) const WIRE_COLUMNS: [(&str, Side); 3] =
    [("requests", Side::Right), ("their bytes", Side::Right), ("per server", Side::Right)];

/// The cells of [`WIRE_COLUMNS`]; in brackets the first call, which sends descriptions.
pub(crate) fn wire_cells(wire: Option<&Wire>) -> [String; 3] {
    let Some(wire) = wire else { return std::array::from_fn(|_| "-".into()) };
    let with_first = |steady: u64, first: Option<u64>| match first {
        Some(first) => format!("{} (first {})", grouped(steady), grouped(first)),
        None => grouped(steady),
    };
    [
        with_first(wire.requests, wire.first_call_requests),
        with_first(wire.request_bytes, wire.first_call_request_bytes),
        grouped(wire.request_bytes_per_server),
    ]
}

/// What the calls of a row sent to servers, if it is on such.
pub(crate) fn wire_of(row: &IoRow) -> Option<&Wire> {
    row.cost.as_ref()?.wire.as_ref()
}
