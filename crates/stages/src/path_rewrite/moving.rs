//! The move of a file to its destination.
//!
//! A file that is not open is copied to a hidden name, made durable, and renamed over the
//! placeholder. Where the inode of the placeholder has to stay – the file is open, has several
//! names or attributes, or belongs to another user – the bytes are copied into it, and the journal
//! says so until they are durable: an interrupted copy is repeated.
//!
//! Once a copy has its name, other processes may write to it, replace or remove it: the bytes at
//! the fast place are obsolete from then on. So the journal says that the copy is being renamed,
//! and the absence of its hidden name says that it was.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use striate_stack::descriptors::{high, high_copy};

use super::claim::{Base, Claim};
use super::copying::{fill, give};
use super::journal::{FormerDestination, Journal, MoveState};
use crate::dentry::Directory;
use crate::trust::{self, UntrustedPath};

/// A file is not moved.
#[derive(Debug)]
pub(crate) enum MoveRefusal {
    /// Another process has written to what stands at the destination, or has replaced it.
    Changed(PathBuf),
    /// It was renamed or removed meanwhile: one has to begin again.
    Renamed,
    /// The journal says that it belongs to where no rule for this place is; they are for these
    /// directories.
    Outside(String),
    /// Its bytes are not trusted.
    Distrusted(UntrustedPath),
    /// The system says so.
    System(Errno),
}

impl From<Errno> for MoveRefusal {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl From<UntrustedPath> for MoveRefusal {
    fn from(distrust: UntrustedPath) -> Self {
        if distrust.is_absent() { Self::System(Errno::NOENT) } else { Self::Distrusted(distrust) }
    }
}

impl From<io::Error> for MoveRefusal {
    fn from(error: io::Error) -> Self {
        Self::System(errno(&error))
    }
}

impl MoveRefusal {
    /// What a `close` says of it.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Self::Changed(_) => Errno::STALE,
            Self::Renamed => Errno::BUSY,
            Self::Outside(_) => Errno::PERM,
            Self::Distrusted(distrust) => distrust.errno(),
            Self::System(error) => *error,
        }
    }
}

/// A file whose bytes are at the file system of the destination.
#[derive(Debug)]
pub(crate) enum Ready {
    /// It only needs its name, in this directory; itself if there is no copy of this name.
    /// What is there to be replaced has to be as it `was`.
    ToBeNamed {
        directory: Arc<Directory>,
        name: CString,
        copy: Option<CString>,
        was: Option<FormerDestination>,
    },
    /// It is there, or it has no name.
    Done,
}

/// What stands at the destination.
enum CopyDestination {
    /// What is to be replaced or filled, and its name, if that is known.
    Placeholder(OwnedFd, Option<(Arc<Directory>, CString)>),
    /// Nothing.
    Nothing(Arc<Directory>, CString),
    /// The bytes are not needed.
    Done,
}

/// Brings the bytes to the file system of the destination, and makes them durable. `handle` stands
/// for what is at the destination, if it is known. The caller has claimed the file alone.
pub(crate) fn prepare(base: &Base, handle: Option<BorrowedFd<'_>>) -> Result<Ready, MoveRefusal> {
    let Some(mut journal) = Journal::read(base)? else { return Ok(Ready::Done) };
    let source = match open_data(base, &journal.was) {
        Ok(source) => source,
        Err(MoveRefusal::System(Errno::NOENT)) => return Ok(Ready::Done),
        Err(refused) => return Err(refused),
    };
    let (directory, name, there) = match find(base, &journal, handle)? {
        CopyDestination::Done => {
            remove_copy(base, &journal);
            return Ok(Ready::Done);
        }
        CopyDestination::Nothing(directory, name) => (directory, name, None),
        CopyDestination::Placeholder(handle, named) => {
            let there = rustix::fs::fstat(&handle)?;
            let is_half = journal.course == MoveState::Copying;
            if !is_half && journal.was.was_written(&there) {
                return Err(MoveRefusal::Changed(journal.destination));
            }
            let data = source.metadata()?;
            // Changing the owner needs rights, and takes permissions with it.
            let is_owner = (there.st_uid, there.st_gid) == (data.uid(), data.gid());
            let is_ours = journal.was.has_owner_of(&data) && is_owner;
            let is_plain = !is_half && is_ours && there.st_nlink == 1;
            let may_replace = |directory: &Directory| {
                let access = Access::WRITE_OK | Access::EXEC_OK;
                let path = path_by(directory.as_fd())?;
                rustix::fs::accessat(CWD, path.as_c_str(), access, AtFlags::EACCESS)
            };
            match named {
                Some((directory, name))
                    if is_plain && !has_attributes(&handle) && may_replace(&directory).is_ok() =>
                {
                    (directory, name, Some(there))
                }
                _ => {
                    fill_placeholder(base, &mut journal, &source, handle.as_fd())?;
                    return Ok(Ready::Done);
                }
            }
        }
    };
    let rights = there.as_ref().map(|stat| (&journal.was, stat));
    let data = source.metadata()?;
    let copy = if data.dev() == directory.identity().0 {
        give(&source, &data, rights)?;
        rustix::fs::fsync(&source)?;
        None
    } else {
        let hidden = base.hidden()?;
        // It may be there from a move that was interrupted.
        let _ = Journal::change(base, Journal::unname);
        let _ = rustix::fs::unlinkat(&*directory, &hidden, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&*directory, &hidden, flags, Mode::RUSR | Mode::WUSR)?;
        if let Err(error) = fill(&source, &File::from(high(made)), rights) {
            let _ = rustix::fs::unlinkat(&*directory, &hidden, AtFlags::empty());
            return Err(error.into());
        }
        Some(hidden)
    };
    let was = there.map(|_| journal.was);
    Ok(Ready::ToBeNamed { directory, name, copy, was })
}

/// Gives a file that is ready its name at the destination, in place of what stands there.
pub(crate) fn commit(ready: &Ready, base: &Base) -> Result<(), MoveRefusal> {
    if let Ready::ToBeNamed { directory, name, copy, was } = ready {
        let fast = base.data();
        let (from, old) = match copy {
            Some(copy) => (directory.as_fd(), copy.as_bytes()),
            None => (CWD, fast.as_os_str().as_bytes()),
        };
        if let Some(was) = was {
            let stat = rustix::fs::statat(&**directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(|_| MoveRefusal::Renamed)?;
            // A link that was made meanwhile has to stay with it.
            if (stat.st_dev, stat.st_ino) != base.identity() || stat.st_nlink > 1 {
                return Err(MoveRefusal::Renamed);
            }
            // At the last moment.
            if was.was_written(&stat) {
                return Err(MoveRefusal::Changed(directory.path_to(name)));
            }
        }
        if copy.is_some() {
            // A fast place that is full may not have room for it. Then the copy is still known as
            // long as no process changes it.
            let _ = Journal::change(base, |journal| {
                journal.course = MoveState::Naming;
                journal.destination = directory.path_to(name);
            });
        }
        let flags = if was.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(from, old, &**directory, name.as_c_str(), flags)?;
        // The name has to be durable before the journal goes. A user who may not list the directory
        // cannot make it so.
        match directory.sync() {
            Err(Errno::ACCESS) => {}
            synced => synced?,
        }
    }
    base.forget();
    Ok(())
}

/// Gives up a file that is ready: it is out of date.
pub(crate) fn give_up(ready: &Ready, base: &Base) {
    if let Ready::ToBeNamed { directory, copy: Some(copy), .. } = ready
        // Otherwise a missing copy would be taken for one that was renamed.
        && Journal::change(base, Journal::unname).is_ok()
    {
        let _ = rustix::fs::unlinkat(&**directory, copy.as_c_str(), AtFlags::empty());
    }
}

/// Removes the copy that a killed process has left of a file that is not needed any more.
pub(crate) fn remove_copy(base: &Base, journal: &Journal) {
    let paths = [Some(&journal.destination), journal.maybe.as_ref()];
    for path in paths.into_iter().flatten() {
        if let (Ok(Some((directory, _))), Ok(hidden)) = (said_place(base, path), base.hidden()) {
            let _ = rustix::fs::unlinkat(&*directory, hidden, AtFlags::empty());
        }
    }
}

/// Moves a file to its destination, if no process uses it.
pub(crate) fn move_unused(base: &Base, handle: Option<BorrowedFd<'_>>) -> Result<(), MoveRefusal> {
    match Claim::alone(base) {
        Ok(Some(claim)) => move_claimed(base, claim, handle),
        // Its user moves it.
        Ok(None) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives up a claim that was only needed for a moment. The process that closed the file last may
/// have found it in the way.
pub(crate) fn let_go(base: &Base, claim: Claim) {
    drop(claim);
    let _ = move_unused(base, None);
}

/// Moves a file to its destination that is claimed alone.
pub(crate) fn move_claimed(
    base: &Base,
    claim: Claim,
    handle: Option<BorrowedFd<'_>>,
) -> Result<(), MoveRefusal> {
    loop {
        let ready = prepare(base, handle)?;
        match commit(&ready, base).inspect_err(|_| give_up(&ready, base)) {
            Err(MoveRefusal::Renamed) => {}
            Err(refused) => return Err(refused),
            Ok(()) => break,
        }
    }
    claim.end(base);
    Ok(())
}

/// Copies bytes into what stands at the destination, and makes them durable.
pub(crate) fn fill_placeholder(
    base: &Base,
    journal: &mut Journal,
    source: &File,
    handle: BorrowedFd<'_>,
) -> Result<(), MoveRefusal> {
    let there = rustix::fs::fstat(handle)?;
    let copy = File::from(high(open_whatever_its_mode(handle, |path| {
        rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
    })?));
    if journal.course != MoveState::Copying {
        // The existing data is about to be overwritten: from here on the bytes on fast storage are
        // the only ones.
        source.sync_all()?;
        journal.course = MoveState::Copying;
        Journal::change(base, |journal| journal.course = MoveState::Copying)?;
        Journal::sync(base)?;
    }
    fill(source, &copy, Some((&journal.was, &there)))?;
    Ok(())
}

/// Opens the bytes at the fast place. They belong to the caller, or to the owner of the file.
pub(crate) fn open_data(base: &Base, was: &FormerDestination) -> Result<File, MoveRefusal> {
    let data = base.data();
    let path = CString::new(data.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let handle = open_handle(CWD, &path)?;
    let owner = trust::check_regular(&handle, &data)?.st_uid;
    if owner != rustix::process::geteuid().as_raw() && owner != was.owner() {
        return Err(trust::of_another(&data, owner).into());
    }
    let opened = open_whatever_its_mode(handle.as_fd(), |path| {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    })?;
    Ok(File::from(high(opened)))
}

/// Opens a file by a handle that stands for it. An open file stays usable, whatever its permissions
/// say now.
pub(crate) fn open_whatever_its_mode<T>(
    handle: BorrowedFd<'_>,
    open: impl Fn(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let path = path_by(handle)?;
    match open(&path) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(rustix::fs::fstat(handle)?.st_mode & 0o7777);
            let change = |mode| rustix::fs::chmodat(CWD, path.as_c_str(), mode, AtFlags::empty());
            change(mode | Mode::RUSR | Mode::WUSR)?;
            let opened = open(&path);
            change(mode)?;
            opened
        }
        opened => opened,
    }
}

/// A path that leads to what a handle stands for, even if that has no name.
pub(crate) fn path_by(handle: BorrowedFd<'_>) -> Result<CString, Errno> {
    // Of the thread: one that moves files has descriptors of its own.
    CString::new(format!("/proc/thread-self/fd/{}", handle.as_raw_fd())).map_err(|_| Errno::INVAL)
}

/// Opens a handle of what stands at the destination.
pub(crate) fn open_handle(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(high)
}

fn has_attributes(handle: &OwnedFd) -> bool {
    let mut names = [0_u8; 4096];
    let Ok(path) = path_by(handle.as_fd()) else { return true };
    match rustix::fs::listxattr(path.as_c_str(), &mut names[..]) {
        Ok(length) => names[..length]
            .split(|byte| *byte == 0)
            .any(|name| !name.is_empty() && !name.starts_with(b"security.")),
        Err(error) => error != Errno::OPNOTSUPP,
    }
}

/// What is at a path.
enum DestinationEntry {
    Placeholder(OwnedFd, Arc<Directory>, CString),
    Nothing(Arc<Directory>, CString),
    Other,
}

/// The directory and the name of a path; `None` if there is no such directory.
fn split(path: &Path) -> Result<Option<(Arc<Directory>, CString)>, Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let Ok(directory) = Directory::open(parent) else { return Ok(None) };
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
    Ok(Some((directory, name)))
}

/// The same for what a journal says: only where a rule of the fast place is for. The directory is
/// the one that was looked at, even if it is replaced meanwhile.
fn said_place(base: &Base, path: &Path) -> Result<Option<(Arc<Directory>, CString)>, MoveRefusal> {
    let found = split(path)?;
    match &found {
        Some((directory, _)) if !base.place().covers(directory) => {
            Err(MoveRefusal::Outside(base.place().sources()))
        }
        _ => Ok(found),
    }
}

fn look(base: &Base, place: Option<(Arc<Directory>, CString)>) -> Result<DestinationEntry, Errno> {
    let Some((directory, name)) = place else { return Ok(DestinationEntry::Other) };
    match open_handle(directory.as_fd(), &name) {
        Ok(found) => {
            let stat = rustix::fs::fstat(&found)?;
            let is_it = (stat.st_dev, stat.st_ino) == base.identity();
            Ok(if is_it {
                DestinationEntry::Placeholder(found, directory, name)
            } else {
                DestinationEntry::Other
            })
        }
        Err(Errno::NOENT) => Ok(DestinationEntry::Nothing(directory, name)),
        Err(_) => Ok(DestinationEntry::Other),
    }
}

/// Looks for what stands at the destination.
fn find(
    base: &Base,
    journal: &Journal,
    handle: Option<BorrowedFd<'_>>,
) -> Result<CopyDestination, MoveRefusal> {
    if let Some(handle) = handle {
        return Ok(find_by_handle(base, handle)?);
    }
    let is_named = was_named(base, journal)?;
    let mut free = None;
    let paths = [Some(&journal.destination), journal.maybe.as_ref()];
    for path in paths.into_iter().flatten() {
        let place = said_place(base, path)?;
        let is_copy = || place.as_ref().is_some_and(|place| is_copy(base, journal, place));
        match look(base, place.clone())? {
            // Another file may have got the inode since.
            DestinationEntry::Placeholder(found, ..)
                if is_named && !journal.was.is_same(&rustix::fs::fstat(&found)?) => {}
            DestinationEntry::Placeholder(found, directory, name) => {
                return Ok(CopyDestination::Placeholder(found, Some((directory, name))));
            }
            // The process ended after the copy had got its name.
            DestinationEntry::Other if is_copy() => return Ok(CopyDestination::Done),
            DestinationEntry::Other => {}
            DestinationEntry::Nothing(directory, name) => free = free.or(Some((directory, name))),
        }
    }
    match free {
        _ if is_named || base.may_be_gone() => Ok(CopyDestination::Done),
        Some((directory, name)) => Ok(CopyDestination::Nothing(directory, name)),
        None => Err(MoveRefusal::Changed(journal.destination.clone())),
    }
}

/// Whether the bytes of a file are not needed any more: its copy got its name, or it has lost its
/// last one; as far as that can be known.
pub(crate) fn is_obsolete(base: &Base, journal: &Journal) -> bool {
    matches!(find(base, journal, None), Ok(CopyDestination::Done))
}

/// Whether the copy of a file was renamed. Then the hidden name no longer exists.
fn was_named(base: &Base, journal: &Journal) -> Result<bool, MoveRefusal> {
    if journal.course != MoveState::Naming {
        return Ok(false);
    }
    let Some((directory, _)) = said_place(base, &journal.destination)? else { return Ok(false) };
    let hidden = rustix::fs::statat(&*directory, base.hidden()?, AtFlags::SYMLINK_NOFOLLOW);
    Ok(matches!(hidden, Err(Errno::NOENT)))
}

/// The same with a handle. The kernel knows its name, also after a rename.
fn find_by_handle(base: &Base, handle: BorrowedFd<'_>) -> Result<CopyDestination, Errno> {
    let mut before = None;
    loop {
        if rustix::fs::fstat(handle)?.st_nlink == 0 {
            return Ok(CopyDestination::Done);
        }
        let path = rustix::fs::readlink(path_by(handle)?.as_c_str(), Vec::new())?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path.as_bytes()));
        if let DestinationEntry::Placeholder(found, directory, name) = look(base, split(&path)?)? {
            return Ok(CopyDestination::Placeholder(found, Some((directory, name))));
        }
        // It is being renamed, or this name was removed and there are others.
        if before.as_ref() == Some(&path) {
            return Ok(CopyDestination::Placeholder(high_copy(handle)?, None));
        }
        before = Some(path);
    }
}

/// Whether a file is a copy of the data: the same bytes from the same time.
fn is_copy(base: &Base, journal: &Journal, (directory, name): &(Arc<Directory>, CString)) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let found = rustix::fs::openat(&**directory, name, flags, Mode::empty());
    match (open_data(base, &journal.was), found) {
        (Ok(data), Ok(found)) => are_same(&data, &File::from(high(found))).unwrap_or(false),
        _ => false,
    }
}

fn are_same(left: &File, right: &File) -> io::Result<bool> {
    use std::io::BufRead;
    let [about, other] = [left.metadata()?, right.metadata()?];
    let time = |found: &std::fs::Metadata| (found.mtime(), found.mtime_nsec());
    if !other.is_file() || about.len() != other.len() || time(&about) != time(&other) {
        return Ok(false);
    }
    let [mut left, mut right] = [io::BufReader::new(left), io::BufReader::new(right)];
    loop {
        let (a, b) = (left.fill_buf()?, right.fill_buf()?);
        let count = a.len().min(b.len());
        if count == 0 || a[..count] != b[..count] {
            return Ok(a.is_empty() && b.is_empty());
        }
        left.consume(count);
        right.consume(count);
    }
}

/// The error of the system behind one of the library.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
