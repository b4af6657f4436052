//! `striate bench`: measurements with their spread, of Striate and its peers in the same run.

mod array;
mod insitu;
mod io;
mod mount;
mod pack;
mod rows;
mod store;
mod workloads;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use striate_bench::io::SignalCleanup;
use striate_comm::Comm;
use striate_statistics::Ratio;
use striate_store::remote::{Client, RemoteUrl, UrlError};

use crate::document::available_memory;
use crate::number::counted;
use crate::table::{Side, Table};
use crate::{CommandError, ranks, space, terminal};

pub(crate) use io::io_failed;
pub(crate) use rows::{COST_COLUMNS, WIRE_COLUMNS, cost_cells, wire_cells, wire_of};

/// Run benchmarks, compared with peers and the limits of the machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench pack                                    copies of typed memory
  striate bench tile-reader                             the paper's displays, all methods
  striate bench strided --block 64 --api striate,posix  compared with plain system calls
  striate bench tile-reader --servers 16                on I/O servers within the program
  striate bench block3d --store striate://host:7479     on I/O servers
  mpiexec -n 4 striate bench ior -c -a striate,mpiio    compared with MPI-IO (--features mpi)
  mpiexec -n 4 striate bench array flash                datasets compared with PnetCDF (--features mpi)
  striate bench array --help                            all benchmarks of datasets
  striate bench insitu                                  the stack under unmodified programs
  striate bench mount                                   the same through a mount")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    Pack(pack::PackArgs),
    TileReader(workloads::TileReaderArgs),
    Block3d(workloads::Block3dArgs),
    Flash(workloads::FlashArgs),
    Strided(workloads::StridedArgs),
    Ior(workloads::IorArgs),
    Array(array::ArrayArgs),
    CollPerf(array::CollPerfArgs),
    FlashIo(array::FlashIoArgs),
    S3d(array::S3dArgs),
    NetcdfBench(array::NetcdfBenchArgs),
    Insitu(insitu::InsituArgs),
    Mount(mount::MountBenchArgs),
}

pub(crate) fn run(args: &BenchArgs, json: bool) -> Result<(), CommandError> {
    match &args.workload {
        Workload::Pack(args) => pack::run(args, json),
        Workload::TileReader(args) => args.run(json),
        Workload::Block3d(args) => args.run(json),
        Workload::Flash(args) => args.run(json),
        Workload::Strided(args) => args.run(json),
        Workload::Ior(args) => args.run(json),
        Workload::Array(args) => args.run(json),
        Workload::CollPerf(args) => args.run(json),
        Workload::FlashIo(args) => args.run(json),
        Workload::S3d(args) => args.run(json),
        Workload::NetcdfBench(args) => args.run(json),
        Workload::Insitu(args) => insitu::run(args, json),
        Workload::Mount(args) => mount::run(args, json),
    }
}

/// `bench flash` is a pattern on plain files, unless a library of datasets is asked for: then it is
/// `bench array flash`.
pub(crate) fn routed(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let names_library = |value: &OsString| value.to_string_lossy().contains("netcdf");
    let is_api = |name: &OsString| name == "--api" || name == "-a";
    let asks = args.windows(2).any(|pair| is_api(&pair[0]) && names_library(&pair[1]))
        || args.iter().any(|arg| arg.to_string_lossy().starts_with("--api=") && names_library(arg));
    let flash = args.windows(2).position(|pair| pair[0] == "bench" && pair[1] == "flash");
    if let (true, Some(bench)) = (asks, flash) {
        args.insert(bench + 1, "array".into());
    }
    args
}

/// A directory as an absolute path, which rules of a stack are about.
fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf())
}

/// Shows itself on a terminal only.
pub(crate) fn progress_bar() -> ProgressBar {
    ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

/// Refuses what does not fit into memory: each rank of this node needs so many bytes.
fn check_memory(comm: &dyn Comm, each: u64) -> Result<(), CommandError> {
    let nodes = comm.nodes();
    let ranks = nodes.iter().filter(|node| **node == nodes[comm.rank()]).count() as u64;
    let (needed, available) = (each.saturating_mul(ranks), available_memory());
    if needed <= available {
        return Ok(());
    }
    let what = format!("the data of {}, to write and to read,", counted(ranks, "rank"));
    let hint = "use smaller sizes or fewer ranks".into();
    Err(CommandError::Memory { what, needed, available, hint })
}

/// What is said if a signal ends the program, after all else that is done then. `what` says what
/// became of its files.
pub(crate) fn said_when_interrupted(bar: &ProgressBar, what: &'static str) -> SignalCleanup {
    let bar = bar.clone();
    SignalCleanup::new(move || {
        bar.finish_and_clear();
        if ranks::is_printing_rank() {
            eprintln!("striate: interrupted: nothing was measured to the end, and {what}");
        }
    })
}

/// Refuses files of so many bytes where there is no room for them, in a directory or on servers.
/// Collective.
fn check_space(comm: &dyn Comm, needed: u64, directory: &Path) -> Result<(), CommandError> {
    let hint = "use smaller sizes or fewer ranks, or another place for the files";
    let look = || {
        let url = directory.to_str().filter(|text| RemoteUrl::is_remote(text));
        let Some(url) = url else {
            let directory =
                if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            return space::check("the benchmark", needed, directory, hint);
        };
        let url: RemoteUrl = url.parse().map_err(|error| failed_to_look(url, error))?;
        let client = Client::shared(&url)?;
        let free = client.servers()?.iter().try_fold(0u64, |sum, server| {
            Ok::<_, CommandError>(sum.saturating_add(client.space(server)?.available))
        })?;
        if free >= needed {
            return Ok(());
        }
        Err(space::refused("the benchmark", needed, free, &url.to_string(), hint))
    };
    space::agreed(comm, look())
}

fn failed_to_look(url: &str, error: UrlError) -> CommandError {
    CommandError::failed(format!("cannot use {url}"), error, "")
}

/// Shows where a benchmark is: what is done of how much, and what is under way.
fn show(bar: &ProgressBar, (done, total): (usize, usize), repetition: usize, what: &str) {
    bar.set_length(total as u64);
    bar.set_position(done as u64);
    bar.set_message(format!("repetition {}: {what}", repetition + 1));
    bar.enable_steady_tick(Duration::from_millis(500));
}

/// The comparisons under a heading of their own; empty if there are none.
fn ratio_table(ratios: &[Ratio]) -> String {
    if ratios.is_empty() {
        return String::new();
    }
    let columns =
        [("ratio", Side::Left), ("", Side::Right), ("goal", Side::Right), ("", Side::Left)];
    let mut table = Table::new(&columns);
    for ratio in ratios {
        let [low, high] = ratio.ci95;
        table.row([
            ratio.name.clone(),
            format!("{:.2} [{low:.2}–{high:.2}]", ratio.value),
            ratio.goal.map_or_else(|| "-".into(), |goal| format!("{goal:.2}")),
            match ratio.met {
                Some(true) => "met".into(),
                Some(false) => "missed".into(),
                None => String::new(),
            },
        ]);
    }
    let with_goal = ratios.iter().filter(|ratio| ratio.met.is_some()).count();
    let met = ratios.iter().filter(|ratio| ratio.met == Some(true)).count();
    let heading = match with_goal {
        0 => "Within repetitions, median [95 % interval]".into(),
        _ => format!("{met} of {with_goal} goals met"),
    };
    format!("\n{}\n{}", terminal::heading(&heading), table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_of_a_library_is_a_dataset() {
        let routed = |line: &str| {
            let args = routed(line.split(' ').map(OsString::from));
            args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        for (given, meant) in [
            ("striate bench flash", "striate bench flash"),
            ("striate bench flash --api striate,mpiio", "striate bench flash --api striate,mpiio"),
            ("striate bench flash --api pnetcdf", "striate bench array flash --api pnetcdf"),
            (
                "striate --json bench flash --api=striate,netcdf",
                "striate --json bench array flash --api=striate,netcdf",
            ),
            ("striate bench s3d --api pnetcdf", "striate bench s3d --api pnetcdf"),
            ("striate bench array flash -a pnetcdf", "striate bench array flash -a pnetcdf"),
        ] {
            assert_eq!(routed(given), meant);
        }
    }
}
