//! A door for tests: calls of a program as they pass through a stack.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use striate_stack::{
    Action, FileOrName, Function, Memory, Op, OpenFile, Outcome, Stack, StatInto, Target,
};

/// A program whose calls pass through a stack.
pub struct Program {
    pub stack: Stack,
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

impl Program {
    pub fn new(configuration: &str) -> Self {
        let stack = striate_stages::parse_stack(configuration).unwrap().build().unwrap();
        Self { stack }
    }

    pub fn open(&self, path: &Path, flags: i32) -> Result<Arc<OpenFile>, Errno> {
        let name = text(path);
        let target = Target { directory: libc::AT_FDCWD, path: &name, absolute: path };
        self.stack.open(Function::Open, target, flags, 0o644).unwrap()
    }

    pub fn read(&self, file: &Arc<OpenFile>, bytes: &mut [u8], at: Option<u64>) -> Outcome {
        let function = if at.is_some() { Function::Pread } else { Function::Read };
        let action = Action::Read { file, memory: Memory::sink(bytes), at, flags: 0 };
        self.stack.call(&mut Op::on(file, function, action))
    }

    pub fn write(&self, file: &Arc<OpenFile>, bytes: &[u8], at: Option<u64>) -> Outcome {
        let function = if at.is_some() { Function::Pwrite } else { Function::Write };
        let action = Action::Write { file, memory: Memory::source(bytes), at, flags: 0 };
        self.stack.call(&mut Op::on(file, function, action))
    }

    pub fn seek(&self, file: &Arc<OpenFile>, offset: i64, whence: i32) -> Outcome {
        let action = Action::Seek { file, offset, whence };
        self.stack.call(&mut Op::on(file, Function::Lseek, action))
    }

    pub fn sync(&self, file: &Arc<OpenFile>) -> Outcome {
        let action = Action::Sync { file, data_only: false };
        self.stack.call(&mut Op::on(file, Function::Fsync, action))
    }

    pub fn truncate(&self, file: &Arc<OpenFile>, length: u64) -> Outcome {
        let action = Action::Truncate { file, length };
        self.stack.call(&mut Op::on(file, Function::Ftruncate, action))
    }

    pub fn stat(&self, path: &Path) -> Outcome {
        let name = text(path);
        let target = Target { directory: libc::AT_FDCWD, path: &name, absolute: path };
        // SAFETY: numbers.
        let mut buffer: libc::stat = unsafe { std::mem::zeroed() };
        let into = StatInto::Stat(&mut buffer);
        let action = Action::Stat { of: FileOrName::Name(target), flags: 0, into };
        let route = self.stack.route(path);
        self.stack.call(&mut Op { function: Function::Stat, route: &route, action })
    }

    pub fn rename(&self, from: &Path, to: &Path) -> Outcome {
        let names = [text(from), text(to)];
        let route = self.stack.route(from).or(&self.stack.route(to));
        let [from, to] = [(from, &names[0]), (to, &names[1])].map(|(absolute, path)| Target {
            directory: libc::AT_FDCWD,
            path,
            absolute,
        });
        let action = Action::Rename { from, to, flags: 0 };
        self.stack.call(&mut Op { function: Function::Rename, route: &route, action })
    }

    /// Closes its last descriptor.
    pub fn close(&self, file: &Arc<OpenFile>) -> Outcome {
        let descriptor = file.raw_descriptor();
        let last = file.remove_descriptor(descriptor);
        let action = Action::Close { file, descriptor, last };
        self.stack.call(&mut Op::on(file, Function::Close, action))
    }
}
