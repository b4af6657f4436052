//! Conversion of an operation and its result to the call that a trace records.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use striate_process::clock;
use striate_stack::{
    Action, Completed, CopyEndpoint, FileOrName, Next, Op, OpenFile, Outcome, StatInto, notice,
};
use striate_trace::{Call, Detail, Subject, Timed, TracedEnd, TracedFile};

use super::{Recorder, TracedState};

type BorrowedCall<'c> = Call<&'c TracedFile, &'c Path>;

/// A read or write, as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) reads: bool,
    pub(super) placed: bool,
    pub(super) offset: Option<u64>,
    pub(super) length: u64,
    pub(super) flags: i32,
    pub(super) parts: u32,
}

impl Transfer {
    #[inline]
    pub(super) const fn call(self, file: &TracedFile) -> BorrowedCall<'_> {
        let Self { placed, offset, length, flags, parts, .. } = self;
        if self.reads {
            Call::Read { file, placed, offset, length, flags, parts }
        } else {
            Call::Write { file, placed, offset, length, flags, parts }
        }
    }
}

impl Recorder {
    /// Carries out and records what is neither read nor write.
    pub(super) fn call_other(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let (function, slot) = (op.function, next.slot());
        let is_notice = op.action.is_notice();
        if is_notice && notice::result_follows(function) {
            return next.call(op);
        }
        let asked = self.recorded_call(&op.action, slot);
        let start = clock::now();
        let outcome = next.call(op);
        let timed = Timed { start, end: clock::now() };
        let Some(mut call) = asked else { return outcome };
        match (&mut call, &op.action) {
            (Call::Open { size, .. }, _) => *size = outcome.ok().and_then(size_of_descriptor),
            (Call::Stat { size, mode, .. }, Action::Stat { into, .. }) if outcome.is_ok() => {
                let (told_size, told_mode) = told_by(into);
                (*size, *mode) = (Some(told_size), Some(told_mode));
            }
            (_, Action::Seek { file, .. }) => {
                if let (Some(known), Ok(position)) = (file.state::<TracedState>(slot), outcome) {
                    known.move_to(Some(position));
                }
            }
            (_, Action::CopyRange { from, to, .. } | Action::SendFile { from, to, .. }) => {
                for end in [from, to] {
                    moved(end, slot, outcome);
                }
            }
            _ => {}
        }
        let result = match op.action {
            // The result of the call itself is not recorded here, unless stages prevent the call.
            _ if is_notice && outcome.is_ok() => None,
            // It has been made.
            Action::Duplicate { descriptor, .. } => Some(outcome.map(|_| descriptor as u64)),
            _ => Some(outcome),
        };
        self.record(slot, function, timed, result, &call);
        outcome
    }

    /// Records a call of which stages had notice, and which has been made.
    pub(super) fn record_completed(&self, done: &Completed<'_, '_>, place: usize) {
        let Completed { op, detail: recorded_call, outcome, times: (start, end) } = *done;
        let Some(mut call) = self.recorded_call(&op.action, place) else { return };
        if let Call::Notice { detail, .. } = &mut call {
            *detail = recorded_call.clone();
        }
        self.record(place, op.function, Timed { start, end }, Some(outcome), &call);
    }

    fn file<'f>(&self, file: &'f Arc<OpenFile>, slot: usize) -> Option<&'f TracedFile> {
        self.known(file, slot).map(|known| &known.file)
    }

    fn subject<'a>(
        &self,
        of: FileOrName<'a>,
        slot: usize,
    ) -> Option<Subject<&'a TracedFile, &'a Path>> {
        Some(match of {
            FileOrName::File(file) => Subject::File(self.file(file, slot)?),
            FileOrName::Name(target) => Subject::Name(target.absolute),
        })
    }

    fn end<'a>(&self, end: &CopyEndpoint<'a>, slot: usize) -> TracedEnd<&'a TracedFile> {
        let file = end.file.and_then(|file| self.file(file, slot));
        TracedEnd { file, descriptor: end.descriptor, at: end.at }
    }

    fn recorded_call<'a>(&self, action: &Action<'a>, slot: usize) -> Option<BorrowedCall<'a>> {
        Some(match action {
            // These are recorded elsewhere, since there are several.
            Action::Read { .. } | Action::Write { .. } => return None,
            Action::Open { file, target, flags, mode } => Call::Open {
                file: self.file(file, slot)?,
                path: target.absolute,
                flags: *flags,
                mode: *mode,
                size: None,
            },
            Action::Close { file, descriptor, last } => {
                Call::Close { file: self.file(file, slot)?, descriptor: *descriptor, last: *last }
            }
            Action::Seek { file, offset, whence } => {
                Call::Seek { file: self.file(file, slot)?, offset: *offset, whence: *whence }
            }
            Action::Sync { file, data_only } => {
                Call::Sync { file: self.file(file, slot)?, data_only: *data_only }
            }
            Action::Truncate { file, length } => {
                Call::Truncate { file: self.file(file, slot)?, length: *length }
            }
            Action::Allocate { file, mode, offset, length } => Call::Allocate {
                file: self.file(file, slot)?,
                mode: *mode,
                offset: *offset,
                length: *length,
            },
            Action::Stat { of, flags, .. } => {
                Call::Stat { of: self.subject(*of, slot)?, flags: *flags, size: None, mode: None }
            }
            Action::Rename { from, to, flags } => {
                Call::Rename { from: from.absolute, to: to.absolute, flags: *flags }
            }
            Action::Unlink { target, flags } => {
                Call::Unlink { path: target.absolute, flags: *flags }
            }
            Action::MakeDirectory { target, mode } => {
                Call::MakeDirectory { path: target.absolute, mode: *mode }
            }
            Action::ReadDirectory { target } => Call::ReadDirectory { path: target.absolute },
            Action::Duplicate { file, descriptor } => {
                Call::Duplicate { file: self.file(file, slot)?, descriptor: *descriptor }
            }
            Action::Control { file, descriptor, command, argument } => Call::Control {
                file: self.file(file, slot)?,
                descriptor: *descriptor,
                command: *command,
                argument: *argument,
            },
            Action::Map { file, offset, length, writable } => Call::Map {
                file: self.file(file, slot)?,
                offset: *offset,
                length: *length,
                writable: *writable,
            },
            Action::CopyRange { from, to, length } => Call::CopyRange {
                from: self.end(from, slot),
                to: self.end(to, slot),
                length: *length as u64,
            },
            Action::SendFile { from, to, length } => Call::SendFile {
                from: self.end(from, slot),
                to: self.end(to, slot),
                length: *length as u64,
            },
            Action::Notice { of } => {
                Call::Notice { of: self.subject(*of, slot)?, detail: Detail::default() }
            }
        })
    }
}

/// The size of what was just opened: a replay has to know what there was.
fn size_of_descriptor(descriptor: u64) -> Option<u64> {
    let descriptor = i32::try_from(descriptor).ok()?;
    // SAFETY: it was opened just now, and the program does not know it yet.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fstat(descriptor).ok().map(|stat| stat.st_size as u64)
}

/// The position of a file that is shared.
#[cold]
pub(super) fn kernel_position(file: &OpenFile) -> Option<u64> {
    rustix::fs::seek(file.descriptor().ok()?, rustix::fs::SeekFrom::Current(0)).ok()
}

/// The size and the mode that were returned.
fn told_by(into: &StatInto<'_>) -> (u64, u32) {
    match into {
        StatInto::Stat(stat) => (stat.st_size as u64, stat.st_mode),
        StatInto::Statx { buffer, .. } => (buffer.stx_size, u32::from(buffer.stx_mode)),
    }
}

/// Bytes were moved at the position of an end.
fn moved(end: &CopyEndpoint<'_>, slot: usize, outcome: Result<u64, Errno>) {
    if let (Some(file), None, Ok(count)) = (end.file, end.at, outcome)
        && let Some(known) = file.state::<TracedState>(slot)
    {
        known.move_to(known.position().and_then(|position| position.checked_add(count)));
    }
}
