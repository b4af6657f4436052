//! A door for tests: descriptors of open files, and calls as operations.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use striate_stack::{
    Action, CopyEndpoint, FileOrName, Function, Memory, Op, OpenFile, Outcome, Stack, StatInto,
    Target,
};

use super::plain::{Plain, System, Value, path, value, vectors};

/// A stack, and the files that are open through it.
#[derive(Debug)]
pub struct Door {
    pub stack: Stack,
    plain: Plain,
    root: PathBuf,
    files: Mutex<HashMap<RawFd, Arc<OpenFile>>>,
}

fn value_of(outcome: Outcome) -> Value {
    outcome.map_err(Errno::raw_os_error)
}

/// Many places of a file in one vector are the program's to keep.
fn memory(vectors: &[libc::iovec]) -> Memory<'static> {
    // SAFETY: the caller keeps them until the operation has ended.
    unsafe { Memory::from_parts(vectors) }
}

impl Door {
    pub fn new(root: &Path, stack: Stack) -> Self {
        Self { stack, plain: Plain::new(root), root: root.into(), files: Mutex::default() }
    }

    pub fn file(&self, fd: RawFd) -> Option<Arc<OpenFile>> {
        self.files.lock().unwrap().get(&fd).cloned()
    }

    fn on(&self, file: &Arc<OpenFile>, function: Function, action: Action<'_>) -> Value {
        value_of(self.stack.call(&mut Op::on(file, function, action)))
    }

    fn with_name<T>(&self, name: &str, what: impl FnOnce(Target<'_>) -> T) -> T {
        let (absolute, text) = path(&self.root, name);
        what(Target { directory: libc::AT_FDCWD, path: &text, absolute: &absolute })
    }

    fn on_name(
        &self,
        name: &str,
        function: Function,
        make: impl FnOnce(Target<'_>) -> Action<'_>,
    ) -> Value {
        self.with_name(name, |target| {
            let route = self.stack.route(target.absolute);
            value_of(self.stack.call(&mut Op { function, route: &route, action: make(target) }))
        })
    }

    fn end(&self, fd: RawFd, at: Option<i64>) -> (Option<Arc<OpenFile>>, RawFd, Option<u64>) {
        (self.file(fd), fd, at.map(|at| at as u64))
    }

    fn transfer(
        &self,
        ends: [(RawFd, Option<i64>); 2],
        length: usize,
        sends: bool,
    ) -> Option<Value> {
        let [from, to] = ends.map(|(fd, at)| self.end(fd, at));
        let end = |end: &'_ (Option<Arc<OpenFile>>, RawFd, Option<u64>)| -> (RawFd, Option<u64>) {
            (end.1, end.2)
        };
        let routes = [&from, &to]
            .map(|end| end.0.as_ref().map(|file| file.route().clone()).unwrap_or_default());
        let route = routes[0].or(&routes[1]);
        if route.is_empty() {
            return None;
        }
        let [(a, at), (b, to_at)] = [end(&from), end(&to)];
        let from = CopyEndpoint { file: from.0.as_ref(), descriptor: a, at };
        let to = CopyEndpoint { file: to.0.as_ref(), descriptor: b, at: to_at };
        let (function, action) = if sends {
            (Function::Sendfile, Action::SendFile { from, to, length })
        } else {
            (Function::CopyFileRange, Action::CopyRange { from, to, length })
        };
        Some(value_of(self.stack.call(&mut Op { function, route: &route, action })))
    }
}

/// Either by the stack, or plainly.
macro_rules! by {
    ($self:ident, $fd:ident, $file:ident => $stack:expr, $plain:expr) => {
        match $self.file($fd) {
            Some($file) => $stack,
            None => $plain,
        }
    };
}

impl System for Door {
    fn root(&self) -> &Path {
        &self.root
    }

    fn open(&self, name: &str, flags: i32, mode: u32) -> Result<RawFd, i32> {
        let opened =
            self.with_name(name, |target| self.stack.open(Function::Open, target, flags, mode));
        match opened {
            None => self.plain.open(name, flags, mode),
            Some(Err(error)) => Err(error.raw_os_error()),
            Some(Ok(file)) => {
                let fd = file.raw_descriptor();
                self.files.lock().unwrap().insert(fd, file);
                Ok(fd)
            }
        }
    }

    fn close(&self, fd: RawFd) -> Value {
        let Some(file) = self.files.lock().unwrap().remove(&fd) else {
            return self.plain.close(fd);
        };
        let last = file.remove_descriptor(fd);
        self.on(&file, Function::Close, Action::Close { file: &file, descriptor: fd, last })
    }

    fn dup(&self, fd: RawFd) -> Result<RawFd, i32> {
        let new = self.plain.dup(fd)?;
        if let Some(file) = self.file(fd) {
            file.add_descriptor(new);
            self.on(&file, Function::Dup, Action::Duplicate { file: &file, descriptor: new })?;
            self.files.lock().unwrap().insert(new, file);
        }
        Ok(new)
    }

    fn read(&self, fd: RawFd, parts: &mut [Vec<u8>], at: Option<i64>) -> Value {
        by!(self, fd, file => {
            let vectors = vectors(parts);
            let at = at.map(|at| at as u64);
            let action = Action::Read { file: &file, memory: memory(&vectors), at, flags: 0 };
            self.on(&file, Function::Read, action)
        }, self.plain.read(fd, parts, at))
    }

    fn write(&self, fd: RawFd, parts: &[Vec<u8>], at: Option<i64>) -> Value {
        by!(self, fd, file => {
            let mut parts = parts.to_vec();
            let vectors = vectors(&mut parts);
            let at = at.map(|at| at as u64);
            let action = Action::Write { file: &file, memory: memory(&vectors), at, flags: 0 };
            let written = self.on(&file, Function::Write, action);
            // As a door does that answers first, only that this one does so now and then.
            if written.is_ok_and(|count| count % 2 == 0) {
                self.stack.catch_up(&file);
            }
            written
        }, self.plain.write(fd, parts, at))
    }

    fn seek(&self, fd: RawFd, offset: i64, whence: i32) -> Value {
        by!(self, fd, file => {
            self.on(&file, Function::Lseek, Action::Seek { file: &file, offset, whence })
        }, self.plain.seek(fd, offset, whence))
    }

    fn truncate(&self, fd: RawFd, length: i64) -> Value {
        by!(self, fd, file => {
            let action = Action::Truncate { file: &file, length: length as u64 };
            self.on(&file, Function::Ftruncate, action)
        }, self.plain.truncate(fd, length))
    }

    fn allocate(&self, fd: RawFd, mode: i32, offset: i64, length: i64) -> Value {
        by!(self, fd, file => {
            let (offset, length) = (offset as u64, length as u64);
            self.on(&file, Function::Fallocate, Action::Allocate { file: &file, mode, offset, length })
        }, self.plain.allocate(fd, mode, offset, length))
    }

    fn sync(&self, fd: RawFd, data_only: bool) -> Value {
        by!(self, fd, file => {
            self.on(&file, Function::Fsync, Action::Sync { file: &file, data_only })
        }, self.plain.sync(fd, data_only))
    }

    fn fstat(&self, fd: RawFd) -> Result<(u64, u64), i32> {
        by!(self, fd, file => {
            // SAFETY: all of it are numbers.
            let mut stat: libc::stat = unsafe { std::mem::zeroed() };
            let into = StatInto::Stat(&mut stat);
            let action = Action::Stat { of: FileOrName::File(&file), flags: 0, into };
            self.on(&file, Function::Fstat, action)?;
            Ok((stat.st_size as u64, stat.st_nlink))
        }, self.plain.fstat(fd))
    }

    fn stat(&self, name: &str) -> Result<(u64, u64), i32> {
        // SAFETY: all of it are numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let into = StatInto::Stat(&mut stat);
        self.with_name(name, |target| {
            let route = self.stack.route(target.absolute);
            let action = Action::Stat { of: FileOrName::Name(target), flags: 0, into };
            let function = Function::Stat;
            value_of(self.stack.call(&mut Op { function, route: &route, action }))
        })?;
        Ok((stat.st_size as u64, stat.st_nlink))
    }

    fn statx(&self, name: &str) -> Result<(u64, u64), i32> {
        // SAFETY: all of it are numbers.
        let mut buffer: libc::statx = unsafe { std::mem::zeroed() };
        let into = StatInto::Statx { mask: libc::STATX_BASIC_STATS, buffer: &mut buffer };
        self.with_name(name, |target| {
            let route = self.stack.route(target.absolute);
            let action = Action::Stat { of: FileOrName::Name(target), flags: 0, into };
            let function = Function::Statx;
            value_of(self.stack.call(&mut Op { function, route: &route, action }))
        })?;
        Ok((buffer.stx_size, buffer.stx_nlink.into()))
    }

    fn rename(&self, from: &str, to: &str) -> Value {
        self.with_name(from, |from| {
            self.with_name(to, |to| {
                let routes = [from, to].map(|name| self.stack.route(name.absolute));
                let route = routes[0].or(&routes[1]);
                let action = Action::Rename { from, to, flags: 0 };
                value_of(self.stack.call(&mut Op {
                    function: Function::Rename,
                    route: &route,
                    action,
                }))
            })
        })
    }

    fn unlink(&self, name: &str) -> Value {
        self.on_name(name, Function::Unlink, |target| Action::Unlink { target, flags: 0 })
    }

    fn truncate_name(&self, name: &str, length: i64) -> Value {
        self.on_name(name, Function::Truncate, |target| Action::Notice {
            of: FileOrName::Name(target),
        })?;
        self.plain.truncate_name(name, length)
    }

    fn copy_range(&self, ends: [(RawFd, Option<i64>); 2], length: usize) -> Value {
        let done = self.transfer(ends, length, false);
        done.unwrap_or_else(|| self.plain.copy_range(ends, length))
    }

    fn send_file(&self, from: (RawFd, Option<i64>), to: RawFd, length: usize) -> Value {
        let done = self.transfer([from, (to, None)], length, true);
        done.unwrap_or_else(|| self.plain.send_file(from, to, length))
    }

    fn set_append(&self, fd: RawFd, append: bool) -> Value {
        by!(self, fd, file => {
            let flags = if append { libc::O_APPEND } else { 0 };
            let command = libc::F_SETFL;
            let action = Action::Control { file: &file, descriptor: fd, command, argument: flags as u64 };
            self.on(&file, Function::Fcntl, action)?;
            // SAFETY: only asks.
            file.set_flags(value(unsafe { libc::fcntl(fd, libc::F_GETFL) }.into())? as i32);
            Ok(0)
        }, self.plain.set_append(fd, append))
    }

    fn share(&self, fd: RawFd) {
        if let Some(file) = self.file(fd) {
            self.stack.share(&file).unwrap();
        }
    }

    fn before_fork(&self) {
        self.stack.close_gate();
        let _ = self.stack.settle_all();
        for file in self.files.lock().unwrap().values() {
            let _ = self.stack.share(file);
        }
        self.stack.open_gate();
    }

    fn settle(&self) {
        self.stack.settle_all().unwrap();
    }
}
