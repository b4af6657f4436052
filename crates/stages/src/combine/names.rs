//! Operations on names, some of which are held.

use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::Function;
use striate_process::limits;
use striate_process::lock::lock;
use striate_stack::{Action, Next, Of, Op, OpenFile, Outcome, Target};

use super::Combine;
use super::held::{Content, Held, file_time, is_answerable};
use super::identities::new_inode;
use super::state::State;
use crate::place::{Place, What, identity_of_directory};

/// What a held file cannot be opened with: whoever asks for it wants storage.
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
        let Some(place) = Place::of(target) else { return self.astray(target, op, next) };
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
            self.bring_home(&mut state, &[id], next)?;
        } else if makes
            && what == What::Nothing
            && let Some(outcome) = self.hold(&mut state, &place, file, (flags, mode), next)
        {
            return outcome;
        }
        drop(state);
        next.call(op)
    }

    /// Holds a file that is not there yet; `None` if that cannot be: then the kernel says what it says.
    fn hold(
        &self,
        state: &mut State,
        place: &Place,
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
                self.bring_home(state, &ids, next).ok()?;
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
        let id = state.add(Held {
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
            state.is_home(id);
        }
        self.note_names(state);
        Some(opened.map(|descriptor| descriptor as u64))
    }

    pub(super) fn stat_name(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        if !self.holds_names() {
            return self.forward(op, next);
        }
        let Action::Stat { of: Of::Name(target), flags, into } = &mut op.action else {
            return next.call(op);
        };
        let (target, flags) = (*target, *flags);
        if !is_answerable(flags, into) {
            return self.forward(op, next);
        }
        let Some(place) = Place::of(target) else { return self.astray(target, op, next) };
        {
            let mut state = lock(&self.state);
            self.load(&mut state);
            if state.stat(&place, into) {
                return Ok(0);
            }
        }
        let outcome = self.forward(op, next);
        // A link to a held file leads nowhere as far as the kernel knows.
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
        let Some(place) = Place::of(target) else { return self.astray(target, op, next) };
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
        let (old, new) = (Place::of(from), Place::of(to));
        self.straighten(from, old.as_ref(), next)?;
        self.straighten(to, new.as_ref(), next)?;
        let mut state = lock(&self.state);
        self.load(&mut state);
        let find = |state: &State, place: &Option<Place>| {
            place.as_ref().and_then(|place| state.find(&place.key()))
        };
        if let (Some(old), Some(new), Some(id)) = (&old, &new, find(&state, &old)) {
            let outcome = self.rename_held(&mut state, (id, old), new, flags, next);
            self.note_names(&state);
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
        let held: Vec<u64> =
            [find(&state, &old), find(&state, &new)].into_iter().flatten().collect();
        self.bring_home(&mut state, &held, next)?;
        // The paths of held files are about to change if a directory is renamed.
        let is_file =
            |place: &Place| matches!(place.what(), What::File | What::Link | What::Nothing);
        if !old.as_ref().is_some_and(is_file) || flags & libc::RENAME_EXCHANGE != 0 {
            self.bring_all_home(&mut state, next)?;
            state.forget_directories();
        }
        drop(state);
        next.call(op)
    }

    /// Renames a held file to a name that is free or held; `None` if real files have to be made first.
    fn rename_held(
        &self,
        state: &mut State,
        (id, old): (u64, &Place),
        new: &Place,
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
        let held = state.held.get(&id)?;
        if held.kept || replaced.is_none() && new.what() != What::Nothing {
            return None;
        }
        let directory = state.directory(new).ok()?;
        if state.held.get(&id)?.changed {
            // Whoever is replaced may have been closed: then what replaces it must not be lost either.
            self.store(state, id, next).ok()?;
        }
        if state.find(&old.key()) != Some(id) || state.find(&new.key()) != replaced {
            return None;
        }
        state.rename(id, new, directory).ok()?;
        Some(Ok(0))
    }

    /// A path whose directory is not there, or that ends in a slash: it may lead through a held file, of which
    /// the kernel has to know to say the right thing.
    fn astray(&self, target: Target<'_>, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        self.straighten(target, None, next)?;
        self.forward(op, next)
    }

    fn straighten(
        &self,
        target: Target<'_>,
        place: Option<&Place>,
        next: Next<'_>,
    ) -> Result<(), Errno> {
        if place.is_some() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        let ids = through(&state, target);
        self.bring_home(&mut state, &ids, next)
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
        let place = Place::of(target);
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
                return self.bring_all_home(&mut state, next);
            }
        }
        self.bring_home(&mut state, &ids, next)
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
            return self.bring_all_home(&mut state, next);
        }
        let ids = state.in_directory(directory);
        state.forget_directory(directory);
        self.bring_home(&mut state, &ids, next)
    }
}

/// The held files that a path leads through.
fn through(state: &State, target: Target<'_>) -> Vec<u64> {
    let places = Place::through(target).filter_map(Place::followed);
    places.filter_map(|(place, _)| state.find(&place.key())).collect()
}

/// Opens a held file once more; `None` if only a real one will do.
fn open_again(
    state: &mut State,
    id: u64,
    file: &Arc<OpenFile>,
    flags: i32,
    next: Next<'_>,
) -> Option<Outcome> {
    let held = state.held.get(&id)?;
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
        if held.owner.0 != user.as_raw() || held.mode & wanted != wanted {
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
