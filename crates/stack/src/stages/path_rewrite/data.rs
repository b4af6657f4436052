//! Operations on open files that are elsewhere: the next stages see them under their other name.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use rustix::fs::{AtFlags, Mode, SeekFrom};
use rustix::io::Errno;

use super::mover::move_home;
use super::moving::{Ready, commit, give_up, prepare};
use super::state::{Entry, Handle, Left, Moved};
use super::{PathRewrite, left};
use crate::file::{OpenFile, lock, replace_descriptor};
use crate::function::Function;
use crate::op::{Action, End, Of, Op, Outcome, StatInto};
use crate::place::{borrow, high};
use crate::stage::Next;
use crate::transfer::copy_by_hand;

/// Flags that `F_SETFL` changes.
const CHANGEABLE: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME | libc::O_DIRECT;

impl Moved {
    /// Keeps it where it is, while its bytes are used.
    pub(super) fn keep(&self) -> RwLockReadGuard<'_, ()> {
        self.in_use.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a `stat` say what the file will be at its destination, as far as that is known: on the same file
    /// system it is itself.
    pub(super) fn disguise(&self, into: &mut StatInto<'_>) {
        let (device, inode) = self.placeholder;
        if self.identity.0 == device {
            return;
        }
        match into {
            StatInto::Stat(stat) => (stat.st_dev, stat.st_ino) = (device, inode),
            StatInto::Statx { buffer, .. } => {
                buffer.stx_ino = inode;
                buffer.stx_dev_major = libc::major(device);
                buffer.stx_dev_minor = libc::minor(device);
            }
        }
    }
}

impl PathRewrite {
    /// An operation on an open file.
    pub(super) fn data(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Some(file) = file_of(&mut op.action).map(|file| *file) else { return next.call(op) };
        let Some(Left::Moved(handle)) = left(file, next) else { return next.call(op) };
        let moved = &handle.moved;
        match op.action {
            Action::Map { .. } => self.bring_home(moved, next)?,
            Action::Notice { .. } if !stays(op.function) => self.bring_home(moved, next)?,
            _ => {}
        }
        let kept = moved.keep();
        if moved.is_home() {
            drop(kept);
            if let Action::Duplicate { file, descriptor } = op.action {
                follow(file, descriptor, moved)?;
            }
            return next.call(op);
        }
        if let Action::Duplicate { descriptor, .. } = op.action {
            handle.inner.add_descriptor(descriptor);
        }
        let outcome = as_inner(op, handle, next);
        drop(kept);
        match (&mut op.action, outcome) {
            (Action::Stat { into, .. }, Ok(_)) => moved.disguise(into),
            (Action::Sync { .. }, Ok(_)) => {
                // What is synced has to be found again.
                if let Ok(journal) = std::fs::File::open(&moved.journal) {
                    journal.sync_all().map_err(|error| super::failed(&error))?;
                }
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
                return if moved.is_home() { next.call(op) } else { outcome };
            }
            _ => {}
        }
        outcome
    }

    pub(super) fn close(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Close { file, descriptor, last } = op.action else { return next.call(op) };
        let handle = match left(file, next) {
            None => return next.call(op),
            Some(Left::Plain(identity)) => {
                let outcome = next.call(op);
                if last {
                    lock(&self.shared.state).remove_plain(*identity);
                }
                return outcome;
            }
            Some(Left::Moved(handle)) => handle,
        };
        let moved = &handle.moved;
        if last {
            // From now on nobody replaces its descriptors.
            self.with_entry(moved, |entry| {
                let closed = Arc::downgrade(file);
                entry.open.retain(|other| !other.ptr_eq(&closed));
                entry.closing += 1;
            });
        }
        let kept = moved.keep();
        let outcome = if moved.is_home() {
            if let Some(identity) = moved.at_home.get().filter(|_| last) {
                lock(&self.shared.state).remove_plain(*identity);
            }
            next.call(op)
        } else {
            handle.inner.remove_descriptor(descriptor);
            as_inner(op, handle, next)
        };
        drop(kept);
        if !last {
            return outcome;
        }
        let background = self.options.background;
        let is_closed = self.with_entry(moved, |entry| {
            entry.closing -= 1;
            let is_closed = entry.is_closed();
            if is_closed && background {
                // It is said for who reads it after a crash; the data are found without it as well.
                let _ = entry.note(true, None);
            }
            is_closed
        });
        if is_closed != Some(true) || background && self.mover.take(moved) {
            return outcome;
        }
        let moved = move_home(&self.shared, moved);
        outcome.and_then(|outcome| moved.map(|()| outcome))
    }

    /// What is known of a file, if it still has a name and is elsewhere.
    fn with_entry<T>(&self, moved: &Arc<Moved>, what: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut state = lock(&self.shared.state);
        let key = state.key_of(moved)?.clone();
        state.entries.get_mut(&key).map(what)
    }

    /// Moves a file to its destination, even if the program has it open: then its descriptors stand for the
    /// file there.
    pub(super) fn bring_home(&self, moved: &Arc<Moved>, next: Next<'_>) -> Result<(), Errno> {
        let mut state = loop {
            let state = lock(&self.shared.state);
            let Some(entry) = state.key_of(moved).and_then(|key| state.entries.get(key)) else {
                return Ok(());
            };
            if entry.is_closed() {
                drop(state);
                return move_home(&self.shared, moved);
            }
            if entry.closing == 0 {
                break state;
            }
            drop(state);
            std::thread::yield_now();
        };
        let Some(key) = state.key_of(moved).cloned() else { return Ok(()) };
        let state = &mut *state;
        let Some(entry) = state.entries.get(&key) else { return Ok(()) };
        let _alone = moved.in_use.write().unwrap_or_else(PoisonError::into_inner);
        let files: Vec<_> = entry.open.iter().filter_map(std::sync::Weak::upgrade).collect();
        for file in &files {
            if let Some(Left::Moved(handle)) = left(file, next) {
                next.settle(&handle.inner)?;
                handle.inner.give_position_back()?;
            }
        }
        let ready = prepare(&moved.fast, &entry.directory)?;
        let opened: Result<Vec<_>, Errno> =
            files.iter().map(|file| open_there(&ready, moved, entry, file, next)).collect();
        let done = opened.and_then(|opened| {
            commit(&ready, &moved.fast, &entry.directory, &entry.name)?;
            Ok(opened)
        });
        let opened = match done {
            Ok(opened) => opened,
            Err(error) => {
                give_up(&ready, &entry.directory);
                return Err(error);
            }
        };
        if let Some(there) = opened.first() {
            let identity = identity_of(there)?;
            let _ = moved.at_home.set(identity);
            for _ in &files {
                state.add_plain(identity);
            }
        }
        for (file, there) in files.iter().zip(opened) {
            if let Some(Left::Moved(handle)) = left(file, next) {
                let before = rustix::io::fcntl_dupfd_cloexec(file.descriptor()?, 0)?;
                file.replace_descriptors(&there, file.raw_descriptor())?;
                // The next stages learn that what they knew is closed.
                handle.inner.set_descriptor(high(before).into_raw_fd());
                let _ = next.close(&handle.inner);
            }
        }
        let _ = std::fs::remove_file(&moved.journal);
        moved.set_home();
        state.take(&key);
        self.shared.note_names(state);
        Ok(())
    }
}

/// Copies from file to file.
pub(super) fn transfer(op: &mut Op<'_>, next: Next<'_>) -> Outcome {
    let (Action::CopyRange { from, to, length } | Action::SendFile { from, to, length }) =
        &op.action
    else {
        return next.call(op);
    };
    let (mut from, mut to, length) = (*from, *to, *length);
    let handle = |end: &End<'_>| match end.file.and_then(|file| file.state(next.slot())) {
        Some(Left::Moved(handle)) => Some(Arc::clone(&handle.moved)),
        _ => None,
    };
    let (source, sink) = (handle(&from), handle(&to));
    let one = source.as_ref().zip(sink.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
    let _kept = source.as_ref().map(|moved| moved.keep());
    let _kept_too = sink.as_ref().filter(|_| !one).map(|moved| moved.keep());
    for end in [&mut from, &mut to] {
        if let Some(Left::Moved(handle)) = end.file.and_then(|file| file.state(next.slot()))
            && !handle.moved.is_home()
        {
            end.file = Some(&handle.inner);
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

/// Opens a file that is ready to be at its destination, as the program has it open.
fn open_there(
    ready: &Ready,
    moved: &Moved,
    entry: &Entry,
    file: &Arc<OpenFile>,
    next: Next<'_>,
) -> Result<OwnedFd, Errno> {
    let destination = entry.destination();
    let target = match ready {
        Ready::Copy(name) => entry.directory.target(name, &destination),
        Ready::Itself => crate::op::Target {
            directory: libc::AT_FDCWD,
            path: &moved.c_fast,
            absolute: &destination,
        },
    };
    let flags = file.flags() & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW);
    let open = || {
        let action = Action::Open { file, target, flags, mode: 0 };
        next.call(&mut Op { function: Function::Open, route: file.full_route(), action })
    };
    let opened = match open() {
        Err(Errno::ACCESS) => {
            // Whoever has it open may go on, whatever its permissions say now.
            let directory = borrow(target.directory);
            let stat = rustix::fs::statat(directory, target.path, AtFlags::empty())?;
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            let wider = mode | Mode::RUSR | Mode::WUSR;
            rustix::fs::chmodat(directory, target.path, wider, AtFlags::empty())?;
            let opened = open();
            rustix::fs::chmodat(directory, target.path, mode, AtFlags::empty())?;
            opened
        }
        opened => opened,
    }?;
    // SAFETY: it was opened just now, for nobody else.
    let opened = unsafe { OwnedFd::from_raw_fd(opened as RawFd) };
    let position = rustix::fs::seek(file.descriptor()?, SeekFrom::Current(0))?;
    rustix::fs::seek(&opened, SeekFrom::Start(position))?;
    Ok(opened)
}

/// Calls the next stages with the file as they know it.
fn as_inner<'a>(op: &mut Op<'a>, handle: &'a Handle, next: Next<'_>) -> Outcome {
    let Some(place) = file_of(&mut op.action) else { return next.call(op) };
    let outer = std::mem::replace(place, &handle.inner);
    let route = std::mem::replace(&mut op.route, handle.inner.route());
    let outcome = next.call(op);
    if let Some(place) = file_of(&mut op.action) {
        *place = outer;
    }
    op.route = route;
    outcome
}

/// A descriptor that was made while the others were replaced goes with them.
fn follow(file: &Arc<OpenFile>, descriptor: RawFd, moved: &Moved) -> Result<(), Errno> {
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

/// The open file that an operation is about.
fn file_of<'o, 'a>(action: &'o mut Action<'a>) -> Option<&'o mut &'a Arc<OpenFile>> {
    match action {
        Action::Close { file, .. }
        | Action::Read { file, .. }
        | Action::Write { file, .. }
        | Action::Seek { file, .. }
        | Action::Sync { file, .. }
        | Action::Truncate { file, .. }
        | Action::Allocate { file, .. }
        | Action::Duplicate { file, .. }
        | Action::Control { file, .. }
        | Action::Map { file, .. }
        | Action::Stat { of: Of::File(file), .. }
        | Action::Notice { of: Of::File(file) } => Some(file),
        _ => None,
    }
}

/// The descriptor of a file that was opened, as system calls know it.
pub(super) fn identity_of(descriptor: &impl AsRawFd) -> Result<crate::place::Identity, Errno> {
    let stat = rustix::fs::fstat(borrow(descriptor.as_raw_fd()))?;
    Ok((stat.st_dev, stat.st_ino))
}
