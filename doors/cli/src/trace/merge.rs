//! `striate trace merge`: all traces of a recording in one file.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use striate_datatype::{Bytes, counted};
use striate_recording::merge;

use crate::document::Document;
use crate::{CommandError, terminal};

/// Put all traces of a recording into one file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace merge traces -o run.trace

Blocks are copied unchanged. Damage in a trace is recorded in the result.")]
pub(super) struct MergeArgs {
    /// The recording
    recording: PathBuf,
    /// The new file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// What was written; the row of the JSON document.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    pub(super) output: PathBuf,
    pub(super) processes: usize,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Written {
    /// Tells of it.
    pub(super) fn tell(self, json: bool) -> Result<(), CommandError> {
        if json {
            return Document::new(vec![self], Vec::new()).print();
        }
        let Self { output, processes, records, bytes } = self;
        terminal::print(&format!(
            "{} of {} in {} ({})\n",
            counted(records, "call"),
            counted(processes as u64, "process"),
            output.display(),
            Bytes(bytes),
        ))
    }
}

pub(super) fn run(args: &MergeArgs, json: bool) -> Result<(), CommandError> {
    let (recording, bar) = super::open_watched(&args.recording, "merging")?;
    let merged = merge(&recording, &args.output);
    bar.end(|| super::nothing_left(&args.output))?;
    merged.map_err(super::refused)?;
    let written = Written {
        output: args.output.clone(),
        processes: recording.processes().len(),
        records: recording.records_count() + recording.layer_calls(),
        bytes: std::fs::metadata(&args.output).map_or(0, |data| data.len()),
    };
    written.tell(json)
}
