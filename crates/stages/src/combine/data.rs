//! Operations on open files that are buffered.

use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::Function;
use striate_process::limits;
use striate_process::lock::lock;
use striate_stack::{
    Action, CopyEndpoint, Cursor, FileOrName, Memory, Next, Op, OpenFile, Outcome, StatInto,
    perform, replace_descriptor,
};

use super::buffered_file::{BufferedFile, CombineHandle, is_answerable};
use super::state::CombineState;
use super::{Combine, open_handle};

/// What an operation needs that a buffered file cannot give: it has to be a real one.
struct NeedsFile;

/// The outcome, or that the file has to be a real one first.
type CombineResult = Result<Outcome, NeedsFile>;

/// Flags that `F_SETFL` changes.
const CHANGEABLE: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME;
/// Flags that it does not change, and `F_GETFL` does not return.
const NOT_TOLD: i32 =
    libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOCTTY | libc::O_CLOEXEC;

/// The kernel says of all files of a program with 64 bits that they may be large (`O_LARGEFILE`,
/// which C says is 0 there).
const LARGE: i32 = 0o100_000;

impl Combine {
    /// An operation on an open file.
    pub(super) fn data(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        if matches!(op.action, Action::CopyRange { .. } | Action::SendFile { .. }) {
            return self.transfer(op, next);
        }
        let Some(file) = op.action.file() else { return next.call(op) };
        let Some(handle) = open_handle(file, next) else { return self.forward(op, next) };
        if !handle.is_materialized() {
            match self.buffered(op, file, handle, next) {
                Ok(outcome) => return outcome,
                Err(NeedsFile) => self.settle_handle(handle, next)?,
            }
        }
        let uses_position = match &op.action {
            Action::Read { at, .. } | Action::Write { at, .. } => at.is_none(),
            Action::Seek { .. } => true,
            _ => false,
        };
        if uses_position {
            file.give_position_back()?;
        }
        if let Action::Duplicate { file, descriptor } = &op.action {
            // It was made while the others were replaced.
            if lock(&self.state).is_placeholder(*descriptor) {
                replace_descriptor(*descriptor, file.descriptor()?)?;
            }
        }
        self.forward(op, next)
    }

    /// Hands an operation on that is not about a buffered file. It may be about one that was
    /// buffered.
    pub(super) fn forward(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let outcome = next.call(op);
        if let (Ok(_), Action::Stat { into, .. }) = (outcome, &mut op.action) {
            self.identities.correct(into);
        }
        outcome
    }

    fn settle_handle(&self, handle: &CombineHandle, next: Next<'_>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if handle.is_materialized() {
            return Ok(());
        }
        self.materialize(&mut state, &[handle.id], next)
    }

    /// An operation on a buffered file.
    fn buffered(
        &self,
        op: &mut Op<'_>,
        file: &Arc<OpenFile>,
        handle: &CombineHandle,
        next: Next<'_>,
    ) -> CombineResult {
        let id = handle.id;
        // The position first: the holder of the lock never waits for a position.
        let at = match &op.action {
            Action::Read { at, .. } | Action::Write { at, .. } => *at,
            _ => Some(0),
        };
        let needs_cursor = at.is_none() || matches!(op.action, Action::Seek { .. });
        let mut cursor = if needs_cursor {
            match file.cursor() {
                Ok(cursor) => Some(cursor),
                Err(error) => return Ok(Err(error)),
            }
        } else {
            None
        };
        let position = cursor.as_ref().map_or(0, Cursor::position);
        let mut state = lock(&self.state);
        if handle.is_materialized() {
            return Err(NeedsFile);
        }
        match &mut op.action {
            Action::Read { memory, at, flags: 0, .. }
                if at.is_none_or(|at| i64::try_from(at).is_ok()) =>
            {
                let outcome = read(&state, id, file, memory, at.unwrap_or(position));
                if let (Ok(count), Some(cursor)) = (outcome, &mut cursor) {
                    cursor.set(position + count);
                }
                Ok(outcome)
            }
            Action::Write { memory, at, flags: 0, .. } => {
                if !file.is_writable() {
                    return Ok(Err(Errno::BADF));
                }
                let at = if file.appends() {
                    state.buffered.get(&id).map_or(0, BufferedFile::size) as u64
                } else {
                    at.unwrap_or(position)
                };
                let outcome = self.write(&mut state, id, memory, at)?;
                if let (Ok(count @ 1..), Some(cursor)) = (outcome, &mut cursor) {
                    cursor.set(at + count);
                }
                Ok(outcome)
            }
            Action::Seek { offset, whence, .. } => {
                let size = state.buffered.get(&id).map_or(0, BufferedFile::size) as i64;
                let outcome = seek(position as i64, size, *offset, *whence)?;
                if let (Ok(to), Some(cursor)) = (outcome, &mut cursor) {
                    cursor.set(to);
                }
                Ok(outcome)
            }
            Action::Truncate { length, .. } => {
                if !file.is_writable() || *length > i64::MAX as u64 {
                    return Ok(Err(Errno::INVAL));
                }
                let length = self.room(*length, 0)?;
                Ok(state.change(id, |bytes| bytes.resize(length, 0)).map(|()| 0))
            }
            Action::Allocate { mode: 0, offset, length, .. } if file.is_writable() => {
                if *length == 0 {
                    return Err(NeedsFile);
                }
                let end = self.room(*offset, *length)?;
                let grow = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().max(end), 0);
                Ok(state.change(id, grow).map(|()| 0))
            }
            Action::Stat { flags, into, .. } => {
                if !is_answerable(*flags, into) {
                    // Of the placeholder, which is as good as any file for this.
                    return Ok(perform(op));
                }
                let Some(buffered) = state.buffered.get_mut(&id) else { return Ok(Err(Errno::IO)) };
                buffered.stat(into);
                Ok(Ok(0))
            }
            Action::Control { command, argument, .. } => match *command {
                libc::F_GETFD | libc::F_SETFD => Ok(perform(op)),
                command => control(file, command, *argument as i32),
            },
            Action::Duplicate { .. } => Ok(Ok(0)),
            Action::Notice { .. } if op.function == Function::Fdopen => Ok(Ok(0)),
            Action::Close { last, .. } => {
                let stored = if *last { self.close(&mut state, id, file, next) } else { Ok(()) };
                if handle.is_materialized() {
                    // It became a real file just now: its descriptor is known further down.
                    return match stored {
                        Ok(()) => Err(NeedsFile),
                        Err(error) => Ok(next.call(op).and(Err(error))),
                    };
                }
                drop(state);
                // No stage below has seen it.
                Ok(perform(op).and_then(|outcome| stored.map(|()| outcome)))
            }
            _ => Err(NeedsFile),
        }
    }

    /// The end of a piece as a size, if a buffered file may be as long.
    fn room(&self, offset: u64, length: u64) -> Result<usize, NeedsFile> {
        let end = offset.checked_add(length).ok_or(NeedsFile)?;
        // What is beyond the limit of file sizes is for the kernel to say.
        let limit = (self.limit as u64).min(limits::file_size());
        if end > limit { Err(NeedsFile) } else { Ok(end as usize) }
    }

    fn write(
        &self,
        state: &mut CombineState,
        id: u64,
        memory: &Memory<'_>,
        at: u64,
    ) -> CombineResult {
        if memory.is_empty() {
            return Ok(Ok(0));
        }
        let end = self.room(at, memory.len() as u64)?;
        if state.in_memory + memory.len() > self.memory as usize {
            return Err(NeedsFile);
        }
        let outcome = state.change(id, |bytes| {
            let start = at as usize;
            if start == bytes.len() {
                memory.append_to(0..memory.len(), bytes);
            } else {
                bytes.resize(bytes.len().max(end), 0);
                memory.take(0, &mut bytes[start..end]);
            }
        });
        Ok(outcome.map(|()| memory.len() as u64))
    }

    /// The last descriptor of an open file is closed.
    fn close(
        &self,
        state: &mut CombineState,
        id: u64,
        file: &Arc<OpenFile>,
        next: Next<'_>,
    ) -> Result<(), Errno> {
        let changed = state
            .buffered
            .get(&id)
            .is_some_and(|buffered| buffered.changed && buffered.key.is_some());
        let stored =
            if changed && file.is_writable() { self.store(state, id, next) } else { Ok(()) };
        state.close(id, file);
        self.note_names(state);
        stored?;
        if state.names.len() >= self.options.files && self.options.unpack {
            let ids = state.named();
            return self.materialize(state, &ids, next);
        }
        Ok(())
    }

    /// Copies from file to file.
    fn transfer(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let (Action::CopyRange { from, to, length } | Action::SendFile { from, to, length }) =
            &op.action
        else {
            return next.call(op);
        };
        let (from, to, length) = (*from, *to, *length);
        let buffered = |end: CopyEndpoint<'_>| {
            let handle = end.file.and_then(|file| open_handle(file, next));
            handle.is_some_and(|handle| !handle.is_materialized())
        };
        if buffered(to)
            && let Some(outcome) = self.copy_here(from, to, length, next)
        {
            return outcome;
        }
        for end in [from, to] {
            let Some(file) = end.file else { continue };
            if let Some(handle) = open_handle(file, next) {
                self.settle_handle(handle, next)?;
                if end.at.is_none() {
                    file.give_position_back()?;
                }
            }
        }
        next.call(op)
    }

    /// How long a file is, buffered or not.
    fn size_of(&self, file: &Arc<OpenFile>, next: Next<'_>) -> Option<u64> {
        // SAFETY: a structure of numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let into = StatInto::Stat(&mut stat);
        let action = Action::Stat { of: FileOrName::File(file), flags: 0, into };
        self.data(&mut Op::on(file, Function::Fstat, action), next).ok()?;
        u64::try_from(stat.st_size).ok()
    }

    /// Copies into a buffered file; `None` if that is not possible here.
    fn copy_here(
        &self,
        from: CopyEndpoint<'_>,
        to: CopyEndpoint<'_>,
        length: usize,
        next: Next<'_>,
    ) -> Option<Outcome> {
        let (source, sink) = (from.file?, to.file?);
        let id = |file| open_handle(file, next).map(|handle| handle.id);
        // Within one file it depends on where, and the kernel knows the rules.
        let within_one = Arc::ptr_eq(source, sink) || id(source) == id(sink);
        if within_one || !sink.is_writable() || sink.appends() {
            return None;
        }
        let at = match to.at {
            Some(at) => at,
            None => sink.cursor().ok()?.position(),
        };
        let limit = (self.limit as u64).min(limits::file_size());
        let room = limit.checked_sub(at).filter(|room| *room > 0)?;
        if length as u64 > room {
            // Where more of it would go than a buffered file may have, the kernel copies.
            let start = match from.at {
                Some(at) => at,
                None => source.cursor().ok()?.position(),
            };
            if self.size_of(source, next)?.saturating_sub(start) > room {
                return None;
            }
        }
        let mut bytes = vec![0; length.min(room as usize)];
        let memory = Memory::sink(&mut bytes);
        let action = Action::Read { file: source, memory, at: from.at, flags: 0 };
        let count = match self.data(&mut Op::on(source, Function::Fetch, action), next) {
            Ok(0) => return Some(Ok(0)),
            Ok(count) => count as usize,
            Err(_) => return None,
        };
        let memory = Memory::source(&bytes[..count]);
        let action = Action::Write { file: sink, memory, at: to.at, flags: 0 };
        Some(self.data(&mut Op::on(sink, Function::Flush, action), next))
    }
}

fn read(
    state: &CombineState,
    id: u64,
    file: &Arc<OpenFile>,
    memory: &mut Memory<'_>,
    at: u64,
) -> Outcome {
    if !file.is_readable() {
        return Err(Errno::BADF);
    }
    let buffered = state.buffered.get(&id).ok_or(Errno::IO)?;
    let bytes = buffered.bytes(state.log.as_ref())?;
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
    let rest = &rest[..rest.len().min(memory.len())];
    Ok(memory.fill(0, rest) as u64)
}

fn seek(position: i64, size: i64, offset: i64, whence: i32) -> CombineResult {
    let from = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => position,
        libc::SEEK_END => size,
        _ => return Err(NeedsFile),
    };
    Ok(match from.checked_add(offset) {
        None => Err(Errno::OVERFLOW),
        Some(to) => u64::try_from(to).map_err(|_| Errno::INVAL),
    })
}

fn control(file: &Arc<OpenFile>, command: i32, argument: i32) -> CombineResult {
    match command {
        libc::F_GETFL => Ok(Ok(((file.flags() & !NOT_TOLD) | LARGE) as u64)),
        libc::F_SETFL if argument & libc::O_DIRECT == 0 => {
            let kept = file.flags() & !CHANGEABLE;
            file.set_flags(kept | (argument & CHANGEABLE));
            Ok(Ok(0))
        }
        _ => Err(NeedsFile),
    }
}
