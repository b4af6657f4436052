//! `striate compare`: compares two recordings, runs or results of benchmarks.

use std::path::PathBuf;

use clap::Args;
use striate_report::compare::{CompareError, Input, compare, render_within};

use crate::document::Document;
use crate::{CommandError, terminal};

/// Compare two recordings, runs or benchmark results, and show what changed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate compare traces-before traces-after            recordings
  striate compare monday.darshan tuesday.darshan        Darshan logs
  striate compare before.json after.json                output of 'striate run --json --summary',
                                                        'striate bench … --json' or 'striate report --json'
  striate compare --json benches/results/parallel.json new.json

Counts and bytes are compared exactly. Times and rates are tested for significance where there are
several samples: the calls of recordings, the repetitions of benchmarks.")]
pub(crate) struct CompareArgs {
    /// The base of the comparison: a recording, a Darshan log or a JSON document
    a: PathBuf,
    /// What is compared with it, of the same kind
    b: PathBuf,
    /// Also show figures that are equal on both sides
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &CompareArgs, json: bool) -> Result<(), CommandError> {
    let open = |path: &PathBuf| Input::open(path).map_err(refused);
    let comparison = compare(&open(&args.a)?, &open(&args.b)?).map_err(refused)?;
    if json {
        return Document::new(vec![comparison], Vec::new()).print();
    }
    terminal::print_fitted(&render_within(&comparison, args.all, terminal::width()))
}

fn refused(error: CompareError) -> CommandError {
    let hint = match &error {
        CompareError::Recording(_) | CompareError::Read { .. } => "",
        CompareError::Unknown { .. } => "'striate compare --help' lists what can be compared",
        CompareError::Different { .. } => "both sides must be of the same kind",
    };
    CommandError::failed("cannot compare", error, hint)
}
