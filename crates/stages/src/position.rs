//! [`CallPosition`]: the offset of a call, for stages that keep the position of files from the
//! kernel.
//!
//! Stages that need offsets turn calls at the position into calls at an offset. The position is
//! then the [`Cursor`] of the open file, and the stages below see offsets only. Two rules exclude
//! deadlocks between several such stages: a stage that holds a cursor forwards nothing that needs
//! one (no call at the position, no seek), and every stage takes a cursor before any lock of its
//! own.

use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::Function;
use striate_stack::{Action, Cursor, FileOrName, Next, Op, OpenFile, Outcome, StatInto};

/// Up to here no file system that we know says that an offset is too far. Beyond, it is asked.
pub(crate) const FAR: u64 = 1 << 43;

/// Where a call takes place.
#[derive(Debug)]
pub(crate) enum CallPosition<'f> {
    /// Where the call says.
    Offset(u64),
    /// At the position, which no other thread moves meanwhile.
    Position(Cursor<'f>),
    /// At the position, which the kernel has: the file is shared.
    Kernel,
}

impl<'f> CallPosition<'f> {
    /// Where a call on a file takes place that says this.
    #[inline]
    pub(crate) fn of(file: &'f OpenFile, at: Option<u64>) -> Result<Self, Errno> {
        match at {
            Some(at) => Ok(Self::Offset(at)),
            None => Ok(file.cursor_unless_shared()?.map_or(Self::Kernel, Self::Position)),
        }
    }

    /// The offset, if it is known.
    #[inline]
    pub(crate) fn offset(&self) -> Option<u64> {
        match self {
            Self::Offset(at) => Some(*at),
            Self::Position(cursor) => Some(cursor.position()),
            Self::Kernel => None,
        }
    }

    /// Moves the position, if the call takes place there.
    #[inline]
    pub(crate) fn set(&mut self, position: u64) {
        if let Self::Position(cursor) = self {
            cursor.set(position);
        }
    }

    /// Moves the position on, if the call takes place there.
    #[inline]
    pub(crate) fn advance(&mut self, count: u64) {
        if let Self::Position(cursor) = self {
            cursor.set(cursor.position() + count);
        }
    }

    /// Forwards a read from here, and moves the position by it.
    pub(crate) fn read(&mut self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let count = forward_at(op, next, self.offset())?;
        self.advance(count);
        Ok(count)
    }

    /// Forwards a write to here, and moves the position by it.
    pub(crate) fn write(&mut self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let count = forward_at(op, next, self.offset())?;
        let Action::Write { file, flags, .. } = &op.action else { return Ok(count) };
        if count > 0 && matches!(self, Self::Position(_)) && appends(file, *flags) {
            self.set(size(file, next)?);
        } else {
            self.advance(count);
        }
        Ok(count)
    }
}

/// Whether a write with these flags goes to the end of the file.
pub(crate) fn appends(file: &OpenFile, flags: i32) -> bool {
    file.appends() || flags & libc::RWF_APPEND != 0
}

/// Forwards a read or a write, whose place is known, at its offset. Afterwards the operation is
/// what it was.
pub(crate) fn forward_at(op: &mut Op<'_>, next: Next<'_>, offset: Option<u64>) -> Outcome {
    let given = match &mut op.action {
        Action::Read { at, .. } | Action::Write { at, .. } => std::mem::replace(at, offset),
        _ => return next.call(op),
    };
    let outcome = next.call(op);
    if let Action::Read { at, .. } | Action::Write { at, .. } = &mut op.action {
        *at = given;
    }
    outcome
}

/// The size of an open file for the next stage.
pub(crate) fn size(file: &Arc<OpenFile>, next: Next<'_>) -> Outcome {
    // SAFETY: all of it are numbers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let into = StatInto::Stat(&mut stat);
    let action = Action::Stat { of: FileOrName::File(file), flags: 0, into };
    next.call(&mut Op::on(file, Function::Fstat, action))?;
    Ok(stat.st_size as u64)
}

/// Carries out a seek. `end` says where the file ends for the program.
pub(crate) fn seek(
    op: &mut Op<'_>,
    next: Next<'_>,
    end: impl FnOnce(&Arc<OpenFile>) -> Outcome,
) -> Outcome {
    let Action::Seek { file, offset, whence } = &op.action else { return next.call(op) };
    let (file, offset, whence) = (*file, *offset, *whence);
    if matches!(whence, libc::SEEK_SET | libc::SEEK_CUR | libc::SEEK_END) {
        let Some(mut cursor) = file.cursor_unless_shared()? else { return next.call(op) };
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => cursor.position(),
            _ => end(file)?,
        };
        let target = (from as i64).checked_add(offset).ok_or(Errno::INVAL)?;
        let target = u64::try_from(target).map_err(|_| Errno::INVAL)?;
        if target <= FAR {
            cursor.set(target);
            return Ok(target);
        }
        drop(cursor);
        let action = Action::Seek { file, offset: target as i64, whence: libc::SEEK_SET };
        let outcome = next.call(&mut Op { function: op.function, route: op.route, action })?;
        move_to(file, outcome)?;
        return Ok(outcome);
    }
    // Where the next data or hole is does not depend on the position.
    let outcome = next.call(op)?;
    move_to(file, outcome)?;
    Ok(outcome)
}

fn move_to(file: &OpenFile, position: u64) -> Result<(), Errno> {
    if let Some(mut cursor) = file.cursor_unless_shared()? {
        cursor.set(position);
    }
    Ok(())
}

/// Forwards a copy from file to file, or to a descriptor, with offsets instead of positions at the
/// ends that `ours` says. As in the kernel, another thread may move a position meanwhile.
pub(crate) fn transfer(
    op: &mut Op<'_>,
    next: Next<'_>,
    ours: impl Fn(&Arc<OpenFile>) -> bool,
) -> Outcome {
    let (from, to, sends) = match &op.action {
        Action::CopyRange { from, to, .. } => (*from, *to, false),
        Action::SendFile { from, to, .. } => (*from, *to, true),
        _ => return next.call(op),
    };
    let position = |file: Option<&Arc<OpenFile>>, at: Option<u64>| match file {
        Some(file) if at.is_none() && ours(file) => {
            Ok(file.cursor_unless_shared()?.map(|cursor| cursor.position()))
        }
        _ => Ok::<_, Errno>(None),
    };
    let source = position(from.file, from.at)?;
    let sink = position(to.file, to.at)?;
    if let Action::CopyRange { from, to, .. } | Action::SendFile { from, to, .. } = &mut op.action {
        from.at = from.at.or(source);
        // The call has no argument for the offset, so the kernel's position is set.
        to.at = if sends { to.at } else { to.at.or(sink) };
    }
    let outcome = next.call(op);
    if let Action::CopyRange { from: now, to: then, .. }
    | Action::SendFile { from: now, to: then, .. } = &mut op.action
    {
        (now.at, then.at) = (from.at, to.at);
    }
    if let Ok(count) = outcome {
        for (end, at) in [(from, source), (to, sink)] {
            if let (Some(file), Some(at)) = (end.file, at) {
                move_to(file, at + count)?;
            }
        }
    }
    outcome
}
