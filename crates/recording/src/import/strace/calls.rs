//! Conversion of system calls to records.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use striate_trace::{Call, Detail, Function, RecordedCall, Subject, TracedEnd, TracedFile};

use super::ConvertedCall;
use super::kernel::{Description, Descriptor, Kernel, is_of_the_system, path_of};
use super::line::{FinishedCall, Returned};
use super::values::{
    descriptor, field, flags, named, number, place, string, unsigned, vector_length,
};
use crate::constants::{
    ACCESS, ADVICE, AT_FLAGS, FALLOCATE, FCNTL, FLOCK, LOCK, OPEN_FLAGS, OTHER, RENAME, SORTS,
    TRANSFER, WHENCE,
};

/// What came of looking at a call.
#[derive(Debug)]
pub(super) enum Handled {
    Records(Vec<ConvertedCall>),
    /// It is on a descriptor that is not a file, or whose open was not seen.
    Elsewhere,
    /// It is not an operation on a file.
    Skipped,
    /// Its arguments make no sense.
    Malformed,
    /// The task is another program from now on.
    Exec(Vec<String>),
}

/// Takes a call into account.
pub(super) fn handle(kernel: &mut Kernel, task: u32, ended: &FinishedCall<'_>) -> Handled {
    let outcome = match ended.returned {
        Returned::Value(value) => Ok(value),
        Returned::Error(error) => Err(error),
        Returned::Nothing => return Handled::Skipped,
    };
    let mut handler = Handler { kernel, task, ended, outcome };
    handler.call().unwrap_or(Handled::Malformed)
}

struct Handler<'h> {
    kernel: &'h mut Kernel,
    task: u32,
    ended: &'h FinishedCall<'h>,
    outcome: Result<u64, i32>,
}

impl Handler<'_> {
    /// An argument.
    fn word(&self, place: usize) -> Option<&str> {
        self.ended.arguments.get(place).copied()
    }

    fn unsigned(&self, place: usize) -> Option<u64> {
        unsigned(self.word(place)?)
    }

    /// The file behind the descriptor in an argument; the inner `None` if it is elsewhere.
    #[expect(clippy::option_option, reason = "no argument is not the same as no file")]
    fn file(&mut self, place: usize) -> Option<Option<Rc<Description>>> {
        let (number, path) = descriptor(self.word(place)?)?;
        Some(self.kernel.file(self.task, number, path))
    }

    /// The path in an argument, from the directory in another one.
    fn path(&mut self, directory: Option<usize>, place: usize) -> Option<PathBuf> {
        let path = path_of(string(self.word(place)?)?);
        let mut from = None;
        if let Some(directory) = directory {
            let (number, known) = descriptor(self.word(directory)?)?;
            from = known.map(path_of);
            if number != libc::AT_FDCWD && from.is_none() {
                let file = self.kernel.file(self.task, number, None);
                from = file.map(|file| file.file.path.clone());
            } else if let (libc::AT_FDCWD, Some(current)) = (number, &from) {
                // `-y` shows the current directory.
                if let Some(task) = self.kernel.tasks.get(&self.task) {
                    task.directory.replace(Some(current.clone()));
                }
            }
        }
        Some(self.kernel.absolute(self.task, from.as_deref(), &path))
    }

    fn one(&self, function: Function, call: RecordedCall) -> Handled {
        Handled::Records(vec![(function, call, self.outcome)])
    }

    /// A record of something that others only have notice of, and what else it said.
    fn noted(
        &self,
        function: Function,
        of: Subject<Arc<TracedFile>, Arc<Path>>,
        detail: Detail<Arc<Path>>,
    ) -> Handled {
        self.one(function, Call::Notice { of, detail })
    }

    fn call(&mut self) -> Option<Handled> {
        match self.ended.name {
            "read" | "readv" | "pread64" | "pread" | "preadv" | "preadv2" | "write" | "writev"
            | "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => self.transfer(),
            "open" | "openat" | "openat2" | "creat" => self.open(),
            "close" => self.close(),
            "close_range" => self.close_range(),
            "lseek" => self.seek(),
            "fsync" | "fdatasync" | "ftruncate" | "ftruncate64" | "fallocate" | "getdents"
            | "getdents64" | "mmap" | "mmap2" | "flock" | "sync_file_range" | "fadvise64"
            | "fadvise64_64" | "readahead" => self.on_file(),
            "splice" => self.splice(),
            "stat" | "stat64" | "lstat" | "lstat64" | "fstat" | "fstat64" | "newfstatat"
            | "fstatat64" | "statx" => self.stat(),
            "rename" | "renameat" | "renameat2" | "unlink" | "unlinkat" | "rmdir" | "mkdir"
            | "mkdirat" => self.name(),
            "dup" | "dup2" | "dup3" => self.duplicate(),
            "fcntl" | "fcntl64" => self.control(),
            "copy_file_range" | "sendfile" | "sendfile64" => self.copy(),
            "chdir" | "fchdir" => self.change_directory(),
            "getcwd" => self.current_directory(),
            "execve" | "execveat" => Some(self.exec()),
            _ => self.notice(),
        }
    }

    fn transfer(&mut self) -> Option<Handled> {
        let name = self.ended.name;
        let reads = name.contains("read");
        let vectored = name.contains('v');
        let (length, parts) = if vectored {
            // strace leaves parts out of long lists: then what was moved is all that is known.
            let sum = vector_length(self.word(1)?).max(self.outcome.unwrap_or(0));
            (sum, u32::try_from(self.unsigned(2)?).ok()?)
        } else {
            (self.unsigned(2)?, 1)
        };
        let at = if name.starts_with('p') { Some(number(self.word(3)?)?) } else { None };
        // The second versions take -1 for the position.
        let at = at.filter(|at| *at >= 0).map(i64::cast_unsigned);
        let bits = if name.ends_with('2') { flags(TRANSFER, self.word(4)?) } else { 0 };
        let Some(file) = self.file(0)? else { return Some(Handled::Elsewhere) };
        let moved = self.outcome.unwrap_or(0);
        let appends = !reads && file.appends.get();
        let offset = match at {
            _ if appends => None,
            Some(at) => Some(at),
            None => file.position.get(),
        };
        if at.is_none() && file.position.get().is_none() {
            file.unplaced.set(file.unplaced.get().saturating_add(moved));
        }
        if at.is_none() {
            file.position.set(offset.and_then(|offset| offset.checked_add(moved)));
        }
        let function = match (reads, vectored, at.is_some()) {
            (true, false, false) => Function::Read,
            (true, false, true) => Function::Pread,
            (true, true, false) => Function::Readv,
            (true, true, true) => Function::Preadv,
            (false, false, false) => Function::Write,
            (false, false, true) => Function::Pwrite,
            (false, true, false) => Function::Writev,
            (false, true, true) => Function::Pwritev,
        };
        let (placed, file, flags) = (at.is_some(), Arc::clone(&file.file), bits);
        let call = if reads {
            Call::Read { file, placed, offset, length, flags, parts }
        } else {
            Call::Write { file, placed, offset, length, flags, parts }
        };
        Some(self.one(function, call))
    }

    fn open(&mut self) -> Option<Handled> {
        let (function, path, bits, mode) = match self.ended.name {
            "open" => {
                let bits = flags(OPEN_FLAGS, self.word(1)?);
                (Function::Open, self.path(None, 0)?, bits, self.word(2).and_then(unsigned))
            }
            "creat" => {
                let bits = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                (Function::Creat, self.path(None, 0)?, bits, self.word(1).and_then(unsigned))
            }
            "openat2" => {
                let how = self.word(2)?;
                let bits = field(how, "flags").map_or(0, |word| flags(OPEN_FLAGS, word));
                let mode = field(how, "mode").and_then(unsigned);
                (Function::Openat, self.path(Some(0), 1)?, bits, mode)
            }
            _ => {
                let bits = flags(OPEN_FLAGS, self.word(2)?);
                (Function::Openat, self.path(Some(0), 1)?, bits, self.word(3).and_then(unsigned))
            }
        };
        if is_of_the_system(&path) {
            // What the number stood for before was closed.
            if let Ok(number) = self.outcome {
                let number = i32::try_from(number).ok()?;
                self.kernel.tasks.get(&self.task)?.table.borrow_mut().remove(&number);
            }
            return Some(Handled::Elsewhere);
        }
        let process = self.kernel.tasks.get(&self.task)?.process;
        let made = self.kernel.describe(process, path.clone(), bits & !libc::O_CLOEXEC);
        if let Ok(number) = self.outcome {
            let number = i32::try_from(number).ok()?;
            let of = Rc::clone(&made);
            let closes_on_exec = bits & libc::O_CLOEXEC != 0;
            let descriptor = Descriptor { of, closes_on_exec };
            self.kernel.tasks.get(&self.task)?.table.borrow_mut().insert(number, descriptor);
        }
        let is_new = bits & libc::O_EXCL != 0 && bits & libc::O_CREAT != 0;
        let is_empty = is_new || bits & libc::O_TRUNC != 0;
        let size = (self.outcome.is_ok() && is_empty).then_some(0);
        let mode = u32::try_from(mode.unwrap_or(0)).ok()?;
        let (file, path) = (Arc::clone(&made.file), path.into());
        Some(self.one(function, Call::Open { file, path, flags: bits, mode, size }))
    }

    /// Removes a descriptor; returns the call to record.
    fn closed(&mut self, number: i32) -> Option<RecordedCall> {
        let table = &self.kernel.tasks.get(&self.task)?.table;
        let taken = table.borrow_mut().remove(&number)?;
        let last = !table.borrow().values().any(|other| Rc::ptr_eq(&other.of, &taken.of));
        Some(Call::Close { file: Arc::clone(&taken.of.file), descriptor: number, last })
    }

    fn close(&mut self) -> Option<Handled> {
        let (number, path) = descriptor(self.word(0)?)?;
        if self.kernel.file(self.task, number, path).is_none() {
            return Some(Handled::Elsewhere);
        }
        // Whatever is returned, the descriptor is closed, unless there was none.
        Some(match self.closed(number) {
            Some(call) => self.one(Function::Close, call),
            None => Handled::Elsewhere,
        })
    }

    fn close_range(&mut self) -> Option<Handled> {
        let first = i32::try_from(self.unsigned(0)?).unwrap_or(i32::MAX);
        // The last is often the greatest number there is.
        let last = self.word(1).and_then(unsigned).and_then(|last| i32::try_from(last).ok());
        let last = last.unwrap_or(i32::MAX);
        let bits = self.word(2).map_or(0, |word| flags(OTHER, word));
        if self.outcome.is_err() || first > last {
            return Some(Handled::Elsewhere);
        }
        let table = Rc::clone(&self.kernel.tasks.get(&self.task)?.table);
        if bits & 4 != 0 {
            for (_, descriptor) in table.borrow_mut().range_mut(first..=last) {
                descriptor.closes_on_exec = true;
            }
            return Some(Handled::Skipped);
        }
        let numbers: Vec<i32> = table.borrow().range(first..=last).map(|entry| *entry.0).collect();
        let calls = numbers.into_iter().filter_map(|number| self.closed(number));
        let made: Vec<ConvertedCall> =
            calls.map(|call| (Function::CloseRange, call, Ok(0))).collect();
        Some(if made.is_empty() { Handled::Elsewhere } else { Handled::Records(made) })
    }

    fn seek(&mut self) -> Option<Handled> {
        let offset = number(self.word(1)?)?;
        let whence = named(WHENCE, self.word(2)?)?;
        let Some(file) = self.file(0)? else { return Some(Handled::Elsewhere) };
        if let Ok(position) = self.outcome {
            if whence == libc::SEEK_CUR && file.position.get().is_none() {
                // Now it is known where it was when it was first seen.
                let first = position.checked_add_signed(offset.saturating_neg());
                let first = first.and_then(|first| first.checked_sub(file.unplaced.get()));
                self.kernel.was_at(&file.file, first);
            }
            file.position.set(Some(position));
        }
        let file = Arc::clone(&file.file);
        Some(self.one(Function::Lseek, Call::Seek { file, offset, whence }))
    }

    /// Calls on one descriptor.
    fn on_file(&mut self) -> Option<Handled> {
        let name = self.ended.name;
        if name.starts_with("mmap") {
            return self.map();
        }
        let Some(description) = self.file(0)? else { return Some(Handled::Elsewhere) };
        let file = Arc::clone(&description.file);
        Some(match name {
            "fsync" => self.one(Function::Fsync, Call::Sync { file, data_only: false }),
            "fdatasync" => self.one(Function::Fdatasync, Call::Sync { file, data_only: true }),
            "ftruncate" | "ftruncate64" => {
                let length = self.unsigned(1)?;
                self.one(Function::Ftruncate, Call::Truncate { file, length })
            }
            "fallocate" => {
                let mode = flags(FALLOCATE, self.word(1)?);
                let (offset, length) = (self.unsigned(2)?, self.unsigned(3)?);
                self.one(Function::Fallocate, Call::Allocate { file, mode, offset, length })
            }
            "getdents" | "getdents64" => {
                let path = file.path.as_path().into();
                self.one(Function::Getdents, Call::ReadDirectory { path })
            }
            "flock" => {
                let detail = Detail::numbers(&[wide(flags(FLOCK, self.word(1)?))]);
                self.noted(Function::Flock, Subject::File(file), detail)
            }
            "fadvise64" | "fadvise64_64" => {
                let (offset, length) = (self.unsigned(1)?, self.unsigned(2)?);
                let advice = named(ADVICE, self.word(3)?)?;
                let detail = Detail::numbers(&[offset, length]).with_flags(advice);
                self.noted(Function::Fadvise, Subject::File(file), detail)
            }
            "readahead" => {
                let detail = Detail::numbers(&[self.unsigned(1)?, self.unsigned(2)?]);
                self.noted(Function::Readahead, Subject::File(file), detail)
            }
            _ => {
                let detail = Detail::numbers(&[self.unsigned(1)?, self.unsigned(2)?]);
                self.noted(Function::SyncFileRange, Subject::File(file), detail)
            }
        })
    }

    fn map(&mut self) -> Option<Handled> {
        let (number, path) = descriptor(self.word(4)?)?;
        if number < 0 || self.word(3)?.contains("MAP_ANON") {
            return Some(Handled::Skipped);
        }
        let Some(file) = self.kernel.file(self.task, number, path) else {
            return Some(Handled::Elsewhere);
        };
        let length = self.unsigned(1)?;
        let writes = self.word(2)?.contains("PROT_WRITE");
        let writable = writes && self.word(3)?.contains("MAP_SHARED");
        let offset = self.unsigned(5)?;
        let file = Arc::clone(&file.file);
        // Where in memory it is says nothing to others.
        let outcome = self.outcome.map(|_| 0);
        let call = Call::Map { file, offset, length, writable };
        Some(Handled::Records(vec![(Function::Mmap, call, outcome)]))
    }

    fn stat(&mut self) -> Option<Handled> {
        let (function, directory, path, bits, told) = match self.ended.name {
            "stat" | "stat64" => (Function::Stat, None, 0, 0, 1),
            "lstat" | "lstat64" => (Function::Lstat, None, 0, libc::AT_SYMLINK_NOFOLLOW, 1),
            "statx" => (Function::Statx, Some(0), 1, flags(AT_FLAGS, self.word(2)?), 4),
            "fstat" | "fstat64" => {
                let told = (self.size(1, "st_size"), self.mode(1, "st_mode"));
                return self.stat_file(Function::Fstat, 0, told);
            }
            _ => (Function::Fstatat, Some(0), 1, flags(AT_FLAGS, self.word(3)?), 2),
        };
        let fields = match function {
            Function::Statx => ["stx_size", "stx_mode"],
            _ => ["st_size", "st_mode"],
        };
        let told = (self.size(told, fields[0]), self.mode(told, fields[1]));
        let (size, mode) = told;
        let empty = matches!(self.word(path)?, "\"\"" | "NULL");
        if directory.is_some() && empty && bits & libc::AT_EMPTY_PATH != 0 {
            return self.stat_file(function, bits, told);
        }
        let of = Subject::Name(self.path(directory, path)?.into());
        Some(self.one(function, Call::Stat { of, flags: bits, size, mode }))
    }

    fn stat_file(
        &mut self,
        function: Function,
        flags: i32,
        (size, mode): (Option<u64>, Option<u32>),
    ) -> Option<Handled> {
        let Some(file) = self.file(0)? else { return Some(Handled::Elsewhere) };
        let of = Subject::File(Arc::clone(&file.file));
        Some(self.one(function, Call::Stat { of, flags, size, mode }))
    }

    /// The file type and permissions in a structure argument.
    fn mode(&self, place: usize, name: &str) -> Option<u32> {
        self.outcome.ok()?;
        let mode = flags(SORTS, field(self.word(place)?, name)?).cast_unsigned();
        (mode & libc::S_IFMT != 0).then_some(mode)
    }

    /// The size in a structure argument.
    fn size(&self, place: usize, name: &str) -> Option<u64> {
        self.outcome.ok()?;
        field(self.word(place)?, name).and_then(unsigned)
    }

    fn name(&mut self) -> Option<Handled> {
        let name = self.ended.name;
        Some(match name {
            "rename" | "renameat" | "renameat2" => {
                let (from, to) = if name == "rename" {
                    (self.path(None, 0)?, self.path(None, 1)?)
                } else {
                    (self.path(Some(0), 1)?, self.path(Some(2), 3)?)
                };
                let bits = if name == "renameat2" { flags(RENAME, self.word(4)?) } else { 0 };
                let (from, to, flags) = (from.into(), to.into(), bits.cast_unsigned());
                self.one(Function::Rename, Call::Rename { from, to, flags })
            }
            "mkdir" | "mkdirat" => {
                let (directory, place) = if name == "mkdir" { (None, 0) } else { (Some(0), 1) };
                let path = self.path(directory, place)?.into();
                let mode = u32::try_from(self.unsigned(place + 1)?).ok()?;
                self.one(Function::Mkdir, Call::MakeDirectory { path, mode })
            }
            "unlinkat" => {
                let (path, flags) = (self.path(Some(0), 1)?.into(), flags(AT_FLAGS, self.word(2)?));
                let removes = flags & libc::AT_REMOVEDIR != 0;
                let function = if removes { Function::Rmdir } else { Function::Unlink };
                self.one(function, Call::Unlink { path, flags })
            }
            _ => {
                let path = self.path(None, 0)?.into();
                let (function, flags) = match name {
                    "rmdir" => (Function::Rmdir, libc::AT_REMOVEDIR),
                    _ => (Function::Unlink, 0),
                };
                self.one(function, Call::Unlink { path, flags })
            }
        })
    }

    fn duplicate(&mut self) -> Option<Handled> {
        let (from, path) = descriptor(self.word(0)?)?;
        let function = if self.ended.name == "dup" { Function::Dup } else { Function::Dup2 };
        let closes_on_exec = self.word(2).is_some_and(|word| word.contains("O_CLOEXEC"));
        let made = self.outcome.ok().and_then(|made| i32::try_from(made).ok());
        let Some(made) = made else { return Some(self.not_duplicated(function, from, path)) };
        if from == made {
            return Some(Handled::Skipped);
        }
        Some(self.duplicated(function, from, path, made, closes_on_exec))
    }

    /// A descriptor has become another one of a file. What it was before is closed by that.
    fn duplicated(
        &mut self,
        function: Function,
        from: i32,
        path: Option<Vec<u8>>,
        made: i32,
        closes_on_exec: bool,
    ) -> Handled {
        let file = self.kernel.file(self.task, from, path);
        let mut records: Vec<ConvertedCall> = Vec::new();
        records.extend(self.closed(made).map(|call| (function, call, Ok(0))));
        if let (Some(of), Some(task)) = (file, self.kernel.tasks.get(&self.task)) {
            let file = Arc::clone(&of.file);
            task.table.borrow_mut().insert(made, Descriptor { of, closes_on_exec });
            records.push((function, Call::Duplicate { file, descriptor: made }, self.outcome));
        }
        if records.is_empty() { Handled::Elsewhere } else { Handled::Records(records) }
    }

    fn not_duplicated(&mut self, function: Function, from: i32, path: Option<Vec<u8>>) -> Handled {
        match self.kernel.file(self.task, from, path) {
            Some(file) => {
                let file = Arc::clone(&file.file);
                self.one(function, Call::Duplicate { file, descriptor: -1 })
            }
            None => Handled::Elsewhere,
        }
    }

    fn control(&mut self) -> Option<Handled> {
        let (number, path) = descriptor(self.word(0)?)?;
        let Some(command) = named(FCNTL, self.word(1)?) else { return Some(Handled::Skipped) };
        let word = self.word(2).unwrap_or("0").to_owned();
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            let closes_on_exec = command == libc::F_DUPFD_CLOEXEC;
            let made = self.outcome.ok().and_then(|made| i32::try_from(made).ok());
            return Some(match made {
                Some(made) => self.duplicated(Function::Fcntl, number, path, made, closes_on_exec),
                None => self.not_duplicated(Function::Fcntl, number, path),
            });
        }
        let Some(file) = self.kernel.file(self.task, number, path) else {
            return Some(Handled::Elsewhere);
        };
        let argument = match command {
            libc::F_SETFL => {
                let bits = flags(OPEN_FLAGS, &word);
                file.appends.set(bits & libc::O_APPEND != 0);
                bits as u64
            }
            libc::F_SETFD => {
                let bits = flags(OTHER, &word);
                let table = &self.kernel.tasks.get(&self.task)?.table;
                if let Some(descriptor) = table.borrow_mut().get_mut(&number) {
                    descriptor.closes_on_exec = bits & libc::FD_CLOEXEC != 0;
                }
                bits as u64
            }
            _ => unsigned(&word).unwrap_or(0),
        };
        let file = Arc::clone(&file.file);
        let locks = [
            libc::F_GETLK,
            libc::F_SETLK,
            libc::F_SETLKW,
            libc::F_OFD_GETLK,
            libc::F_OFD_SETLK,
            libc::F_OFD_SETLKW,
        ];
        if locks.contains(&command) {
            let signed = |name: &str| field(&word, name).and_then(super::values::number);
            let how = field(&word, "l_type").and_then(|word| named(LOCK, word)).unwrap_or(0);
            let whence = field(&word, "l_whence").and_then(|word| named(WHENCE, word)).unwrap_or(0);
            let (start, length) = (signed("l_start")?, signed("l_len")?);
            let detail = Detail::numbers(&[
                wide(command),
                wide(how) | wide(whence) << 16,
                start.cast_unsigned(),
                length.cast_unsigned(),
            ]);
            return Some(self.noted(Function::Fcntl, Subject::File(file), detail));
        }
        if !matches!(command, libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_SETFL) {
            // Owners, signals, leases and hints: nothing is done with the file.
            return Some(Handled::Skipped);
        }
        let descriptor = number;
        Some(self.one(Function::Fcntl, Call::Control { file, descriptor, command, argument }))
    }

    /// One end of a copy; bytes at the position move it.
    fn end(
        &mut self,
        place_of: usize,
        offset: Option<usize>,
    ) -> Option<TracedEnd<Arc<TracedFile>>> {
        let (number, path) = descriptor(self.word(place_of)?)?;
        let at = offset.and_then(|offset| self.word(offset)).and_then(place);
        let file = self.kernel.file(self.task, number, path);
        if let (Some(file), None, Ok(moved)) = (&file, at, self.outcome) {
            file.position.set(file.position.get().and_then(|at| at.checked_add(moved)));
        }
        let file = file.map(|file| Arc::clone(&file.file));
        Some(TracedEnd { file, descriptor: number, at })
    }

    fn copy(&mut self) -> Option<Handled> {
        let (function, from, to, length) = if self.ended.name == "copy_file_range" {
            let length = self.unsigned(4)?;
            (Function::CopyFileRange, self.end(0, Some(1))?, self.end(2, Some(3))?, length)
        } else {
            let length = self.unsigned(3)?;
            (Function::Sendfile, self.end(1, Some(2))?, self.end(0, None)?, length)
        };
        if from.file.is_none() && to.file.is_none() {
            return Some(Handled::Elsewhere);
        }
        let call = match function {
            Function::CopyFileRange => Call::CopyRange { from, to, length },
            _ => Call::SendFile { from, to, length },
        };
        Some(self.one(function, call))
    }

    /// `chdir` and `fchdir`.
    fn change_directory(&mut self) -> Option<Handled> {
        let (of, to) = if self.ended.name == "fchdir" {
            let Some(file) = self.file(0)? else { return Some(Handled::Elsewhere) };
            let file = Arc::clone(&file.file);
            let to = file.path.clone();
            (Subject::File(file), to)
        } else {
            let to = self.path(None, 0)?;
            (Subject::Name(to.as_path().into()), to)
        };
        if self.outcome.is_ok() {
            let task = self.kernel.tasks.get(&self.task)?;
            // Where it is now, if that is known.
            task.directory.replace(Some(to).filter(|to| to.is_absolute()));
        }
        Some(self.noted(Function::Chdir, of, Detail::default()))
    }

    /// `getcwd` is not an operation on a file, but it returns the current directory of the task.
    fn current_directory(&mut self) -> Option<Handled> {
        if self.outcome.is_ok() {
            let current = path_of(string(self.word(0)?)?);
            let task = self.kernel.tasks.get(&self.task)?;
            task.directory.replace(Some(current).filter(|current| current.is_absolute()));
        }
        Some(Handled::Skipped)
    }

    /// `splice`: a file is at one end, and a pipe at the other.
    fn splice(&mut self) -> Option<Handled> {
        let (length, bits) = (self.unsigned(4)?, self.word(5).map_or(0, |word| flags(&[], word)));
        for (into, file, at) in [(0, 0, 1), (1, 2, 3)] {
            let at = self.word(at).and_then(place);
            let Some(description) = self.file(file)? else { continue };
            if let (None, Ok(moved)) = (at, self.outcome) {
                let position = description.position.get();
                description.position.set(position.and_then(|position| position.checked_add(moved)));
            }
            let of = Subject::File(Arc::clone(&description.file));
            let at = at.map_or(0, |at| at.wrapping_add(1));
            let detail = Detail::numbers(&[into, at, length]).with_flags(bits);
            return Some(self.noted(Function::Splice, of, detail));
        }
        Some(Handled::Elsewhere)
    }

    fn exec(&self) -> Handled {
        if self.outcome.is_err() {
            return Handled::Skipped;
        }
        let list = self.ended.arguments.iter().find(|word| word.starts_with('['));
        let list = list.map_or("", |list| list.trim_matches(['[', ']']));
        let (mut command, bytes, mut at) = (Vec::new(), list.as_bytes(), 0);
        while at < bytes.len() {
            if bytes[at] == b'"' {
                let Some(end) = super::line::string_end(bytes, at) else { break };
                let word = string(&list[at..=end]).unwrap_or_default();
                command.push(String::from_utf8_lossy(&word).into_owned());
                at = end;
            }
            at += 1;
        }
        Handled::Exec(command)
    }

    /// Calls that others only have notice of.
    fn notice(&mut self) -> Option<Handled> {
        let Some((function, directory, place)) = notice_of(self.ended.name) else {
            return Some(Handled::Skipped);
        };
        let detail = self.detail(function)?;
        // Without a name it is about the descriptor.
        let named = match (place, directory) {
            (Some(place), Some(_)) => {
                (!matches!(self.word(place)?, "NULL" | "\"\"")).then_some(place)
            }
            (place, _) => place,
        };
        let Some(place) = named else {
            let Some(file) = self.file(0)? else { return Some(Handled::Elsewhere) };
            return Some(self.noted(function, Subject::File(Arc::clone(&file.file)), detail));
        };
        let of = Subject::Name(self.path(directory, place)?.into());
        Some(self.noted(function, of, detail))
    }

    /// What else such a call says.
    fn detail(&mut self, function: Function) -> Option<Detail<Arc<Path>>> {
        let name = self.ended.name;
        let no_follow = if name.starts_with('l') { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
        // Arguments behind the name, or behind the descriptor.
        let next = if name.contains("at") && !matches!(name, "statfs" | "fstatfs") { 2 } else { 1 };
        let at_flags = |place: usize| self.word(place).map_or(0, |word| flags(AT_FLAGS, word));
        Some(match function {
            Function::Access => {
                let wanted = flags(ACCESS, self.word(next)?);
                Detail::numbers(&[wide(wanted)]).with_flags(at_flags(next + 1))
            }
            Function::Chmod => {
                Detail::numbers(&[self.unsigned(next)?]).with_flags(at_flags(next + 1))
            }
            Function::Mknod => Detail::numbers(&[wide(flags(SORTS, self.word(next)?))]),
            Function::Chown => {
                let id = |place: usize| Some(u64::from(number(self.word(place)?)? as u32));
                let bits = if next == 2 { at_flags(next + 2) } else { no_follow };
                Detail::numbers(&[id(next)?, id(next + 1)?]).with_flags(bits)
            }
            Function::Utimens => Detail::default().with_flags(at_flags(next + 1)),
            Function::Link => {
                let (directory, place) = if next == 2 { (Some(2), 3) } else { (None, 1) };
                let bits = if next == 2 { at_flags(4) } else { 0 };
                let to = self.path(directory, place)?.into();
                Detail::default().with_flags(bits).with_text(Some(to))
            }
            Function::Symlink => {
                Detail::default().with_text(Some(path_of(string(self.word(0)?)?).into()))
            }
            Function::Readlink => {
                // strace truncates it by default.
                let text = string(self.word(next)?).filter(|_| self.outcome.is_ok());
                let text = text.filter(|text| Ok(text.len() as u64) == self.outcome);
                Detail::numbers(&[self.unsigned(next + 1)?])
                    .with_text(text.map(|text| path_of(text).into()))
            }
            Function::Truncate => Detail::numbers(&[self.unsigned(1)?]),
            Function::Xattr => {
                let what = ["getx", "setx", "listx", "removex"];
                let what = what.iter().position(|what| name.contains(what))? as u64;
                let key = self.word(1).and_then(string).filter(|_| what != 2);
                let length = self.word(if what == 2 { 2 } else { 3 }).and_then(unsigned);
                Detail::numbers(&[what, length.unwrap_or(0)])
                    .with_flags(no_follow)
                    .with_text(key.map(|key| path_of(key).into()))
            }
            _ => Detail::default(),
        })
    }
}

/// A small number as one of a notice.
const fn wide(number: i32) -> u64 {
    number.cast_unsigned() as u64
}

/// The function of a call, where its directory is and where its name; without a name it is on a
/// descriptor.
fn notice_of(name: &str) -> Option<(Function, Option<usize>, Option<usize>)> {
    let (at, named, file) = ((Some(0), Some(1)), (None, Some(0)), (None, None));
    let (function, (directory, place)) = match name {
        "access" => (Function::Access, named),
        "faccessat" | "faccessat2" => (Function::Access, at),
        "chmod" => (Function::Chmod, named),
        "fchmodat" | "fchmodat2" => (Function::Chmod, at),
        "fchmod" => (Function::Chmod, file),
        "chown" | "lchown" => (Function::Chown, named),
        "fchownat" => (Function::Chown, at),
        "fchown" => (Function::Chown, file),
        "utime" | "utimes" => (Function::Utimens, named),
        "utimensat" | "futimesat" => (Function::Utimens, at),
        "link" => (Function::Link, named),
        "linkat" => (Function::Link, at),
        "symlink" => (Function::Symlink, (None, Some(1))),
        "symlinkat" => (Function::Symlink, (Some(1), Some(2))),
        "readlink" => (Function::Readlink, named),
        "readlinkat" => (Function::Readlink, at),
        "truncate" | "truncate64" => (Function::Truncate, named),
        "mknod" => (Function::Mknod, named),
        "mknodat" => (Function::Mknod, at),
        "statfs" | "statfs64" => (Function::Statfs, named),
        "fstatfs" | "fstatfs64" => (Function::Statfs, file),
        "setxattr" | "lsetxattr" | "getxattr" | "lgetxattr" | "listxattr" | "llistxattr"
        | "removexattr" | "lremovexattr" => (Function::Xattr, named),
        "fsetxattr" | "fgetxattr" | "flistxattr" | "fremovexattr" => (Function::Xattr, file),
        _ => return None,
    };
    Some((function, directory, place))
}
