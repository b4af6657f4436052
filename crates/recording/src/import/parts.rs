//! [`Parts`]: traces that are written at the same time, and then merged to one file.
//!
//! The output of other tools has the calls of all processes interleaved, or in the order of files.
//! Each process first gets a separate trace in a hidden directory next to the result,
//! `.NAME.parts-PID`. The directory is removed at the end of the import, before the result gets its
//! name; that of an import that was killed is removed by the next import to this name. A lock on
//! the directory shows whether its import still runs.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use striate_trace::{
    Header, MultiProcessWriter, Part, PreopenedFile, Record, Trace, TraceFile, TracedFile, Writer,
};

use crate::error::RecordingError;
use crate::merge::written;

/// Records that are sorted in memory at a time.
const RUN: usize = 200_000;

/// Traces that grow.
#[derive(Debug)]
pub(super) struct Parts {
    into: PathBuf,
    directory: PathBuf,
    /// Locked as long as this lives.
    _lock: File,
    count: usize,
    made: Vec<(PathBuf, Vec<PreopenedFile>)>,
}

/// A trace whose records come in the order in which calls ended.
#[derive(Debug)]
pub(super) struct Growing {
    writer: Writer,
    place: usize,
}

/// Traces whose records come in any order. Runs of them are sorted and written, and merged at the
/// end.
#[derive(Debug, Default)]
pub(super) struct Unsorted {
    processes: BTreeMap<u32, (Header, BTreeMap<u64, PreopenedFile>)>,
    run: Vec<(u32, Record)>,
    runs: Vec<PathBuf>,
}

impl Parts {
    pub(super) fn new(into: &Path) -> Result<Self, RecordingError> {
        let failed = |error| RecordingError::write(into, error);
        remove_abandoned(into);
        if into.exists() {
            return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
        }
        let directory = into.with_file_name(format!("{}{}", prefix(into), std::process::id()));
        let lock = loop {
            DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
            let lock = File::open(&directory).map_err(failed)?;
            // On a file system without locks no import removes what another one has left.
            let _ = lock.lock();
            // Another import may have taken it for an abandoned one, before it was locked.
            if lock.metadata().map_err(failed)?.nlink() > 0 {
                break lock;
            }
        };
        let into = into.to_path_buf();
        Ok(Self { into, directory, _lock: lock, count: 0, made: Vec::new() })
    }

    fn next_path(&mut self) -> PathBuf {
        self.count += 1;
        self.directory.join(format!("{}.trace", self.count))
    }

    pub(super) fn failed(&self, error: std::io::Error) -> RecordingError {
        RecordingError::write(&self.into, error)
    }

    /// Begins a trace.
    pub(super) fn begin(&mut self, header: &Header) -> Result<Growing, RecordingError> {
        let path = self.next_path();
        let writer = Writer::create(&path, header).map_err(|error| self.failed(error))?;
        self.made.push((path, Vec::new()));
        Ok(Growing { writer, place: self.made.len() - 1 })
    }

    pub(super) fn write(
        &self,
        growing: &mut Growing,
        record: &Record,
    ) -> Result<(), RecordingError> {
        growing.writer.write(record).map_err(|error| self.failed(error))
    }

    /// Ends a trace, with the files that were open before it.
    pub(super) fn end(
        &mut self,
        growing: Growing,
        preopened: Vec<PreopenedFile>,
    ) -> Result<(), RecordingError> {
        self.made[growing.place].1 = preopened;
        growing.writer.finish().map_err(|error| self.failed(error))
    }

    /// Adds a record of a process that is in `unsorted`.
    pub(super) fn write_unsorted(
        &mut self,
        unsorted: &mut Unsorted,
        process: u32,
        record: Record,
    ) -> Result<(), RecordingError> {
        unsorted.run.push((process, record));
        if unsorted.run.len() < RUN {
            return Ok(());
        }
        let path = self.next_path();
        unsorted.end_run(path).map_err(|error| self.failed(error))
    }

    /// Makes traces of all that was added.
    pub(super) fn end_unsorted(&mut self, mut unsorted: Unsorted) -> Result<(), RecordingError> {
        let path = self.next_path();
        unsorted.end_run(path).map_err(|error| self.failed(error))?;
        let mut sorted: BTreeMap<u32, Vec<Trace>> = BTreeMap::new();
        for path in &unsorted.runs {
            for trace in TraceFile::open(path)?.traces {
                sorted.entry(trace.header().origin.process).or_default().push(trace);
            }
        }
        for (header, preopened) in unsorted.processes.into_values() {
            let mut growing = self.begin(&header)?;
            let traces = sorted.remove(&header.origin.process).unwrap_or_default();
            let mut runs: Vec<_> = traces.iter().map(|trace| trace.records().peekable()).collect();
            // A few runs: to look at all of their first records costs less than anything cleverer.
            loop {
                let first = runs.iter_mut().enumerate().filter_map(|(place, run)| {
                    let key = match run.peek()? {
                        Ok(record) => end_and_start(record),
                        Err(_) => (0, 0),
                    };
                    Some((key, place))
                });
                let Some((_, place)) = first.min() else { break };
                let Some(record) = runs[place].next() else { break };
                // It was written just now: damage is the disk's.
                let record = record.map_err(|damage| self.failed(std::io::Error::other(damage)))?;
                self.write(&mut growing, &record)?;
            }
            self.end(growing, preopened.into_values().collect())?;
        }
        unsorted.runs.iter().for_each(|path| drop(std::fs::remove_file(path)));
        Ok(())
    }

    /// Puts all traces into the file.
    pub(super) fn finish(self) -> Result<(), RecordingError> {
        let name = self.into.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        written(&self.into, |writer| {
            for (path, preopened) in &self.made {
                for trace in TraceFile::open(path)?.traces {
                    let failed = |error| self.failed(error);
                    let part =
                        Part { header: trace.header(), source: &name, zero: None, preopened };
                    writer.begin(&part).map_err(failed)?;
                    for block in trace.blocks().0 {
                        let stored = trace.stored(&block);
                        let stored =
                            stored.map_err(|damage| failed(std::io::Error::other(damage)))?;
                        writer.copy(&stored).map_err(failed)?;
                    }
                }
            }
            // Everything is in the file, which has no name yet: an import that is killed from here
            // on leaves that, or the result and nothing else.
            let _ = std::fs::remove_dir_all(&self.directory);
            Ok(())
        })
    }
}

/// How the names of the directories begin in which a file is made.
fn prefix(into: &Path) -> String {
    let name = into.file_name().map(|name| name.to_string_lossy().into_owned());
    format!(".{}.parts-", name.unwrap_or_default())
}

/// Removes the directories of this user's imports into a file that were killed.
fn remove_abandoned(into: &Path) {
    let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(list) = std::fs::read_dir(parent.unwrap_or(Path::new("."))) else { return };
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let prefix = prefix(into);
    for entry in list.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_one = name.strip_prefix(&prefix).is_some_and(|rest| rest.parse::<u32>().is_ok());
        // Of the entry itself: a link is none.
        let is_own = |about: &std::fs::Metadata| about.is_dir() && about.uid() == user;
        if !is_one || !entry.metadata().is_ok_and(|about| is_own(&about)) {
            continue;
        }
        if let Ok(directory) = File::open(entry.path())
            && directory.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Unsorted {
    /// How many processes there are.
    pub(super) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// The files that a process has open, which is created if it does not exist.
    pub(super) fn process(
        &mut self,
        process: u32,
        header: impl FnOnce() -> Header,
    ) -> &mut BTreeMap<u64, PreopenedFile> {
        &mut self.processes.entry(process).or_insert_with(|| (header(), BTreeMap::new())).1
    }

    /// A process that is there has a file open from the beginning, to be read and written.
    pub(super) fn hold(&mut self, process: u32, file: &TracedFile) {
        if let Some((_, preopened)) = self.processes.get_mut(&process)
            && !preopened.contains_key(&file.number)
        {
            let (file, number) = (file.clone(), file.number);
            let known =
                PreopenedFile { file, position: Some(0), size: None, descriptors: Vec::new() };
            preopened.insert(number, known);
        }
    }

    fn end_run(&mut self, path: PathBuf) -> std::io::Result<()> {
        self.run.sort_by_key(|(process, record)| (*process, end_and_start(record)));
        let mut writer = MultiProcessWriter::create(&path)?;
        self.runs.push(path);
        let mut current = None;
        for (process, record) in self.run.drain(..) {
            if current != Some(process)
                && let Some((header, _)) = self.processes.get(&process)
            {
                current = Some(process);
                writer.begin(&Part { header, source: "", zero: None, preopened: &[] })?;
            }
            writer.write(0, &record)?;
        }
        writer.finish()
    }
}

fn end_and_start(record: &Record) -> (u64, u64) {
    (record.start.saturating_add(record.duration), record.start)
}
