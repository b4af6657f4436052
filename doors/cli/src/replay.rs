//! `striate replay`: repeats the calls of a recording, in another directory, on a store or with
//! other stages.

mod summary;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use striate_recording::Recording;
use striate_replay::{Options, Outcome, ReplayError, ReplayTarget, StoreAt, Timing, VectorMethod};

use crate::document::Document;
use crate::trace::bar::{RecordingBar, interrupted_by_signal};
use crate::{CommandError, stack, terminal};

/// Repeat the calls of a recording, and compare the results
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate run --trace traces -- ./simulation               record a program
  striate replay traces                                    repeat its calls, at the recorded times  striate replay traces --timing as-fast                   as fast as possible  striate replay traces --stack write-back --timing think
                                                           the effect of a stack  striate replay traces --trace again --strict             record the replay; fail if results differ
  striate replay traces --store striate://io.example/try   try it on I/O servers

Files that existed before the recording are created in a new directory, with generated contents; the directory is
removed afterwards. Rules of a stack apply to the recorded paths. See docs/replay.md.")]
pub(crate) struct ReplayArgs {
    /// A trace, a merged file of traces, or a directory of traces
    recording: PathBuf,
    /// The stages that calls pass through: a name that 'striate stack list' shows, or a file
    #[arg(long, value_name = "STACK", conflicts_with = "store")]
    stack: Option<PathBuf>,
    /// The directory that stands for '/': the recorded /data/x is DIR/data/x
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    root: Option<PathBuf>,
    /// Keep the directory that is created if --root is not given
    #[arg(long, conflicts_with_all = ["root", "store"])]
    keep: bool,
    /// Allow '--root /', where the recorded files themselves are written
    #[arg(long)]
    yes: bool,
    /// When calls begin: as-recorded, as-fast, scale=NUMBER, or think (keep the time between
    /// calls)
    #[arg(long, value_name = "TIMING", default_value = "as-recorded")]
    timing: Timing,
    /// A store for the files: a directory, 'memory', or striate://host:port/path
    #[arg(long, value_name = "URL")]
    store: Option<StoreAt>,
    /// How calls with several memory buffers become requests to a store: posix or list
    #[arg(long, value_name = "METHOD", requires = "store")]
    method: Option<VectorMethod>,
    /// Record the replay in files of this directory
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    trace: Option<PathBuf>,
    /// Exit with status 1 if a result differs from the recording
    #[arg(long)]
    strict: bool,
    /// Number of differences that are listed; all are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    differences: usize,
    /// Space that files may take, such as 10GiB [default: 80 % of the free space of the file
    /// system]
    #[arg(long, value_name = "SIZE", value_parser = space)]
    max_space: Option<u64>,
    /// Limit of the number of threads that repeat the recorded ones
    #[arg(long, value_name = "N", default_value_t = 2048)]
    workers: usize,
}

fn space(text: &str) -> Result<u64, String> {
    striate_datatype::parse_size(text).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &ReplayArgs, json: bool) -> Result<(), CommandError> {
    let recording = Recording::open(&args.recording).map_err(|error| {
        let attempted = format!("cannot read {}", args.recording.display());
        CommandError::failed(attempted, error, "'striate run --trace DIR' makes recordings")
    })?;
    let bar = RecordingBar::new()?;
    let recording = recording.watched_by(Arc::clone(bar.progress()));
    let configuration = args.stack.as_deref().map(stack::read).transpose()?;
    let options = Options {
        onto: onto(args)?,
        stack: configuration.map(Arc::new),
        timing: args.timing,
        trace: args.trace.clone(),
        most_differences: args.differences,
        most_workers: args.workers,
        stop: bar.progress().stop(),
        most_space: args.max_space,
        ..Options::default()
    };
    let outcome = striate_replay::replay(&recording, &options);
    drop(bar);
    let outcome = outcome.map_err(failed)?;
    let (interrupted, differences) = (outcome.interrupted, outcome.differences_count());
    let left = what_is_left(&outcome, args);
    if json {
        Document::new(vec![outcome], Vec::new()).print()?;
    } else {
        terminal::print(&summary::text(&outcome))?;
    }
    if interrupted {
        return Err(interrupted_by_signal(left));
    }
    if args.strict && differences > 0 { Err(CommandError::NotWell) } else { Ok(()) }
}

/// What is left, and where, of a replay that has ended early.
fn what_is_left(outcome: &Outcome, args: &ReplayArgs) -> String {
    let files = match (&outcome.root, &args.store) {
        (Some(root), _) => format!("the files so far are in {}", root.display()),
        (None, Some(_)) => "the files so far are on the store".to_owned(),
        (None, None) => "no files are left".to_owned(),
    };
    match &args.trace {
        Some(trace) => format!("{files}, and what was recorded so far in {}", trace.display()),
        None => files,
    }
}

fn onto(args: &ReplayArgs) -> Result<ReplayTarget, CommandError> {
    if let Some(at) = &args.store {
        return Ok(ReplayTarget::Store { at: at.clone(), method: args.method.unwrap_or_default() });
    }
    let Some(root) = &args.root else {
        return Ok(ReplayTarget::Temporary { within: None, keep: args.keep });
    };
    let real = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
    if real && !args.yes {
        return Err(CommandError::usage(
            "--root / lets the replay write and remove the recorded files themselves",
            "give --yes as well if that is intended; without --root, a new directory is used",
        ));
    }
    Ok(ReplayTarget::Directory(root.clone()))
}

fn failed(error: ReplayError) -> CommandError {
    let hint = match &error {
        ReplayError::TooManyThreads { .. } => "--workers N allows more",
        ReplayError::Space { .. } => {
            "--max-space SIZE allows more, --root DIR selects another place"
        }
        ReplayError::Make { .. } => "--root DIR selects another place",
        _ => "",
    };
    match error {
        ReplayError::Store(error) => error.into(),
        error => CommandError::failed("cannot replay", error, hint),
    }
}
