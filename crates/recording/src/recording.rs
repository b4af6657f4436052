//! [`Recording`]: the traces of a run, on one time line.
//!
//! Processes of one host share its monotonic clock. Hosts are aligned by the wall clock that the
//! first process of each wrote when its trace began. Time 0 is when the first process began to be
//! recorded, or the first of its calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_trace::{
    BlockInfo, Checked, Damage, Header, PreopenedFile, Trace, TraceError, TraceFile,
};

use crate::error::RecordingError;
use crate::filter::Filter;
use crate::layers::LayersInOrder;
use crate::nested::Nested;
use crate::order::InOrder;
use crate::progress::Progress;

/// The place of a process in [`Recording::processes`].
pub type ProcessIndex = usize;

/// The trace of one process in a recording.
#[derive(Clone, Debug)]
pub struct Process {
    trace: Trace,
    checked: Checked,
    records: u64,
    /// What is added to times of the monotonic clock to have those of the recording.
    shift: i128,
}

impl Process {
    /// The process, its host and command, and its clocks.
    pub const fn header(&self) -> &Header {
        self.trace.header()
    }

    /// The name of the file that it was recorded in.
    pub fn source(&self) -> &str {
        self.trace.source()
    }

    /// Where its trace cannot be read any further, if so.
    pub const fn damage(&self) -> Option<&Damage> {
        self.checked.damage.as_ref()
    }

    /// How many records there are.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// How many records the process could not write.
    pub const fn lost(&self) -> u64 {
        self.checked.lost
    }

    /// When its trace began, in nanoseconds of the recording.
    pub fn began(&self) -> u64 {
        self.time(self.header().clock)
    }

    /// When its first call began and its last ended, in nanoseconds of the recording; `None`
    /// without calls.
    pub fn span(&self) -> Option<(u64, u64)> {
        let first = self.all_blocks().map(|block| block.from).min()?;
        let last = self.all_blocks().map(|block| block.until).max()?;
        Some((self.time(first), self.time(last)))
    }

    /// A time of its clock as nanoseconds of the recording.
    pub fn time(&self, clock: u64) -> u64 {
        u64::try_from((i128::from(clock) + self.shift).max(0)).unwrap_or(u64::MAX)
    }

    /// Time 0 of the recording in nanoseconds of its clock.
    pub fn zero(&self) -> i64 {
        i64::try_from(-self.shift).unwrap_or_default()
    }

    /// Its trace, with times of its own clock.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The blocks that can be read.
    pub fn blocks(&self) -> &[BlockInfo] {
        &self.checked.blocks
    }

    /// The blocks with calls of layers above POSIX that can be read.
    pub fn layer_blocks(&self) -> &[BlockInfo] {
        &self.checked.layer_blocks
    }

    /// How many calls of layers there are.
    pub fn layer_calls(&self) -> u64 {
        self.layer_blocks().iter().map(|block| u64::from(block.count)).sum()
    }

    fn all_blocks(&self) -> impl Iterator<Item = &BlockInfo> {
        self.checked.blocks.iter().chain(&self.checked.layer_blocks)
    }

    /// Files that were open before the records begin, if it was cut from a longer one.
    pub fn preopened(&self) -> Result<Vec<PreopenedFile>, Damage> {
        self.trace.preopened()
    }

    /// Its command line as one text.
    pub fn command(&self) -> String {
        self.header().origin.command.join(" ")
    }
}

/// What a run of processes did.
#[derive(Clone, Debug)]
pub struct Recording {
    path: PathBuf,
    processes: Vec<Process>,
    /// Nanoseconds since 1970 at time 0.
    began: u64,
    unreadable: Vec<String>,
    progress: Arc<Progress>,
}

impl Recording {
    /// Opens a trace, a file of several, or a directory of either (`*.trace`). All blocks are
    /// looked at, but not taken apart.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        if !path.is_dir() {
            let file = TraceFile::open(path)?;
            let unreadable =
                file.damage.map(|damage| format!("{}: {damage}", path.display())).into_iter();
            if file.traces.is_empty()
                && let Some(damage) = unreadable.clone().next()
            {
                let (path, reason) = (path.to_path_buf(), damage);
                let damage = Damage { offset: 0, reason };
                return Err(TraceError::Damaged { path, damage }.into());
            }
            return Ok(Self::of(path, file.traces, unreadable.collect()));
        }
        let mut names = Vec::new();
        let read = |error| RecordingError::read(path, error);
        for entry in std::fs::read_dir(path).map_err(read)? {
            let name = entry.map_err(read)?.path();
            if name.extension().is_some_and(|ending| ending == "trace") {
                names.push(name);
            }
        }
        names.sort();
        let (mut traces, mut unreadable) = (Vec::new(), Vec::new());
        for name in names {
            match TraceFile::open(&name) {
                Ok(file) => {
                    traces.extend(file.traces);
                    unreadable
                        .extend(file.damage.map(|damage| format!("{}: {damage}", name.display())));
                }
                Err(error) => unreadable.push(error.to_string()),
            }
        }
        if traces.is_empty() && unreadable.is_empty() {
            return Err(RecordingError::Empty(path.to_path_buf()));
        }
        Ok(Self::of(path, traces, unreadable))
    }

    /// A recording whose bytes are in memory; errors call it by this name.
    pub fn in_memory(name: &Path, bytes: Vec<u8>) -> Result<Self, RecordingError> {
        let file = TraceFile::in_memory(name, bytes)?;
        let unreadable = file.damage.map(|damage| format!("{}: {damage}", name.display()));
        Ok(Self::of(name, file.traces, unreadable.into_iter().collect()))
    }

    fn of(path: &Path, traces: Vec<Trace>, unreadable: Vec<String>) -> Self {
        let mut processes: Vec<Process> = traces
            .into_iter()
            .map(|trace| {
                let checked = trace.check();
                let records = checked.blocks.iter().map(|block| u64::from(block.count)).sum();
                Process { trace, checked, records, shift: 0 }
            })
            .collect();
        // A host's wall clock less its monotonic one, as its first process has them.
        let mut hosts: BTreeMap<String, (u64, i128)> = BTreeMap::new();
        for process in &processes {
            let Header { origin, began, clock, .. } = process.header();
            let wall = (*clock, i128::from(*began) - i128::from(*clock));
            let host = hosts.entry(origin.host.clone()).or_insert(wall);
            *host = wall.min(*host);
        }
        let mut zero: Option<i128> = None;
        for process in &mut processes {
            let wall = hosts.get(&process.header().origin.host).map_or(0, |host| host.1);
            let first = process.all_blocks().map(|block| block.from).min();
            let first = first.unwrap_or(u64::MAX).min(process.header().clock);
            let first = i128::from(first) + wall;
            zero = Some(zero.map_or(first, |zero| zero.min(first)));
            process.shift = wall;
        }
        let mut zero = zero.unwrap_or(0);
        let zeros: Option<Vec<i64>> =
            processes.iter().map(|process| process.trace.zero()).collect();
        match zeros {
            // All were cut from a recording, whose time line they keep.
            Some(zeros) if !zeros.is_empty() => {
                zero = processes[0].shift + i128::from(zeros[0]);
                for (process, zero) in processes.iter_mut().zip(zeros) {
                    process.shift = -i128::from(zero);
                }
            }
            _ => processes.iter_mut().for_each(|process| process.shift -= zero),
        }
        processes.sort_by_cached_key(|process| {
            let Header { origin, place, .. } = process.header();
            let identity = (origin.rank, origin.host.clone(), origin.process, *place);
            (process.began(), identity, process.source().to_owned())
        });
        let began = u64::try_from(zero.max(0)).unwrap_or(u64::MAX);
        let progress = Arc::default();
        Self { path: path.to_path_buf(), processes, began, unreadable, progress }
    }

    /// The same recording; iterators over it count their records in `progress`, and end when that
    /// is stopped.
    #[must_use]
    pub fn watched_by(mut self, progress: Arc<Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// What iterators over it count their records in.
    pub const fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The processes, in the order in which they began.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Nanoseconds since 1970 at time 0 of the recording.
    pub const fn began(&self) -> u64 {
        self.began
    }

    /// How many nanoseconds there are from time 0 to the end of the last call.
    pub fn length(&self) -> u64 {
        let ends = self.processes.iter().filter_map(|process| Some(process.span()?.1));
        ends.max().unwrap_or(0)
    }

    /// How many records there are.
    pub fn records_count(&self) -> u64 {
        self.processes.iter().map(Process::records).sum()
    }

    /// How many calls of layers above POSIX there are.
    pub fn layer_calls(&self) -> u64 {
        self.processes.iter().map(Process::layer_calls).sum()
    }

    /// Files that could not be read as traces at all, or processes that are missing, and why.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// All that is wrong with it, as sentences.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = self.unreadable.clone();
        for process in &self.processes {
            let (pid, source) = (process.header().origin.process, process.source());
            if let Some(damage) = process.damage() {
                let records = process.records();
                complaints.push(format!(
                    "{source}: process {pid}: {damage}; {records} records before it are used"
                ));
            }
            if process.lost() > 0 {
                let lost = process.lost();
                complaints.push(format!(
                    "{source}: process {pid}: {lost} records could not be written by it"
                ));
            }
        }
        complaints
    }

    /// All records in the order in which calls began, with times in nanoseconds of the recording.
    /// Those of a thread are in their order, whatever the clock said.
    pub fn in_order(&self) -> InOrder<'_> {
        InOrder::new(self, &Filter::default())
    }

    /// The records of one process, in the same order.
    pub fn records(&self, process: ProcessIndex) -> InOrder<'_> {
        InOrder::of_processes(self, &Filter::default(), |index| index == process)
    }

    /// The records that a filter lets pass, in the same order. Blocks at other times are not read.
    pub fn filtered(&self, filter: &Filter) -> InOrder<'_> {
        InOrder::new(self, filter)
    }

    /// The calls of layers above POSIX that a filter lets pass, in the order in which they began.
    pub fn layers(&self, filter: &Filter) -> LayersInOrder<'_> {
        LayersInOrder::new(self, filter)
    }

    /// All calls that a filter lets pass in the order in which they began, with those of layers
    /// before the ones that they caused.
    pub fn nested(&self, filter: &Filter) -> Nested<'_> {
        Nested::new(self, filter)
    }
}
