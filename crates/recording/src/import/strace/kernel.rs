//! [`Kernel`]: a model of the kernel's state of tasks, their descriptors and directories, updated
//! call by call.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use striate_trace::{PreopenedFile, TracedFile};

use super::super::parts::Growing;

/// What one `open` made.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) file: Arc<TracedFile>,
    pub(super) position: Cell<Option<u64>>,
    pub(super) appends: Cell<bool>,
    /// Bytes that were moved while the position was not known.
    pub(super) unplaced: Cell<u64>,
}

/// A descriptor.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub(super) of: Rc<Description>,
    pub(super) closes_on_exec: bool,
}

/// The descriptors of a process.
pub(super) type Table = Rc<RefCell<BTreeMap<i32, Descriptor>>>;

/// A thread of a process.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The process it belongs to.
    pub(super) process: u32,
    pub(super) table: Table,
    /// The current directory, if it is known.
    pub(super) directory: Rc<RefCell<Option<PathBuf>>>,
}

/// A process.
#[derive(Debug, Default)]
pub(super) struct TracedProcess {
    pub(super) parent: u32,
    pub(super) command: Vec<String>,
    /// Its trace, once there is a record.
    pub(super) growing: Option<Growing>,
    pub(super) preopened: Vec<PreopenedFile>,
    pub(super) tasks: u32,
}

/// Which parts of a task its child shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) process: bool,
    pub(super) descriptors: bool,
    pub(super) directory: bool,
}

/// Tasks and processes.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) tasks: HashMap<u32, Task>,
    pub(super) processes: HashMap<u32, TracedProcess>,
    files: u64,
    /// Where the first process was started, if that was said.
    pub(super) directory: Option<PathBuf>,
}

impl Kernel {
    /// A task whose creation is not in the file.
    pub(super) fn appear(&mut self, id: u32) {
        let directory = Rc::new(RefCell::new(self.directory.clone()));
        let task = Task { process: id, table: Table::default(), directory };
        self.tasks.insert(id, task);
        self.processes.entry(id).or_default().tasks += 1;
    }

    /// A task makes another.
    pub(super) fn clone_task(&mut self, parent: u32, child: u32, shares: Shares) {
        let Some(task) = self.tasks.get(&parent).cloned() else { return };
        let process = if shares.process { task.process } else { child };
        let table = if shares.descriptors {
            Rc::clone(&task.table)
        } else {
            Rc::new(RefCell::new(task.table.borrow().clone()))
        };
        let directory = if shares.directory {
            Rc::clone(&task.directory)
        } else {
            Rc::new(RefCell::new(task.directory.borrow().clone()))
        };
        if !shares.process {
            let command = self.processes.get(&task.process).map(|parent| parent.command.clone());
            let command = command.unwrap_or_default();
            let (parent, preopened) = (task.process, preopened_in(&table.borrow()));
            let made = TracedProcess { parent, command, preopened, ..TracedProcess::default() };
            self.processes.insert(child, made);
        }
        self.tasks.insert(child, Task { process, table, directory });
        if let Some(process) = self.processes.get_mut(&process) {
            process.tasks += 1;
        }
    }

    /// A task becomes another program: the only one of its process, with descriptors of its own.
    pub(super) fn exec(&mut self, id: u32, command: Vec<String>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let process = task.process;
        let mut table = task.table.borrow().clone();
        table.retain(|_, descriptor| !descriptor.closes_on_exec);
        let preopened = preopened_in(&table);
        task.table = Rc::new(RefCell::new(table));
        let directory = task.directory.borrow().clone();
        task.directory = Rc::new(RefCell::new(directory));
        self.tasks.retain(|other, task| *other == id || task.process != process);
        if let Some(process) = self.processes.get_mut(&process) {
            (process.command, process.tasks, process.preopened) = (command, 1, preopened);
        }
    }

    /// A task ends; its process if it was the last of it.
    pub(super) fn exit(&mut self, id: u32) -> Option<TracedProcess> {
        let task = self.tasks.remove(&id)?;
        let process = self.processes.get_mut(&task.process)?;
        process.tasks = process.tasks.saturating_sub(1);
        if process.tasks > 0 {
            return None;
        }
        self.processes.remove(&task.process)
    }

    /// What an `open` of a process makes.
    pub(super) fn describe(&mut self, process: u32, path: PathBuf, flags: i32) -> Rc<Description> {
        self.files += 1;
        let file = TracedFile { opener: process, number: self.files, path, flags };
        Rc::new(Description {
            file: Arc::new(file),
            position: Cell::new(Some(0)),
            appends: Cell::new(flags & libc::O_APPEND != 0),
            unplaced: Cell::new(0),
        })
    }

    /// The file behind a descriptor of a task. One that was open before is known by the path that
    /// `-y` prints.
    pub(super) fn file(
        &mut self,
        id: u32,
        descriptor: i32,
        path: Option<Vec<u8>>,
    ) -> Option<Rc<Description>> {
        let task = self.tasks.get(&id)?.clone();
        if let Some(known) = task.table.borrow().get(&descriptor) {
            return Some(Rc::clone(&known.of));
        }
        let path = path_of(path?);
        if is_of_the_system(&path) {
            return None;
        }
        let description = self.describe(task.process, path, libc::O_RDWR);
        // Where it was, and whether it appends, was not seen.
        description.position.set(None);
        let of = Rc::clone(&description);
        task.table.borrow_mut().insert(descriptor, Descriptor { of, closes_on_exec: false });
        let file = TracedFile::clone(&description.file);
        let preopened =
            PreopenedFile { file, position: None, size: None, descriptors: vec![descriptor] };
        self.processes.get_mut(&task.process)?.preopened.push(preopened);
        Some(description)
    }

    /// Where a file was that was open before it was first seen.
    pub(super) fn was_at(&mut self, file: &TracedFile, position: Option<u64>) {
        let preopened = self.processes.values_mut().flat_map(|process| &mut process.preopened);
        for preopened in
            preopened.filter(|preopened| preopened.position.is_none() && preopened.file == *file)
        {
            preopened.position = position;
        }
    }

    /// A path from the root on, if the directory it starts from is known; else as it is.
    pub(super) fn absolute(&self, id: u32, directory: Option<&Path>, path: &Path) -> PathBuf {
        let current = || self.tasks.get(&id).and_then(|task| task.directory.borrow().clone());
        let from = if path.is_absolute() {
            None
        } else {
            directory.map(Path::to_path_buf).or_else(current)
        };
        plain(&from.map_or_else(|| path.to_path_buf(), |from| from.join(path)))
    }
}

/// The files that a process inherits.
fn preopened_in(table: &BTreeMap<i32, Descriptor>) -> Vec<PreopenedFile> {
    let mut preopened: BTreeMap<u64, PreopenedFile> = BTreeMap::new();
    for (number, descriptor) in table {
        let Description { file, position, .. } = &*descriptor.of;
        let known = preopened.entry(file.number).or_insert_with(|| PreopenedFile {
            file: TracedFile::clone(file),
            position: position.get(),
            size: None,
            descriptors: Vec::new(),
        });
        known.descriptors.push(*number);
    }
    preopened.into_values().collect()
}

/// Whether descriptors of a path are not files that could be created elsewhere: devices,
/// pseudo-files of the kernel, and memory.
pub(super) fn is_of_the_system(path: &Path) -> bool {
    let special = ["/dev", "/proc", "/sys"].iter().any(|special| path.starts_with(special));
    special && !path.starts_with("/dev/shm")
        || path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")
}

pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// A path without `.`, `..` and `//`; links are not followed.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            Component::ParentDir if plain.has_root() => {}
            part => plain.push(part),
        }
    }
    plain
}
