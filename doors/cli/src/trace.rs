//! `striate trace`: shows, merges, cuts, exports and imports recordings.

pub(crate) mod bar;
mod cut;
mod export;
mod import;
mod merge;
mod selection;
mod show;
pub(crate) mod stats;

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use striate_recording::{Recording, RecordingError};

use self::bar::RecordingBar;
use crate::CommandError;
use crate::output::write_whole;

/// Show, merge, cut, export and import recordings of programs' file operations
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate run --trace traces -- ./simulation            record a program  striate trace show traces --path '*.nc' --kind write  what was written to some files
  striate trace stats traces                            totals  striate trace merge traces -o run.trace               one file
  striate trace export run.trace --format perfetto -o run.json
  striate trace import strace.txt -o run.trace

A recording is a trace, a merged file, or a directory of traces. See docs/traces.md.")]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    Show(show::TraceShowArgs),
    Stats(stats::TraceStatsArgs),
    Merge(merge::MergeArgs),
    Cut(cut::CutArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
}

pub(crate) fn run(args: &TraceArgs, json: bool) -> Result<(), CommandError> {
    match &args.command {
        TraceCommand::Show(args) => show::run(args, json),
        TraceCommand::Stats(args) => stats::run(args, json),
        TraceCommand::Merge(args) => merge::run(args, json),
        TraceCommand::Cut(args) => cut::run(args, json),
        TraceCommand::Export(args) => export::run(args, json),
        TraceCommand::Import(args) => import::run(args, json),
    }
}

/// Opens a recording and says what is wrong with it.
fn open(path: &Path) -> Result<Recording, CommandError> {
    let recording = Recording::open(path).map_err(refused)?;
    warn(&recording.complaints());
    Ok(recording)
}

/// The same for a command that goes through it, which is shown on terminals and may be interrupted.
fn open_watched(
    path: &Path,
    what: &'static str,
) -> Result<(Recording, RecordingBar), CommandError> {
    let bar = RecordingBar::new()?;
    let recording = watched(path, what, &bar)?;
    Ok((recording, bar))
}

/// A recording whose records are counted by a bar as they are read.
fn watched(path: &Path, what: &'static str, bar: &RecordingBar) -> Result<Recording, CommandError> {
    let recording = open(path)?.watched_by(Arc::clone(bar.progress()));
    bar.progress().begin(what, recording.records_count());
    Ok(recording)
}

/// The message about a result that is missing because of a signal.
fn nothing_left(output: &Path) -> String {
    format!("nothing is left of {}", output.display())
}

/// Says what is not as it should be, but no reason to stop.
fn warn(complaints: &[String]) {
    const SHOWN: usize = 10;
    let style = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Yellow.into()));
    let mut stderr = anstream::stderr().lock();
    for complaint in complaints.iter().take(SHOWN) {
        let _ = writeln!(stderr, "{style}warning:{style:#} {complaint}");
    }
    if let Some(more) = complaints.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(stderr, "{style}warning:{style:#} {more} more like these");
    }
}

/// What goes wrong with recordings.
fn refused(error: RecordingError) -> CommandError {
    let hint = match &error {
        RecordingError::Trace(_) | RecordingError::Empty(_) => {
            "'striate run --trace DIR' makes recordings; 'striate trace import' imports the output of other tools"
        }
        RecordingError::UnknownFormat(_) => "give the format with --format",
        RecordingError::Within(_) => "choose another place with -o",
        RecordingError::Write { error, .. } if error.kind() == ErrorKind::AlreadyExists => {
            "choose another name with -o"
        }
        _ => "",
    };
    match error {
        RecordingError::Interrupted => bar::interrupted_by_signal("no result is left".to_owned()),
        RecordingError::Write { path, error } => {
            let attempted = format!("cannot write {}", path.display());
            CommandError::failed(attempted, error, hint)
        }
        RecordingError::Read { path, error } => {
            let attempted = format!("cannot read {}", path.display());
            CommandError::failed(attempted, error, hint)
        }
        error => CommandError::failed("not a recording", error, hint),
    }
}

/// Writes to a file, or to standard output. A reader that went away has seen enough.
fn to_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), CommandError> {
    let written = if let Some(path) = path {
        write_whole(path, write)
    } else {
        let mut stdout = BufWriter::with_capacity(64 << 10, anstream::stdout().lock());
        write(&mut stdout).and_then(|()| stdout.flush())
    };
    match written {
        Err(error) if path.is_none() && error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(source) => {
            let path = path.map_or_else(|| PathBuf::from("standard output"), Path::to_path_buf);
            Err(CommandError::Write { path, source })
        }
        Ok(()) => Ok(()),
    }
}
