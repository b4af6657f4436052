//! **read-ahead**: reads more than was asked for when the next reads can be predicted.
//!
//! Where requests have a high latency, many small reads are slow even if they are sequential. This
//! stage detects reads of an open file at a constant distance: sequential or strided, forward or
//! backward. From the third on it replaces several of them by one larger read, and answers the next
//! ones from memory. The bytes between strides are read too, and dropped.
//!
//! # Options
//!
//! | option | default | meaning |
//! | --- | --- | --- |
//! | `window` | `"4MiB"` | Bytes that are read together at most. The first time it is enough for 4 reads, then for twice as many each time. |
//! | `memory` | `"64MiB"` | Memory for the windows of all open files together. Files that find none left are read as they are. |
//! | `waste` | `64` | At most this many bytes are read for one that is wanted. |
//! | `adapt` | `true` | Measure whether it gains: if two windows in a row took longer than the reads that they stand for would have, the file is read as it is for a while. `false` always fetches, so that what it does can be counted. |
//! | `age_ms` | `1000` | Milliseconds after which a window is not used any more. |
//!
//! # What programs observe
//!
//! Data, positions, ends of files and errors are what they would be without the stage. Whatever
//! this process does to a file through any of its open files (`write`, `ftruncate`,
//! `copy_file_range` …) drops what was read ahead of it. Each byte that was read ahead is returned
//! once: a program that polls the same offset for changes sees them. The end of the file is never
//! determined from memory.
//!
//! # What is late for other processes
//!
//! Nothing. But writes of other processes may be seen late here: up to `age_ms` after it was
//! written, in the bytes that were read ahead. After a lock, a mapping or a `fork` nothing of the
//! file is read ahead any more, and a newly opened file starts with an empty window: close-to-open
//! consistency, as on NFS.
//!
//! # Limits
//!
//! It reads ahead during a read, not in the background. Strides so large that `waste` or `window`
//! are exceeded gain nothing. Files that were opened with `O_DIRECT` and reads with `RWF_…` flags
//! pass. When several threads read one open file at the same time, one of them uses the window and
//! the others pass.

mod pattern;
mod window;

use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use striate_calls::{Function, Kind, Kinds};
use striate_process::lock::Lock;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, FileOrName, Memory, Next, Op, OpenFile, Outcome, Stage,
};
use toml::Table;

use self::window::ReadAheadWindow;
use super::inodes::{self, Identity, Inodes};
use super::position::{self, CallPosition, forward_at};
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
    Kind::Truncate,
    Kind::Allocate,
    Kind::Map,
    Kind::CopyRange,
    Kind::SendFile,
    Kind::Notice,
]);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReadAheadOptions {
    window: Size,
    memory: Size,
    waste: u64,
    adapt: bool,
    age_ms: u64,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        Self { window: Size(4 << 20), memory: Size(64 << 20), waste: 64, adapt: true, age_ms: 1000 }
    }
}

/// The stage.
#[derive(Debug)]
struct ReadAhead {
    options: ReadAheadOptions,
    inodes: Inodes<Inode>,
    /// Memory in use.
    used: AtomicUsize,
    /// Counts what may have changed any file.
    changes: AtomicU64,
}

/// A file, for all open files of it.
#[derive(Debug)]
struct Inode {
    identity: Identity,
    /// Counts what may have changed it.
    changes: AtomicU64,
    /// Others see it: nothing is read ahead any more.
    open_to_others: AtomicBool,
}

/// What the stage leaves with an open file.
#[derive(Debug)]
struct ReadAheadHandle {
    inode: Arc<Inode>,
    ahead: Lock<ReadAheadWindow>,
    closed: AtomicBool,
}

/// Makes one.
pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: ReadAheadOptions =
        toml::Value::Table(table).try_into().map_err(|error| error.to_string())?;
    if !(1..=1 << 30).contains(&options.window.0) {
        return Err("window: between 1 byte and 1 GiB".into());
    }
    if options.memory.0 < options.window.0 {
        return Err("memory: at least one window".into());
    }
    if options.waste == 0 {
        return Err("waste: at least 1".into());
    }
    let (inodes, used, changes) = (Inodes::default(), AtomicUsize::new(0), AtomicU64::new(0));
    Ok(Box::new(ReadAhead { options, inodes, used, changes }))
}

impl Stage for ReadAhead {
    fn kinds(&self) -> Kinds {
        KINDS
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let slot = next.slot();
        match &op.action {
            Action::Read { .. } => self.read(op, next),
            Action::Write { file, at, .. } => {
                let file = *file;
                let Some(handle) = file.state::<ReadAheadHandle>(slot) else {
                    return next.call(op);
                };
                let outcome = CallPosition::of(file, *at)?.write(op, next);
                handle.inode.changed();
                outcome
            }
            Action::Seek { file, .. } if file.state::<ReadAheadHandle>(slot).is_some() => {
                position::seek(op, next, |file| position::size(file, next))
            }
            Action::Open { file, flags, .. } => {
                let (file, flags) = (*file, *flags);
                let descriptor = next.call(op)?;
                self.attach(file, flags, descriptor as RawFd, slot);
                Ok(descriptor)
            }
            Action::Close { file, last, .. } => {
                if let (Some(handle), true) = (file.state::<ReadAheadHandle>(slot), *last) {
                    self.close(handle);
                }
                next.call(op)
            }
            Action::CopyRange { to, .. } | Action::SendFile { to, .. } => {
                let to = *to;
                let ours = |file: &Arc<OpenFile>| file.state::<ReadAheadHandle>(slot).is_some();
                let outcome = position::transfer(op, next, ours);
                changed(to.file, slot);
                outcome
            }
            Action::Truncate { file, .. }
            | Action::Allocate { file, .. }
            | Action::Notice { of: FileOrName::File(file) } => {
                let file = *file;
                let outcome = next.call(op);
                changed(Some(file), slot);
                outcome
            }
            Action::Map { file, .. } => {
                if let Some(handle) = file.state::<ReadAheadHandle>(slot) {
                    handle.inode.open_to_others();
                }
                next.call(op)
            }
            Action::Notice { of: FileOrName::Name(_) } => {
                if matches!(op.function, Function::Truncate | Function::Other) {
                    self.changes.fetch_add(1, Ordering::AcqRel);
                }
                next.call(op)
            }
            _ => next.call(op),
        }
    }

    fn settle(&self, file: &Arc<OpenFile>, next: Next<'_>) -> Outcome {
        if let (Some(handle), true) = (file.state::<ReadAheadHandle>(next.slot()), file.is_shared())
        {
            handle.inode.open_to_others();
            self.release(&mut handle.ahead.lock());
        }
        Ok(0)
    }
}

fn changed(file: Option<&Arc<OpenFile>>, slot: usize) {
    if let Some(handle) = file.and_then(|file| file.state::<ReadAheadHandle>(slot)) {
        handle.inode.changed();
    }
}

impl Inode {
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn open_to_others(&self) {
        self.open_to_others.store(true, Ordering::Release);
        self.changed();
    }
}

/// Milliseconds on a clock that costs little to read.
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

impl ReadAhead {
    fn attach(&self, file: &OpenFile, flags: i32, descriptor: RawFd, slot: usize) {
        let Some(identity) = inodes::identity(descriptor) else { return };
        let new = || Inode {
            identity,
            changes: AtomicU64::new(0),
            open_to_others: AtomicBool::new(false),
        };
        let inode = self.inodes.attach(identity, new);
        if flags & libc::O_TRUNC != 0 {
            inode.changed();
        }
        let ahead = Lock::new(ReadAheadWindow::default());
        file.set_state(slot, ReadAheadHandle { inode, ahead, closed: AtomicBool::new(false) });
    }

    fn close(&self, handle: &ReadAheadHandle) {
        if !handle.closed.swap(true, Ordering::AcqRel) {
            self.release(&mut handle.ahead.lock());
            self.inodes.detach(handle.inode.identity);
        }
    }

    /// Gives the memory back.
    fn release(&self, ahead: &mut ReadAheadWindow) {
        ahead.offered = 0..0;
        self.used.fetch_sub(ahead.window.capacity(), Ordering::Relaxed);
        ahead.window = Vec::new();
    }

    /// Makes room for a window. Returns whether there is.
    fn reserve(&self, ahead: &mut ReadAheadWindow, length: usize) -> bool {
        let more = length.saturating_sub(ahead.window.capacity());
        if more > 0 {
            self.release(ahead);
            let before = self.used.fetch_add(length, Ordering::Relaxed);
            if before + length > self.options.memory.0 as usize
                || ahead.window.try_reserve_exact(length).is_err()
            {
                self.used.fetch_sub(length, Ordering::Relaxed);
                return false;
            }
            let extra = ahead.window.capacity() - length;
            self.used.fetch_add(extra, Ordering::Relaxed);
        }
        if ahead.window.len() < length {
            ahead.window.resize(length, 0);
        }
        true
    }

    fn read(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Read { file, memory, at, flags } = &op.action else { return next.call(op) };
        let file = *file;
        let Some(handle) = file.state::<ReadAheadHandle>(next.slot()) else { return next.call(op) };
        let mut place = CallPosition::of(file, *at)?;
        let plain = *flags == 0
            && !memory.is_empty()
            && memory.may_be_there()
            && file.is_readable()
            && file.flags() & libc::O_DIRECT == 0
            && !handle.inode.open_to_others.load(Ordering::Acquire)
            && !handle.closed.load(Ordering::Relaxed);
        let length = memory.len() as u64;
        let range = place.offset().and_then(|at| Some(at..at.checked_add(length)?));
        let (Some(range), true) = (range, plain) else { return place.read(op, next) };
        // A thread that would have to wait reads for itself.
        let Some(mut ahead) = handle.ahead.try_lock() else { return place.read(op, next) };
        let count = self.read_range(&mut ahead, handle, op, &range, next)?;
        place.advance(count);
        Ok(count)
    }

    fn read_range(
        &self,
        ahead: &mut ReadAheadWindow,
        handle: &ReadAheadHandle,
        op: &mut Op<'_>,
        range: &Range<u64>,
        next: Next<'_>,
    ) -> Outcome {
        let changes =
            (handle.inode.changes.load(Ordering::Acquire), self.changes.load(Ordering::Acquire));
        ahead.pattern.observe(range);
        let covered = ahead.offered.start <= range.start && range.end <= ahead.offered.end;
        if covered && ahead.changes == changes && now() - ahead.read_at <= self.options.age_ms {
            let Action::Read { memory, .. } = &mut op.action else { return next.call(op) };
            return Ok(ahead.give(memory, range));
        }
        if ahead.rest > 0 {
            ahead.rest -= 1;
            return forward_at(op, next, Some(range.start));
        }
        if let Some((wanted, reads)) = ahead.pattern.plan(self.options.window.0, self.options.waste)
            && self.reserve(ahead, (wanted.end - wanted.start) as usize)
        {
            ahead.changes = changes;
            if let Some(count) = self.fetch(ahead, op, range, &wanted, reads, next) {
                return Ok(count);
            }
        }
        if !self.options.adapt {
            return forward_at(op, next, Some(range.start));
        }
        let start = Instant::now();
        let outcome = forward_at(op, next, Some(range.start));
        ahead.note_plain(start.elapsed().as_nanos() as f64);
        outcome
    }

    /// Fills the window, and answers a read from it; `None` if that did not work out.
    fn fetch(
        &self,
        ahead: &mut ReadAheadWindow,
        op: &mut Op<'_>,
        range: &Range<u64>,
        wanted: &Range<u64>,
        reads: u64,
        next: Next<'_>,
    ) -> Option<u64> {
        let Action::Read { file, memory, .. } = &mut op.action else { return None };
        ahead.offered = 0..0;
        let start = self.options.adapt.then(Instant::now);
        ahead.read_at = now();
        let length = (wanted.end - wanted.start) as usize;
        let sink = Memory::sink(&mut ahead.window[..length]);
        let action = Action::Read { file, memory: sink, at: Some(wanted.start), flags: 0 };
        let fetched =
            next.call(&mut Op { function: Function::Fetch, route: op.route, action }).ok()?;
        let end = wanted.start + fetched;
        if let Some(start) = start {
            let cost = start.elapsed().as_nanos() as f64 / reads as f64;
            ahead.judge(cost, range.end - range.start);
        }
        ahead.start = wanted.start;
        ahead.offered = wanted.start..end;
        if wanted.start < range.start && end < range.end {
            return None;
        }
        let there = range.start..range.end.min(end.max(range.start));
        let count = ahead.give(memory, &there);
        if end < wanted.end && ahead.offered.is_empty() {
            self.release(ahead);
        }
        Some(count)
    }
}
