//! `striate nc compare`: the differences of two datasets.
//!
//! Dimensions, variables and attributes are compared by their names: neither their order nor the
//! format and layout of the files is a difference. The ranks share the work on the values.

mod definitions;
mod values;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use striate_array::Dataset;
use striate_comm::Comm;
use values::Tolerance;

use super::missing_values::MissingValues;
use super::signal_watch::{Leftover, SignalWatch};
use super::{RanksArgs, open};
use crate::document::Document;
use crate::number::grouped;
use crate::{CommandError, ranks, terminal};

/// Compare two datasets
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc compare ocean.nc striate://io.example/run7/ocean.nc
  striate nc compare --tolerance 1e-6 before.nc after.nc
  striate nc compare --relative 1e-5 --tolerance 1e-30 before.nc after.nc
  striate nc compare --header-only --json a.nc b.nc

The format, the layout and the order of definitions may differ. Numbers a and b are the same if |a - b| is
at most ABS, or at most REL times the larger of |a| and |b|; one of the two conditions is sufficient. NaN equals NaN
whatever its bits, and differs from every number; an infinity equals only itself; 0 equals -0; text must be
equal. A dataset whose file is truncated is refused, because missing values cannot be compared; what a
netCDF-4 or HDF5 file has that cannot be compared is named on standard error.
Exit status: 0 if the datasets are the same, 1 if they differ or cannot be compared.")]
pub(crate) struct NcCompareArgs {
    /// Compare values only; attributes, and variables of only one dataset, are ignored
    #[arg(long, conflicts_with = "header_only")]
    data_only: bool,

    /// Compare definitions only
    #[arg(long)]
    header_only: bool,

    /// Numbers that differ by at most this are equal
    #[arg(long, value_name = "ABS", default_value_t = 0.0, value_parser = tolerance)]
    tolerance: f64,

    /// Numbers that differ by at most this times the larger of them are equal
    #[arg(long, value_name = "REL", default_value_t = 0.0, value_parser = tolerance)]
    relative: f64,

    /// Use zeros in place of values that are missing in a file
    #[arg(long)]
    lenient: bool,

    #[command(flatten)]
    ranks: RanksArgs,

    /// A dataset: a path or a URL
    #[arg(value_name = "FIRST")]
    first: PathBuf,

    /// Another one
    #[arg(value_name = "SECOND")]
    second: PathBuf,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(tolerance) if tolerance >= 0.0 && f64::is_finite(tolerance) => Ok(tolerance),
        _ => Err("it is a number, 0 or more".into()),
    }
}

/// A difference; a row of the JSON document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Difference {
    /// Something is defined differently, or in one of them only.
    Definition {
        what: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        first: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        second: Option<String>,
    },
    /// Values of a variable differ.
    Values {
        variable: String,
        elements: u64,
        differing: u64,
        /// The index of the first one, and its values.
        index: Vec<u64>,
        first: String,
        second: String,
        /// Absent if no two numbers differ: text, or numbers that are none.
        #[serde(skip_serializing_if = "Option::is_none")]
        largest_difference: Option<f64>,
        /// The same, divided by the larger number.
        #[serde(skip_serializing_if = "Option::is_none")]
        largest_relative_difference: Option<f64>,
    },
}

pub(crate) fn run(args: &NcCompareArgs, json: bool) -> Result<(), CommandError> {
    let interrupt =
        SignalWatch::new(Leftover::Nothing("the datasets are not compared to the end"))?;
    let found = ranks::run(args.ranks.count(), |comm| compare(args, comm, interrupt.bar()))?;
    drop(interrupt);
    let Some((found, hidden)) = found else { return Ok(()) };
    let same = found.is_empty() && hidden.is_empty();
    if !hidden.is_empty() {
        let mut text = String::new();
        for line in &hidden {
            let _ = writeln!(text, "not compared: {line}");
        }
        // If standard error is closed, the status is left.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    if json {
        Document::new(found, Vec::new()).print()?;
    } else {
        let found_nothing = found.is_empty();
        let text: String = found.iter().map(Difference::text).collect();
        terminal::print(match (found_nothing, hidden.is_empty()) {
            (true, true) => "no differences\n",
            (true, false) => "no differences in what can be compared\n",
            (false, _) => &text,
        })?;
    }
    if same { Ok(()) } else { Err(CommandError::NotWell) }
}

/// Compares, as one of the ranks; all find the same differences, and what cannot be compared.
fn compare(
    args: &NcCompareArgs,
    comm: &Arc<dyn Comm>,
    bar: &ProgressBar,
) -> Result<(Vec<Difference>, Vec<String>), CommandError> {
    let mut first = open(comm, &args.first)?;
    let mut second = open(comm, &args.second)?;
    let hidden = |path: &Path, dataset: &Dataset| -> Vec<String> {
        let lines = dataset.hidden().iter();
        lines.map(|(object, why)| format!("{}: {object}: {why}", path.display())).collect()
    };
    let hidden = [hidden(&args.first, &first), hidden(&args.second, &second)].concat();
    if !args.header_only && !args.lenient {
        for (path, dataset) in [(&args.first, &first), (&args.second, &second)] {
            if let Some(missing) = MissingValues::of(path, dataset)? {
                return Err(missing.error("--lenient compares zeros in their place"));
            }
        }
    }
    let mut found = definitions::compare(first.header(), second.header(), args.data_only);
    if !args.header_only {
        let tolerance = Tolerance { absolute: args.tolerance, relative: args.relative };
        found.extend(values::compare(comm.as_ref(), &mut first, &mut second, tolerance, bar)?);
    }
    Ok((found, hidden))
}

impl Difference {
    fn text(&self) -> String {
        let mut text = String::new();
        let _ = match self {
            Self::Definition { what, first: Some(first), second: Some(second) } => {
                writeln!(text, "{what}: {first} <> {second}")
            }
            Self::Definition { what, first: Some(_), .. } => {
                writeln!(text, "{what}: in the first only")
            }
            Self::Definition { what, .. } => writeln!(text, "{what}: in the second only"),
            Self::Values {
                variable,
                elements,
                differing,
                index,
                first,
                second,
                largest_difference,
                ..
            } => {
                let index: Vec<String> = index.iter().map(ToString::to_string).collect();
                let largest = largest_difference
                    .map_or_else(String::new, |most| format!("; they differ by at most {most}"));
                writeln!(
                    text,
                    "variable '{variable}': {} of {} values differ, first at ({}): {first} <> {second}{largest}",
                    grouped(*differing),
                    grouped(*elements),
                    index.join(", "),
                )
            }
        };
        text
    }
}
