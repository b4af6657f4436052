//! [`StackBackend`]: calls are carried out in a directory, through a stack of stages for each
//! recorded process.
//!
//! Stages see the recorded paths: rules apply to these, and a recording of the replay has them. The
//! kernel resolves names from the root of the replay. A call is handled as by the preload door.

mod calls;
mod locks;
mod notices;

use std::collections::{HashMap, HashSet};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use striate_process::building_for;
use striate_recording::{ProcessIndex, Progress, Recording};
use striate_stack::{Configuration, Function, OpenFile, Paths, Placed, Stack, Target};

pub(super) use self::locks::Locks;
use super::fd_inheritance::FdInheritance;
use super::process::{ReplayedProcess, close, close_all, duplicate};
use super::root::Root;
use super::stopwatch::Stopwatch;
use super::{Backend, Execution};
use crate::contents::WorkerBuffer;
use crate::error::ReplayError;
use crate::fix::Fix;
use crate::namespace::{FileId, Initial};
use crate::options::Options;
use crate::task::Call;

/// See the module.
#[derive(Debug)]
pub(crate) struct StackBackend {
    root: Root,
    configuration: Option<Arc<Configuration>>,
    trace: Option<PathBuf>,
    origins: Vec<striate_process::Origin>,
    processes: RwLock<HashMap<ProcessIndex, Arc<ReplayedProcess>>>,
    fd_inheritance: Mutex<FdInheritance>,
    /// Files that could not be opened as they should.
    failed: Mutex<HashSet<FileId>>,
    /// Where files were that were open before the records begin.
    held: HashMap<(ProcessIndex, u32, u64), u64>,
    /// Set when the replay is to end.
    stop: Arc<AtomicBool>,
    /// How long a lock is waited for.
    patience: Duration,
    /// Where bytes go that were sent to what was not recorded.
    nowhere: OwnedFd,
    /// The same for a file, as the kernel wants it for some copies.
    no_file: OwnedFd,
}

impl StackBackend {
    pub(crate) fn new(
        recording: &Recording,
        options: &Options,
        root: Root,
        inheritors: HashMap<FileId, Vec<ProcessIndex>>,
    ) -> Result<Self, ReplayError> {
        if let Some(directory) = &options.trace {
            std::fs::create_dir_all(directory)
                .map_err(|error| ReplayError::make(directory, error))?;
        }
        allow_many_files();
        let mut held = HashMap::new();
        for (index, process) in recording.processes().iter().enumerate() {
            // What cannot be read is among the complaints.
            for preopened in process.preopened().unwrap_or_default() {
                let file = &preopened.file;
                held.insert((index, file.opener, file.number), preopened.position.unwrap_or(0));
            }
        }
        let null = Path::new("/dev/null");
        let nowhere = std::fs::OpenOptions::new().write(true).open(null);
        let no_file = tempfile::tempfile_in(root.place());
        let no_file = no_file.map_err(|error| ReplayError::make(&root.place(), error))?.into();
        let backend = Self {
            no_file,
            root,
            configuration: options.stack.clone(),
            trace: options.trace.clone(),
            origins: recording
                .processes()
                .iter()
                .map(|process| process.header().origin.clone())
                .collect(),
            processes: RwLock::default(),
            fd_inheritance: Mutex::new(FdInheritance::new(inheritors)),
            failed: Mutex::default(),
            held,
            stop: Arc::clone(&options.stop),
            patience: options.patience,
            nowhere: nowhere.map_err(|error| ReplayError::make(null, error))?.into(),
        };
        // Whatever is wrong with the stack is found out now.
        if let Some(configuration) = &backend.configuration {
            configuration.build()?;
        }
        backend.watchers().map_err(ReplayError::Trace)?;
        Ok(backend)
    }

    /// The stages before all others.
    fn watchers(&self) -> Result<Vec<Placed>, String> {
        let watch = Stopwatch::placed();
        let Some(directory) = &self.trace else { return Ok(vec![watch]) };
        let stage_type = striate_stages::stage_type("trace").ok_or("there is no stage trace")?;
        let mut table = toml::Table::new();
        let directory = directory.to_str().ok_or("the directory's name is not UTF-8")?;
        table.insert("directory".into(), directory.into());
        let stage = (stage_type.build)(table)?;
        // What a call takes does not include that it is recorded.
        Ok(vec![Placed { name: stage_type.name, paths: Paths::all(), stage }, watch])
    }

    fn stack(&self, process: ProcessIndex) -> Result<Stack, String> {
        let empty = striate_process::Origin::default();
        building_for(self.origins.get(process).unwrap_or(&empty), || {
            let stack = match &self.configuration {
                Some(configuration) => configuration.build().map_err(|error| error.to_string())?,
                None => Stack::new(Paths::all(), Vec::new()),
            };
            let stack = stack.watched_by(self.watchers()?);
            Ok(match self.root.stands_for_root() {
                Some(root) => stack.rooted_at(root.to_path_buf()),
                None => stack,
            })
        })
    }

    fn replayed(&self, process: ProcessIndex) -> Option<Arc<ReplayedProcess>> {
        let processes = self.processes.read().unwrap_or_else(PoisonError::into_inner);
        processes.get(&process).map(Arc::clone)
    }

    fn fd_inheritance(&self) -> MutexGuard<'_, FdInheritance> {
        self.fd_inheritance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name as stages take it.
    fn target<'a>(&self, path: &'a std::ffi::CStr, absolute: &'a Path) -> Target<'a> {
        Target { directory: self.root.descriptor(), path, absolute }
    }

    /// Opens whatever is at a name. Only regular files are for stages.
    fn open(
        &self,
        replayed: &ReplayedProcess,
        function: Function,
        (path, absolute): (&std::ffi::CStr, &Path),
        flags: i32,
        mode: u32,
    ) -> Result<Arc<OpenFile>, rustix::io::Errno> {
        let target = self.target(path, absolute);
        if let Some(opened) = replayed.stack.open(function, target, flags, mode) {
            return opened;
        }
        // The other end of a pipe is not open.
        replayed.stack.open_watched(function, target, flags | libc::O_NONBLOCK, mode)
    }

    /// The file that a call is on: the process's own, one that it inherits, or one that was open
    /// before the recording began.
    fn file(
        &self,
        process: ProcessIndex,
        replayed: &ReplayedProcess,
        id: FileId,
        traced: &striate_trace::TracedFile,
    ) -> Option<Arc<OpenFile>> {
        if let Some(file) = replayed.file(id) {
            return Some(file);
        }
        if self.failed.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            return None;
        }
        self.inherited(process, replayed, id)
            .or_else(|| self.adopted(process, replayed, id, traced))
    }

    fn inherited(
        &self,
        process: ProcessIndex,
        replayed: &ReplayedProcess,
        id: FileId,
    ) -> Option<Arc<OpenFile>> {
        let mut fd_inheritance = self.fd_inheritance();
        if let Some(file) = replayed.file(id) {
            return Some(file);
        }
        let inherited = fd_inheritance.take(process, id).or_else(|| {
            let owner = self.replayed(id.owner).filter(|_| id.owner != process)?;
            let file = owner.file(id)?;
            // As it was when the process was copied.
            let _ = owner.stack.share(&file);
            let descriptor = duplicate(file.raw_descriptor()).ok()?;
            Some((file, descriptor))
        });
        let (file, descriptor) = inherited?;
        let file = replayed.stack.inherit(&file, descriptor.into_raw_fd());
        replayed.add(id, Arc::clone(&file), -1);
        Some(file)
    }

    fn adopted(
        &self,
        process: ProcessIndex,
        replayed: &ReplayedProcess,
        id: FileId,
        traced: &striate_trace::TracedFile,
    ) -> Option<Arc<OpenFile>> {
        let flags = traced.flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
        let path = Root::c_relative(&traced.path);
        let opened = self.open(replayed, Function::Open, (&path, &traced.path), flags, 0);
        let Ok(file) = opened else {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
            return None;
        };
        if let Some(position) = self.held.get(&(process, id.opener, id.number))
            && let Ok(descriptor) = file.descriptor()
        {
            let _ = rustix::fs::seek(descriptor, rustix::fs::SeekFrom::Start(*position));
        }
        replayed.add(id, Arc::clone(&file), -1);
        Some(file)
    }
}

impl Backend for StackBackend {
    fn make(&self, initial: &[Initial], watched: &Progress) -> Result<u64, ReplayError> {
        self.root.make(initial, watched)
    }

    fn start(&self, process: ProcessIndex, parent: Option<ProcessIndex>) -> Result<u64, String> {
        let replayed = Arc::new(ReplayedProcess::new(self.stack(process)?));
        self.processes.write().unwrap_or_else(PoisonError::into_inner).insert(process, replayed);
        let Some(parent) = parent.and_then(|parent| self.replayed(parent)) else { return Ok(0) };
        let begin = Instant::now();
        // As at `fork` or `exec`: buffered data is written out for the new process.
        let files: Vec<_> =
            parent.files().values().map(|opened| Arc::clone(&opened.file)).collect();
        for file in files.iter().filter(|file| !file.is_shared()) {
            let _ = parent.stack.share(file);
        }
        parent.stack.settle_all().map_err(|error| error.to_string())?;
        Ok(begin.elapsed().as_nanos() as u64)
    }

    fn fix(&self, process: ProcessIndex, fix: &Fix, buffer: &mut WorkerBuffer) {
        let Fix::Position(id, position) = fix else { return self.root.fix(fix, buffer) };
        if let Some(replayed) = self.replayed(process)
            && let Some(file) = replayed.file(*id)
        {
            // Another process has the file open, too.
            let _ = replayed.stack.share(&file);
            if let Ok(descriptor) = file.descriptor() {
                let _ = rustix::fs::seek(descriptor, rustix::fs::SeekFrom::Start(*position));
            }
        }
    }

    fn call(&self, process: ProcessIndex, call: &Call, buffer: &mut WorkerBuffer) -> Execution {
        match self.replayed(process) {
            Some(replayed) => self.perform(process, &replayed, call, buffer),
            None => Execution::Skipped("its process could not be started"),
        }
    }

    fn end(&self, process: ProcessIndex) -> Result<(), String> {
        let replayed =
            self.processes.write().unwrap_or_else(PoisonError::into_inner).remove(&process);
        let Some(replayed) = replayed else { return Ok(()) };
        let mut fd_inheritance = self.fd_inheritance();
        let files: Vec<_> = replayed.files().drain().collect();
        for (id, opened) in &files {
            fd_inheritance.hand_over(process, &replayed, *id, &opened.file);
        }
        fd_inheritance.end(process);
        drop(fd_inheritance);
        for (_, opened) in &files {
            let _ = replayed.stack.share(&opened.file);
        }
        let finished = replayed.stack.finish();
        for (_, opened) in files {
            close_all(opened);
        }
        finished.map(drop).map_err(|error| format!("buffered data: {error}"))
    }

    fn end_all(&self) -> Vec<String> {
        let left: Vec<ProcessIndex> = {
            let processes = self.processes.read().unwrap_or_else(PoisonError::into_inner);
            processes.keys().copied().collect()
        };
        let mut failures = Vec::new();
        for process in left {
            if let Err(reason) = self.end(process) {
                let number = self.origins.get(process).map_or(0, |origin| origin.process);
                failures.push(format!("process {number}: {reason}"));
            }
        }
        failures
    }

    fn kept(&self) -> Option<PathBuf> {
        self.root.kept()
    }
}

/// All recorded processes are this one: it needs as many descriptors as they had.
fn allow_many_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// Closes descriptors whose calls were not recorded.
fn close_others(file: &OpenFile, others: Vec<std::os::fd::RawFd>) {
    for descriptor in others {
        file.remove_descriptor(descriptor);
        close(descriptor);
    }
}
