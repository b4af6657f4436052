//! Opening files: which are created on or copied to fast storage, and which are there already.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::Function;
use striate_process::limits;
use striate_process::lock::lock;
use striate_process::reopen::Identity;
use striate_stack::descriptors::{borrow, high_copy};
use striate_stack::{Action, Next, Op, OpenFile, Outcome, Target};

use super::PathRewrite;
use super::claim::{Base, BoundedWait, Claim, Creating};
use super::copying::{fetch, set_rights};
use super::fast_place::FastPlace;
use super::journal::{FormerDestination, Journal, MoveState};
use super::moving::{let_go, move_unused, open_handle};
use super::state::{FileState, MovedFile, RewriteHandle, RewriteState, RewrittenFile, note};
use crate::dentry::{Dentry, Directory, EntryType};

/// What cannot be rewritten.
const NOT_REWRITTEN: i32 = libc::O_PATH | libc::O_DIRECTORY;

fn is_writable(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// What came of an attempt.
enum OpenAttempt {
    Done(Outcome),
    /// Another process was faster, or is working on the file: look again.
    Again,
    /// The file is to be opened at its destination. Other processes see by its lock that it is
    /// written there.
    UnmovedFile(Option<(Base, Claim)>),
    /// The same, but it was just made.
    Made(Option<(Base, Claim)>),
}

/// What is to be opened.
#[derive(Clone, Copy)]
struct OpenRequest<'a> {
    file: &'a Arc<OpenFile>,
    target: Target<'a>,
    flags: i32,
    mode: u32,
}

impl PathRewrite {
    pub(super) fn open(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Open { file, target, flags, mode } = op.action else { return next.call(op) };
        if flags & NOT_REWRITTEN != 0 {
            return next.call(op);
        }
        let wanted = OpenRequest { file, target, flags, mode };
        let mut patience = BoundedWait::new();
        loop {
            let (flags, claim) = match self.try_open(wanted, next) {
                OpenAttempt::Done(outcome) => return outcome,
                OpenAttempt::Again => {
                    patience.wait()?;
                    continue;
                }
                OpenAttempt::UnmovedFile(claim) => (flags, claim),
                OpenAttempt::Made(claim) => (flags & !libc::O_EXCL, claim),
            };
            let action = Action::Open { file, target, flags, mode };
            let opened = next.call(&mut Op { function: op.function, route: op.route, action });
            return self.note_plain(file, opened, claim, next);
        }
    }

    /// Remembers that a file is open where it belongs.
    fn note_plain(
        &self,
        file: &Arc<OpenFile>,
        opened: Outcome,
        claim: Option<(Base, Claim)>,
        next: Next<'_>,
    ) -> Outcome {
        let identity = opened.and_then(|descriptor| {
            let stat = rustix::fs::fstat(borrow(descriptor as RawFd))?;
            Ok((stat.st_dev, stat.st_ino))
        });
        let (right, wrong) = match claim {
            Some((base, claim)) if Ok(base.identity()) == identity => (Some((base, claim)), None),
            wrong => (None, wrong),
        };
        if let Ok(identity) = identity {
            file.set_state(next.slot(), FileState::Plain(identity));
            lock(&self.shared.state).add_plain(identity, right);
        }
        if let Some((base, claim)) = wrong {
            let_go(&base, claim);
        }
        opened
    }

    fn try_open(&self, wanted: OpenRequest<'_>, next: Next<'_>) -> OpenAttempt {
        let OpenRequest { target, flags, .. } = wanted;
        let Some(place) = Dentry::of(target) else { return OpenAttempt::UnmovedFile(None) };
        let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        let found = if exclusive || flags & libc::O_NOFOLLOW != 0 {
            let what = place.what();
            Some((place, what))
        } else {
            place.followed()
        };
        let Some((place, what)) = found else { return OpenAttempt::UnmovedFile(None) };
        let fast = self.fast_place(target.absolute).filter(|_| is_writable(flags));
        // A link may lead out of what the rule is for: from there nothing would be brought back.
        let fast =
            fast.filter(|fast| place.open_directory().is_ok_and(|found| fast.covers(&found)));
        let mut state = lock(&self.shared.state);
        match (what, fast) {
            (EntryType::Nothing, Some(fast)) if flags & libc::O_CREAT != 0 => {
                create(&mut state, fast, &place, wanted, next)
            }
            (EntryType::File, fast) if !exclusive => {
                self.open_there(&mut state, fast, &place, wanted, next)
            }
            _ => OpenAttempt::UnmovedFile(None),
        }
    }

    /// Opens an existing name.
    fn open_there(
        &self,
        state: &mut RewriteState,
        fast: Option<&Arc<FastPlace>>,
        place: &Dentry,
        wanted: OpenRequest<'_>,
        next: Next<'_>,
    ) -> OpenAttempt {
        let Ok(stat) = place.stat() else { return OpenAttempt::Again };
        let identity = (stat.st_dev, stat.st_ino);
        if let Some(entry) = state.entries.get_mut(&identity) {
            return OpenAttempt::Done(open_again(entry, wanted, next));
        }
        if state.is_claimed(identity) {
            return OpenAttempt::UnmovedFile(None);
        }
        match self.visit(wanted.target, wanted.flags & libc::O_NOFOLLOW == 0, identity) {
            Err(Errno::AGAIN) => return OpenAttempt::Again,
            Err(error) => return OpenAttempt::Done(Err(error)),
            Ok(Some(mut visit)) => {
                let Some(claim) = visit.claim.take() else { return OpenAttempt::Again };
                let Ok(handle) = high_copy(visit.handle.as_fd()) else { return OpenAttempt::Again };
                return join(state, visit.base.clone(), claim, handle, wanted, next);
            }
            Ok(None) => {}
        }
        // What is still empty may have been made just now, and be elsewhere in a moment.
        if stat.st_size == 0 {
            let may_go = |place: &Arc<FastPlace>| {
                Creating::none(place).is_err()
                    || Base::new(place, identity).is_ok_and(|base| base.has_data())
            };
            if self.places.iter().any(may_go) {
                return OpenAttempt::Again;
            }
        }
        let Some(fast) = fast else { return OpenAttempt::UnmovedFile(None) };
        let Ok(base) = Base::made(fast, identity) else { return OpenAttempt::UnmovedFile(None) };
        let claim = match Claim::common(&base, true) {
            Ok(Some(claim)) => claim,
            Err(Errno::AGAIN) => return OpenAttempt::Again,
            // The fast place cannot have it.
            Ok(None) | Err(_) => return OpenAttempt::UnmovedFile(None),
        };
        if base.has_data() {
            let_go(&base, claim);
            return OpenAttempt::Again;
        }
        let wants = wanted.flags & libc::O_TRUNC != 0 || self.options.existing;
        if !wants || state.is_open(identity) || !claim.make_alone() {
            return OpenAttempt::UnmovedFile(Some((base, claim)));
        }
        let Ok((directory, handle)) = handle_of(place, identity) else {
            let_go(&base, claim);
            return OpenAttempt::Again;
        };
        // The kernel says whether the program may, and empties it.
        let path = directory.path_to(place.name());
        let target = directory.target(place.name(), &path);
        let flags = wanted.flags & (libc::O_ACCMODE | libc::O_TRUNC);
        let asked =
            next.open(target, flags | libc::O_CLOEXEC, 0).and_then(|file| next.close(&file));
        if asked.is_err() {
            claim.make_common();
            return OpenAttempt::UnmovedFile(Some((base, claim)));
        }
        let begun = ClaimedFile { base, claim, handle, path: &path, made: false };
        rewrite(state, begun, wanted, next).unwrap_or_else(OpenAttempt::UnmovedFile)
    }
}

/// Makes a name.
fn create(
    state: &mut RewriteState,
    fast: &Arc<FastPlace>,
    place: &Dentry,
    wanted: OpenRequest<'_>,
    next: Next<'_>,
) -> OpenAttempt {
    let _creating = match Creating::begin(fast) {
        Ok(creating) => creating,
        Err(Errno::AGAIN) => return OpenAttempt::Again,
        Err(_) => return OpenAttempt::UnmovedFile(None),
    };
    let Ok(directory) = place.open_directory() else { return OpenAttempt::UnmovedFile(None) };
    let path = directory.path_to(place.name());
    let target = directory.target(place.name(), &path);
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let made = match next.open(target, flags, wanted.mode) {
        Ok(made) => made,
        // Another process was faster.
        Err(Errno::EXIST) if wanted.flags & libc::O_EXCL == 0 => return OpenAttempt::Again,
        Err(error) => return OpenAttempt::Done(Err(error)),
    };
    let stat = made.descriptor().and_then(rustix::fs::fstat);
    let stat = match next.close(&made).and(stat) {
        Ok(stat) => stat,
        Err(error) => return OpenAttempt::Done(Err(error)),
    };
    let identity = (stat.st_dev, stat.st_ino);
    let Ok((_, handle)) = handle_of(place, identity) else { return OpenAttempt::Made(None) };
    let Ok(base) = Base::new(fast, identity) else { return OpenAttempt::Made(None) };
    let Ok(Some(claim)) = Claim::common(&base, true) else { return OpenAttempt::Made(None) };
    if base.has_data() {
        // Another process has found it, and was faster.
        return join(state, base, claim, handle, wanted, next);
    }
    if !claim.make_alone() {
        return OpenAttempt::Made(Some((base, claim)));
    }
    let begun = ClaimedFile { base, claim, handle, path: &path, made: true };
    rewrite(state, begun, wanted, next).unwrap_or_else(OpenAttempt::Made)
}

/// A handle of what is at a place, if it is still the same.
fn handle_of(place: &Dentry, identity: Identity) -> Result<(Arc<Directory>, OwnedFd), Errno> {
    let directory = place.open_directory()?;
    let handle = open_handle(directory.as_fd(), place.name())?;
    let found = rustix::fs::fstat(&handle)?;
    if (found.st_dev, found.st_ino) == identity {
        Ok((directory, handle))
    } else {
        Err(Errno::NOENT)
    }
}

/// A file whose destination is known, and that is claimed alone.
struct ClaimedFile<'a> {
    base: Base,
    claim: Claim,
    handle: OwnedFd,
    path: &'a Path,
    /// Whether it was made just now.
    made: bool,
}

/// Makes the file at the fast place; an error if that cannot have it.
fn rewrite(
    state: &mut RewriteState,
    begun: ClaimedFile<'_>,
    wanted: OpenRequest<'_>,
    next: Next<'_>,
) -> Result<OpenAttempt, Option<(Base, Claim)>> {
    let ClaimedFile { base, claim, handle, path, made } = begun;
    let opened = || -> Result<_, Errno> {
        let stat = rustix::fs::fstat(&handle)?;
        let was = FormerDestination::new(&stat);
        let (placeholder, destination) = (base.identity(), path.to_path_buf());
        let course = MoveState::Open;
        let journal = Journal { course, placeholder, was, destination, maybe: None };
        let once = libc::O_CREAT | libc::O_EXCL;
        if made || wanted.flags & libc::O_TRUNC != 0 {
            journal.write(&base).map_err(|error| super::failed(&error))?;
            let opened = open_fast(&base, wanted.flags & !libc::O_TRUNC | once, 0o600, next)?;
            // As the one at the destination.
            let descriptor = borrow(opened.1 as RawFd);
            if let Err(error) = set_rights(descriptor, stat.st_mode, (stat.st_uid, stat.st_gid)) {
                let _ = next.close(&opened.0);
                return Err(error);
            }
            return Ok((opened, was));
        }
        fetch_whole(&handle, &stat, &journal, &base).map_err(|error| super::failed(&error))?;
        Ok((open_fast(&base, wanted.flags & !once, 0, next)?, was))
    };
    let Ok((opened, was)) = opened() else {
        base.forget();
        claim.make_common();
        return Err(Some((base, claim)));
    };
    claim.make_common();
    Ok(OpenAttempt::Done(enter(state, (base, claim), (handle, was), opened, wanted, next)))
}

/// Brings a file that is at its destination to the fast place. A process that is killed on the way
/// leaves the file where it is: the copy gets the name by which it is the file when it is whole and
/// durable, and the journal says where it belongs.
fn fetch_whole(
    handle: &OwnedFd,
    stat: &rustix::fs::Stat,
    journal: &Journal,
    base: &Base,
) -> std::io::Result<()> {
    // A copy beyond the limit of file sizes would end the program, which has made no such file.
    limits::refresh();
    limits::admit(stat.st_size as u64)?;
    fetch(handle.as_fd(), stat, base)?;
    journal.write(base)?;
    Journal::sync(base)?;
    std::fs::rename(base.fetched(), base.data())?;
    Ok(base.sync_names()?)
}

/// Remembers a file that was opened at the fast place, and is not known yet.
fn enter(
    state: &mut RewriteState,
    (base, claim): (Base, Claim),
    there: (OwnedFd, FormerDestination),
    (inner, descriptor): (Arc<OpenFile>, u64),
    wanted: OpenRequest<'_>,
    next: Next<'_>,
) -> Outcome {
    let identity = rustix::fs::fstat(borrow(descriptor as RawFd))?;
    let identity = (identity.st_dev, identity.st_ino);
    let route = inner.route().clone();
    let moved = Arc::new(MovedFile::new(base, identity, there, claim, route)?);
    wanted.file.set_state(
        next.slot(),
        FileState::Moved(RewriteHandle { moved: Arc::clone(&moved), inner }),
    );
    let mut entry = RewrittenFile::new(moved);
    entry.open.push(Arc::downgrade(wanted.file));
    entry.opened = 1;
    state.insert(entry);
    Ok(descriptor)
}

/// Opens a file that another process has brought to the fast place.
fn join(
    state: &mut RewriteState,
    base: Base,
    claim: Claim,
    handle: OwnedFd,
    wanted: OpenRequest<'_>,
    next: Next<'_>,
) -> OpenAttempt {
    // It is written from now on; a process that was killed before its copy got its name has left an
    // old one.
    let _ = note(&base, Journal::unname);
    let opened = open_fast(&base, wanted.flags & !(libc::O_CREAT | libc::O_EXCL), 0, next);
    let was = Journal::read(&base).ok().flatten().map(|journal| journal.was);
    let was = was.or_else(|| Some(FormerDestination::new(&rustix::fs::fstat(&handle).ok()?)));
    match (opened, was) {
        (Ok(opened), Some(was)) => {
            OpenAttempt::Done(enter(state, (base, claim), (handle, was), opened, wanted, next))
        }
        (opened, _) => {
            drop(claim);
            let _ = move_unused(&base, Some(handle.as_fd()));
            OpenAttempt::Done(opened.map(|(_, descriptor)| descriptor))
        }
    }
}

/// Opens a file at the fast place. The next stages see that name.
fn open_fast(
    base: &Base,
    flags: i32,
    mode: u32,
    next: Next<'_>,
) -> Result<(Arc<OpenFile>, u64), Errno> {
    let fast = base.data();
    let path = CString::new(fast.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let target = Target { directory: libc::AT_FDCWD, path: &path, absolute: &fast };
    let open = |flags: i32| {
        let inner = next.file(&fast, flags);
        let action = Action::Open { file: &inner, target, flags, mode: mode & 0o7777 };
        let descriptor = next.call(&mut Op::on(&inner, Function::Open, action))?;
        inner.add_descriptor(descriptor as RawFd);
        Ok((inner, descriptor))
    };
    match open(flags) {
        // Not all file systems can do that.
        Err(Errno::INVAL) if flags & libc::O_DIRECT != 0 && flags & libc::O_CREAT == 0 => {
            open(flags & !libc::O_DIRECT)
        }
        opened => opened,
    }
}

/// Opens a file that is elsewhere once more.
fn open_again(entry: &mut RewrittenFile, wanted: OpenRequest<'_>, next: Next<'_>) -> Outcome {
    let moved = &entry.moved;
    let flags = wanted.flags & !(libc::O_CREAT | libc::O_EXCL);
    let (inner, descriptor) = open_fast(&moved.base, flags, 0, next)?;
    let handle = RewriteHandle { moved: Arc::clone(moved), inner };
    wanted.file.set_state(next.slot(), FileState::Moved(handle));
    entry.open.push(Arc::downgrade(wanted.file));
    entry.opened += 1;
    Ok(descriptor)
}
