//! `striate bench pack`: copies between typed memory and a stream.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use striate_bench::pack::{self, PackBenchError, PackOptions, PackResults, PackRow};

use super::ratio_table;
use crate::document::Document;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Copy between typed memory and a contiguous stream
///
/// Every case is copied small (1 MiB, stays in the caches) and large (64 MiB), both ways, by
/// Striate, by memcpy of as many bytes, by a hand-written loop (vectors) and by both MPIs. In each
/// round every engine takes one sample; ratios are taken within rounds. All engines must write the
/// same bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench pack
  striate bench pack --samples 31 --case vector")]
pub(super) struct PackArgs {
    /// Samples per engine, case and direction
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// Only the cases whose names contain this
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Minimum time of one sample in milliseconds; copies are repeated to reach it
    #[arg(long, value_name = "MS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(..=10_000))]
    sample_time: u64,
}

pub(super) fn run(args: &PackArgs, json: bool) -> Result<(), CommandError> {
    let options = PackOptions {
        samples: args.samples as usize,
        only: args.case.clone(),
        sample_time: Duration::from_millis(args.sample_time),
    };
    let bar = super::progress_bar();
    let _interrupted = super::said_when_interrupted(&bar, "no files were written");
    let results = pack::run(&options, |case, place, cases| {
        bar.set_length(cases as u64);
        bar.set_position(place as u64);
        bar.set_message(format!("{} ({})", case.name, case.size.name()));
    });
    bar.finish_and_clear();
    let results = results.map_err(|error| {
        let hint = match &error {
            PackBenchError::Peer(_) => "build without --features mpi to run without the peers",
            _ => "this is a bug: please report the case and the machine",
        };
        CommandError::failed("cannot finish the benchmark", error, hint)
    })?;
    if results.rows.is_empty() {
        let names = pack::PackCase::names();
        return Err(CommandError::usage(
            format!("no case has '{}' in its name", args.case.as_deref().unwrap_or_default()),
            format!("the cases are {}", names.join(", ")),
        ));
    }
    if json {
        return Document::new(results.rows, results.ratios).print();
    }
    terminal::print_fitted(&render(&results))
}

fn render(results: &PackResults) -> String {
    let engines: Vec<&str> = ["striate", "memcpy", "loop", "openmpi", "mpich"]
        .into_iter()
        .filter(|name| results.rows.iter().any(|row| row.implementation == *name))
        .collect();
    let mut columns = vec![("case", Side::Left), ("size", Side::Left), ("", Side::Left)];
    columns.extend(engines.iter().map(|name| (*name, Side::Right)));
    let mut table = Table::new(&columns);
    let same =
        |a: &PackRow, b: &PackRow| (a.case, a.size, a.direction) == (b.case, b.size, b.direction);
    for rows in results.rows.chunk_by(same) {
        let head = &rows[0];
        let mut cells = vec![head.case.into(), head.size.into(), head.direction.name().into()];
        cells.extend(engines.iter().map(|name| {
            let row = rows.iter().find(|row| row.implementation == *name);
            row.map_or_else(String::new, |row| {
                let [low, high] = row.ci95;
                format!("{:.2} [{low:.2}–{high:.2}]", row.median_gb_s)
            })
        }));
        table.row(cells);
    }
    let mut text = terminal::heading("GB/s, median [95 % interval]") + "\n" + &table.render();
    text.push_str(&ratio_table(&results.ratios));
    for peer in &results.peers {
        let _ = writeln!(text, "peer: {peer}");
    }
    if results.peers.is_empty() {
        text.push_str(
            "\nBuild with --features mpi to compare with MPI_Pack of Open MPI and MPICH.\n",
        );
    }
    text
}
