//! Operations on names of which some are buffered: open, stat, rename, unlink.

use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::Function;
use striate_process::limits;
use striate_process::lock::lock;
use striate_stack::{Action, FileOrName, Next, Op, OpenFile, Outcome, Target};

use super::Combine;
use super::buffered_file::{BufferedFile, Content, file_time, is_answerable};
use super::identities::new_inode;
use super::state::CombineState;
use crate::dentry::{Dentry, EntryType, identity_of_directory};

/// Flags that a buffered file cannot be opened with: they ask for storage.
const STORAGE: i32 = libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC | libc::O_ASYNC | libc::O_PATH;

fn is_writable(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

impl Combine {
    pub(super) fn open(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Open { file, target, flags, mode } = op.action else { return next.call(op) };
        let makes = flags & libc::O_CREAT != 0
            && flags & (libc::O_TRUNC | libc::O_EXCL) != 0
            && is_writable(flags)
            && flags & STORAGE == 0;
        if !makes && !self.holds_names() {
            return next.call(op);
        }
        let Some(place) = Dentry::of(target) else { return self.astray(target, op, next) };
        let mut state = lock(&self.state);
        self.load(&mut state);
        let itself = flags & libc::O_NOFOLLOW != 0
            || flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        let found = if itself {
            let what = place.what();
            Some((place, what))
        } else {
            place.followed()
        };
        let Some((place, what)) = found else {
            drop(state);
            return next.call(op);
        };
        if let Some(id) = state.find(&place.key()) {
            if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
                return Err(Errno::EXIST);
            }
            if let Some(outcome) = open_again(&mut state, id, file, flags, next) {
                return outcome;
            }
            self.materialize(&mut state, &[id], next)?;
        } else if makes
            && what == EntryType::Nothing
            && let Some(outcome) = self.hold(&mut state, &place, file, (flags, mode), next)
        {
            return outcome;
        }
        drop(state);
        next.call(op)
    }

    /// Buffers a file that does not exist yet; `None` if that is not possible: then the kernel
    /// decides.
    fn hold(
        &self,
        state: &mut CombineState,
        place: &Dentry,
        file: &Arc<OpenFile>,
        (flags, mode): (i32, u32),
        next: Next<'_>,
    ) -> Option<Outcome> {
        place.may_change().ok()?;
        limits::refresh();
        let directory = match state.directory(place) {
            Err(Errno::MFILE) => {
                // Too many directories at once.
                let ids = state.named();
                self.materialize(state, &ids, next).ok()?;
                state.directory(place).ok()?
            }
            directory => directory.ok()?,
        };
        if directory.has_default_permissions() {
            return None;
        }
        let mode = mode & 0o7777 & !self.umask.now()?;
        let parent = place.directory_stat();
        let group = if parent.st_mode & libc::S_ISGID == 0 {
            rustix::process::getegid().as_raw()
        } else {
            parent.st_gid
        };
        let time = file_time();
        let id = state.add(BufferedFile {
            key: Some(place.key()),
            name: place.name().to_owned(),
            directory,
            content: Content::Memory(Vec::new()),
            stored: None,
            changed: true,
            kept: false,
            mode,
            owner: (rustix::process::geteuid().as_raw(), group),
            identity: (parent.st_dev, new_inode()),
            told: false,
            born: time,
            modified: time,
            touched: time,
            handles: Vec::new(),
        });
        let opened = state.open(id, file, flags, next.slot());
        if opened.is_err() {
            state.is_materialized(id);
        }
        self.note_names(state);
        Some(opened.map(|descriptor| descriptor as u64))
    }

    pub(super) fn stat_name(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        if !self.holds_names() {
            return self.forward(op, next);
        }
        let Action::Stat { of: FileOrName::Name(target), flags, into } = &mut op.action else {
            return next.call(op);
        };
        let (target, flags) = (*target, *flags);
        if !is_answerable(flags, into) {
            return self.forward(op, next);
        }
        let Some(place) = Dentry::of(target) else { return self.astray(target, op, next) };
        {
            let mut state = lock(&self.state);
            self.load(&mut state);
            if state.stat(&place, into) {
                return Ok(0);
            }
        }
        let outcome = self.forward(op, next);
        // A link to a buffered file leads nowhere as far as the kernel knows.
        if outcome == Err(Errno::NOENT)
            && flags & libc::AT_SYMLINK_NOFOLLOW == 0
            && let Some((place, _)) = place.followed()
            && let Action::Stat { into, .. } = &mut op.action
        {
            let mut state = lock(&self.state);
            if state.stat(&place, into) {
                return Ok(0);
            }
        }
        outcome
    }

    pub(super) fn unlink(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Unlink { target, flags } = op.action else { return next.call(op) };
        if !self.holds_names() {
            return next.call(op);
        }
        if flags & libc::AT_REMOVEDIR != 0 {
            self.before_directory(target, next)?;
            self.before(target, op.function, next)?;
            return next.call(op);
        }
        let Some(place) = Dentry::of(target) else { return self.astray(target, op, next) };
        let mut state = lock(&self.state);
        self.load(&mut state);
        let Some(id) = state.find(&place.key()) else {
            drop(state);
            return next.call(op);
        };
        place.may_change()?;
        state.unname(id);
        self.note_names(&state);
        Ok(0)
    }

    pub(super) fn rename(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Rename { from, to, flags } = op.action else { return next.call(op) };
        if !self.holds_names() {
            return next.call(op);
        }
        let (old, new) = (Dentry::of(from), Dentry::of(to));
        self.straighten(from, old.as_ref(), next)?;
        self.straighten(to, new.as_ref(), next)?;
        let mut state = lock(&self.state);
        self.load(&mut state);
        let find = |state: &CombineState, place: &Option<Dentry>| {
            place.as_ref().and_then(|place| state.find(&place.key()))
        };
        if let (Some(old), Some(new), Some(id)) = (&old, &new, find(&state, &old)) {
            let outcome = self.rename_buffered(&mut state, (id, old), new, flags, next);
            self.note_names(&state);
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
        let buffered: Vec<u64> =
            [find(&state, &old), find(&state, &new)].into_iter().flatten().collect();
        self.materialize(&mut state, &buffered, next)?;
        // The paths of buffered files are about to change if a directory is renamed.
        let is_file = |place: &Dentry| {
            matches!(place.what(), EntryType::File | EntryType::Link | EntryType::Nothing)
        };
        if !old.as_ref().is_some_and(is_file) || flags & libc::RENAME_EXCHANGE != 0 {
            self.materialize_all(&mut state, next)?;
            state.forget_directories();
        }
        drop(state);
        next.call(op)
    }

    /// Renames a buffered file to a name that is free or buffered; `None` if real files have to be
    /// made first.
    fn rename_buffered(
        &self,
        state: &mut CombineState,
        (id, old): (u64, &Dentry),
        new: &Dentry,
        flags: u32,
        next: Next<'_>,
    ) -> Option<Outcome> {
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return None;
        }
        let replaced = state.find(&new.key());
        if replaced.is_some() && flags != 0 {
            return Some(Err(Errno::EXIST));
        }
        if replaced == Some(id) {
            return Some(Ok(0));
        }
        if old.directory_stat().st_dev != new.directory_stat().st_dev {
            return Some(Err(Errno::XDEV));
        }
        old.may_change().and(new.may_change()).ok()?;
        let buffered = state.buffered.get(&id)?;
        if buffered.kept || replaced.is_none() && new.what() != EntryType::Nothing {
            return None;
        }
        let directory = state.directory(new).ok()?;
        if state.buffered.get(&id)?.changed {
            // The replaced file may have been closed: then what replaces it must not be lost
            // either.
            self.store(state, id, next).ok()?;
        }
        if state.find(&old.key()) != Some(id) || state.find(&new.key()) != replaced {
            return None;
        }
        state.rename(id, new, directory).ok()?;
        Some(Ok(0))
    }

    /// A path whose directory does not exist, or that ends in a slash: it may lead through a
    /// buffered file, which must be written out so that the kernel returns the right error.
    fn astray(&self, target: Target<'_>, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        self.straighten(target, None, next)?;
        self.forward(op, next)
    }

    fn straighten(
        &self,
        target: Target<'_>,
        place: Option<&Dentry>,
        next: Next<'_>,
    ) -> Result<(), Errno> {
        if place.is_some() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        let ids = through(&state, target);
        self.materialize(&mut state, &ids, next)
    }

    /// Something is about to happen to a name that only real files can bear.
    pub(super) fn before(
        &self,
        target: Target<'_>,
        function: Function,
        next: Next<'_>,
    ) -> Result<(), Errno> {
        if !self.holds_names() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        self.load(&mut state);
        let mut ids = Vec::new();
        let place = Dentry::of(target);
        if place.is_none() {
            ids = through(&state, target);
        }
        if let Some(place) = place {
            ids.extend(state.find(&place.key()));
            // Some functions follow links, some do not.
            let followed = place.followed().and_then(|(place, _)| state.find(&place.key()));
            ids.extend(followed.filter(|id| !ids.contains(id)));
        }
        // Whatever is done to a directory is done after files were made there.
        let asks = matches!(function, Function::Access | Function::Readlink | Function::Mkdir);
        if !asks && let Some(directory) = identity_of_directory(target) {
            ids.extend(state.in_directory(directory));
            state.forget_directory(directory);
            if state.log_is_in(directory) && self.options.directory.is_none() {
                // It may be that the log cannot be removed any more afterwards.
                return self.materialize_all(&mut state, next);
            }
        }
        self.materialize(&mut state, &ids, next)
    }

    /// A directory is about to be listed or removed.
    pub(super) fn before_directory(&self, target: Target<'_>, next: Next<'_>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        self.load(&mut state);
        if state.names.is_empty() && state.log.is_none() {
            return Ok(());
        }
        let Some(directory) = identity_of_directory(target) else {
            drop(state);
            // It may be a file, or lead through one.
            return self.before(target, Function::Opendir, next);
        };
        if state.log_is_in(directory) && self.options.directory.is_none() {
            // The log is not the program's: it must not be there.
            return self.materialize_all(&mut state, next);
        }
        let ids = state.in_directory(directory);
        state.forget_directory(directory);
        self.materialize(&mut state, &ids, next)
    }
}

/// The buffered files that a path leads through.
fn through(state: &CombineState, target: Target<'_>) -> Vec<u64> {
    let places = Dentry::through(target).filter_map(Dentry::followed);
    places.filter_map(|(place, _)| state.find(&place.key())).collect()
}

/// Opens a buffered file once more; `None` if only a real one will do.
fn open_again(
    state: &mut CombineState,
    id: u64,
    file: &Arc<OpenFile>,
    flags: i32,
    next: Next<'_>,
) -> Option<Outcome> {
    let buffered = state.buffered.get(&id)?;
    if flags & STORAGE != 0 || flags & libc::O_TRUNC != 0 && !is_writable(flags) {
        return None;
    }
    let user = rustix::process::geteuid();
    if !user.is_root() {
        let wanted = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => 0o400,
            libc::O_WRONLY => 0o200,
            _ => 0o600,
        };
        if buffered.owner.0 != user.as_raw() || buffered.mode & wanted != wanted {
            return None;
        }
    }
    let opened = match state.open(id, file, flags, next.slot()) {
        Ok(opened) => opened,
        Err(error) => return Some(Err(error)),
    };
    if flags & libc::O_TRUNC != 0
        && let Err(error) = state.change(id, Vec::clear)
    {
        return Some(Err(error));
    }
    Some(Ok(opened as u64))
}
