//! Operations on names, some of which are those of files that are elsewhere.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Gid, Stat, Uid};
use rustix::io::Errno;

use super::PathRewrite;
use super::data::identity_of;
use super::journal::Journal;
use super::moving::copy_data;
use super::state::{Entry, Handle, Left, Moved, State};
use crate::file::{OpenFile, lock};
use crate::function::Function;
use crate::op::{Action, Of, Op, Outcome, Target};
use crate::place::{Directory, Key, Place, What, borrow};
use crate::stage::Next;

/// What cannot be rewritten.
const NOT_REWRITTEN: i32 = libc::O_PATH | libc::O_DIRECTORY;

fn is_writable(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

impl PathRewrite {
    pub(super) fn open(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Open { file, target, flags, mode } = op.action else { return next.call(op) };
        let fast = self.fast_place(target.absolute);
        if fast.is_none() && !self.shared.has_names() || flags & NOT_REWRITTEN != 0 {
            return next.call(op);
        }
        let Some(place) = Place::of(target) else { return next.call(op) };
        let mut state = lock(&self.shared.state);
        let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        let found = if exclusive || flags & libc::O_NOFOLLOW != 0 {
            let what = place.what();
            Some((place, what))
        } else {
            place.followed()
        };
        let Some((place, what)) = found else {
            drop(state);
            return next.call(op);
        };
        if let Some(entry) = state.entries.get_mut(&place.key()) {
            if exclusive {
                return Err(Errno::EXIST);
            }
            return open_again(entry, file, flags, next);
        }
        if let Some(fast) = fast
            && is_writable(flags)
            && let Some(begun) = self.begin(&mut state, &place, (what, flags, mode), next)
        {
            let entry = begun?;
            let outcome = rewrite(&mut state, fast, (&place, entry), file, flags, next);
            self.shared.note_names(&state);
            if let Some(outcome) = outcome {
                return outcome;
            }
            // The fast place cannot have it. What is at the destination is new, or is to be emptied.
            drop(state);
            let action = Action::Open { file, target, flags: flags & !libc::O_EXCL, mode };
            let opened = next.call(&mut Op { function: op.function, route: op.route, action });
            return self.note_plain(file, opened, next);
        }
        drop(state);
        let opened = next.call(op);
        if fast.is_some() { self.note_plain(file, opened, next) } else { opened }
    }

    /// Remembers that a file is open where it belongs.
    fn note_plain(&self, file: &Arc<OpenFile>, opened: Outcome, next: Next<'_>) -> Outcome {
        if let Ok(identity) = opened.and_then(|descriptor| identity_of(&(descriptor as RawFd))) {
            file.set_state(next.slot(), Left::Plain(identity));
            lock(&self.shared.state).add_plain(identity);
        }
        opened
    }

    /// Makes the empty file at the destination, or looks at the one that is there; `None` if that is not to be
    /// rewritten.
    fn begin(
        &self,
        state: &mut State,
        place: &Place,
        (what, flags, mode): (What, i32, u32),
        next: Next<'_>,
    ) -> Option<Result<Begun, Errno>> {
        let directory = place.open_directory().ok()?;
        let path = directory.path_to(place.name());
        match what {
            What::Nothing if flags & libc::O_CREAT != 0 => {
                let target = directory.target(place.name(), &path);
                let made = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
                let file = match next.open(target, made, mode) {
                    Ok(file) => file,
                    // Somebody was faster.
                    Err(Errno::EXIST) if flags & libc::O_EXCL == 0 => return None,
                    Err(error) => return Some(Err(error)),
                };
                let stat = file.descriptor().and_then(rustix::fs::fstat);
                let closed = next.close(&file);
                Some(closed.and(stat).map(|stat| Begun { directory, stat, keep: false }))
            }
            What::File if flags & libc::O_EXCL == 0 || flags & libc::O_CREAT == 0 => {
                let keep = flags & libc::O_TRUNC == 0;
                if keep && !self.options.existing {
                    return None;
                }
                let stat = place.stat().ok()?;
                let is_open = state.is_open((stat.st_dev, stat.st_ino));
                let access = match flags & libc::O_ACCMODE {
                    libc::O_WRONLY => Access::WRITE_OK,
                    _ => Access::WRITE_OK | Access::READ_OK,
                };
                let may = rustix::fs::accessat(&*directory, place.name(), access, AtFlags::EACCESS);
                if stat.st_nlink != 1 || is_open || may.is_err() || place.may_change().is_err() {
                    return None;
                }
                Some(Ok(Begun { directory, stat, keep }))
            }
            _ => None,
        }
    }

    pub(super) fn stat_name(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        if !self.shared.has_names() {
            return next.call(op);
        }
        let Action::Stat { of: Of::Name(target), flags, into } = &mut op.action else {
            return next.call(op);
        };
        let place = Place::of(*target);
        let place = if *flags & libc::AT_SYMLINK_NOFOLLOW == 0 {
            place.and_then(Place::followed).map(|(place, _)| place)
        } else {
            place
        };
        let Some(place) = place else { return next.call(op) };
        let moved = {
            let state = lock(&self.shared.state);
            state.entries.get(&place.key()).map(|entry| Arc::clone(&entry.moved))
        };
        let Some(moved) = moved else { return next.call(op) };
        let kept = moved.keep();
        let fast = Target { directory: libc::AT_FDCWD, path: &moved.c_fast, absolute: &moved.fast };
        let of = Of::Name(fast);
        let into = match into {
            crate::op::StatInto::Stat(stat) => crate::op::StatInto::Stat(stat),
            crate::op::StatInto::Statx { mask, buffer } => {
                crate::op::StatInto::Statx { mask: *mask, buffer }
            }
        };
        let action = Action::Stat { of, flags: *flags, into };
        let mut inner = Op { function: op.function, route: &moved.route, action };
        let outcome = next.call(&mut inner);
        if outcome.is_ok()
            && let Action::Stat { into, .. } = &mut inner.action
        {
            moved.disguise(into);
        }
        drop(kept);
        // It was moved just now.
        if outcome == Err(Errno::NOENT) { next.call(op) } else { outcome }
    }

    pub(super) fn unlink(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Unlink { target, flags } = op.action else { return next.call(op) };
        if flags & libc::AT_REMOVEDIR != 0 {
            // It is not empty as long as something is copied there.
            self.mover.wait();
            return next.call(op);
        }
        if !self.shared.has_names() {
            return next.call(op);
        }
        let Some(key) = Place::of(target).map(|place| place.key()) else { return next.call(op) };
        let mut state = lock(&self.shared.state);
        if !state.entries.contains_key(&key) {
            drop(state);
            return next.call(op);
        }
        let outcome = next.call(op);
        if outcome.is_ok() {
            state.remove(&key);
            self.shared.note_names(&state);
        }
        outcome
    }

    pub(super) fn rename(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Rename { from, to, flags } = op.action else { return next.call(op) };
        if !self.shared.has_names() {
            return next.call(op);
        }
        let (old, new) = (Place::of(from), Place::of(to));
        if !old.as_ref().is_some_and(|place| place.what() == What::File) {
            // As above, for the directory that is replaced.
            self.mover.wait();
        }
        if flags & !libc::RENAME_NOREPLACE != 0 {
            self.before(from, Function::Rename, next)?;
            self.before(to, Function::Rename, next)?;
            let outcome = next.call(op);
            self.note_directories();
            return outcome;
        }
        let mut state = lock(&self.shared.state);
        let find = |state: &State, place: &Option<Place>| -> Option<Key> {
            let key = place.as_ref()?.key();
            state.entries.contains_key(&key).then_some(key)
        };
        let (old_key, new_key) = (find(&state, &old), find(&state, &new));
        if let (Some(key), Some(new)) = (&old_key, &new)
            && old_key != new_key
            && let Some(entry) = state.entries.get(key)
        {
            // Wherever it is when the process is killed, it is found.
            let maybe = new.open_directory().ok().map(|directory| directory.path_to(new.name()));
            entry.note(entry.is_closed(), maybe).map_err(|error| super::failed(&error))?;
        }
        let outcome = next.call(op);
        if outcome.is_err() {
            if let Some(entry) = old_key.and_then(|key| state.entries.get(&key)) {
                let _ = entry.note(entry.is_closed(), None);
            }
            return outcome;
        }
        if old_key != new_key {
            if let Some(key) = &new_key {
                state.remove(key);
            }
            if let (Some(key), Some(new)) = (&old_key, &new) {
                state.rename(key, new)?;
            }
        }
        self.shared.note_names(&state);
        if old_key.is_none() && new_key.is_none() {
            drop(state);
            self.note_directories();
        }
        outcome
    }

    /// A directory may have been renamed: journals say where files belong now.
    fn note_directories(&self) {
        let mut state = lock(&self.shared.state);
        for entry in state.entries.values_mut() {
            let now = entry.directory.path_now();
            if now != entry.directory.path()
                && let Ok(directory) = Directory::open(&now)
                && directory.identity() == entry.directory.identity()
            {
                entry.directory = directory;
                let _ = entry.note(entry.is_closed(), None);
            }
        }
    }

    /// Something is about to happen to a name that has to find the file there.
    pub(super) fn before(
        &self,
        target: Target<'_>,
        function: Function,
        next: Next<'_>,
    ) -> Result<(), Errno> {
        // These are answered by what stands at the destination.
        let answered =
            matches!(function, Function::Access | Function::Readlink | Function::Symlink);
        if !self.shared.has_names() || answered {
            return Ok(());
        }
        let Some(place) = Place::of(target) else { return Ok(()) };
        // Some functions follow links, some do not.
        let itself = place.key();
        let followed = place.followed().map(|(place, _)| place.key());
        for key in [Some(itself), followed].into_iter().flatten() {
            let moved = {
                let state = lock(&self.shared.state);
                state.entries.get(&key).map(|entry| Arc::clone(&entry.moved))
            };
            if let Some(moved) = moved {
                self.bring_home(&moved, next)?;
            }
        }
        Ok(())
    }
}

/// A file whose destination is known.
struct Begun {
    directory: Arc<Directory>,
    /// What is there.
    stat: Stat,
    /// Whether its bytes are wanted.
    keep: bool,
}

/// Opens the file at the fast place; `None` if that cannot have it.
fn rewrite(
    state: &mut State,
    place: &Path,
    (destination, begun): (&Place, Begun),
    file: &Arc<OpenFile>,
    flags: i32,
    next: Next<'_>,
) -> Option<Outcome> {
    let Begun { directory, stat, keep } = begun;
    let (fast, journal) = state.session(place).ok()?.next();
    let placeholder = (stat.st_dev, stat.st_ino);
    let path = directory.path_to(destination.name());
    let noted = Journal { closed: false, placeholder, destination: path.clone(), maybe: None };
    let c_fast = CString::new(fast.as_os_str().as_bytes()).ok()?;
    let opened = || -> Result<(Arc<OpenFile>, u64), Errno> {
        noted.write(&journal).map_err(|error| super::failed(&error))?;
        let opened = if keep {
            fetch(&path, &fast).map_err(|error| super::failed(&error))?;
            open_fast(&fast, &c_fast, flags & !(libc::O_CREAT | libc::O_EXCL), 0, next)?
        } else {
            let made = libc::O_CREAT | libc::O_EXCL;
            open_fast(&fast, &c_fast, flags & !libc::O_TRUNC | made, stat.st_mode, next)?
        };
        let descriptor = borrow(opened.1 as RawFd);
        // As the one at the destination; who may not say so has the same owner anyway.
        let made = rustix::fs::fstat(descriptor)?;
        if (made.st_uid, made.st_gid) != (stat.st_uid, stat.st_gid) {
            let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = rustix::fs::fchown(descriptor, Some(user), Some(group));
        }
        if made.st_mode != stat.st_mode {
            let mode = rustix::fs::Mode::from_raw_mode(stat.st_mode & 0o7777);
            rustix::fs::fchmod(descriptor, mode)?;
        }
        Ok(opened)
    };
    let Ok((inner, descriptor)) = opened() else {
        let _ = std::fs::remove_file(&journal);
        let _ = std::fs::remove_file(&fast);
        return None;
    };
    let identity = identity_of(&(descriptor as RawFd)).ok()?;
    let route = inner.route().clone();
    let moved = Arc::new(Moved::new((fast, c_fast), journal, identity, placeholder, route));
    file.set_state(next.slot(), Left::Moved(Handle { moved: Arc::clone(&moved), inner }));
    let entry = Entry {
        moved,
        directory,
        name: destination.name().to_owned(),
        open: vec![Arc::downgrade(file)],
        closing: 0,
        opened: 1,
    };
    state.insert(destination.key(), entry);
    Some(Ok(descriptor))
}

/// Opens a file at the fast place. The next stages see that name.
fn open_fast(
    fast: &Path,
    c_fast: &CString,
    flags: i32,
    mode: u32,
    next: Next<'_>,
) -> Result<(Arc<OpenFile>, u64), Errno> {
    let inner = next.file(fast, flags);
    let target = Target { directory: libc::AT_FDCWD, path: c_fast, absolute: fast };
    let action = Action::Open { file: &inner, target, flags, mode: mode & 0o7777 };
    let descriptor = next.call(&mut Op::on(&inner, Function::Open, action))?;
    inner.add_descriptor(descriptor as RawFd);
    Ok((inner, descriptor))
}

/// Opens a file that is elsewhere once more.
fn open_again(entry: &mut Entry, file: &Arc<OpenFile>, flags: i32, next: Next<'_>) -> Outcome {
    let moved = &entry.moved;
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL);
    let (inner, descriptor) = open_fast(&moved.fast, &moved.c_fast, flags, 0, next)?;
    let handle = Handle { moved: Arc::clone(moved), inner };
    file.set_state(next.slot(), Left::Moved(handle));
    entry.open.push(Arc::downgrade(file));
    entry.opened += 1;
    Ok(descriptor)
}

/// Copies a file that is at its destination to the fast place.
fn fetch(path: &Path, fast: &Path) -> std::io::Result<()> {
    let source = File::open(path)?;
    let copy = File::options().write(true).create_new(true).open(fast)?;
    copy_data(&source, &copy, source.metadata()?.len())
}
