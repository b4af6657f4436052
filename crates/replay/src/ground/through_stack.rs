//! [`ThroughStack`]: files in a directory, through a stack of stages for each recorded process.
//!
//! Stages see paths as they were recorded: by these they are chosen, and a recording of the replay has them. The kernel
//! looks names up from the root of the replay. What is done around a call is what the door for unmodified
//! programs does.

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
use super::heritage::Heritage;
use super::process::{Act, close, close_all, duplicate};
use super::root::Root;
use super::watch::Watch;
use super::{Did, Ground};
use crate::contents::Hands;
use crate::error::ReplayError;
use crate::fix::Fix;
use crate::options::Options;
use crate::task::Call;
use crate::world::{FileId, Initial};

/// See the module.
#[derive(Debug)]
pub(crate) struct ThroughStack {
    root: Root,
    configuration: Option<Arc<Configuration>>,
    trace: Option<PathBuf>,
    origins: Vec<striate_process::Origin>,
    acts: RwLock<HashMap<ProcessIndex, Arc<Act>>>,
    heritage: Mutex<Heritage>,
    /// Files that could not be opened as they should.
    failed: Mutex<HashSet<FileId>>,
    /// Where files were that were open before the records begin.
    held: HashMap<(ProcessIndex, u32, u64), u64>,
    /// Set when the replay is to end.
    stop: Arc<AtomicBool>,
    /// How long a lock is waited for.
    patience: Duration,
    /// Where bytes go that were sent to what nobody recorded.
    nowhere: OwnedFd,
    /// The same for a file, as the kernel wants it for some copies.
    no_file: OwnedFd,
}

impl ThroughStack {
    pub(crate) fn new(
        recording: &Recording,
        options: &Options,
        root: Root,
        heirs: HashMap<FileId, Vec<ProcessIndex>>,
    ) -> Result<Self, ReplayError> {
        if let Some(directory) = &options.trace {
            std::fs::create_dir_all(directory)
                .map_err(|error| ReplayError::make(directory, error))?;
        }
        allow_many_files();
        let mut held = HashMap::new();
        for (index, process) in recording.processes().iter().enumerate() {
            // What cannot be read is among the complaints.
            for held_file in process.held().unwrap_or_default() {
                let file = &held_file.file;
                held.insert((index, file.opener, file.number), held_file.position.unwrap_or(0));
            }
        }
        let null = Path::new("/dev/null");
        let nowhere = std::fs::OpenOptions::new().write(true).open(null);
        let no_file = tempfile::tempfile_in(root.place());
        let no_file = no_file.map_err(|error| ReplayError::make(&root.place(), error))?.into();
        let ground = Self {
            no_file,
            root,
            configuration: options.stack.clone(),
            trace: options.trace.clone(),
            origins: recording
                .processes()
                .iter()
                .map(|process| process.header().origin.clone())
                .collect(),
            acts: RwLock::default(),
            heritage: Mutex::new(Heritage::new(heirs)),
            failed: Mutex::default(),
            held,
            stop: Arc::clone(&options.stop),
            patience: options.patience,
            nowhere: nowhere.map_err(|error| ReplayError::make(null, error))?.into(),
        };
        // Whatever is wrong with the stack is found out now.
        if let Some(configuration) = &ground.configuration {
            configuration.build()?;
        }
        ground.watchers().map_err(ReplayError::Trace)?;
        Ok(ground)
    }

    /// The stages before all others.
    fn watchers(&self) -> Result<Vec<Placed>, String> {
        let watch = Watch::placed();
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

    fn act(&self, process: ProcessIndex) -> Option<Arc<Act>> {
        let acts = self.acts.read().unwrap_or_else(PoisonError::into_inner);
        acts.get(&process).map(Arc::clone)
    }

    fn heritage(&self) -> MutexGuard<'_, Heritage> {
        self.heritage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name as stages take it.
    fn target<'a>(&self, path: &'a std::ffi::CStr, absolute: &'a Path) -> Target<'a> {
        Target { directory: self.root.descriptor(), path, absolute }
    }

    /// Opens whatever is at a name. What is no regular file is not for stages.
    fn open(
        &self,
        act: &Act,
        function: Function,
        (path, absolute): (&std::ffi::CStr, &Path),
        flags: i32,
        mode: u32,
    ) -> Result<Arc<OpenFile>, rustix::io::Errno> {
        let target = self.target(path, absolute);
        if let Some(opened) = act.stack.open(function, target, flags, mode) {
            return opened;
        }
        // Nobody is at the other end of a pipe.
        act.stack.open_watched(function, target, flags | libc::O_NONBLOCK, mode)
    }

    /// The file that a call is on: the process's own, one that it inherits, or one that was open before
    /// the recording began.
    fn file(
        &self,
        process: ProcessIndex,
        act: &Act,
        id: FileId,
        traced: &striate_trace::TracedFile,
    ) -> Option<Arc<OpenFile>> {
        if let Some(file) = act.file(id) {
            return Some(file);
        }
        if self.failed.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            return None;
        }
        self.inherited(process, act, id).or_else(|| self.adopted(process, act, id, traced))
    }

    fn inherited(&self, process: ProcessIndex, act: &Act, id: FileId) -> Option<Arc<OpenFile>> {
        let mut heritage = self.heritage();
        if let Some(file) = act.file(id) {
            return Some(file);
        }
        let legacy = heritage.take(process, id).or_else(|| {
            let owner = self.act(id.owner).filter(|_| id.owner != process)?;
            let file = owner.file(id)?;
            // As it was when the process was copied.
            let _ = owner.stack.share(&file);
            let descriptor = duplicate(file.raw_descriptor()).ok()?;
            Some((file, descriptor))
        });
        let (file, descriptor) = legacy?;
        let file = act.stack.inherit(&file, descriptor.into_raw_fd());
        act.add(id, Arc::clone(&file), -1);
        Some(file)
    }

    fn adopted(
        &self,
        process: ProcessIndex,
        act: &Act,
        id: FileId,
        traced: &striate_trace::TracedFile,
    ) -> Option<Arc<OpenFile>> {
        let flags = traced.flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
        let path = Root::c_relative(&traced.path);
        let opened = self.open(act, Function::Open, (&path, &traced.path), flags, 0);
        let Ok(file) = opened else {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
            return None;
        };
        if let Some(position) = self.held.get(&(process, id.opener, id.number))
            && let Ok(descriptor) = file.descriptor()
        {
            let _ = rustix::fs::seek(descriptor, rustix::fs::SeekFrom::Start(*position));
        }
        act.add(id, Arc::clone(&file), -1);
        Some(file)
    }
}

impl Ground for ThroughStack {
    fn make(&self, initial: &[Initial], watched: &Progress) -> Result<u64, ReplayError> {
        self.root.make(initial, watched)
    }

    fn start(&self, process: ProcessIndex, parent: Option<ProcessIndex>) -> Result<u64, String> {
        let act = Arc::new(Act::new(self.stack(process)?));
        self.acts.write().unwrap_or_else(PoisonError::into_inner).insert(process, act);
        let Some(parent) = parent.and_then(|parent| self.act(parent)) else { return Ok(0) };
        let begin = Instant::now();
        // As when a process is copied or starts a program: whatever it holds back is there for the new one.
        let files: Vec<_> =
            parent.files().values().map(|opened| Arc::clone(&opened.file)).collect();
        for file in files.iter().filter(|file| !file.is_shared()) {
            let _ = parent.stack.share(file);
        }
        parent.stack.settle_all().map_err(|error| error.to_string())?;
        Ok(begin.elapsed().as_nanos() as u64)
    }

    fn fix(&self, process: ProcessIndex, fix: &Fix, hands: &mut Hands) {
        let Fix::Position(id, position) = fix else { return self.root.fix(fix, hands) };
        if let Some(act) = self.act(process)
            && let Some(file) = act.file(*id)
        {
            // Somebody else has the file, too.
            let _ = act.stack.share(&file);
            if let Ok(descriptor) = file.descriptor() {
                let _ = rustix::fs::seek(descriptor, rustix::fs::SeekFrom::Start(*position));
            }
        }
    }

    fn call(&self, process: ProcessIndex, call: &Call, hands: &mut Hands) -> Did {
        match self.act(process) {
            Some(act) => self.perform(process, &act, call, hands),
            None => Did::Skipped("its process could not be started"),
        }
    }

    fn end(&self, process: ProcessIndex) -> Result<(), String> {
        let act = self.acts.write().unwrap_or_else(PoisonError::into_inner).remove(&process);
        let Some(act) = act else { return Ok(()) };
        let mut heritage = self.heritage();
        let files: Vec<_> = act.files().drain().collect();
        for (id, opened) in &files {
            heritage.leave(process, &act, *id, &opened.file);
        }
        heritage.end(process);
        drop(heritage);
        for (_, opened) in &files {
            let _ = act.stack.share(&opened.file);
        }
        let finished = act.stack.finish();
        for (_, opened) in files {
            close_all(opened);
        }
        finished.map(drop).map_err(|error| format!("what was held back: {error}"))
    }

    fn end_all(&self) -> Vec<String> {
        let left: Vec<ProcessIndex> = {
            let acts = self.acts.read().unwrap_or_else(PoisonError::into_inner);
            acts.keys().copied().collect()
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
