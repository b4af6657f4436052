//! Every access method on the array: once as a file of this machine, once on servers.

use std::path::{Path, PathBuf};

use striate_bench::io::{
    self, Contender, IoOptions, IoResults, LocalServers, Repeated, paper_hints,
};
use striate_bench::workload::{Block3d, Workload};
use striate_comm::Threads;
use striate_file::{Method, MethodChoice};

use crate::CommandError;
use crate::bench::{
    COST_COLUMNS, WIRE_COLUMNS, cost_cells, io_failed, progress_bar, wire_cells, wire_of,
};
use crate::document::filesystem;
use crate::number::short;
use crate::table::{Side, Table};

/// How often every method writes and reads.
pub(super) const REPETITIONS: usize = 3;

/// Servers that are started.
pub(super) const SERVERS: usize = 4;

/// The edge of the array on servers at most: there one request per row takes its time.
pub(super) const EDGE_ON_SERVERS: u64 = 80;

/// What was measured, and where.
pub(super) struct Measured {
    pub(super) results: IoResults,
    pub(super) store: String,
}

/// Writes and reads the array by every method in a file of a directory, and verifies all bytes.
pub(super) fn in_directory(workload: &Block3d, directory: &Path) -> Result<Measured, CommandError> {
    let kind = filesystem(directory).unwrap_or_else(|| "file system".into());
    let results = measure(workload, directory, directory, &kind)?;
    Ok(Measured { results, store: format!("{kind} ({})", directory.display()) })
}

/// The same on servers, which are started for it and store in the directory.
pub(super) fn on_servers(workload: &Block3d, directory: &Path) -> Result<Measured, CommandError> {
    let servers = LocalServers::start(SERVERS, directory, |_| {}).map_err(|error| {
        let hint = "--dir names the directory that they store in";
        CommandError::failed("cannot start servers", error, hint)
    })?;
    let store = format!("{} ({SERVERS} servers, 64 KiB strips)", servers.url());
    let results = measure(workload, &PathBuf::from(servers.url()), directory, &store)?;
    Ok(Measured { results, store })
}

fn measure(
    workload: &Block3d,
    files: &Path,
    directory: &Path,
    store: &str,
) -> Result<IoResults, CommandError> {
    let methods = Method::ALL.map(MethodChoice::Fixed).into_iter().chain([MethodChoice::Auto]);
    let options = IoOptions {
        contenders: methods.map(|method| Contender::striate(method, None)).collect(),
        repeat: REPETITIONS,
        write: true,
        read: true,
        collective: true,
        fsync: false,
        verify: true,
        include_open: false,
        store: Some(store.into()),
        directory: files.into(),
        local_directory: directory.into(),
        files: io::FileChoice::default(),
        hints: paper_hints(workload.ranks()),
        goals: io::IoGoals::default(),
    };
    let bar = progress_bar();
    let pattern = Repeated::once(workload.clone());
    let progress = |at: &io::IoProgress<'_>| {
        bar.set_length(at.total as u64);
        bar.set_position(at.done as u64);
        bar.set_message(format!("{}, {}", at.contender.label(), at.op.name()));
    };
    let ranks = Threads::new(workload.ranks() as usize);
    let found = ranks.try_run(|comm| io::run(&comm, &pattern, &options, &progress));
    bar.finish_and_clear();
    found.map(|mut found| found.swap_remove(0)).map_err(io_failed)
}

/// A line per method: the rates both ways, and the costs of the read.
pub(super) fn table(measured: &IoResults) -> String {
    let on_servers = measured.rows.iter().any(|row| wire_of(row).is_some());
    let mut columns = vec![("method", Side::Left), ("write", Side::Right), ("read", Side::Right)];
    columns.extend(COST_COLUMNS);
    if on_servers {
        columns.extend(WIRE_COLUMNS);
    }
    // What a narrow terminal does without.
    let spare = ["per server", "region size", "wanted", "resent", "accessed", "their bytes"];
    let mut table = Table::new(&columns).spare(&spare);
    let (writes, reads): (Vec<_>, Vec<_>) =
        measured.rows.iter().partition(|row| row.op == io::IoOp::Write);
    for (write, read) in writes.iter().zip(&reads) {
        let method = match (&read.method, read.chosen) {
            (Some(method), Some(chosen)) => format!("{method}: {chosen}"),
            (method, _) => method.clone().unwrap_or_default(),
        };
        let mut cells = vec![method, short(write.median_mib_s), short(read.median_mib_s)];
        cells.extend(cost_cells(read.cost.as_ref()));
        if on_servers {
            cells.extend(wire_cells(wire_of(read)));
        }
        table.row(cells);
    }
    table.render()
}
