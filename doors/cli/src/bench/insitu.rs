//! `striate bench insitu`: cost and gain of the stack under unmodified programs.

use std::path::PathBuf;

use clap::Args;
use striate_bench::insitu::{
    self, InsituError, InsituOptions, InsituResults, InsituRow, Overhead, Rate,
};

use super::{absolute, ratio_table};
use crate::document::Document;
use crate::run::library;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Measure the cost and the gain of the stack under unmodified programs
///
/// Costs: a process into which the library is loaded calls the intercepted functions and those of
/// the C library, in alternating blocks of 1,000 calls. Gains: processes do the same with and
/// without a stage, alternating, on a local file system or with a latency of 200 µs per request.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench insitu
  striate bench insitu --case overhead --rounds 1001
  striate bench insitu --dir /scratch --case combine --json")]
pub(super) struct InsituArgs {
    /// Where files are written
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// A directory on faster storage, for path-rewrite and for the costs of calls
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    fast: PathBuf,
    /// Rounds for the gains: samples of each variant
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Rounds for the costs: blocks of 1,000 calls of each function
    #[arg(long, default_value_t = 301, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// Only the cases whose names contain this
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// The library that is loaded into programs, if it is not beside the command
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// What a process of the benchmark itself is started with
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    task: Vec<String>,
}

pub(super) fn run(args: &InsituArgs, json: bool) -> Result<(), CommandError> {
    if !args.task.is_empty() {
        // A process of the benchmark ends with it.
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
        let told = insitu::work(&args.task).map_err(|reason| CommandError::usage(reason, ""))?;
        return terminal::print(&told);
    }
    let own = std::env::current_exe()
        .map_err(|error| CommandError::failed("cannot find this program", error, ""))?;
    let options = InsituOptions {
        library: library::find(args.preload.as_deref())?,
        worker: [own.as_os_str(), "bench".as_ref(), "insitu".as_ref(), "--task".as_ref()]
            .map(ToOwned::to_owned)
            .to_vec(),
        directory: absolute(&args.dir),
        fast: args.fast.clone(),
        repeat: args.repeat as usize,
        rounds: args.rounds as usize,
        only: args.case.clone(),
    };
    let bar = super::progress_bar();
    let _interrupted = super::said_when_interrupted(&bar, "what the benchmark wrote is removed");
    let results = insitu::run(&options, |case, place, cases| {
        bar.set_length(cases as u64);
        bar.set_position(place as u64);
        bar.set_message(case.to_owned());
    });
    bar.finish_and_clear();
    let results = results.map_err(|error| {
        let hint = match &error {
            InsituError::File { .. } => "choose other directories with --dir and --fast",
            _ => "this is a bug: please report the case and the machine",
        };
        CommandError::failed("cannot finish the benchmark", error, hint)
    })?;
    if results.rows.is_empty() {
        return Err(CommandError::usage(
            format!("no case has '{}' in its name", args.case.as_deref().unwrap_or_default()),
            format!("the cases are {}", insitu::case_names().join(", ")),
        ));
    }
    if json {
        return Document::new(results.rows, results.ratios).print();
    }
    terminal::print_fitted(&render(&results))
}

fn render(results: &InsituResults) -> String {
    let mut text = String::new();
    let overheads = results.rows.iter().filter_map(|row| match row {
        InsituRow::Overhead(overhead) => Some(overhead),
        InsituRow::Rate(_) => None,
    });
    let overheads: Vec<&Overhead> = overheads.collect();
    if !overheads.is_empty() {
        text += &terminal::heading("ns per call more than without, median [95 % interval]");
        text.push('\n');
        text += &overhead_table(&overheads);
    }
    let rates = results.rows.iter().filter_map(|row| match row {
        InsituRow::Rate(rate) => Some(rate),
        InsituRow::Overhead(_) => None,
    });
    let rates: Vec<&Rate> = rates.collect();
    if !rates.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &terminal::heading("Rates, median [95 % interval]");
        text.push('\n');
        text += &rate_table(&rates);
    }
    text + &ratio_table(&results.ratios)
}

fn overhead_table(overheads: &[&Overhead]) -> String {
    let columns = [
        ("stack", Side::Left),
        ("function", Side::Left),
        ("plain", Side::Right),
        ("more", Side::Right),
        ("mean", Side::Right),
        ("goal", Side::Right),
        ("", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for row in overheads {
        let [low, high] = row.ci95;
        table.row([
            row.case.to_owned(),
            row.function.to_owned(),
            format!("{:.0}", row.plain_ns),
            format!("{:.1} [{low:.1}–{high:.1}]", row.value_ns),
            format!("{:.1}", row.mean_ns),
            row.goal_ns.map_or_else(|| "-".into(), |goal| format!("{goal:.0}")),
            row.met.map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
        ]);
    }
    table.render()
}

fn rate_table(rates: &[&Rate]) -> String {
    let columns = [("case", Side::Left), ("", Side::Left), ("rate", Side::Right), ("", Side::Left)];
    let mut table = Table::new(&columns);
    for row in rates {
        let [low, high] = row.ci95;
        let rate = format!("{:.1} [{low:.1}–{high:.1}]", row.median);
        table.row([row.case.to_owned(), row.way.to_owned(), rate, row.unit.to_owned()]);
    }
    table.render()
}
