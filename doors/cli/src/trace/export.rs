//! `striate trace export`: recordings in formats of others.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use striate_recording::export;

use super::selection::Selection;
use crate::CommandError;

/// Write a recording in a format of others
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace export run.trace --format perfetto -o run.json    open it in ui.perfetto.dev
  striate trace export traces --format csv --kind write > writes.csv
  striate trace export traces --format darshan | grep POSIX_BYTES

jsonl (in the place of --json) and csv have a line for each call with times in nanoseconds. darshan has counters of files as
'darshan-parser' prints them: one record for each rank and file, shared files are not reduced.")]
pub(super) struct ExportArgs {
    /// The recording
    recording: PathBuf,
    /// The format
    #[arg(long, value_enum, conflicts_with = "json")]
    format: Format,
    /// The file to write; standard output without it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A JSON object in each line
    Jsonl,
    /// Values between commas
    Csv,
    /// Trace events for Perfetto and Chrome
    Perfetto,
    /// Counters like those of Darshan
    Darshan,
}

pub(super) fn run(args: &ExportArgs) -> Result<(), CommandError> {
    let filter = args.selection.filter()?;
    let (recording, bar) = super::open_watched(&args.recording, "exporting")?;
    let format = match args.format {
        Format::Jsonl => export::Format::Jsonl,
        Format::Csv => export::Format::Csv,
        Format::Perfetto => export::Format::Perfetto,
        Format::Darshan => export::Format::Darshan,
    };
    let written = super::to_output(args.output.as_deref(), |into| {
        export::write(&recording, &filter, format, into)
    });
    bar.end(|| match &args.output {
        Some(output) => {
            let _ = std::fs::remove_file(output);
            super::nothing_left(output)
        }
        None => "what was written to standard output is not all of it".to_owned(),
    })?;
    written
}
