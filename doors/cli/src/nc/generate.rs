//! `striate nc generate`: makes a file from CDL.
//!
//! The text is read whole; its values are converted while they are written, so that a list of
//! values may be much longer than what is in memory of it at a time. What is written has another
//! name until it is complete, as copies have.

mod classic;
mod contents;
mod model_check;
mod netcdf4;
mod output;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use output::Output;
use serde::Serialize;
use striate_array::cdl::parse::{CdlDocument, CdlFormat, CdlSyntaxError, CdlVariable, parse};
use striate_datatype::Bytes;

use super::existing;
use super::signal_watch::{Leftover, SignalWatch};
use crate::document::Document;
use crate::number::counted;
use crate::{CommandError, ranks, terminal};

/// The longest text.
const LONGEST: u64 = 2 << 30;

/// Make a file from CDL, the text that 'striate nc dump' prints
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc generate ocean.cdl                     ocean.nc, in the format that the text needs
  striate nc generate --format cdf5 ocean.cdl -o run7/ocean.nc
  striate nc dump a.nc | sed 's/kelvin/K/' | striate nc generate - b.nc

Without --format, the text's _Format decides, else what it contains: groups, user-defined types, strings, several
unlimited dimensions, compression and the like need netCDF-4, unsigned and 64-bit types CDF-5, and all else is
CDF-1. Values that the text does not give are fill values. The file has a temporary name, .NAME.part-..., until
it is complete.")]
pub(crate) struct GenerateArgs {
    /// The format of the file: cdf1, cdf2, cdf5, netcdf4 or netcdf4-classic
    #[arg(short = 'k', long, value_name = "FORMAT")]
    format: Option<CdlFormat>,

    /// Replace a file that exists
    #[arg(short, long)]
    force: bool,

    /// The file to make: a path or a URL [default: the name of the text, with .nc]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The text; '-' is standard input
    #[arg(value_name = "CDL")]
    input: PathBuf,

    /// The same as --output
    #[arg(value_name = "FILE", conflicts_with = "output")]
    file: Option<PathBuf>,
}

/// What was made; a row of the JSON document.
#[derive(Debug, Serialize)]
struct GeneratedRow {
    from: String,
    to: String,
    format: String,
    groups: usize,
    variables: usize,
    /// Bytes of all elements.
    data_size: u64,
    seconds: f64,
}

pub(crate) fn run(args: &GenerateArgs, json: bool) -> Result<(), CommandError> {
    if !ranks::is_printing_rank() {
        // One process of a job has all the work.
        return Ok(());
    }
    let interrupt = SignalWatch::new(Leftover::Nothing("nothing was written"))?;
    let start = Instant::now();
    let from = match args.input.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => args.input.display().to_string(),
    };
    let text = read_text(&args.input, &from)?;
    let document = parse(&text).map_err(|error| in_text(&from, error))?;
    let format = args.format.unwrap_or_else(|| document.needed_format());
    model_check::check(&document, format)
        .map_err(|(why, hint)| CommandError::failed(cannot(&from), why, hint))?;
    let path = args.output.as_ref().or(args.file.as_ref());
    let path = path.cloned().unwrap_or_else(|| default_path(&args.input, &document));
    let output = Output::new(&path, existing(args.force))?;
    interrupt.leaves(output.leaves());
    let stop = interrupt.stop();
    let written = match format {
        CdlFormat::Classic(format) => classic::write(&document, format, &output, &from, stop),
        _ => netcdf4::write(&document, format, &output, &from, stop),
    };
    let complete = Leftover::Unfinished(format!("{} is complete", path.display()));
    let finished = written.and_then(|()| interrupt.between(|| output.finish(), complete));
    finished.inspect_err(|_| output.discard())?;
    drop(interrupt);
    print(
        GeneratedRow {
            from,
            to: path.display().to_string(),
            format: format.to_string(),
            groups: document.groups.len(),
            variables: document.variables.len(),
            data_size: document.variables.iter().map(|it| size(&document, it)).sum(),
            seconds: start.elapsed().as_secs_f64(),
        },
        json,
    )
}

fn print(row: GeneratedRow, json: bool) -> Result<(), CommandError> {
    if json {
        return Document::new(vec![row], Vec::new()).print();
    }
    terminal::print(&format!(
        "made {}: {}, {} in {}\n",
        row.to,
        counted(row.variables as u64, "variable"),
        Bytes(row.data_size),
        row.format,
    ))
}

/// Bytes of a variable.
fn size(document: &CdlDocument<'_>, variable: &CdlVariable) -> u64 {
    let elements: u64 = document.lengths(variable).iter().product();
    elements * u64::from(document.size(variable.of))
}

/// What was attempted.
fn cannot(from: &str) -> String {
    format!("cannot make a file from {from}")
}

/// Something is wrong with the text.
fn in_text(from: &str, error: CdlSyntaxError) -> CommandError {
    CommandError::failed(cannot(from), error, "")
}

/// Fails if the command was asked to end.
fn go_on(stop: &AtomicBool) -> Result<(), CommandError> {
    if stop.load(Ordering::SeqCst) {
        return Err(CommandError::failed("the file is not complete", "it was interrupted", ""));
    }
    Ok(())
}

fn read_text(path: &Path, shown: &str) -> Result<Vec<u8>, CommandError> {
    let cannot = |error: io::Error| CommandError::failed(format!("cannot read {shown}"), error, "");
    let mut text = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(LONGEST + 1).read_to_end(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text))
    };
    read.map_err(cannot)?;
    if text.len() as u64 > LONGEST {
        let problem = format!("it is longer than {}", Bytes(LONGEST));
        return Err(CommandError::failed(format!("cannot read {shown}"), problem, ""));
    }
    Ok(text)
}

/// The name of the text with another ending; of standard input, that of the dataset.
fn default_path(input: &Path, document: &CdlDocument<'_>) -> PathBuf {
    let name = match input.file_stem() {
        Some(stem) if input.as_os_str() != "-" => stem.to_owned(),
        _ => document.name.replace(['/', '\\'], "").into(),
    };
    let mut name = if name.is_empty() { "unnamed".into() } else { name };
    name.push(".nc");
    name.into()
}
