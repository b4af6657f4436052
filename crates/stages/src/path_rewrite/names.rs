//! Operations on names, of which some refer to files on fast storage.
//!
//! The kernel resolves a name to an inode. The inode determines whether the bytes are on fast
//! storage, whichever process has put them there.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use striate_calls::Function;
use striate_process::lock::lock;
use striate_process::reopen::Identity;
use striate_stack::descriptors::{borrow, high};
use striate_stack::{Action, FileOrName, Next, Op, Outcome, StatInto, Target};

use super::PathRewrite;
use super::claim::{Base, BoundedWait, Claim, Creating};
use super::data::disguise;
use super::journal::{FormerDestination, Journal};
use super::moving::{MoveRefusal, let_go, move_unused};
use super::state::{RewriteState, note};
use crate::dentry::{Dentry, EntryType};

/// What the outcome of a notice is if the bytes are not where the name leads: a caller that wants
/// to change them has to open the file.
const ELSEWHERE: u64 = 1;

/// A file at a fast place that this process looks at for a moment.
#[derive(Debug)]
pub(super) struct BriefClaim {
    pub(super) base: Base,
    /// What stands for it at its destination.
    pub(super) handle: OwnedFd,
    pub(super) claim: Option<Claim>,
}

impl BriefClaim {
    /// Its name was removed, or was to be: is there any left?
    fn may_be_nameless(&self) {
        if rustix::fs::fstat(&self.handle).is_ok_and(|stat| stat.st_nlink > 0) {
            self.base.unmark_gone();
        }
    }

    /// Moves it to its destination, if no other process uses it.
    fn move_home(mut self) -> Result<(), MoveRefusal> {
        drop(self.claim.take());
        move_unused(&self.base, Some(self.handle.as_fd()))
    }
}

impl Drop for BriefClaim {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            drop(claim);
            // The process that closed it last may have found this claim in the way.
            let _ = move_unused(&self.base, Some(self.handle.as_fd()));
        }
    }
}

/// What is known of a name.
enum NameOwner {
    /// This process uses its file, which is elsewhere.
    Ours(Base),
    /// Another process does, or did.
    Others(BriefClaim),
    /// Its file is not elsewhere.
    Not,
}

impl NameOwner {
    fn base(&self) -> Option<&Base> {
        match self {
            Self::Ours(base) | Self::Others(BriefClaim { base, .. }) => Some(base),
            Self::Not => None,
        }
    }

    /// Its name is about to be removed. A process that is killed after that cannot record it any
    /// more.
    fn loses_name(&self) {
        if let Some(base) = self.base() {
            base.mark_gone();
        }
    }

    /// That was done, or was not.
    fn may_be_nameless(&self, state: &mut RewriteState) {
        match self {
            Self::Ours(base) => state.may_be_nameless(base.identity()),
            Self::Others(visit) => visit.may_be_nameless(),
            Self::Not => {}
        }
    }
}

/// What a name stands for, if it is a regular file.
fn regular(target: Target<'_>, follow: bool) -> Option<Identity> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let stat = rustix::fs::statat(borrow(target.directory), target.path, flags).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then_some((stat.st_dev, stat.st_ino))
}

/// Where a name is, without links on the way.
fn whole_path(target: Target<'_>) -> Option<PathBuf> {
    let place = Dentry::of(target)?;
    let directory = place.open_directory().ok()?;
    Some(directory.path_to(place.name()))
}

impl PathRewrite {
    /// Looks for a file at the fast places. `AGAIN`: it is being moved.
    pub(super) fn visit(
        &self,
        target: Target<'_>,
        follow: bool,
        identity: Identity,
    ) -> Result<Option<BriefClaim>, Errno> {
        for place in &self.places {
            let Ok(base) = Base::new(place, identity) else { continue };
            let Some(claim) = Claim::common(&base, false)? else { continue };
            if !base.has_data() {
                // It is used where it belongs.
                let_go(&base, claim);
                continue;
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let flags = if follow { flags } else { flags | OFlags::NOFOLLOW };
            let directory = borrow(target.directory);
            let handle = rustix::fs::openat(directory, target.path, flags, Mode::empty());
            let found = handle.and_then(|handle| Ok((rustix::fs::fstat(&handle)?, high(handle))));
            return match found {
                Ok((stat, handle)) if (stat.st_dev, stat.st_ino) == identity => {
                    Ok(Some(BriefClaim { base, handle, claim: Some(claim) }))
                }
                _ => {
                    let_go(&base, claim);
                    Err(Errno::AGAIN)
                }
            };
        }
        Ok(None)
    }

    /// Keeps others from changing names, so that what a name stands for is what is removed or
    /// replaced. `AGAIN`: a process does.
    fn names_alone(&self) -> Result<Vec<File>, Errno> {
        self.places.iter().filter_map(|place| Creating::none(place).transpose()).collect()
    }

    /// What is known of a name. `AGAIN`: as above.
    fn known(
        &self,
        state: &RewriteState,
        target: Target<'_>,
        follow: bool,
    ) -> Result<NameOwner, Errno> {
        let Some(identity) = regular(target, follow) else { return Ok(NameOwner::Not) };
        if let Some(entry) = state.entries.get(&identity) {
            return Ok(NameOwner::Ours(entry.moved.base.clone()));
        }
        match self.visit(target, follow, identity) {
            Ok(Some(visit)) => Ok(NameOwner::Others(visit)),
            Err(Errno::AGAIN) => Err(Errno::AGAIN),
            Ok(None) | Err(_) => Ok(NameOwner::Not),
        }
    }

    /// Whether a result about a file that is not on fast storage now is certainly right: no
    /// placeholder stood for it.
    fn is_settled(&self, identity: Identity, told: &StatInto<'_>) -> bool {
        let size = match told {
            StatInto::Stat(stat) => stat.st_size as u64,
            StatInto::Statx { buffer, .. } => buffer.stx_size,
        };
        size > 0 && !self.options.existing && !lock(&self.shared.state).is_open(identity)
    }

    pub(super) fn stat_name(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let mut patience = BoundedWait::new();
        loop {
            let outcome = next.call(op)?;
            let Action::Stat { of: FileOrName::Name(target), flags, into } = &mut op.action else {
                return Ok(outcome);
            };
            let mode = match into {
                StatInto::Stat(stat) => stat.st_mode,
                StatInto::Statx { buffer, .. } => u32::from(buffer.stx_mode),
            };
            if FileType::from_raw_mode(mode) != FileType::RegularFile {
                return Ok(outcome);
            }
            let identity = into.identity();
            let moved = {
                let state = lock(&self.shared.state);
                state.entries.get(&identity).map(|entry| Arc::clone(&entry.moved))
            };
            let seen = if let Some(moved) = moved {
                let _kept = moved.keep();
                let fast = Target {
                    directory: libc::AT_FDCWD,
                    path: &moved.c_fast,
                    absolute: &moved.fast,
                };
                let mut fast = Op {
                    function: op.function,
                    route: &moved.route,
                    action: of(fast, *flags, into),
                };
                let seen = next.call(&mut fast);
                match seen {
                    // What has a name has links: another file has taken the place of this one just
                    // now.
                    Ok(_) if !moved.disguise(into) => Err(Errno::NOENT),
                    seen => seen,
                }
            } else {
                let follow = *flags & libc::AT_SYMLINK_NOFOLLOW == 0;
                match self.visit(*target, follow, identity) {
                    Ok(Some(visit)) => stat_visited(op.function, &visit, *flags, into, next),
                    Err(Errno::AGAIN) => Err(Errno::NOENT),
                    Ok(None) | Err(_) if self.is_settled(identity, into) => return Ok(outcome),
                    // It may have been at a fast place when it was asked for, and is not any more.
                    Ok(None) | Err(_) => {
                        let outcome = next.call(op)?;
                        match &op.action {
                            Action::Stat { into, .. } if into.identity() != identity => continue,
                            _ => return Ok(outcome),
                        }
                    }
                }
            };
            match seen {
                // It was moved just now, or is being moved.
                Err(Errno::NOENT) => patience.wait()?,
                seen => return seen,
            }
        }
    }

    pub(super) fn unlink(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Unlink { target, flags } = op.action else { return next.call(op) };
        if flags & libc::AT_REMOVEDIR != 0 {
            // It is not empty as long as something is copied there.
            self.mover.wait();
            return next.call(op);
        }
        let mut patience = BoundedWait::new();
        loop {
            let mut state = lock(&self.shared.state);
            let alone = self.names_alone();
            let Ok((alone, known)) =
                alone.and_then(|alone| Ok((alone, self.known(&state, target, false)?)))
            else {
                drop(state);
                patience.wait()?;
                continue;
            };
            known.loses_name();
            let outcome = next.call(op);
            known.may_be_nameless(&mut state);
            drop((alone, state));
            return outcome;
        }
    }

    pub(super) fn rename(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Rename { from, to, flags } = op.action else { return next.call(op) };
        let is_file = Dentry::of(from).is_some_and(|place| place.what() == EntryType::File);
        if !is_file {
            // As above, for the directory that is replaced.
            self.mover.wait();
        } else if !self.stays_covered(to)
            || flags & libc::RENAME_EXCHANGE != 0 && !self.stays_covered(from)
        {
            // Recovery brings files only to where rules are for.
            for target in [from, to] {
                self.before(target, op.function, next)?;
            }
        }
        let mut patience = BoundedWait::new();
        loop {
            let mut state = lock(&self.shared.state);
            let both = self.names_alone().and_then(|alone| {
                let old = self.known(&state, from, false)?;
                Ok((alone, old, self.known(&state, to, false)?))
            });
            let Ok((alone, old, new)) = both else {
                drop(state);
                patience.wait()?;
                continue;
            };
            let (old_path, new_path) = (whole_path(from), whole_path(to));
            let exchange = flags & libc::RENAME_EXCHANGE != 0;
            let mut moving = vec![(old.base(), new_path.as_deref())];
            if exchange {
                moving.push((new.base(), old_path.as_deref()));
            }
            // Wherever a file is when the process is killed, it is found.
            for (base, path) in &moving {
                note_rename(*base, *path, false)?;
            }
            if !exchange {
                new.loses_name();
            }
            let outcome = next.call(op);
            // Two names of one file both stay.
            let is_one = old.base().is_some() && old.base() == new.base();
            for (base, path) in moving {
                let path = if outcome.is_ok() && !is_one { path } else { None };
                note_rename(base, path, true)?;
            }
            if !exchange {
                new.may_be_nameless(&mut state);
            }
            drop((alone, state));
            drop((old, new));
            if let (Ok(_), false, Some(old), Some(new)) = (outcome, is_file, old_path, new_path) {
                self.note_directory(&old, &new);
            }
            return outcome;
        }
    }

    /// Whether a file that gets this name may be at the fast place.
    fn stays_covered(&self, target: Target<'_>) -> bool {
        whole_path(target).is_none_or(|path| self.places.iter().any(|place| place.is_below(&path)))
    }

    /// A directory was renamed: journals say where files belong now.
    fn note_directory(&self, old: &Path, new: &Path) {
        for base in self.places.iter().filter_map(|place| Base::all(place).ok()).flatten() {
            // The process that is moving it knows where it is.
            let Ok(Some(claim)) = Claim::common(&base, false) else { continue };
            let _ = note(&base, |journal| {
                if let Ok(rest) = journal.destination.strip_prefix(old) {
                    journal.destination = new.join(rest);
                }
            });
            let_go(&base, claim);
        }
    }

    /// Something is about to happen to a name that has to find the file there.
    pub(super) fn before(&self, target: Target<'_>, function: Function, next: Next<'_>) -> Outcome {
        // These are answered by what stands at the destination. A link is not: it would stay with
        // what stands there if that is replaced just now.
        let answered =
            matches!(function, Function::Access | Function::Readlink | Function::Symlink);
        if answered {
            return Ok(0);
        }
        let mut patience = BoundedWait::new();
        loop {
            let state = lock(&self.shared.state);
            let known = self.known(&state, target, true);
            let moved = match &known {
                Ok(NameOwner::Ours(base)) => {
                    state.entries.get(&base.identity()).map(|entry| Arc::clone(&entry.moved))
                }
                _ => None,
            };
            drop(state);
            let base = match known {
                Err(_) => {
                    patience.wait()?;
                    continue;
                }
                Ok(NameOwner::Not) => return Ok(0),
                Ok(NameOwner::Ours(base)) => {
                    if let Some(moved) = moved {
                        self.bring_home(&moved, next)?;
                    }
                    base
                }
                Ok(NameOwner::Others(visit)) => {
                    let base = visit.base.clone();
                    visit.move_home().map_err(|refused| refused.errno())?;
                    base
                }
            };
            return Ok(if base.has_data() { ELSEWHERE } else { 0 });
        }
    }
}

/// Asks for a file at the fast place.
fn of<'a>(target: Target<'a>, flags: i32, into: &'a mut StatInto<'_>) -> Action<'a> {
    let into = match into {
        StatInto::Stat(stat) => StatInto::Stat(stat),
        StatInto::Statx { mask, buffer } => StatInto::Statx { mask: *mask, buffer },
    };
    Action::Stat { of: FileOrName::Name(target), flags, into }
}

fn stat_visited(
    function: Function,
    visit: &BriefClaim,
    flags: i32,
    into: &mut StatInto<'_>,
    next: Next<'_>,
) -> Outcome {
    use std::os::unix::ffi::OsStrExt;
    let fast = visit.base.data();
    let path = std::ffi::CString::new(fast.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let file = next.file(&fast, libc::O_RDONLY);
    let target = Target { directory: libc::AT_FDCWD, path: &path, absolute: &fast };
    let mut op = Op { function, route: file.route(), action: of(target, flags, into) };
    let seen = next.call(&mut op)?;
    let there = rustix::fs::fstat(&visit.handle)?;
    let journal = Journal::read(&visit.base).ok().flatten();
    let was = journal.map_or(FormerDestination::new(&there), |journal| journal.was);
    disguise(into, visit.handle.as_fd(), &there, &was);
    Ok(seen)
}

/// Writes down where a file is about to go, or where it is now.
fn note_rename(base: Option<&Base>, path: Option<&Path>, done: bool) -> Result<(), Errno> {
    let Some(base) = base else { return Ok(()) };
    let path = path.map(Path::to_path_buf);
    note(base, |journal| {
        journal.unname();
        match (done, path) {
            (false, maybe) => journal.maybe = maybe,
            (true, path) => {
                journal.maybe = None;
                journal.destination = path.unwrap_or_else(|| journal.destination.clone());
            }
        }
    })
}
