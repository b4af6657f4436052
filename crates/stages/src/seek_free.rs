//! **seek-free**: turns all reads and writes into one sequential stream. **It destroys files.**
//!
//! A yardstick for the best case (\[SCHMIDTKE\]): how fast would the program be if it read and
//! wrote each file sequentially? Seeks are dropped, and the offsets of `pread` and `pwrite` are
//! ignored: bytes go to, and come from, wherever the last call left off. The program gets the
//! results it expects: positions and counts as without the stage.
//!
//! # Options
//!
//! | option | default | meaning |
//! | --- | --- | --- |
//! | `i_accept_destroyed_files` | `false` | It refuses to run unless this is `true`. |
//!
//! # What programs observe
//!
//! Positions, counts and ends of files as without the stage. What they read is not what they wrote,
//! unless all was sequential: programs that look at their data may fail. A read that finds the
//! stream at the end of the file starts it again.
//!
//! # What is late for other processes
//!
//! Nothing is late, but the files are wrong.

use std::os::fd::RawFd;
use std::sync::Arc;

use rustix::io::Errno;
use serde::Deserialize;
use striate_calls::{Kind, Kinds};
use striate_process::lock::Lock;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{Action, Classification, Next, Op, OpenFile, Outcome, Stage};
use toml::Table;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Data,
    interference: Interference::SeveralOperations,
    state: State::Stateful,
    meaning: Meaning::Changed,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SeekFreeOptions {
    i_accept_destroyed_files: bool,
}

/// The stage.
#[derive(Debug)]
struct SeekFree;

/// What the program thinks of an open file.
#[derive(Debug)]
struct ProgramView {
    position: u64,
    size: u64,
}

/// Makes one.
pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: SeekFreeOptions =
        toml::Value::Table(table).try_into().map_err(|error| error.to_string())?;
    if !options.i_accept_destroyed_files {
        return Err("it destroys every file that is written through it; \
                    set i_accept_destroyed_files = true if that is intended"
            .into());
    }
    Ok(Box::new(SeekFree))
}

impl Stage for SeekFree {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Open, Kind::Read, Kind::Write, Kind::Seek, Kind::Truncate])
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let slot = next.slot();
        let believed = |file: &'_ Arc<OpenFile>| file.state::<Lock<ProgramView>>(slot).is_some();
        match &op.action {
            Action::Open { file, .. } => {
                let file = *file;
                let descriptor = next.call(op)?;
                // SAFETY: it was just opened, and has no other user yet.
                let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor as RawFd) };
                let size = rustix::fs::fstat(fd).map_or(0, |stat| stat.st_size as u64);
                file.set_state(slot, Lock::<_>::new(ProgramView { position: 0, size }));
                Ok(descriptor)
            }
            Action::Read { file, .. } if believed(file) => read(op, next),
            Action::Write { file, .. } if believed(file) => write(op, next),
            Action::Seek { file, offset, whence } if believed(file) => {
                seek(file, *offset, *whence, slot)
            }
            Action::Truncate { file, length } => {
                let (file, length) = (*file, *length);
                let outcome = next.call(op)?;
                if let Some(believed) = file.state::<Lock<ProgramView>>(slot) {
                    believed.lock().size = length;
                }
                Ok(outcome)
            }
            _ => next.call(op),
        }
    }
}

fn read(op: &mut Op<'_>, next: Next<'_>) -> Outcome {
    let (function, route) = (op.function, op.route);
    let Action::Read { file, memory, at, flags } = &mut op.action else { return next.call(op) };
    let (file, flags) = (*file, *flags);
    let Some(believed) = file.state::<Lock<ProgramView>>(next.slot()) else {
        return next.call(op);
    };
    let mut believed = believed.lock();
    let from = at.unwrap_or(believed.position);
    let wanted = believed.size.saturating_sub(from).min(memory.len() as u64) as usize;
    if wanted == 0 && !memory.is_empty() && file.is_readable() {
        return Ok(0);
    }
    let stream = |action: Action<'_>| next.call(&mut Op { function, route, action });
    let mut count =
        stream(Action::Read { file, memory: memory.range(0..wanted), at: None, flags })?;
    if count == 0 && wanted > 0 {
        stream(Action::Seek { file, offset: 0, whence: libc::SEEK_SET })?;
        count = stream(Action::Read { file, memory: memory.range(0..wanted), at: None, flags })?;
    }
    if at.is_none() {
        believed.position += count;
    }
    Ok(count)
}

fn write(op: &mut Op<'_>, next: Next<'_>) -> Outcome {
    let Action::Write { file, at, .. } = &mut op.action else { return next.call(op) };
    let file = *file;
    let Some(believed) = file.state::<Lock<ProgramView>>(next.slot()) else {
        return next.call(op);
    };
    let mut believed = believed.lock();
    let given = at.take();
    let outcome = next.call(op);
    if let Action::Write { at, .. } = &mut op.action {
        *at = given;
    }
    let count = outcome?;
    let from = if file.appends() { believed.size } else { given.unwrap_or(believed.position) };
    let end = from.saturating_add(count);
    believed.size = believed.size.max(end);
    if given.is_none() {
        believed.position = end;
    }
    Ok(count)
}

fn seek(file: &OpenFile, offset: i64, whence: i32, slot: usize) -> Outcome {
    let Some(believed) = file.state::<Lock<ProgramView>>(slot) else { return Err(Errno::BADF) };
    let mut believed = believed.lock();
    let size = believed.size as i64;
    let target = match whence {
        libc::SEEK_CUR => offset.checked_add(believed.position as i64),
        libc::SEEK_END => offset.checked_add(size),
        libc::SEEK_DATA | libc::SEEK_HOLE if !(0..size).contains(&offset) => {
            return Err(Errno::NXIO);
        }
        libc::SEEK_SET | libc::SEEK_DATA => Some(offset),
        libc::SEEK_HOLE => Some(size),
        _ => None,
    };
    let target = target.and_then(|target| u64::try_from(target).ok()).ok_or(Errno::INVAL)?;
    believed.position = target;
    Ok(target)
}
