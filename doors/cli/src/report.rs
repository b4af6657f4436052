//! `striate report`: what a recording tells, as a page, as text or for machines.

mod what_if;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use striate_datatype::Bytes;
use striate_recording::{Recording, RecordingError};
use striate_report::text::Style;
use striate_report::what_if::Candidate;
use striate_report::{Model, Options, page, report, text};
use striate_server::parse_duration;

use self::what_if::Repeating;
use crate::document::Document;
use crate::output::write_whole;
use crate::{CommandError, terminal};

/// Explain what a recorded program does with files, and what would help
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate run --trace traces -- ./simulation input.nml    record
  striate report traces                                   look at it here
  striate report traces -o report.html                    or in a browser
  striate report traces --what-if auto -o report.html     try what is advised
  striate report traces --what-if my-stack.toml
  striate report traces --stack slow.toml --what-if my-stack.toml
                                                          it ran with slow.toml already
  striate report --json traces

A recording is a trace, a file of several ('striate trace merge'), or a directory of traces. What
is damaged is read up to the damage. docs/report.md tells what the rules of the advice are.")]
pub(crate) struct ReportArgs {
    /// The recording
    recording: PathBuf,
    /// Write a page for browsers to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print text, also if a page is written
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Repeat the recording with this stack and tell what changes; 'auto' for those that are advised
    #[arg(long, value_name = "STACK")]
    what_if: Vec<PathBuf>,
    /// The stack that the program was recorded with: those that are tried are put above it
    #[arg(long, value_name = "STACK", requires = "what_if")]
    stack: Option<PathBuf>,
    /// Where the recording is repeated; without it, where its files were, if that is here
    #[arg(long, value_name = "DIR", requires = "what_if")]
    what_if_root: Option<PathBuf>,
    /// All stacks together are tried for so long at most
    #[arg(long, value_name = "TIME", requires = "what_if", default_value = "10m", value_parser = parse_duration)]
    what_if_time: Duration,
    /// Files in the table
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=500))]
    files: u16,
}

pub(crate) fn run(args: &ReportArgs, json: bool) -> Result<(), CommandError> {
    let asked = candidates(&args.what_if)?;
    let recording = Recording::open(&args.recording).map_err(refused)?;
    let options = Options { files: args.files.into(), ..Options::default() };
    let mut model = report(&recording, &options);
    if !args.what_if.is_empty() {
        let base = args.stack.as_deref().map(crate::stack::read).transpose()?;
        let place = args.what_if_root.clone().unwrap_or_else(|| what_if::place(&model));
        Repeating::new(&recording, base, place, args.what_if_time)?.measure(&mut model, asked);
    }
    if let Some(path) = &args.output {
        let page = page::render(&model);
        write_whole(path, |file| file.write_all(page.as_bytes()))
            .map_err(|source| CommandError::Write { path: path.clone(), source })?;
        if !args.text && !json {
            return terminal::print(&told(path, page.len(), &model));
        }
    }
    if json {
        return Document::new(vec![model], Vec::new()).print();
    }
    terminal::print(&text::render(&model, &style()))
}

/// How text is set on this terminal.
fn style() -> Style {
    let width = std::env::var("COLUMNS").ok().and_then(|width| width.parse().ok());
    Style {
        width: width.unwrap_or(100usize).clamp(60, 200),
        unicode: terminal::is_utf8(),
        bold: true,
    }
}

/// One stack for each file; `None` stands for those that are advised.
fn candidates(files: &[PathBuf]) -> Result<Vec<Option<Candidate>>, CommandError> {
    let candidate = |path: &PathBuf| {
        if path.as_os_str() == "auto" {
            return Ok(None);
        }
        crate::stack::read(path)?;
        let stack = fs::read_to_string(path)
            .map_err(|error| CommandError::failed(path.display().to_string(), error, ""))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Some(Candidate { name, stack }))
    };
    files.iter().map(candidate).collect()
}

/// A recording cannot be opened.
pub(crate) fn refused(error: RecordingError) -> CommandError {
    let hint = match &error {
        RecordingError::Empty(_) => {
            "'striate run --trace DIR -- PROGRAM' records a program into a directory"
        }
        RecordingError::Trace(_) => {
            "'striate trace import' makes recordings of what other tools wrote"
        }
        _ => "",
    };
    CommandError::failed("cannot open the recording", error, hint)
}

/// What is said when a page was written.
fn told(path: &std::path::Path, bytes: usize, model: &Model) -> String {
    let mut text = format!("{} ({})\n", path.display(), Bytes(bytes as u64));
    if model.findings.is_empty() {
        text.push_str("Nothing stands out.\n");
    }
    for finding in &model.findings {
        let severity = finding.severity.name();
        let _ = writeln!(text, "  {} ({severity}): {}", finding.title, finding.figure);
    }
    text
}
