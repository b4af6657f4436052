//! [`Summary`]: the counters of a run's processes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::Serialize;
use striate_datatype::{Bytes, counted};
use striate_recording::{Filter, PeakRates, Recording, Stats};
use striate_trace::count::{Calls, Counters, Report};

use super::own_calls::UnseenProgram;
use super::watch;
use crate::document::Document;
use crate::output::write_whole;
use crate::trace::stats;
use crate::{CommandError, terminal};

/// The output at the end of a run.
#[derive(Debug)]
pub(crate) struct Summary {
    /// One for each stage that counted, in the order of the stack.
    counters: Vec<Counters>,
    /// Files of counters that could not be read, and why.
    unreadable: Vec<String>,
    trace: Option<Trace>,
    status: ExitStatus,
    /// Programs whose calls were not seen.
    unseen: Vec<UnseenProgram>,
    /// What processes have left elsewhere, and how to get it.
    pub(super) left: String,
}

/// The traces of the run.
#[derive(Debug, Serialize)]
struct Trace {
    directory: PathBuf,
    files: usize,
    bytes: u64,
}

/// Figures of the recording: counters have neither names nor times.
#[derive(Clone, Copy, Debug)]
struct RecordingFigures {
    files: u64,
    peak: PeakRates,
}

/// Calls of a recording up to which `run` reads it when the program has ended, which takes a few
/// seconds then.
const READ_AT_THE_END: u64 = 1 << 21;

/// What a stage counted; a row of the JSON document.
#[derive(Debug, Serialize)]
struct SummaryRow {
    stage: u32,
    label: String,
    status: u8,
    processes: Vec<Process>,
    calls: u64,
    failed: u64,
    /// Bytes that were moved out of files: by reads and by copies within the kernel.
    bytes_read: u64,
    /// Bytes that were moved into files.
    bytes_written: u64,
    /// Files that calls were about, if the run was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// The highest rates, in bytes per second, if the run was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<PeakRates>,
    seconds: f64,
    own_seconds: f64,
    functions: BTreeMap<&'static str, Function>,
    /// Calls of MPI-IO: what they do, together or alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    mpi_io: BTreeMap<String, Function>,
    /// Reads by their lengths: place n counts those of 2ⁿ⁻¹ bytes and more, below 2ⁿ.
    reads: Vec<u64>,
    /// Writes likewise.
    writes: Vec<u64>,
    endings: BTreeMap<String, EndingRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    /// Programs whose calls were not seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: u32,
    parent: u32,
    rank: Option<u32>,
    host: String,
    command: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Function {
    calls: u64,
    failed: u64,
    bytes: u64,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct EndingRow {
    calls: u64,
    read: u64,
    written: u64,
    seconds: f64,
}

impl From<Calls> for Function {
    fn from(calls: Calls) -> Self {
        let Calls { calls, errors, bytes, seconds } = calls;
        Self { calls, failed: errors, bytes, seconds }
    }
}

impl Summary {
    /// What is in the directory of a run.
    pub(crate) fn new(
        directory: &Path,
        trace: Option<&Path>,
        status: ExitStatus,
    ) -> Result<Self, CommandError> {
        let mut by_place: BTreeMap<u32, Counters> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for path in files(directory, "count")? {
            match Counters::read(&path) {
                Ok(counters) => by_place.entry(counters.place).or_default().add(&counters),
                Err(error) => unreadable.push(format!("{}: {error}", path.display())),
            }
        }
        let trace = trace.map(Trace::found).transpose()?;
        let counters = by_place.into_values().collect();
        let (unseen, left) = (Vec::new(), String::new());
        Ok(Self { counters, unreadable, trace, status, unseen, left })
    }

    /// The same, with programs whose calls were not seen.
    pub(crate) fn with(self, unseen: Vec<UnseenProgram>) -> Self {
        Self { unseen, ..self }
    }

    /// Tells it on standard error, or in a file.
    pub(crate) fn tell(self, file: Option<&Path>, json: bool) -> Result<(), CommandError> {
        let recorded = self.trace.as_ref().and_then(Trace::read);
        let text = if json { self.json(recorded)? } else { self.text(recorded) };
        if let Some(path) = file {
            return write_whole(path, |file| file.write_all(text.as_bytes()))
                .map_err(|source| CommandError::Write { path: path.into(), source });
        }
        // If standard error is closed, the status still shows how the program ended.
        let width = if json { None } else { terminal::error_width() };
        let text = terminal::fitted(&text, width);
        let _ = anstream::stderr().write_all(text.as_bytes());
        Ok(())
    }

    fn text(&self, recorded: Option<RecordingFigures>) -> String {
        let mut text = String::new();
        for counters in &self.counters {
            let _ = write!(text, "{}", Report(counters));
        }
        if self.counters.is_empty() && self.unseen.is_empty() {
            text.push_str("striate: no calls on files other than those of the system\n");
        }
        for unseen in &self.unseen {
            let _ = writeln!(text, "striate: {}", unseen.sentence());
        }
        for problem in &self.unreadable {
            let _ = writeln!(text, "  {problem}");
        }
        if let Some(Trace { directory, files, bytes }) = &self.trace {
            let files = counted(*files as u64, "trace");
            let _ = writeln!(text, "  {files} in {} ({})", directory.display(), Bytes(*bytes));
        }
        if let Some(RecordingFigures { files, peak }) = recorded {
            let files = counted(files, "file");
            let peak = stats::peak(peak).map_or(String::new(), |peak| format!("; {peak}"));
            let _ = writeln!(text, "  calls used {files}{peak}");
        }
        text + &self.left
    }

    fn json(self, mut recorded: Option<RecordingFigures>) -> Result<String, CommandError> {
        let status = watch::code(self.status);
        let mut trace = self.trace;
        let mut unseen: Vec<_> = self.unseen.into_iter().map(|unseen| unseen.program).collect();
        let mut counters = self.counters;
        if counters.is_empty() && !unseen.is_empty() {
            // Nothing was counted, and there is still something to say.
            counters.push(Counters::default());
        }
        let row = |counters: Counters| {
            // Traces are made above all stages, as the counters of the first.
            let recorded = recorded.take();
            let all = counters.all();
            let functions =
                counters.functions().map(|(function, calls)| (function.name(), calls.into()));
            let layers = counters.layers().map(|(sort, collective, calls)| {
                let together = if collective { "collective" } else { "independent" };
                (format!("{together} {}", sort.name()), calls.into())
            });
            let ending = |(name, sums): (&String, &striate_trace::count::Endings)| {
                let striate_trace::count::Endings { calls, read, written, seconds } = *sums;
                (name.clone(), EndingRow { calls, read, written, seconds })
            };
            let process = |origin: &striate_process::Origin| Process {
                pid: origin.process,
                parent: origin.parent,
                rank: origin.rank,
                host: origin.host.clone(),
                command: origin.command.clone(),
            };
            SummaryRow {
                stage: counters.place + 1,
                label: counters.label.clone(),
                status,
                processes: counters.processes.iter().map(process).collect(),
                calls: all.calls,
                failed: all.errors,
                bytes_read: counters.bytes_read,
                bytes_written: counters.bytes_written,
                files: recorded.map(|recorded| recorded.files),
                peak: recorded.map(|recorded| recorded.peak),
                seconds: all.seconds,
                own_seconds: counters.own,
                functions: functions.collect(),
                mpi_io: layers.collect(),
                endings: counters.endings.iter().map(ending).collect(),
                reads: counters.reads,
                writes: counters.writes,
                trace: trace.take(),
                unseen: std::mem::take(&mut unseen),
            }
        };
        Document::new(counters.into_iter().map(row).collect(), Vec::new()).text()
    }
}

impl Trace {
    fn found(directory: &Path) -> Result<Self, CommandError> {
        let found = files(directory, "trace")?;
        let size = |path: &PathBuf| path.metadata().map_or(0, |data| data.len());
        let bytes = found.iter().map(size).sum();
        Ok(Self { directory: directory.into(), files: found.len(), bytes })
    }

    /// The figures of the recording, unless it is long. Its damage is reported by the tools that
    /// read recordings.
    fn read(&self) -> Option<RecordingFigures> {
        let recording = Recording::open(&self.directory).ok()?;
        (recording.records_count() <= READ_AT_THE_END).then(|| {
            let stats = Stats::of(&recording, &Filter::default(), None);
            RecordingFigures { files: stats.files_count(), peak: stats.peak }
        })
    }
}

/// The files of a directory with an ending, in order.
fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, CommandError> {
    let failed = |error| {
        CommandError::failed(format!("cannot look into {}", directory.display()), error, "")
    };
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|found| found == ending));
    paths.sort();
    Ok(paths)
}
