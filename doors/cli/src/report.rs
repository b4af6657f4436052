//! `striate report`: the analysis of a recording, as a page, as text or as JSON.

mod datasets;
mod interrupt;
mod progress;
mod what_if;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use striate_datatype::Bytes;
use striate_recording::{Recording, RecordingError};
use striate_report::advice::{self, Finding};
use striate_report::summary;
use striate_report::text::Style;
use striate_report::what_if::Candidate;
use striate_report::{Model, Options, darshan, page, report_with, text};
use striate_server::parse_duration;

use self::interrupt::ReportInterrupt;
use self::what_if::Repeating;
use crate::document::Document;
use crate::output::write_whole;
use crate::{CommandError, terminal};

/// Analyse the file operations of a recorded program, and give advice
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate run --trace traces -- ./simulation input.nml    record
  striate report traces                                   print a report  striate report traces -o report.html                    or write a page for browsers  striate report traces --what-if auto -o report.html     measure the advice  striate report traces --what-if my-stack.toml
  striate report traces --write-stack stack.toml          save the advised stack  striate report traces --stack slow.toml --what-if my-stack.toml
                                                          the program already ran with slow.toml  striate report --json traces
  striate report job.darshan -o report.html               a Darshan log
A recording is a trace, a file of several ('striate trace merge'), or a directory of traces. Logs of
Darshan (3.0 to 3.5) are read directly; with DXT they have a time line and advice, too. Damaged files
are read up to the damage. docs/report.md lists the rules of the advice.")]
pub(crate) struct ReportArgs {
    /// The recording, or a Darshan log
    recording: PathBuf,
    /// Write a page for browsers to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print text, also if a page is written
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Replay the recording with this stack and report the effect; 'auto' for the advised stacks
    #[arg(long, value_name = "STACK")]
    what_if: Vec<PathBuf>,
    /// The stack that the program was recorded with: the stacks that are tried are put above it
    #[arg(long, value_name = "STACK", requires = "what_if")]
    stack: Option<PathBuf>,
    /// Directory of the replay; by default beside the recorded files, if that directory exists
    #[arg(long, value_name = "DIR", requires = "what_if")]
    what_if_root: Option<PathBuf>,
    /// Time limit for all stacks together
    #[arg(long, value_name = "TIME", requires = "what_if", default_value = "10m", value_parser = parse_duration)]
    what_if_time: Duration,
    /// Write the advised stack to this file, for 'striate run --stack FILE -- PROGRAM'
    #[arg(long, value_name = "FILE")]
    write_stack: Option<PathBuf>,
    /// Number of files in the table
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=500))]
    files: u16,
}

pub(crate) fn run(args: &ReportArgs, json: bool) -> Result<(), CommandError> {
    let asked = candidates(&args.what_if)?;
    let options = Options { files: args.files.into(), ..Options::default() };
    let interrupt = ReportInterrupt::new()?;
    let bar = progress::bar();
    let (mut model, opened) = open(&args.recording, &options, &bar)?;
    if let Some(recording) = opened.recording() {
        let flag = interrupt.flag();
        let mut stop = || flag.load(Ordering::Relaxed);
        datasets::add(&mut model, recording, &mut stop);
    }
    if !args.what_if.is_empty() {
        let recording = opened.recording().ok_or_else(|| {
            let error = RecordingError::CountersOnly(args.recording.clone());
            CommandError::failed("nothing can be repeated", error, "")
        })?;
        let base = args.stack.as_deref().map(crate::stack::read).transpose()?;
        let place = args.what_if_root.clone().unwrap_or_else(|| what_if::place(&model));
        let until = args.what_if_time;
        let repeating = Repeating::new(recording, base, place, until, interrupt.flag(), &bar);
        repeating.measure(&mut model, asked);
    }
    bar.finish_and_clear();
    interrupt.checked()?;
    if let Some(path) = &args.write_stack {
        write_stack(path, &model)?;
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

/// What a report is about.
enum Opened {
    /// A recording.
    Recording(Box<Recording>),
    /// The log of a job, with a recording if it has single calls.
    Darshan(Option<Box<darshan::Temporary>>),
}

impl Opened {
    fn recording(&self) -> Option<&Recording> {
        match self {
            Self::Recording(recording) => Some(recording),
            Self::Darshan(made) => made.as_ref().map(|made| &made.recording),
        }
    }
}

/// The model of a recording or a Darshan log.
fn open(
    path: &Path,
    options: &Options,
    bar: &ProgressBar,
) -> Result<(Model, Opened), CommandError> {
    // What cannot be read is said with the reason that recordings have for it.
    if darshan::is_log(path).unwrap_or(false) {
        let (model, made) = darshan::read(path, options).map_err(refused)?;
        return Ok((model, Opened::Darshan(made.map(Box::new))));
    }
    let recording = Recording::open(path).map_err(refused)?;
    let calls = recording.records_count() + recording.layer_calls();
    progress::begin(bar, calls, "reading calls");
    let model = report_with(&recording, options, &mut |done| bar.set_position(done));
    Ok((model, Opened::Recording(Box::new(recording))))
}

/// Writes the stack that the advice offers.
fn write_stack(path: &Path, model: &Model) -> Result<(), CommandError> {
    let Some((finding, stack)) = advice::offered(&model.findings) else {
        let hint = if model.findings.iter().any(Finding::is_refuted) {
            "the advised stacks were measured and make it slower"
        } else {
            "'striate report' shows the findings"
        };
        return Err(CommandError::failed("no stack was written", "the advice offers none", hint));
    };
    // What is read in a recording must not become a line of its own.
    let title: String =
        finding.title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = format!("# {}: against \"{title}\".\n{}", stack.name, stack.text);
    fs::write(path, text).map_err(|source| CommandError::Write { path: path.to_path_buf(), source })
}

/// How text is set on this terminal.
fn style() -> Style {
    Style {
        width: terminal::width().unwrap_or(100).clamp(60, 200),
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
        let (_, stack) = crate::stack::read_text(path)?;
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
        RecordingError::Trace(_) => "'striate trace import' imports the output of other tools",
        _ => "",
    };
    CommandError::failed("cannot open the recording", error, hint)
}

/// What is said when a page was written.
fn told(path: &Path, bytes: usize, model: &Model) -> String {
    let mut text = format!("{} ({})\n", path.display(), Bytes(bytes as u64));
    if model.findings.is_empty() {
        let _ = writeln!(text, "{}", summary::verdict(model));
    }
    for finding in &model.findings {
        let badge = finding.badge();
        let _ = writeln!(text, "  {} ({badge}): {}", finding.title, finding.figure);
    }
    text
}
