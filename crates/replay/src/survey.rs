//! [`Survey`]: the first pass over a recording: its threads, and the files that must exist before
//! it is replayed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use striate_recording::{Owners, ProcessIndex, Recording};
use striate_trace::{Call, Record};

use crate::error::ReplayError;
use crate::fix::Fix;
use crate::namespace::{FileId, Initial, Namespace, StorageNeed};

/// A recorded thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// Its place among all, in the order in which they began.
    pub(crate) index: usize,
    /// The worker that makes its calls.
    pub(crate) worker: u32,
    /// How many records it has.
    pub(crate) records: u64,
    /// When its first call began and its last ended.
    span: (u64, u64),
}

/// What is known of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessInfo {
    /// How many records it has.
    pub(crate) records: u64,
    /// The process that started it, if that is recorded.
    pub(crate) parent: Option<ProcessIndex>,
    /// What the same process was before it started another program.
    pub(crate) before: Option<ProcessIndex>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) threads: HashMap<(ProcessIndex, u32), Thread>,
    pub(crate) processes: Vec<ProcessInfo>,
    pub(crate) workers: usize,
    pub(crate) records: u64,
    /// When the first call began and the last ended.
    pub(crate) span: (u64, u64),
    /// What existed before.
    pub(crate) initial: Vec<Initial>,
    pub(crate) namespace: Namespace,
    /// What files take on storage.
    pub(crate) need: StorageNeed,
    /// Processes that inherit a file.
    pub(crate) inheritors: HashMap<FileId, Vec<ProcessIndex>>,
    /// Directories that come and go: calls below them are ordered after that.
    pub(crate) changing: HashSet<PathBuf>,
}

impl Survey {
    /// Goes through a recording.
    pub(crate) fn of(
        recording: &Recording,
        most_workers: usize,
        follows_links: bool,
        stop: &AtomicBool,
    ) -> Result<Self, ReplayError> {
        let mut survey = Self {
            threads: HashMap::new(),
            processes: process_infos(recording),
            workers: 0,
            records: 0,
            span: (u64::MAX, 0),
            initial: Vec::new(),
            namespace: Namespace::default(),
            need: StorageNeed::default(),
            inheritors: HashMap::new(),
            changing: HashSet::new(),
        };
        let (open, mut namespace) = (Files::new(recording), Namespace::learning(follows_links));
        let mut inherited: HashSet<(ProcessIndex, FileId)> = HashSet::new();
        for (process, record) in recording.in_order() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            survey.note(process, &record);
            let files = open.of(process, &record);
            for file in files.into_iter().flatten() {
                if file.owner != process && inherited.insert((process, file)) {
                    survey.inheritors.entry(file).or_default().push(process);
                }
            }
            match &record.call {
                Call::MakeDirectory { path, .. } => survey.changes(path),
                Call::Unlink { path, flags } if flags & libc::AT_REMOVEDIR != 0 => {
                    survey.changes(path);
                }
                Call::Rename { from, to, .. } => {
                    survey.changes(from);
                    survey.changes(to);
                }
                _ => {}
            }
            let (_, fixes) = namespace.observe(process, &record, files[0], files[1]);
            for fix in fixes {
                if let Fix::Directory(path) = fix {
                    survey.changes(&path);
                }
            }
        }
        (survey.initial, survey.namespace, survey.need) = namespace.learned();
        survey.assign(most_workers)?;
        Ok(survey)
    }

    fn note(&mut self, process: ProcessIndex, record: &Record) {
        let end = record.start.saturating_add(record.duration);
        self.records += 1;
        self.processes[process].records += 1;
        self.span = (self.span.0.min(record.start), self.span.1.max(end));
        let index = self.threads.len();
        let thread = self.threads.entry((process, record.thread)).or_insert(Thread {
            index,
            worker: 0,
            records: 0,
            span: (record.start, 0),
        });
        thread.records += 1;
        thread.span.1 = thread.span.1.max(end);
    }

    fn changes(&mut self, path: &Path) {
        if !self.changing.contains(path) {
            self.changing.insert(path.to_path_buf());
        }
    }

    /// Gives each thread a worker: one whose threads before have ended by then.
    fn assign(&mut self, most: usize) -> Result<(), ReplayError> {
        let mut threads: Vec<&mut Thread> = self.threads.values_mut().collect();
        threads.sort_unstable_by_key(|thread| thread.index);
        let mut free: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        for thread in threads {
            let worker = match free.peek() {
                Some(Reverse((end, worker))) if *end < thread.span.0 => {
                    let worker = *worker;
                    free.pop();
                    worker
                }
                _ => {
                    self.workers += 1;
                    self.workers as u32 - 1
                }
            };
            thread.worker = worker;
            free.push(Reverse((thread.span.1, worker)));
        }
        if self.workers > most {
            return Err(ReplayError::TooManyThreads { threads: self.workers, most });
        }
        Ok(())
    }
}

/// The processes, with their parents and what they were before an `exec`.
fn process_infos(recording: &Recording) -> Vec<ProcessInfo> {
    let processes = recording.processes();
    let mut latest: HashMap<(&str, u32), ProcessIndex> = HashMap::new();
    let mut infos = Vec::with_capacity(processes.len());
    for (index, process) in processes.iter().enumerate() {
        let origin = &process.header().origin;
        let parent = latest.get(&(origin.host.as_str(), origin.parent)).copied();
        let before = latest.insert((origin.host.as_str(), origin.process), index);
        infos.push(ProcessInfo { records: 0, parent, before });
    }
    infos
}

/// Which open files a call of a process means: its own, or those that it has inherited.
#[derive(Debug)]
pub(crate) struct Files<'r>(Owners<'r>);

impl<'r> Files<'r> {
    pub(crate) fn new(recording: &'r Recording) -> Self {
        Self(Owners::new(recording))
    }

    /// The files of a call: the one it is on, and the one that bytes are copied to.
    pub(crate) fn of(&self, process: ProcessIndex, record: &Record) -> [Option<FileId>; 2] {
        let to = match &record.call {
            Call::CopyRange { to, .. } | Call::SendFile { to, .. } => to.file.as_ref(),
            _ => None,
        };
        [record.call.file(), to].map(|file| {
            let file = file?;
            let owner = self.0.owner(process, file);
            Some(FileId { owner, opener: file.opener, number: file.number })
        })
    }
}
