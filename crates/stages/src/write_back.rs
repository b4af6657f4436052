//! **write-back**: collects writes in memory and writes whole blocks.
//!
//! Small writes cost a system call each, and a request each on remote storage. This stage collects
//! them in a buffer per file, in any order, over any number of files, and forwards blocks: aligned
//! to `block` bytes, each with one write, as soon as they are full. A sequential stream of small
//! writes becomes a sequence of aligned block writes. Where the door answers first, as the mount
//! does, the program does not wait for a full block of such a stream to be written, unless the one
//! before is not written yet (`deferred_block.rs`).
//!
//! # Options
//!
//! | option | default | meaning |
//! | --- | --- | --- |
//! | `block` | `"1MiB"` | Bytes that are written together, aligned to multiples of it. Writes as large as this are not buffered. |
//! | `memory` | `"256MiB"` | Memory for the buffers of all files together. If they need more, the files that were written longest ago are written out. |
//! | `late_times` | `false` | `stat` of a file of which something is buffered: `false` writes it out first, so that times and blocks are right as well; `true` only answers with the right size. |
//!
//! # What programs observe
//!
//! Reads, sizes, positions and seeks are what they would be without the stage: all open files of
//! this process that refer to one inode share one buffer, and reads combine the buffer and the
//! file. A file that was opened to append has its bytes collected where it ended, and written out
//! by an append, so that bytes that other processes append are not overwritten.
//!
//! Buffered data is written out by `fsync`, `fdatasync` and `close` of any of the file's
//! descriptors; before the file is truncated, allocated, renamed, mapped, copied from or to by the
//! kernel, or anything else is done with it (`chmod`, `utimensat`, …); when it is shared with
//! others (`fork`, locks, mappings); and when the process ends, if it is not killed. After a
//! mapping, a lock or a `fork` the file is no longer buffered.
//!
//! Not buffered are writes of files that were opened with `O_DIRECT`, `O_SYNC` or `O_DSYNC`, writes
//! with `RWF_…` flags, writes beyond 8 TiB or the process's limit of file sizes: they are
//! forwarded, after buffered data that they overlap.
//!
//! # Errors
//!
//! Write errors (`ENOSPC`, `EDQUOT`, `EIO`) occur when a block is written out. The next `write`,
//! `fsync` or `close` of the file returns the error, as on NFS. Data that could not be written
//! stays in the buffer, and each of these calls retries; data that `close` cannot write is lost.
//! Data that cannot be written at the end of the process, when no call can return the error, is
//! reported on standard error with the file, the bytes and the error, and by the status of the
//! process ([`LOSS_STATUS`](striate_stack::LOSS_STATUS)). A call that returns no error means that
//! all earlier data that was written out has been written successfully.
//!
//! # What is late for other processes
//!
//! Bytes that are buffered, and the size and times that follow from them. They are in the file
//! after `fsync` or `close`, not before. A process that is killed (`SIGKILL`) loses what it had not
//! synced or closed.
//!
//! # Limits
//!
//! A `write` of memory that is not mapped is a fault of the process rather than `EFAULT`, unless
//! the address is certainly invalid (the first page, or of the kernel). The file should be opened
//! only by names that the stage covers: under another name, for example a link, an open file does
//! not see what is buffered. The position after a write to the end (`O_APPEND`) is where the file
//! would end if no other process appended.

mod buffer;
mod deferred_block;
mod extents;
mod transfer;

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use striate_calls::{Function, Kind, Kinds};
use striate_process::limits;
use striate_process::lock::{Locked, lock};
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, FileOrName, Loss, Next, Op, OpenFile, Outcome, Stage, StatInto, Target,
};
use toml::Table;

use self::buffer::{Buffer, BufferContents, BufferPool};
use super::inodes::{self, Identity};
use super::position;
use super::size::Size;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Data,
    interference: Interference::SeveralOperations,
    state: State::Stateful,
    meaning: Meaning::Kept,
};

const KINDS: Kinds = Kinds::of(&[
    Kind::Open,
    Kind::Close,
    Kind::Read,
    Kind::Write,
    Kind::Seek,
    Kind::Sync,
    Kind::Truncate,
    Kind::Allocate,
    Kind::Stat,
    Kind::Rename,
    Kind::Control,
    Kind::Map,
    Kind::CopyRange,
    Kind::SendFile,
    Kind::Notice,
]);

/// Flags of open files whose writes are not buffered.
const AT_ONCE: i32 = libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WriteBackOptions {
    block: Size,
    memory: Size,
    late_times: bool,
}

impl Default for WriteBackOptions {
    fn default() -> Self {
        Self { block: Size(1 << 20), memory: Size(256 << 20), late_times: false }
    }
}

/// The stage.
#[derive(Debug)]
struct WriteBack {
    shared: BufferPool,
    late_times: bool,
    /// Files that were mapped: mappings outlive the open file, and show nothing that is buffered.
    mapped: Mutex<HashSet<Identity>>,
    /// What was lost by a close that could not say so.
    given_up: Mutex<Vec<Loss>>,
}

/// What the stage leaves with an open file.
#[derive(Debug)]
struct WriteBackHandle {
    buffer: Arc<Buffer>,
    closed: AtomicBool,
}

/// Makes one.
pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: WriteBackOptions =
        toml::Value::Table(table).try_into().map_err(|error| error.to_string())?;
    let (block, memory) = (options.block.0, options.memory.0);
    if !(1..=1 << 30).contains(&block) {
        return Err("block: between 1 byte and 1 GiB".into());
    }
    if memory < block {
        return Err("memory: at least one block".into());
    }
    Ok(Box::new(WriteBack {
        shared: BufferPool::new(block, memory as usize),
        late_times: options.late_times,
        mapped: Mutex::default(),
        given_up: Mutex::default(),
    }))
}

impl Stage for WriteBack {
    fn kinds(&self) -> Kinds {
        KINDS
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn holds_back(&self) -> bool {
        true
    }

    #[inline]
    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Write { .. } => self.write(op, next),
            Action::Read { .. } => self.read(op, next),
            _ => self.call_other(op, next),
        }
    }

    fn settle(&self, file: &Arc<OpenFile>, next: Next<'_>) -> Outcome {
        let Some(handle) = file.state::<WriteBackHandle>(next.slot()) else { return Ok(0) };
        let mut buffered = handle.buffer.lock(&self.shared, next);
        buffered.open_to_others |= file.is_shared();
        buffered.settle(&self.shared, next)
    }

    fn catch_up(&self, file: &Arc<OpenFile>, next: Next<'_>) {
        if let Some(handle) = file.state::<WriteBackHandle>(next.slot())
            // The thread that holds it is writing it.
            && let Some(mut deferred) = handle.buffer.deferred.try_lock()
        {
            deferred.write(next);
        }
    }

    fn settle_all(&self, next: Next<'_>) -> Outcome {
        let mut first = Ok(0);
        for buffer in self.shared.buffers.all() {
            first = first.and(buffer.lock(&self.shared, next).settle(&self.shared, next));
        }
        first
    }

    fn start_anew(&self) {
        // What could not be written is the other process's to write.
        for buffer in self.shared.buffers.all() {
            buffer.lock_buffer_only().discard(&self.shared);
        }
        lock(&self.given_up).clear();
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = lock(&self.given_up).clone();
        losses.extend(self.shared.buffers.all().iter().filter_map(|buffer| {
            let buffered = buffer.lock_buffer_only();
            buffered.loss()
        }));
        losses.sort_by(|one, other| one.path.cmp(&other.path));
        losses
    }
}

impl WriteBack {
    /// All but reads and writes.
    fn call_other(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Open { file, target, flags, .. } => {
                let (file, target, flags) = (*file, *target, *flags);
                if flags & libc::O_TRUNC != 0 {
                    self.settle_name(op, target, flags & libc::O_NOFOLLOW != 0, next)?;
                }
                let descriptor = next.call(op)?;
                self.attach(file, descriptor as RawFd, next.slot());
                Ok(descriptor)
            }
            Action::Close { file, last, .. } => {
                let (file, last) = (*file, *last);
                let settled = self.close(op.function, file, last, next);
                let closed = next.call(op);
                settled.and(closed)
            }
            Action::Seek { file, whence, .. } => {
                if file.is_shared() || matches!(*whence, libc::SEEK_DATA | libc::SEEK_HOLE) {
                    self.settle_file(file, next)?;
                }
                let slot = next.slot();
                if file.state::<WriteBackHandle>(slot).is_none() {
                    return next.call(op);
                }
                position::seek(op, next, |file| {
                    let buffered = file
                        .state::<WriteBackHandle>(slot)
                        .map(|handle| handle.buffer.lock(&self.shared, next));
                    let size = position::size(file, next)?;
                    Ok(buffered.map_or(size, |buffered| buffered.extents.end().max(size)))
                })
            }
            Action::Stat { .. } => self.stat(op, next),
            Action::CopyRange { from, to, .. } | Action::SendFile { from, to, .. } => {
                for file in [from.file, to.file].into_iter().flatten() {
                    self.settle_file(file, next)?;
                }
                let slot = next.slot();
                position::transfer(op, next, |file| file.state::<WriteBackHandle>(slot).is_some())
            }
            Action::Rename { from, .. } => {
                let from = *from;
                let _ = self.settle_name(op, from, true, next);
                next.call(op)
            }
            Action::Notice { of: FileOrName::Name(target) } => {
                let target = *target;
                let _ = self.settle_name(op, target, false, next);
                next.call(op)
            }
            Action::Control { command, .. } if *command != libc::F_SETFL => next.call(op),
            _ => {
                let Some(file) = op.action.file() else { return next.call(op) };
                if let (Action::Map { .. }, Some(handle)) =
                    (&op.action, file.state::<WriteBackHandle>(next.slot()))
                {
                    lock(&self.mapped).insert(handle.buffer.identity);
                    handle.buffer.lock(&self.shared, next).open_to_others = true;
                }
                self.settle_file(file, next)?;
                next.call(op)
            }
        }
    }

    fn stat(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Stat { of, .. } = &op.action else { return next.call(op) };
        match of {
            FileOrName::File(file) => match file.state::<WriteBackHandle>(next.slot()) {
                Some(handle) => {
                    self.stat_buffered(handle.buffer.lock(&self.shared, next), op, next)
                }
                None => next.call(op),
            },
            FileOrName::Name(_) => {
                // Only then it is known which file it is.
                let outcome = next.call(op)?;
                let Action::Stat { into, .. } = &op.action else { return Ok(outcome) };
                match self.shared.buffers.get(into.identity()) {
                    Some(buffer) if buffer.lock(&self.shared, next).was_dirty => {
                        self.stat_buffered(buffer.lock(&self.shared, next), op, next)
                    }
                    _ => Ok(outcome),
                }
            }
        }
    }

    /// Asks about a file while no other thread can write anything of it out.
    fn stat_buffered(
        &self,
        mut buffered: Locked<'_, BufferContents>,
        op: &mut Op<'_>,
        next: Next<'_>,
    ) -> Outcome {
        if !self.late_times {
            // If it fails, the next write or close returns the error.
            let _ = buffered.settle(&self.shared, next);
        }
        let outcome = next.call(op)?;
        let end = buffered.extents.end();
        if let Action::Stat { into, .. } = &mut op.action {
            match into {
                StatInto::Stat(stat) => stat.st_size = stat.st_size.max(end as i64),
                StatInto::Statx { buffer, .. } => buffer.stx_size = buffer.stx_size.max(end),
            }
        }
        Ok(outcome)
    }

    fn attach(&self, file: &OpenFile, descriptor: RawFd, slot: usize) {
        let Some(identity) = inodes::identity(descriptor) else { return };
        let mapped = || lock(&self.mapped).contains(&identity);
        let new = || Buffer::new(identity, &self.shared, mapped());
        let buffer = self.shared.buffers.attach(identity, new);
        limits::refresh();
        file.set_state(slot, WriteBackHandle { buffer, closed: AtomicBool::new(false) });
    }

    fn close(&self, by: Function, file: &OpenFile, last: bool, next: Next<'_>) -> Outcome {
        let Some(handle) = file.state::<WriteBackHandle>(next.slot()) else { return Ok(0) };
        let mut buffered = handle.buffer.lock(&self.shared, next);
        let settled = buffered.settle(&self.shared, next);
        if last && !handle.closed.swap(true, Ordering::Relaxed) {
            let given_up = buffered.close(file, &self.shared);
            // The others close without an answer of their own.
            if !matches!(by, Function::Close | Function::Fclose) {
                lock(&self.given_up).extend(given_up);
            }
            buffered.extents.shrink();
            buffered.account(&self.shared);
            drop(buffered);
            self.shared.buffers.detach(handle.buffer.identity);
        }
        settled
    }

    fn settle_file(&self, file: &OpenFile, next: Next<'_>) -> Outcome {
        match file.state::<WriteBackHandle>(next.slot()) {
            Some(handle) => handle.buffer.lock(&self.shared, next).settle(&self.shared, next),
            None => Ok(0),
        }
    }

    /// Writes out what is buffered of the file that a name stands for, if anything is.
    fn settle_name(
        &self,
        op: &Op<'_>,
        target: Target<'_>,
        link_itself: bool,
        next: Next<'_>,
    ) -> Outcome {
        if !self.shared.is_dirty() {
            return Ok(0);
        }
        // SAFETY: all of it are numbers, for which zero is a value.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let flags = if link_itself { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
        let into = StatInto::Stat(&mut stat);
        let action = Action::Stat { of: FileOrName::Name(target), flags, into };
        let found = next.call(&mut Op { function: Function::Stat, route: op.route, action });
        if found.is_err() {
            return Ok(0);
        }
        match self.shared.buffers.get((stat.st_dev, stat.st_ino)) {
            Some(buffer) => buffer.lock(&self.shared, next).settle(&self.shared, next),
            None => Ok(0),
        }
    }
}

impl WriteBackHandle {
    /// Whether writes of this open file may be buffered.
    #[inline]
    fn may_buffer(&self, file: &OpenFile, buffered: &BufferContents) -> bool {
        let flags = file.flags();
        flags & AT_ONCE == 0
            && flags & libc::O_ACCMODE != libc::O_RDONLY
            && flags & libc::O_ACCMODE != libc::O_ACCMODE
            && !buffered.open_to_others
            && !file.is_shared()
            && !self.closed.load(Ordering::Relaxed)
    }
}
