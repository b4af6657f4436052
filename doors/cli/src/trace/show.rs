//! `striate trace show`: a line for each call.

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::Args;
use striate_recording::{Process, Row, line};
use striate_stack::Kind;
use striate_stack::trace::Record;

use super::selection::Selection;
use crate::CommandError;

/// Show the calls of a recording, a line for each
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace show traces --limit 20
  striate trace show run.trace --from 2s --to 2500ms --rank 0
  striate trace show traces --path '*.nc' --kind read,write | less -R
  striate trace show traces --json | jq .path

A line has the time since the start of the recording, the process (and rank and thread), the call as
strace writes it, what it returned, and how long it took in seconds.")]
pub(super) struct ShowArgs {
    /// The recording
    recording: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// At most so many
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<u64>,
}

pub(super) fn run(args: &ShowArgs, json: bool) -> Result<(), CommandError> {
    let filter = args.selection.filter()?;
    let recording = super::open(&args.recording)?;
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut order = recording.filtered(&filter);
    super::to_output(None, |into| {
        for (index, record) in order.by_ref().take(limit) {
            let process = &recording.processes()[index];
            if json {
                serde_json::to_writer(&mut *into, &Row::new(process, &record))?;
                into.write_all(b"\n")?;
            } else {
                show(process, &record, into)?;
            }
        }
        Ok(())
    })?;
    let damages = order.damages().iter().map(|(index, damage)| {
        let process = &recording.processes()[*index];
        format!("{}: {damage}", process.source())
    });
    super::warn(&damages.collect::<Vec<_>>());
    Ok(())
}

fn show(process: &Process, record: &Record, into: &mut dyn Write) -> io::Result<()> {
    let dim = Style::new().dimmed();
    let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
    let colour = Style::new().fg_color(Some(colour(record.call.kind()).into()));
    let origin = &process.header().origin;
    let mut who = origin.process.to_string();
    if record.thread != origin.process {
        who = format!("{who}/{}", record.thread);
    }
    if let Some(rank) = origin.rank {
        who = format!("{who} rank {rank}");
    }
    let call = line::call(record);
    let (name, arguments) = call.split_once('(').unwrap_or((&call, ""));
    let outcome = line::outcome(record);
    let outcome = match record.outcome {
        Ok(_) => outcome,
        Err(_) => format!("{red}{outcome}{red:#}"),
    };
    let (start, took) = (line::seconds(record.start), line::seconds(record.duration));
    writeln!(
        into,
        "{start:>12} {who} {colour}{name}{colour:#}({arguments} = {outcome} {dim}<{took}>{dim:#}"
    )
}

/// Reads, writes and the rest are told apart.
const fn colour(kind: Kind) -> AnsiColor {
    match kind {
        Kind::Read => AnsiColor::Green,
        Kind::Write => AnsiColor::Magenta,
        Kind::Open | Kind::Close => AnsiColor::Cyan,
        _ => AnsiColor::Blue,
    }
}
