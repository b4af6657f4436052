//! Operations on open files on fast storage: the next stages see them under their name there.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use rustix::fs::{AtFlags, SeekFrom, Stat, StatxFlags};
use rustix::io::Errno;
use striate_calls::Function;
use striate_process::lock::lock;
use striate_stack::descriptors::{borrow, high_copy};
use striate_stack::{
    Action, CopyEndpoint, Next, Op, OpenFile, Outcome, StatInto, Target, replace_descriptor,
};

use super::claim::BoundedWait;
use super::journal::{FormerDestination, Journal, MoveState};
use super::mover::move_home;
use super::moving::{MoveRefusal, fill_placeholder, open_data, open_whatever_its_mode};
use super::state::{FileState, MovedFile, RewriteHandle, RewrittenFile, note};
use super::{PathRewrite, left};
use crate::transfer::copy_by_hand;

/// Flags that `F_SETFL` changes.
const CHANGEABLE: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME | libc::O_DIRECT;

impl MovedFile {
    /// Keeps it where it is, while its bytes are used.
    pub(super) fn keep(&self) -> RwLockReadGuard<'_, ()> {
        self.in_use.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a `stat` of its bytes say what it is at its destination. Returns whether it has a name
    /// there.
    pub(super) fn disguise(&self, into: &mut StatInto<'_>) -> bool {
        let Ok(handle) = self.handle() else { return false };
        let Ok(there) = rustix::fs::fstat(&handle) else { return false };
        disguise(into, handle.as_fd(), &there, &self.was);
        there.st_nlink > 0
    }
}

/// Lets a `stat` of bytes at a fast place say what the file is at its destination, where this is.
pub(super) fn disguise(
    into: &mut StatInto<'_>,
    handle: BorrowedFd<'_>,
    there: &Stat,
    was: &FormerDestination,
) {
    let given = was.was_given(there);
    match into {
        StatInto::Stat(stat) => {
            (stat.st_dev, stat.st_ino, stat.st_nlink) =
                (there.st_dev, there.st_ino, there.st_nlink);
            if given {
                (stat.st_mode, stat.st_uid, stat.st_gid) =
                    (there.st_mode, there.st_uid, there.st_gid);
            }
        }
        StatInto::Statx { buffer, .. } => {
            buffer.stx_dev_major = libc::major(there.st_dev);
            buffer.stx_dev_minor = libc::minor(there.st_dev);
            buffer.stx_ino = there.st_ino;
            buffer.stx_nlink = there.st_nlink as u32;
            // When it was made belongs to which file it is.
            let wanted = StatxFlags::BTIME;
            if let Ok(made) = rustix::fs::statx(handle, c"", AtFlags::EMPTY_PATH, wanted)
                && made.stx_mask & wanted.bits() != 0
            {
                buffer.stx_btime.tv_sec = made.stx_btime.tv_sec;
                buffer.stx_btime.tv_nsec = made.stx_btime.tv_nsec;
            }
            if given {
                buffer.stx_mode = there.st_mode as u16;
                (buffer.stx_uid, buffer.stx_gid) = (there.st_uid, there.st_gid);
            }
        }
    }
}

impl PathRewrite {
    /// An operation on an open file.
    pub(super) fn data(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Some(file) = op.action.file_mut().map(|file| *file) else { return next.call(op) };
        let Some(FileState::Moved(handle)) = left(file, next) else { return next.call(op) };
        let moved = &handle.moved;
        match op.action {
            Action::Map { .. } => {
                self.bring_home(moved, next)?;
                self.with_entry(moved, |entry| entry.mapped = true);
            }
            Action::Notice { .. } if !stays(op.function) => self.bring_home(moved, next)?,
            _ => {}
        }
        let kept = moved.keep();
        if moved.is_at_destination() {
            drop(kept);
            if let Action::Duplicate { file, descriptor } = op.action {
                follow(file, descriptor, moved)?;
            }
            return next.call(op);
        }
        let outcome = as_inner(op, handle, next);
        drop(kept);
        match (&mut op.action, outcome) {
            (Action::Stat { into, .. }, Ok(_)) => {
                moved.disguise(into);
            }
            (Action::Sync { .. }, Ok(_)) => {
                moved.sync_journal()?;
            }
            (Action::Control { command: libc::F_SETFL, argument, .. }, Ok(_)) => {
                let flags = handle.inner.flags() & !CHANGEABLE;
                handle.inner.set_flags(flags | (*argument as i32 & CHANGEABLE));
            }
            (
                Action::Write { .. } | Action::Allocate { .. },
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG),
            ) => {
                // The fast place is full. The slow one may not be.
                self.bring_home(moved, next)?;
                return if moved.is_at_destination() { next.call(op) } else { outcome };
            }
            _ => {}
        }
        outcome
    }

    pub(super) fn close(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Close { file, last, .. } = op.action else { return next.call(op) };
        let handle = match left(file, next) {
            None => return next.call(op),
            Some(FileState::Plain(identity)) => {
                let outcome = next.call(op);
                if last {
                    lock(&self.shared.state).remove_plain(*identity);
                }
                return outcome;
            }
            Some(FileState::Moved(handle)) => handle,
        };
        let moved = &handle.moved;
        if last {
            // From now on its descriptors are not replaced.
            self.with_entry(moved, |entry| {
                let closed = Arc::downgrade(file);
                entry.open.retain(|other| !other.ptr_eq(&closed));
                entry.closing += 1;
            });
        }
        let kept = moved.keep();
        let outcome = if moved.is_at_destination() {
            if last {
                lock(&self.shared.state).remove_plain(moved.placeholder());
            }
            next.call(op)
        } else {
            as_inner(op, handle, next)
        };
        drop(kept);
        if !last {
            return outcome;
        }
        let background = self.options.background;
        let is_closed = self.with_entry(moved, |entry| {
            entry.closing -= 1;
            if entry.is_closed() && background {
                // It is for recovery after a crash; the data are found without it as well.
                let _ = note(&moved.base, |journal| {
                    if journal.course == MoveState::Open {
                        journal.course = MoveState::Closed;
                    }
                });
            }
            entry.is_closed()
        });
        if is_closed != Some(true) || background && self.mover.take(moved) {
            return outcome;
        }
        let moved = move_home(&self.shared, moved);
        outcome.and_then(|outcome| moved.map(|()| outcome))
    }

    /// What is known of a file, if it is still elsewhere.
    pub(super) fn with_entry<T>(
        &self,
        moved: &Arc<MovedFile>,
        what: impl FnOnce(&mut RewrittenFile) -> T,
    ) -> Option<T> {
        lock(&self.shared.state).entry(moved).map(what)
    }

    /// Moves a file to its destination, even if the program has it open: then its bytes go into
    /// what stands for it there, and so do its descriptors. If other processes use it, it stays
    /// where it is.
    pub(super) fn bring_home(&self, moved: &Arc<MovedFile>, next: Next<'_>) -> Result<(), Errno> {
        let mut patience = BoundedWait::new();
        let mut state = loop {
            let mut state = lock(&self.shared.state);
            let Some(entry) = state.entry(moved) else { return Ok(()) };
            if entry.is_closed() {
                drop(state);
                return move_home(&self.shared, moved);
            }
            if entry.closing == 0 && !entry.moving {
                break state;
            }
            drop(state);
            patience.wait()?;
        };
        let Some(entry) = state.entry(moved) else { return Ok(()) };
        // A process that was copied from this one has the same claim.
        if entry.stays || !moved.claim_alone() {
            return Ok(());
        }
        let _alone = moved.in_use.write().unwrap_or_else(PoisonError::into_inner);
        let files: Vec<_> = entry.open.iter().filter_map(std::sync::Weak::upgrade).collect();
        if let Err(refused) = replace_all(moved, &files, next) {
            moved.claim_in_common();
            moved.tell(&refused, &self.shared.stderr);
            return Err(refused.errno());
        }
        moved.base.forget();
        // From now on others may write to it there.
        moved.claim_in_common();
        let mut claim = moved.set_at_destination_open();
        for _ in &files {
            state.add_plain(moved.placeholder(), claim.take());
        }
        state.take(moved);
        Ok(())
    }
}

/// Copies the bytes of a file to its destination, and lets descriptors stand for it there.
fn replace_all(
    moved: &MovedFile,
    files: &[Arc<OpenFile>],
    next: Next<'_>,
) -> Result<(), MoveRefusal> {
    for file in files {
        if let Some(FileState::Moved(handle)) = left(file, next) {
            let inner = handle.inner(file);
            next.settle(inner)?;
            inner.give_position_back()?;
        }
    }
    let mut journal = match Journal::read(&moved.base)? {
        Some(journal) => journal,
        // It has no name, so it need not be found.
        None => Journal {
            course: MoveState::Copying,
            placeholder: moved.placeholder(),
            was: moved.was,
            destination: moved.fast.clone(),
            maybe: None,
        },
    };
    let there = rustix::fs::fstat(moved.handle()?)?;
    if journal.course != MoveState::Copying && journal.was.was_written(&there) {
        return Err(MoveRefusal::Changed(journal.destination));
    }
    let data = open_data(&moved.base, &moved.was)?;
    fill_placeholder(&moved.base, &mut journal, &data, moved.handle()?.as_fd())?;
    let opened: Result<Vec<_>, Errno> =
        files.iter().map(|file| open_there(moved, file, next)).collect();
    for (file, there) in files.iter().zip(opened?) {
        if let Some(FileState::Moved(handle)) = left(file, next) {
            let before = high_copy(file.descriptor()?)?;
            file.replace_descriptors(&there, file.raw_descriptor())?;
            // The next stages learn that what they knew is closed.
            handle.inner.set_descriptor(before.into_raw_fd());
            let _ = next.close(&handle.inner);
        }
    }
    Ok(())
}

/// Copies from file to file.
pub(super) fn transfer(op: &mut Op<'_>, next: Next<'_>) -> Outcome {
    let (Action::CopyRange { from, to, length } | Action::SendFile { from, to, length }) =
        &op.action
    else {
        return next.call(op);
    };
    let (mut from, mut to, length) = (*from, *to, *length);
    let handle = |end: &CopyEndpoint<'_>| match end.file.and_then(|file| file.state(next.slot())) {
        Some(FileState::Moved(handle)) => Some(Arc::clone(&handle.moved)),
        _ => None,
    };
    let (source, sink) = (handle(&from), handle(&to));
    let one = source.as_ref().zip(sink.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
    let _kept = source.as_ref().map(|moved| moved.keep());
    let _kept_too = sink.as_ref().filter(|_| !one).map(|moved| moved.keep());
    for end in [&mut from, &mut to] {
        if let Some(FileState::Moved(handle)) = end.file.and_then(|file| file.state(next.slot()))
            && !handle.moved.is_at_destination()
        {
            end.file = end.file.map(|file| handle.inner(file));
        }
    }
    let route = match (from.file, to.file) {
        (Some(from), Some(to)) => from.route().or(to.route()),
        (Some(file), None) | (None, Some(file)) => file.route().clone(),
        (None, None) => op.route.clone(),
    };
    let copies = matches!(op.action, Action::CopyRange { .. });
    let action = if copies {
        Action::CopyRange { from, to, length }
    } else {
        Action::SendFile { from, to, length }
    };
    let outcome = next.call(&mut Op { function: op.function, route: &route, action });
    if outcome == Err(Errno::XDEV) && copies && (source.is_some() || sink.is_some()) {
        // They would be on one file system.
        return copy_by_hand(from, to, length, next);
    }
    outcome
}

/// Opens what stands for a file at its destination, as the program has the file open.
fn open_there(moved: &MovedFile, file: &Arc<OpenFile>, next: Next<'_>) -> Result<OwnedFd, Errno> {
    let flags = file.flags() & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW);
    let opened = open_whatever_its_mode(moved.handle()?.as_fd(), |path| {
        let target = Target { directory: libc::AT_FDCWD, path, absolute: file.path() };
        let action = Action::Open { file, target, flags, mode: 0 };
        next.call(&mut Op { function: Function::Open, route: file.full_route(), action })
    })?;
    // SAFETY: it was opened just now, and has no other user.
    let opened = unsafe { OwnedFd::from_raw_fd(opened as RawFd) };
    let position = rustix::fs::seek(file.descriptor()?, SeekFrom::Current(0))?;
    rustix::fs::seek(&opened, SeekFrom::Start(position))?;
    Ok(opened)
}

/// Calls the next stages with the file as they know it.
fn as_inner<'a>(op: &mut Op<'a>, handle: &'a RewriteHandle, next: Next<'_>) -> Outcome {
    let Some(place) = op.action.file_mut() else { return next.call(op) };
    let inner = handle.inner(place);
    let outer = std::mem::replace(place, inner);
    let route = std::mem::replace(&mut op.route, inner.route());
    let outcome = next.call(op);
    if let Some(place) = op.action.file_mut() {
        *place = outer;
    }
    op.route = route;
    outcome
}

/// A descriptor that was made while the others were replaced goes with them.
fn follow(file: &Arc<OpenFile>, descriptor: RawFd, moved: &MovedFile) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(borrow(descriptor))?;
    if (stat.st_dev, stat.st_ino) == moved.identity && file.raw_descriptor() != descriptor {
        let first = rustix::fs::fstat(file.descriptor()?)?;
        if (first.st_dev, first.st_ino) != moved.identity {
            replace_descriptor(descriptor, file.descriptor()?)?;
        }
    }
    Ok(())
}

/// Whether a file may stay where it is when this is done to its descriptor.
fn stays(function: Function) -> bool {
    matches!(
        function,
        Function::Fdopen
            | Function::Chmod
            | Function::Chown
            | Function::Utimens
            | Function::SyncFileRange
    )
}
