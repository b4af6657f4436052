//! `striate trace cut`: writes a part of a recording as a new one.

use std::path::PathBuf;

use clap::Args;
use striate_recording::{Recording, cut};

use super::merge::Written;
use super::selection::Selection;
use crate::CommandError;

/// Cut a part out of a recording
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace cut run.trace --from 2s --to 5s -o middle.trace
  striate trace cut traces --rank 0,1 --path '/scratch/**' -o scratch.trace
  striate trace cut traces --kind read,write -o transfers.trace

Files that were opened before the cut, or by calls that are not selected, are stored with their path, flags,
position, size and descriptors. Times remain those of the whole recording.")]
pub(super) struct CutArgs {
    /// The recording
    recording: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// The new file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(args: &CutArgs, json: bool) -> Result<(), CommandError> {
    let filter = args.selection.filter()?;
    let (recording, bar) = super::open_watched(&args.recording, "cutting")?;
    let cut = cut(&recording, &filter, &args.output);
    bar.end(|| super::nothing_left(&args.output))?;
    let records = cut.map_err(super::refused)?;
    let made = Recording::open(&args.output).map_err(super::refused)?;
    let written = Written {
        output: args.output.clone(),
        processes: made.processes().len(),
        records,
        bytes: std::fs::metadata(&args.output).map_or(0, |data| data.len()),
    };
    written.tell(json)
}
