//! MPI-IO calls, and the calls beneath them, as tables of the page.

use super::html::{Column, TableCell, escaped, number, section, table, word};
use crate::formatting::{grouped, size, time};
use crate::model::Model;
use crate::mpi_io::LayerSums;

/// The section.
pub(super) fn calls(model: &Model) -> String {
    let mpi_io = &model.mpi_io;
    if mpi_io.is_empty() {
        return String::new();
    }
    let rows = mpi_io.functions.iter().map(|row| {
        let mut cells = vec![
            TableCell::html(format!("<code>{}</code>", escaped(&row.name))).by(&row.name),
            TableCell::text(together(row.collective)),
        ];
        cells.extend(sums(&row.sums));
        cells
    });
    let functions = table("MPI-IO functions by time", &columns("function"), rows, true);
    let rows = mpi_io.processes.iter().flat_map(|row| {
        let name = row.rank.map_or(row.process.to_string(), |rank| format!("rank {rank}"));
        let sides = [(true, &row.collective), (false, &row.independent)];
        sides.into_iter().filter(|(_, side)| side.calls > 0).map(move |(collective, side)| {
            let mut cells = vec![
                TableCell::number(&name, row.rank.unwrap_or(row.process)),
                TableCell::text(together(collective)),
            ];
            cells.extend(sums(side));
            cells
        })
    });
    let processes = table("MPI-IO calls by rank", &columns("process"), rows, true);
    let rest = match mpi_io.other_processes {
        0 => String::new(),
        more => format!("<p class=\"note\">{} more processes are not listed.</p>", grouped(more)),
    };
    let lead = "What the program called, and the calls on files that were made for it. Time in which ranks exchange data or \
                wait for each other is in the MPI-IO calls only.";
    section("mpi-io", "MPI-IO", lead, &[functions, processes, rest].concat())
}

const fn together(collective: bool) -> &'static str {
    if collective { "collective" } else { "independent" }
}

const fn columns(first: &'static str) -> [Column; 9] {
    [
        word(first),
        word("ranks"),
        number("calls"),
        number("failed"),
        number("bytes"),
        number("time"),
        number("calls beneath"),
        number("bytes beneath"),
        number("time beneath"),
    ]
}

fn sums(sums: &LayerSums) -> [TableCell; 7] {
    let count = |value: u64| TableCell::number(grouped(value), value);
    let bytes = |value: u64| TableCell::number(size(value), value);
    let span = |value: u64| TableCell::number(time(value), value);
    [
        count(sums.calls),
        count(sums.failed),
        bytes(sums.bytes()),
        span(sums.time_ns),
        count(sums.beneath.calls.all()),
        bytes(sums.beneath.bytes()),
        span(sums.beneath.time_ns.all()),
    ]
}
