//! MPI-IO calls, and the calls beneath them, as tables for terminals.

use std::fmt::Write as _;

use super::{Style, row, table};
use crate::formatting::{grouped, size, time};
use crate::model::Model;
use crate::mpi_io::LayerSums;

/// Processes in the table.
const MOST_PROCESSES: usize = 32;

/// Tables of functions and of processes.
pub(super) fn calls(style: &Style, out: &mut String, model: &Model) {
    let mpi_io = &model.mpi_io;
    if mpi_io.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", style.heading("MPI-IO calls, and the calls beneath them"));
    let mut rows = vec![row(&[
        "function",
        "",
        ">calls",
        ">failed",
        ">bytes",
        ">time",
        ">beneath: calls",
        ">bytes",
        ">time",
    ])];
    for function in &mpi_io.functions {
        let together = if function.collective { "collective" } else { "independent" };
        let mut cells = vec![function.name.clone(), together.to_owned()];
        cells.extend(sums(&function.sums));
        rows.push(cells);
    }
    out.push_str(&table(&rows, Some(style.width)));

    let _ = writeln!(out, "\n{}", style.heading("MPI-IO calls by rank"));
    rows.truncate(1);
    rows[0][0] = "process".into();
    for process in mpi_io.processes.iter().take(MOST_PROCESSES) {
        let mut name =
            process.rank.map_or(process.process.to_string(), |rank| format!("rank {rank}"));
        let sides = [("collective", &process.collective), ("independent", &process.independent)];
        for (together, side) in sides {
            if side.calls > 0 {
                let mut cells = vec![std::mem::take(&mut name), together.to_owned()];
                cells.extend(sums(side));
                rows.push(cells);
            }
        }
    }
    out.push_str(&table(&rows, Some(style.width)));
    let more = mpi_io.processes.len().saturating_sub(MOST_PROCESSES) as u64;
    let more = more + mpi_io.other_processes;
    if more > 0 {
        let _ = writeln!(out, "  and {} more", grouped(more));
    }
}

fn sums(sums: &LayerSums) -> [String; 7] {
    [
        grouped(sums.calls),
        grouped(sums.failed),
        size(sums.bytes()),
        time(sums.time_ns),
        grouped(sums.beneath.calls.all()),
        size(sums.beneath.bytes()),
        time(sums.beneath.time_ns.all()),
    ]
}
