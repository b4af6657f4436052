//! `striate trace export`: exports recordings to other formats.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use striate_recording::export;

use super::bar::{self, RecordingBar};
use super::selection::Selection;
use crate::CommandError;
use crate::document::Document;

/// Export a recording to another format
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace export run.trace --format perfetto -o run.json    open it in ui.perfetto.dev
  striate trace export traces --format csv --kind write > writes.csv
  striate trace export traces --format darshan | grep POSIX_BYTES

jsonl and csv have a line for each call with times in nanoseconds. darshan has counters of files as
'darshan-parser' prints them: one record for each rank and file, shared files are not reduced.
With --json and -o, a JSON document describes the written file; without -o standard output is the export
itself, so --json is refused.")]
pub(super) struct ExportArgs {
    /// The recording
    recording: PathBuf,
    /// The format
    #[arg(long, value_enum)]
    format: ExportFormatArg,
    /// The file to write; standard output without it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportFormatArg {
    /// A JSON object in each line
    Jsonl,
    /// Comma-separated values
    Csv,
    /// Trace events for Perfetto and Chrome
    Perfetto,
    /// Counters like those of Darshan
    Darshan,
}

/// What was written; the row of the JSON document.
#[derive(Debug, Serialize)]
struct Exported {
    output: PathBuf,
    format: String,
    bytes: u64,
}

pub(super) fn run(args: &ExportArgs, json: bool) -> Result<(), CommandError> {
    if json && args.output.is_none() {
        return Err(CommandError::usage(
            "--json needs -o FILE: standard output is the export itself",
            "--format jsonl writes JSON objects",
        ));
    }
    let filter = args.selection.filter()?;
    let bar = if args.output.is_some() { RecordingBar::new()? } else { RecordingBar::of_output()? };
    let recording = super::watched(&args.recording, "exporting", &bar)?;
    let format = match args.format {
        ExportFormatArg::Jsonl => export::ExportFormat::Jsonl,
        ExportFormatArg::Csv => export::ExportFormat::Csv,
        ExportFormatArg::Perfetto => export::ExportFormat::Perfetto,
        ExportFormatArg::Darshan => export::ExportFormat::Darshan,
    };
    let written = super::to_output(args.output.as_deref(), |into| {
        export::write(&recording, &filter, format, into)
    });
    bar.end(|| match &args.output {
        Some(output) => {
            let _ = std::fs::remove_file(output);
            super::nothing_left(output)
        }
        None => bar::PARTIAL.to_owned(),
    })?;
    written?;
    let Some(output) = args.output.clone() else { return Ok(()) };
    if !json {
        return Ok(());
    }
    let bytes = std::fs::metadata(&output).map_or(0, |about| about.len());
    let format = args.format.to_possible_value();
    let format = format.map_or_else(String::new, |value| value.get_name().to_owned());
    Document::new(vec![Exported { output, format, bytes }], Vec::new()).print()
}
