//! `striate trace show`: a line for each call.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use clap::Args;
use striate_recording::{Entry, Process, Row, line};
use striate_stack::Kind;
use striate_stack::layer::LayerSort;

use super::bar::{self, RecordingBar};
use super::selection::Selection;
use crate::CommandError;

/// Show the calls of a recording, one per line
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace show traces --limit 20
  striate trace show run.trace --from 2s --to 2500ms --rank 0
  striate trace show traces --path '*.nc' --kind read,write | less -R
  striate trace show traces --json | jq .path

A line has the time since the start of the recording, the process (and rank and thread), the call as
strace prints it, its return value, and its duration in seconds. Calls of MPI-IO are above the calls
that they caused, which are indented.")]
pub(super) struct TraceShowArgs {
    /// The recording
    recording: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Number of calls to show, at most
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<u64>,
}

pub(super) fn run(args: &TraceShowArgs, json: bool) -> Result<(), CommandError> {
    let filter = args.selection.filter()?;
    let bar = RecordingBar::of_output()?;
    let recording = super::open(&args.recording)?.watched_by(Arc::clone(bar.progress()));
    let calls = recording.records_count();
    bar.progress().begin("showing", args.limit.map_or(calls, |limit| limit.min(calls)));
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut order = recording.nested(&filter);
    let written = super::to_output(None, |into| {
        for (index, entry) in order.by_ref().take(limit) {
            let process = &recording.processes()[index];
            if json {
                serde_json::to_writer(&mut *into, &Row::of(process, &entry))?;
                into.write_all(b"\n")?;
            } else {
                show(process, &entry, into)?;
            }
        }
        Ok(())
    });
    bar.end(|| bar::PARTIAL.to_owned())?;
    written?;
    let damages = order.damages().into_iter().map(|(index, damage)| {
        let process = &recording.processes()[index];
        format!("{}: {damage}", process.source())
    });
    super::warn(&damages.collect::<Vec<_>>());
    Ok(())
}

fn show(process: &Process, entry: &Entry, into: &mut dyn Write) -> io::Result<()> {
    let dim = Style::new().dimmed();
    let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
    let told = ShownCall::of(entry);
    let colour = Style::new().fg_color(Some(told.colour.into()));
    let origin = &process.header().origin;
    let mut who = origin.process.to_string();
    if told.thread != origin.process {
        who = format!("{who}/{}", told.thread);
    }
    if let Some(rank) = origin.rank {
        who = format!("{who} rank {rank}");
    }
    let (name, arguments) = told.call.split_once('(').unwrap_or((&told.call, ""));
    let outcome = if told.failed { format!("{red}{}{red:#}", told.outcome) } else { told.outcome };
    let (start, took) = (line::seconds(entry.start()), line::seconds(told.duration));
    let indent = if told.beneath { "  " } else { "" };
    writeln!(
        into,
        "{start:>12} {who} {indent}{colour}{name}{colour:#}({arguments} = {outcome} {dim}<{took}>{dim:#}"
    )
}

/// What a line says of a call.
struct ShownCall {
    call: String,
    outcome: String,
    failed: bool,
    thread: u32,
    duration: u64,
    colour: AnsiColor,
    /// A call of MPI-IO has caused it.
    beneath: bool,
}

impl ShownCall {
    fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Call(record, above) => Self {
                call: line::call(record),
                outcome: line::outcome(record),
                failed: record.outcome.is_err(),
                thread: record.thread,
                duration: record.duration,
                colour: colour(record.call.kind()),
                beneath: above.is_some(),
            },
            Entry::Layer(layer) => Self {
                call: line::layer_call(layer),
                outcome: line::layer_outcome(layer),
                failed: layer.outcome.is_err(),
                thread: layer.thread,
                duration: layer.duration,
                colour: match layer.function.sort() {
                    LayerSort::Read => AnsiColor::Green,
                    LayerSort::Write => AnsiColor::Magenta,
                    LayerSort::Open | LayerSort::Close => AnsiColor::Cyan,
                    _ => AnsiColor::Blue,
                },
                beneath: false,
            },
        }
    }
}

/// Reads, writes and other calls have different colours.
const fn colour(kind: Kind) -> AnsiColor {
    match kind {
        Kind::Read => AnsiColor::Green,
        Kind::Write => AnsiColor::Magenta,
        Kind::Open | Kind::Close => AnsiColor::Cyan,
        _ => AnsiColor::Blue,
    }
}
