//! Calls as operations of a stack.

use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use striate_recording::ProcessIndex;
use striate_stack::{
    Action, CopyEndpoint, FileOrName, Function, Kind, Op, OpenFile, Outcome, StatInto,
};
use striate_trace::{Call as Traced, Record, Subject, TracedEnd, TracedFile};

use super::super::Execution;
use super::super::memory;
use super::super::process::ReplayedProcess;
use super::super::root::Root;
use super::super::stopwatch::Stopwatch;
use super::{StackBackend, close_others};
use crate::compare::Observed;
use crate::contents::{Phase, WorkerBuffer};
use crate::namespace::FileId;
use crate::task::Call;

/// The longest transfer that the kernel makes.
const MOST: u64 = 0x7fff_f000;

const NOT_OPEN: &str = "its file could not be opened";

/// Carries something out, and says how long it took.
pub(super) fn timed(operation: impl FnOnce() -> Outcome) -> Execution {
    let (outcome, took) = measured(operation);
    made(outcome, None, took)
}

fn measured(operation: impl FnOnce() -> Outcome) -> (Outcome, u64) {
    Stopwatch::took();
    // A panic in a stage is an error of the call, as in the door.
    let outcome = catch_unwind(AssertUnwindSafe(operation)).unwrap_or(Err(Errno::IO));
    (outcome, Stopwatch::took())
}

/// Does what a program waits for besides the call itself. Says how many nanoseconds that took.
fn besides<R>(operation: impl FnOnce() -> R) -> u64 {
    let begin = Instant::now();
    let _ = operation();
    begin.elapsed().as_nanos() as u64
}

/// A call, and something that took time besides it.
fn with(did: Execution, more: u64) -> Execution {
    match did {
        Execution::Made(observed, took) => Execution::Made(observed, took + more),
        Execution::Noted(took) => Execution::Noted(took + more),
        skipped @ Execution::Skipped(_) => skipped,
    }
}

/// A call that stages were only notified of.
pub(super) fn noted(told: Execution) -> Execution {
    match told {
        Execution::Made(_, took) => Execution::Noted(took),
        other => other,
    }
}

pub(super) fn made(outcome: Outcome, size: Option<u64>, took: u64) -> Execution {
    Execution::Made(Observed { outcome: outcome.map_err(Errno::raw_os_error), size }, took)
}

/// A call that is being made.
pub(super) struct CallInProgress<'a> {
    pub(super) backend: &'a StackBackend,
    pub(super) process: ProcessIndex,
    pub(super) replayed: &'a ReplayedProcess,
    pub(super) record: &'a Record,
}

impl StackBackend {
    /// Makes a call.
    pub(super) fn perform(
        &self,
        process: ProcessIndex,
        replayed: &ReplayedProcess,
        call: &Call,
        buffer: &mut WorkerBuffer,
    ) -> Execution {
        let making = CallInProgress { backend: self, process, replayed, record: &call.record };
        making.make(call, buffer)
    }
}

impl CallInProgress<'_> {
    fn make(&self, call: &Call, buffer: &mut WorkerBuffer) -> Execution {
        let record = self.record;
        match (&record.call, call.files[0]) {
            (Traced::Open { path, flags, mode, .. }, Some(id)) => {
                self.open(id, path, *flags, *mode)
            }
            (Traced::Rename { from, to, flags }, _) => self.rename(from, to, *flags),
            (Traced::Unlink { path, flags }, _) => {
                let flags = *flags;
                self.by_name(path, |target| Action::Unlink { target, flags })
            }
            (Traced::MakeDirectory { path, mode }, _) => {
                let mode = *mode;
                self.by_name(path, |target| Action::MakeDirectory { target, mode })
            }
            (Traced::ReadDirectory { path }, _) => self.list(path),
            (Traced::Stat { of: Subject::Name(path), flags, .. }, _) => {
                let name = Root::c_relative(path);
                self.stat(FileOrName::Name(self.backend.target(&name, path)), *flags)
            }
            (Traced::Notice { of: Subject::Name(path), .. }, _) if !record.known => {
                self.notice_name(path, call)
            }
            (Traced::Notice { of: Subject::Name(path), detail }, _) => {
                self.noticed_name(path, detail)
            }
            (Traced::CopyRange { from, to, length } | Traced::SendFile { from, to, length }, _) => {
                self.copy(call, from, to, *length)
            }
            (traced, Some(id)) => {
                let Some(file) = traced.file() else {
                    return Execution::Skipped("nothing is known of it");
                };
                match self.backend.file(self.process, self.replayed, id, file) {
                    Some(open) => self.on_file(id, file, &open, buffer),
                    None => Execution::Skipped(NOT_OPEN),
                }
            }
            (_, None) => Execution::Skipped("nothing is known of it"),
        }
    }

    fn call(&self, file: &Arc<OpenFile>, action: Action<'_>) -> Outcome {
        let mut op = Op { function: self.record.function, route: file.route(), action };
        self.replayed.stack.call(&mut op)
    }

    fn open(&self, id: FileId, path: &Path, flags: i32, mode: u32) -> Execution {
        let name = Root::c_relative(path);
        let mut opened = None;
        let (outcome, took) = measured(|| {
            let function = self.record.function;
            let file = self.backend.open(self.replayed, function, (&name, path), flags, mode)?;
            let descriptor = file.raw_descriptor() as u64;
            opened = Some(file);
            Ok(descriptor)
        });
        let mut size = None;
        if let Some(file) = opened {
            if !self.replayed.holds_back {
                let stat = file.descriptor().and_then(rustix::fs::fstat).ok();
                let stat = stat
                    .filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
                size = stat.map(|stat| stat.st_size as u64);
            }
            let recorded = self.record.outcome.unwrap_or(0) as i32;
            self.replayed.add(id, file, recorded);
            if self.record.outcome.is_err() {
                // No recorded call uses it.
                self.close(id, -1, true);
            }
        } else if self.record.outcome.is_ok() {
            self.backend.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
        made(outcome, size, took)
    }

    fn close(&self, id: FileId, recorded: i32, last: bool) -> Execution {
        let mut fd_inheritance = self.backend.fd_inheritance();
        let Some(closing) = self.replayed.close(id, recorded, last) else {
            return Execution::Skipped(NOT_OPEN);
        };
        let file = &closing.file;
        self.replayed.locks.closes(file);
        if !closing.goes_on {
            fd_inheritance.hand_over(self.process, self.replayed, id, file);
        }
        drop(fd_inheritance);
        close_others(file, closing.others);
        let was_used = file.raw_descriptor() == closing.descriptor;
        let last = file.remove_descriptor(closing.descriptor);
        if was_used && !last {
            // Calls on other descriptors of the file may be using this one.
            self.replayed.stack.wait_for_others();
        }
        timed(|| self.call(file, Action::Close { file, descriptor: closing.descriptor, last }))
    }

    pub(super) fn by_name<'n>(
        &self,
        path: &'n Path,
        action: impl for<'a> FnOnce(striate_stack::Target<'a>) -> Action<'a>,
    ) -> Execution {
        let name = Root::c_relative(path);
        let route = self.replayed.stack.route(path);
        let action = action(self.backend.target(&name, path));
        let mut op = Op { function: self.record.function, route: &route, action };
        timed(|| self.replayed.stack.call(&mut op))
    }

    fn rename(&self, from: &Path, to: &Path, flags: u32) -> Execution {
        let [old, new] = [from, to].map(Root::c_relative);
        let route = self.replayed.stack.route(from).or(&self.replayed.stack.route(to));
        let action = Action::Rename {
            from: self.backend.target(&old, from),
            to: self.backend.target(&new, to),
            flags,
        };
        let mut op = Op { function: self.record.function, route: &route, action };
        timed(|| self.replayed.stack.call(&mut op))
    }

    fn stat(&self, of: FileOrName<'_>, flags: i32) -> Execution {
        let route = match of {
            FileOrName::File(file) => file.route().clone(),
            FileOrName::Name(target) => self.replayed.stack.route(target.absolute),
        };
        // SAFETY: both are plain numbers, for which zeros will do.
        let (mut stat, mut statx): (libc::stat, libc::statx) = unsafe { std::mem::zeroed() };
        let by_statx = self.record.function == Function::Statx;
        let into = if by_statx {
            StatInto::Statx { mask: libc::STATX_BASIC_STATS, buffer: &mut statx }
        } else {
            StatInto::Stat(&mut stat)
        };
        let action = Action::Stat { of, flags, into };
        let mut op = Op { function: self.record.function, route: &route, action };
        let (outcome, took) = measured(|| self.replayed.stack.call(&mut op));
        let (mode, size) = if by_statx {
            (u32::from(statx.stx_mode), statx.stx_size)
        } else {
            (stat.st_mode, stat.st_size as u64)
        };
        // Sizes of directories are the file system's business.
        let is_file = FileType::from_raw_mode(mode) == FileType::RegularFile;
        made(outcome, (outcome.is_ok() && is_file).then_some(size), took)
    }

    fn notice_name(&self, path: &Path, call: &Call) -> Execution {
        let told = self.by_name(path, |target| Action::Notice { of: FileOrName::Name(target) });
        let (Some(old), Execution::Made(observed, took)) = (&call.link, &told) else {
            return noted(told);
        };
        let [old, new] = [old.as_path(), path].map(|path| self.backend.root.full(path));
        let here = rustix::fs::CWD;
        match rustix::fs::linkat(here, old, here, new, AtFlags::empty()) {
            Ok(()) => Execution::Made(*observed, *took),
            // It may have failed then, too: only that it was about to happen is recorded.
            Err(_) => noted(told),
        }
    }

    fn copy(
        &self,
        call: &Call,
        from: &TracedEnd<Arc<TracedFile>>,
        to: &TracedEnd<Arc<TracedFile>>,
        length: u64,
    ) -> Execution {
        let open = |place: usize, end: &TracedEnd<Arc<TracedFile>>| {
            let (id, file) = (call.files[place]?, end.file.as_ref()?);
            Some((id, self.backend.file(self.process, self.replayed, id, file)?))
        };
        let (source, sink) = (open(0, from), open(1, to));
        let Some((source_id, source)) = source else {
            return self.copy_from_elsewhere(sink, to);
        };
        let descriptor = |id: FileId, recorded: i32, file: &OpenFile| {
            self.replayed.descriptor(id, recorded).unwrap_or(file.raw_descriptor())
        };
        let start = CopyEndpoint {
            file: Some(&source),
            descriptor: descriptor(source_id, from.descriptor, &source),
            at: from.at,
        };
        let sends = self.record.call.kind() == Kind::SendFile;
        let end = match &sink {
            Some((id, file)) => CopyEndpoint {
                file: Some(file),
                descriptor: descriptor(*id, to.descriptor, file),
                at: to.at,
            },
            // Bytes that went to a socket, a pipe or a file that was not recorded go nowhere.
            None if sends || self.record.outcome.is_err() => {
                CopyEndpoint { file: None, descriptor: self.backend.nowhere.as_raw_fd(), at: None }
            }
            None => CopyEndpoint {
                file: None,
                descriptor: self.backend.no_file.as_raw_fd(),
                at: Some(0),
            },
        };
        let route = match &sink {
            Some((_, file)) => source.route().or(file.route()),
            None => source.route().clone(),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let action = if sends {
            Action::SendFile { from: start, to: end, length }
        } else {
            Action::CopyRange { from: start, to: end, length }
        };
        let mut op = Op { function: self.record.function, route: &route, action };
        timed(|| self.replayed.stack.call(&mut op))
    }

    /// Bytes that came from what was not recorded: as many of a file without a name.
    fn copy_from_elsewhere(
        &self,
        sink: Option<(FileId, Arc<OpenFile>)>,
        to: &TracedEnd<Arc<TracedFile>>,
    ) -> Execution {
        let Some((id, file)) = sink else { return Execution::Skipped(NOT_OPEN) };
        let moved = self.record.outcome.unwrap_or(0);
        let made = tempfile::tempfile_in(self.backend.root.place());
        let source = made.and_then(|made| made.set_len(moved).map(|()| made));
        let Ok(source) = source else {
            return Execution::Skipped("bytes observed from what was not recorded");
        };
        let start = CopyEndpoint { file: None, descriptor: source.as_raw_fd(), at: Some(0) };
        let descriptor =
            self.replayed.descriptor(id, to.descriptor).unwrap_or(file.raw_descriptor());
        let end = CopyEndpoint { file: Some(&file), descriptor, at: to.at };
        let length = usize::try_from(moved).unwrap_or(usize::MAX);
        let action = if self.record.call.kind() == Kind::SendFile {
            Action::SendFile { from: start, to: end, length }
        } else {
            Action::CopyRange { from: start, to: end, length }
        };
        let mut op = Op { function: self.record.function, route: file.route(), action };
        timed(|| self.replayed.stack.call(&mut op))
    }

    fn on_file(
        &self,
        id: FileId,
        traced: &TracedFile,
        file: &Arc<OpenFile>,
        buffer: &mut WorkerBuffer,
    ) -> Execution {
        match self.record.call {
            Traced::Close { descriptor, last, .. } => self.close(id, descriptor, last),
            Traced::Read { placed, offset, length, flags, parts, .. } => {
                let at = offset.filter(|_| placed);
                let length = length.min(MOST) as usize;
                let memory = memory::sink(buffer.memory(length), length, parts);
                timed(|| self.call(file, Action::Read { file, memory, at, flags }))
            }
            Traced::Write { placed, offset, length, flags, parts, .. } => {
                let at = offset.filter(|_| placed);
                // To append at an offset is to append: the offset does not matter, but that it is
                // said does.
                let at = if placed { at.or(Some(0)) } else { None };
                let direct = traced.flags & libc::O_DIRECT != 0;
                let length = length.min(MOST) as usize;
                let bytes =
                    buffer.bytes(Phase::of(&traced.path), offset.unwrap_or(0), length, direct);
                let memory = memory::source(bytes, length, parts);
                timed(|| self.call(file, Action::Write { file, memory, at, flags }))
            }
            Traced::Seek { offset, whence, .. } => {
                timed(|| self.call(file, Action::Seek { file, offset, whence }))
            }
            Traced::Sync { data_only, .. } => {
                timed(|| self.call(file, Action::Sync { file, data_only }))
            }
            Traced::Truncate { length, .. } => {
                timed(|| self.call(file, Action::Truncate { file, length }))
            }
            Traced::Allocate { mode, offset, length, .. } => {
                timed(|| self.call(file, Action::Allocate { file, mode, offset, length }))
            }
            Traced::Stat { flags, .. } => self.stat(FileOrName::File(file), flags),
            Traced::Duplicate { descriptor, .. } => self.duplicate(id, file, descriptor),
            Traced::Control { descriptor, command, argument, .. } => {
                self.control(id, file, descriptor, (command, argument))
            }
            Traced::Map { offset, length, writable, .. } if self.record.known => {
                self.map(file, offset, length, writable)
            }
            Traced::Map { offset, length, writable, .. } => {
                let told =
                    timed(|| self.call(file, Action::Map { file, offset, length, writable }));
                with(noted(told), besides(|| self.replayed.stack.share(file)))
            }
            Traced::Notice { ref detail, .. } if self.record.known => {
                self.noticed_file(id, file, detail)
            }
            Traced::Notice { .. } => {
                let told = timed(|| self.call(file, Action::Notice { of: FileOrName::File(file) }));
                let mut settling = 0;
                // Other processes want to see the data.
                if matches!(
                    self.record.function,
                    Function::Flock
                        | Function::Fcntl
                        | Function::Splice
                        | Function::PosixFallocate
                        | Function::Other
                ) {
                    settling = besides(|| self.replayed.stack.share(file));
                }
                with(noted(told), settling)
            }
            _ => Execution::Skipped("nothing is known of it"),
        }
    }

    fn duplicate(&self, id: FileId, file: &Arc<OpenFile>, recorded: i32) -> Execution {
        let mut settling = 0;
        let did = timed(|| {
            let descriptor = self.replayed.duplicate(id, recorded)?;
            if (0..=2).contains(&recorded) {
                // The C library uses the standard streams by ways that are not seen.
                settling = besides(|| self.replayed.stack.share(file));
            }
            self.call(file, Action::Duplicate { file, descriptor })
        });
        with(did, settling)
    }

    fn control(
        &self,
        id: FileId,
        file: &Arc<OpenFile>,
        recorded: RawFd,
        (command, argument): (i32, u64),
    ) -> Execution {
        // The argument of others may be a place in the memory of the program.
        if !matches!(
            command,
            libc::F_GETFD
                | libc::F_SETFD
                | libc::F_GETFL
                | libc::F_SETFL
                | libc::F_GETLEASE
                | libc::F_GETOWN
                | libc::F_GET_SEALS
                | libc::F_GETPIPE_SZ
        ) {
            return Execution::Skipped("fcntl with an argument that is not recorded");
        }
        let descriptor = self.replayed.descriptor(id, recorded).unwrap_or(file.raw_descriptor());
        let sets_flags = command == libc::F_SETFL;
        let settling = if sets_flags { besides(|| self.replayed.stack.settle(file)) } else { 0 };
        let did = timed(|| {
            let outcome = self.call(file, Action::Control { file, descriptor, command, argument });
            if sets_flags && outcome.is_ok() {
                let changed = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;
                file.set_flags(file.flags() & !changed | argument as i32 & changed);
            }
            outcome
        });
        with(did, settling)
    }
}
