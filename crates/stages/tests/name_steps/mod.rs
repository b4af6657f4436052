//! [`NamesProgram`]: a program that works with names, through a stack or without one.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code)]

pub mod random;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, CopyEndpoint, FileOrName, Function, Kinds, Memory, Next, Op, OpenFile,
    Outcome, Paths, Placed, Stack, Stage, StatInto, Target,
};

/// A stage that does nothing: with it a stack is the kernel.
#[derive(Debug)]
pub struct Nothing;

impl Stage for Nothing {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
    }

    fn classification(&self) -> Classification {
        Classification {
            scope: Scope::Data,
            interference: Interference::OneOperation,
            state: State::Stateless,
            meaning: Meaning::Kept,
        }
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        next.call(op)
    }
}

/// A stack that is the kernel.
pub fn plain() -> Stack {
    let placed = Placed { name: "nothing", paths: Paths::all(), stage: Box::new(Nothing) };
    Stack::new(Paths::all(), vec![placed])
}

/// What a program sees of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    Error(i32),
    Number(u64),
    Bytes(Vec<u8>),
    Stat { kind: u32, mode: u32, size: i64, links: u64 },
    Names(Vec<String>),
    NotDone,
}

impl From<Outcome> for Observed {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(number) => Self::Number(number),
            Err(error) => Self::Error(error.raw_os_error()),
        }
    }
}

/// How a path is said.
#[derive(Clone, Copy, Debug)]
pub enum PathForm {
    Absolute,
    FromRoot,
}

#[derive(Clone, Debug)]
pub enum NameStep {
    Open(String, PathForm, i32, u32),
    Close(usize),
    Write(usize, Vec<u8>, Option<u64>),
    Read(usize, usize, Option<u64>),
    Seek(usize, i64, i32),
    Truncate(usize, u64),
    Allocate(usize, u64, u64),
    Fstat(usize),
    Sync(usize),
    Dup(usize),
    Copy(usize, usize, usize),
    Append(usize, bool),
    Fchmod(usize, u32),
    Stat(String, PathForm, bool),
    Access(String),
    Unlink(String, PathForm),
    Rmdir(String),
    Mkdir(String),
    Rename(String, String, u32),
    List(String),
    Link(String, String),
    Symlink(String, String),
    Chmod(String, u32),
    TruncatePath(String, u64),
    Share(usize),
    SettleAll,
}

/// A program: its files, and the stack under it.
pub struct NamesProgram {
    pub stack: Stack,
    root: PathBuf,
    directory: std::fs::File,
    /// Each has its descriptors.
    files: Vec<(Arc<OpenFile>, Vec<RawFd>)>,
    /// Device and inode, as the last step told.
    pub identity: Cell<Option<(u64, u64)>>,
}

/// Flags of a file that is made.
pub const MADE: i32 = libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR;

/// Makes a file with these bytes.
pub fn make(program: &mut NamesProgram, path: &str, bytes: &[u8]) {
    program.open(path, PathForm::Absolute, MADE, 0o644).unwrap();
    let slot = program.last();
    assert_eq!(program.write(slot, bytes, None), Ok(bytes.len() as u64));
    program.close(slot).unwrap();
}

/// The bytes of a file, or the error of its open.
pub fn read(program: &mut NamesProgram, path: &str) -> Observed {
    if let Err(error) = program.open(path, PathForm::Absolute, libc::O_RDONLY, 0) {
        return Observed::Error(error.raw_os_error());
    }
    let slot = program.last();
    let bytes = program.step(&NameStep::Read(slot, 100_000, None));
    program.close(slot).unwrap();
    bytes
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Without `.`, `..` and `//`, as a door says it.
fn lexical(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                result.pop();
            }
            std::path::Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

fn result(value: i64) -> Outcome {
    if value < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(0)));
    }
    Ok(value as u64)
}

impl NamesProgram {
    pub fn new(stack: Stack, root: &Path) -> Self {
        let directory = std::fs::File::open(root).unwrap();
        Self {
            stack,
            root: root.to_path_buf(),
            directory,
            files: Vec::new(),
            identity: Cell::new(None),
        }
    }

    fn with_target<T>(&self, path: &str, way: PathForm, what: impl FnOnce(Target<'_>) -> T) -> T {
        let full = PathBuf::from(format!("{}/{path}", self.root.display()));
        let absolute = lexical(&full);
        let (directory, text) = match way {
            PathForm::Absolute => (libc::AT_FDCWD, c(&full)),
            PathForm::FromRoot => {
                (std::os::fd::AsRawFd::as_raw_fd(&self.directory), c(Path::new(path)))
            }
        };
        what(Target { directory, path: &text, absolute: &absolute })
    }

    fn on_name(
        &self,
        path: &str,
        way: PathForm,
        function: Function,
        action: impl FnOnce(Target<'_>) -> Action<'_>,
    ) -> Outcome {
        self.with_target(path, way, |target| {
            let route = self.stack.route(target.absolute);
            self.stack.call(&mut Op { function, route: &route, action: action(target) })
        })
    }

    fn notice(&self, path: &str, function: Function) -> Outcome {
        self.on_name(path, PathForm::Absolute, function, |target| Action::Notice {
            of: FileOrName::Name(target),
        })
    }

    fn full(&self, path: &str) -> CString {
        c(Path::new(&format!("{}/{path}", self.root.display())))
    }

    /// The file that was opened last.
    pub fn last(&self) -> usize {
        self.files.len() - 1
    }

    /// An open file.
    pub fn file(&self, slot: usize) -> &Arc<OpenFile> {
        &self.files[slot].0
    }

    /// How many are open.
    pub fn open_files(&self) -> usize {
        self.files.len()
    }

    /// Another process is about to see all open files.
    pub fn share_all(&self) {
        for (file, _) in &self.files {
            self.stack.share(file).unwrap();
        }
    }

    pub fn open(&mut self, path: &str, way: PathForm, flags: i32, mode: u32) -> Outcome {
        let opened = self
            .with_target(path, way, |target| self.stack.open(Function::Open, target, flags, mode));
        let Some(file) = opened else {
            // Not a regular file: not for stages.
            let path = self.full(path);
            // SAFETY: a path.
            let descriptor = result(unsafe { libc::open(path.as_ptr(), flags, mode) }.into())?;
            // SAFETY: it is ours.
            unsafe { libc::close(descriptor as i32) };
            return Ok(0);
        };
        let file = file?;
        let descriptor = file.raw_descriptor();
        self.files.push((file, vec![descriptor]));
        Ok(0)
    }

    pub fn close(&mut self, slot: usize) -> Outcome {
        let descriptor = self.files[slot].1.pop().unwrap();
        let file = Arc::clone(&self.files[slot].0);
        let last = file.remove_descriptor(descriptor);
        if last {
            self.files.remove(slot);
        }
        let action = Action::Close { file: &file, descriptor, last };
        self.stack.call(&mut Op::on(&file, Function::Close, action))
    }

    pub fn write(&self, slot: usize, bytes: &[u8], at: Option<u64>) -> Outcome {
        let file = &self.files[slot].0;
        let action = Action::Write { file, memory: Memory::source(bytes), at, flags: 0 };
        self.stack.call(&mut Op::on(file, Function::Write, action))
    }

    fn stat(&self, what: impl FnOnce(StatInto<'_>) -> Outcome) -> Observed {
        // SAFETY: numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        if let Err(error) = what(StatInto::Stat(&mut stat)) {
            return Observed::Error(error.raw_os_error());
        }
        self.identity.set(Some((stat.st_dev, stat.st_ino)));
        let kind = stat.st_mode & libc::S_IFMT;
        let is_file = kind == libc::S_IFREG;
        Observed::Stat {
            kind,
            mode: stat.st_mode & 0o7777,
            size: if is_file { stat.st_size } else { 0 },
            links: if is_file { stat.st_nlink } else { 0 },
        }
    }

    /// Does a step. Steps on open files take the file of a number, if there is any open.
    #[allow(clippy::too_many_lines)] // One arm for each.
    pub fn step(&mut self, step: &NameStep) -> Observed {
        self.identity.set(None);
        let slot = |number: usize| (!self.files.is_empty()).then(|| number % self.files.len());
        let stack = &self.stack;
        match step {
            NameStep::Open(path, way, flags, mode) => {
                if self.files.len() >= 12 {
                    return Observed::NotDone;
                }
                self.open(path, *way, *flags, *mode).into()
            }
            NameStep::Close(number) => match slot(*number) {
                Some(slot) => self.close(slot).into(),
                None => Observed::NotDone,
            },
            NameStep::Stat(path, way, follow) => {
                let flags = if *follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
                self.stat(|into| {
                    self.with_target(path, *way, |target| {
                        let route = stack.route(target.absolute);
                        let action = Action::Stat { of: FileOrName::Name(target), flags, into };
                        stack.call(&mut Op { function: Function::Stat, route: &route, action })
                    })
                })
            }
            NameStep::Access(path) => {
                let noticed = self.notice(path, Function::Access);
                // SAFETY: a path.
                let done = || result(unsafe { libc::access(self.full(path).as_ptr(), 4) }.into());
                noticed.and_then(|_| done()).into()
            }
            NameStep::Unlink(path, way) => self
                .on_name(path, *way, Function::Unlink, |target| Action::Unlink { target, flags: 0 })
                .into(),
            NameStep::Rmdir(path) => self
                .on_name(path, PathForm::Absolute, Function::Rmdir, |target| Action::Unlink {
                    target,
                    flags: libc::AT_REMOVEDIR,
                })
                .into(),
            NameStep::Mkdir(path) => self
                .on_name(path, PathForm::Absolute, Function::Mkdir, |target| {
                    Action::MakeDirectory { target, mode: 0o755 }
                })
                .into(),
            NameStep::Rename(from, to, flags) => self
                .with_target(from, PathForm::Absolute, |from| {
                    self.with_target(to, PathForm::FromRoot, |to| {
                        let route = stack.route(from.absolute).or(&stack.route(to.absolute));
                        let action = Action::Rename { from, to, flags: *flags };
                        stack.call(&mut Op { function: Function::Rename, route: &route, action })
                    })
                })
                .into(),
            NameStep::List(path) => {
                let noticed = self.on_name(path, PathForm::Absolute, Function::Opendir, |target| {
                    Action::ReadDirectory { target }
                });
                if let Err(error) = noticed {
                    return Observed::Error(error.raw_os_error());
                }
                match std::fs::read_dir(format!("{}/{path}", self.root.display())) {
                    Err(error) => Observed::Error(error.raw_os_error().unwrap_or(0)),
                    Ok(list) => {
                        let name = |entry: std::fs::DirEntry| {
                            entry.file_name().to_string_lossy().into_owned()
                        };
                        let mut names: Vec<_> = list.map(|entry| name(entry.unwrap())).collect();
                        names.sort();
                        Observed::Names(names)
                    }
                }
            }
            NameStep::Link(from, to) | NameStep::Symlink(from, to) => {
                let hard = matches!(step, NameStep::Link(..));
                let function = if hard { Function::Link } else { Function::Symlink };
                let mut noticed = self.notice(to, function);
                if hard {
                    noticed = noticed.and(self.notice(from, function));
                }
                let done = || {
                    let to = self.full(to);
                    // SAFETY: paths.
                    result(i64::from(unsafe {
                        if hard {
                            libc::link(self.full(from).as_ptr(), to.as_ptr())
                        } else {
                            libc::symlink(c(Path::new(from)).as_ptr(), to.as_ptr())
                        }
                    }))
                };
                noticed.and_then(|_| done()).into()
            }
            NameStep::Chmod(path, mode) => {
                let noticed = self.notice(path, Function::Chmod);
                // SAFETY: a path.
                let done =
                    || result(unsafe { libc::chmod(self.full(path).as_ptr(), *mode) }.into());
                noticed.and_then(|_| done()).into()
            }
            NameStep::TruncatePath(path, length) => {
                let noticed = self.notice(path, Function::Truncate);
                let length = *length as i64;
                // SAFETY: a path.
                let done =
                    || result(unsafe { libc::truncate(self.full(path).as_ptr(), length) }.into());
                noticed.and_then(|_| done()).into()
            }
            NameStep::SettleAll => stack.settle_all().into(),
            _ => self.on_file(step),
        }
    }

    #[allow(clippy::too_many_lines)]
    fn on_file(&mut self, step: &NameStep) -> Observed {
        if self.files.is_empty() {
            return Observed::NotDone;
        }
        let slot = |number: &usize| number % self.files.len();
        let get = |number: &usize| &self.files[slot(number)].0;
        let stack = &self.stack;
        match step {
            NameStep::Write(number, bytes, at) => self.write(slot(number), bytes, *at).into(),
            NameStep::Read(number, length, at) => {
                let file = get(number);
                let mut bytes = vec![0; *length];
                let memory = Memory::sink(&mut bytes);
                let action = Action::Read { file, memory, at: *at, flags: 0 };
                match stack.call(&mut Op::on(file, Function::Read, action)) {
                    Err(error) => Observed::Error(error.raw_os_error()),
                    Ok(count) => {
                        bytes.truncate(count as usize);
                        Observed::Bytes(bytes)
                    }
                }
            }
            NameStep::Seek(number, offset, whence) => {
                let file = get(number);
                let action = Action::Seek { file, offset: *offset, whence: *whence };
                stack.call(&mut Op::on(file, Function::Lseek, action)).into()
            }
            NameStep::Truncate(number, length) => {
                let file = get(number);
                let action = Action::Truncate { file, length: *length };
                stack.call(&mut Op::on(file, Function::Ftruncate, action)).into()
            }
            NameStep::Allocate(number, offset, length) => {
                let file = get(number);
                let (offset, length) = (*offset, *length);
                let action = Action::Allocate { file, mode: 0, offset, length };
                stack.call(&mut Op::on(file, Function::Fallocate, action)).into()
            }
            NameStep::Fstat(number) => {
                let file = get(number);
                self.stat(|into| {
                    let action = Action::Stat { of: FileOrName::File(file), flags: 0, into };
                    stack.call(&mut Op::on(file, Function::Fstat, action))
                })
            }
            NameStep::Sync(number) => {
                let file = get(number);
                let action = Action::Sync { file, data_only: false };
                stack.call(&mut Op::on(file, Function::Fsync, action)).into()
            }
            NameStep::Fchmod(number, mode) => {
                let file = get(number);
                let action = Action::Notice { of: FileOrName::File(file) };
                let noticed = stack.call(&mut Op::on(file, Function::Chmod, action));
                // SAFETY: a descriptor of the program.
                let done = || result(unsafe { libc::fchmod(file.raw_descriptor(), *mode) }.into());
                noticed.and_then(|_| done()).into()
            }
            NameStep::Append(number, on) => {
                let file = get(number);
                let flags = file.flags() & !libc::O_APPEND;
                let flags = if *on { flags | libc::O_APPEND } else { flags };
                let action = Action::Control {
                    file,
                    descriptor: file.raw_descriptor(),
                    command: libc::F_SETFL,
                    argument: flags as u64,
                };
                let outcome = stack.call(&mut Op::on(file, Function::Fcntl, action));
                file.set_flags(flags);
                outcome.into()
            }
            NameStep::Copy(from, to, length) => {
                let end = |number: &usize| {
                    let file = get(number);
                    CopyEndpoint { file: Some(file), descriptor: file.raw_descriptor(), at: None }
                };
                let (from, to) = (end(from), end(to));
                if from.descriptor == to.descriptor {
                    return Observed::NotDone;
                }
                let route = from.file.unwrap().route().or(to.file.unwrap().route());
                let action = Action::CopyRange { from, to, length: *length };
                stack
                    .call(&mut Op { function: Function::CopyFileRange, route: &route, action })
                    .into()
            }
            NameStep::Share(number) => stack.share(get(number)).into(),
            NameStep::Dup(number) => {
                let slot = slot(number);
                if self.files[slot].1.len() > 2 {
                    return Observed::NotDone;
                }
                let file = Arc::clone(&self.files[slot].0);
                // SAFETY: a descriptor of the program.
                let descriptor = unsafe { libc::dup(file.raw_descriptor()) };
                file.add_descriptor(descriptor);
                self.files[slot].1.push(descriptor);
                let action = Action::Duplicate { file: &file, descriptor };
                self.stack.call(&mut Op::on(&file, Function::Dup, action)).into()
            }
            _ => Observed::NotDone,
        }
    }

    /// The program ends.
    pub fn finish(mut self, close: bool) -> Outcome {
        while close && !self.files.is_empty() {
            self.close(0)?;
        }
        let finished = self.stack.finish();
        for (_, descriptors) in self.files {
            for descriptor in descriptors {
                // SAFETY: it is the program's.
                unsafe { libc::close(descriptor) };
            }
        }
        finished
    }
}

/// All there is below a directory: permissions, and bytes, targets of links, or nothing.
pub fn tree(root: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let data = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let bytes = if data.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if data.is_dir() {
                left.push(path);
                Vec::new()
            } else {
                std::fs::read(&path).unwrap_or_else(|error| error.to_string().into_bytes())
            };
            found.insert(name, (data.permissions().mode(), bytes));
        }
    }
    found
}
