//! Files go to their destination.
//!
//! A file gets there at once, when nobody has it open: it is copied to a hidden name, made durable, and renamed over what
//! stood for it. Where that inode has to stay – somebody has the file open, it has several names or attributes, is
//! another user's – the bytes are copied into it, and the journal says so until they are durable: who is interrupted
//! begins again.
//!
//! Once a copy has its name, others may write to it, replace or remove it as they like: the bytes at the fast place are out
//! of date from then on, whatever is at the destination. So the journal says that the copy is being named, and that it
//! was is seen from its hidden name, which is gone.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::claim::{Base, Claim};
use super::copying::{fill, give};
use super::journal::{Course, Journal, Was};
use crate::place::Directory;

/// A file is not moved.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Somebody else has written to what stands at the destination, or has put something else there.
    Changed(PathBuf),
    /// It was renamed or removed meanwhile: one has to begin again.
    Renamed,
    /// The system says so.
    System(Errno),
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::System(errno(&error))
    }
}

impl Refused {
    /// What a `close` says of it.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Self::Changed(_) => Errno::STALE,
            Self::Renamed => Errno::BUSY,
            Self::System(error) => *error,
        }
    }
}

/// A file whose bytes are at the file system of the destination.
#[derive(Debug)]
pub(crate) enum Ready {
    /// It only needs its name, in this directory; itself if there is no copy of this name.
    /// What is there to be replaced has to be as it `was`.
    ToBeNamed { directory: Arc<Directory>, name: CString, copy: Option<CString>, was: Option<Was> },
    /// It is there, or nobody has a name for it.
    Done,
}

/// What stands at the destination.
enum There {
    /// What is to be replaced or filled, and its name, if that is known.
    Placeholder(OwnedFd, Option<(Arc<Directory>, CString)>),
    /// Nothing.
    Nothing(Arc<Directory>, CString),
    /// Nobody needs the bytes.
    Done,
}

/// Brings the bytes to the file system of the destination, and makes them durable. `handle` stands for what is at the
/// destination, if it is known. The caller has claimed the file alone.
pub(crate) fn prepare(base: &Base, handle: Option<BorrowedFd<'_>>) -> Result<Ready, Refused> {
    let Some(mut journal) = Journal::read(base)? else { return Ok(Ready::Done) };
    let source = match open_data(base) {
        Ok(source) => source,
        Err(Errno::NOENT) => return Ok(Ready::Done),
        Err(error) => return Err(error.into()),
    };
    let (directory, name, there) = match find(base, &journal, handle)? {
        There::Done => {
            remove_copy(base, &journal);
            return Ok(Ready::Done);
        }
        There::Nothing(directory, name) => (directory, name, None),
        There::Placeholder(handle, named) => {
            let there = rustix::fs::fstat(&handle)?;
            let is_half = journal.course == Course::Copying;
            if !is_half && journal.was.was_written(&there) {
                return Err(Refused::Changed(journal.destination));
            }
            let is_ours = journal.was.has_owner_of(&source.metadata()?);
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
    let copy = if std::os::unix::fs::MetadataExt::dev(&data) == directory.identity().0 {
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
        if let Err(error) = fill(&source, &File::from(made), rights) {
            let _ = rustix::fs::unlinkat(&*directory, &hidden, AtFlags::empty());
            return Err(error.into());
        }
        Some(hidden)
    };
    let was = there.map(|_| journal.was);
    Ok(Ready::ToBeNamed { directory, name, copy, was })
}

/// Gives a file that is ready its name at the destination, in place of what stands there.
pub(crate) fn commit(ready: &Ready, base: &Base) -> Result<(), Refused> {
    if let Ready::ToBeNamed { directory, name, copy, was } = ready {
        let fast = base.data();
        let (from, old) = match copy {
            Some(copy) => (directory.as_fd(), copy.as_bytes()),
            None => (CWD, fast.as_os_str().as_bytes()),
        };
        if let Some(was) = was {
            let stat = rustix::fs::statat(&**directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(|_| Refused::Renamed)?;
            // A link that was made meanwhile has to stay with it.
            if (stat.st_dev, stat.st_ino) != base.identity() || stat.st_nlink > 1 {
                return Err(Refused::Renamed);
            }
            // At the last moment.
            if was.was_written(&stat) {
                return Err(Refused::Changed(directory.path_to(name)));
            }
        }
        if copy.is_some() {
            // A fast place that is full may not have room for it. Then the copy is still known as long as nobody
            // changes it.
            let _ = Journal::change(base, |journal| {
                journal.course = Course::Naming;
                journal.destination = directory.path_to(name);
            });
        }
        let flags = if was.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(from, old, &**directory, name.as_c_str(), flags)?;
        // The name has to be durable before the journal goes.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(opened) = rustix::fs::openat(directory.as_fd(), c".", flags, Mode::empty()) {
            rustix::fs::fsync(opened)?;
        }
    }
    base.forget();
    Ok(())
}

/// Gives up a file that is ready: it is out of date.
pub(crate) fn give_up(ready: &Ready, base: &Base) {
    if let Ready::ToBeNamed { directory, copy: Some(copy), .. } = ready
        // Else a copy that is gone would be one that has got its name.
        && Journal::change(base, Journal::unname).is_ok()
    {
        let _ = rustix::fs::unlinkat(&**directory, copy.as_c_str(), AtFlags::empty());
    }
}

/// Removes the copy that who was killed has left of a file that nobody needs any more.
pub(crate) fn remove_copy(base: &Base, journal: &Journal) {
    let paths = [Some(&journal.destination), journal.maybe.as_ref()];
    for parent in paths.into_iter().flatten().filter_map(|path| path.parent()) {
        if let (Ok(directory), Ok(hidden)) = (Directory::open(parent), base.hidden()) {
            let _ = rustix::fs::unlinkat(&*directory, hidden, AtFlags::empty());
        }
    }
}

/// Moves a file to its destination that nobody uses, if it is so.
pub(crate) fn move_unused(base: &Base, handle: Option<BorrowedFd<'_>>) -> Result<(), Refused> {
    match Claim::alone(base) {
        Ok(Some(claim)) => move_claimed(base, claim, handle),
        // Who uses it moves it.
        Ok(None) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives up a claim that was only needed for a moment. Who has closed the file last may have found it in the way.
pub(crate) fn let_go(base: &Base, claim: Claim) {
    drop(claim);
    let _ = move_unused(base, None);
}

/// Moves a file to its destination that is claimed alone.
pub(crate) fn move_claimed(
    base: &Base,
    claim: Claim,
    handle: Option<BorrowedFd<'_>>,
) -> Result<(), Refused> {
    loop {
        let ready = prepare(base, handle)?;
        match commit(&ready, base).inspect_err(|_| give_up(&ready, base)) {
            Err(Refused::Renamed) => {}
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
) -> Result<(), Refused> {
    let there = rustix::fs::fstat(handle)?;
    let copy = File::from(open_whatever_its_mode(handle, |path| {
        rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
    })?);
    if journal.course != Course::Copying {
        journal.course = Course::Copying;
        Journal::change(base, |journal| journal.course = Course::Copying)?;
        File::open(base.journal())?.sync_all()?;
    }
    fill(source, &copy, Some((&journal.was, &there)))?;
    Ok(())
}

/// Opens the bytes at the fast place.
pub(crate) fn open_data(base: &Base) -> Result<File, Errno> {
    let path = CString::new(base.data().as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let handle = open_handle(CWD, &path)?;
    let opened = open_whatever_its_mode(handle.as_fd(), |path| {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    });
    opened.map(File::from)
}

/// Opens a file by a handle that stands for it. Who has it open may go on, whatever its permissions say now.
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
    CString::new(format!("/proc/self/fd/{}", handle.as_raw_fd())).map_err(|_| Errno::INVAL)
}

/// Opens a handle of what stands at the destination.
pub(crate) fn open_handle(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
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
enum At {
    Placeholder(OwnedFd, Arc<Directory>, CString),
    Nothing(Arc<Directory>, CString),
    Other,
}

fn look(base: &Base, path: &Path) -> Result<At, Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(At::Other);
    };
    let Ok(directory) = Directory::open(parent) else { return Ok(At::Other) };
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
    match open_handle(directory.as_fd(), &name) {
        Ok(found) => {
            let stat = rustix::fs::fstat(&found)?;
            let is_it = (stat.st_dev, stat.st_ino) == base.identity();
            Ok(if is_it { At::Placeholder(found, directory, name) } else { At::Other })
        }
        Err(Errno::NOENT) => Ok(At::Nothing(directory, name)),
        Err(_) => Ok(At::Other),
    }
}

/// Looks for what stands at the destination.
fn find(base: &Base, journal: &Journal, handle: Option<BorrowedFd<'_>>) -> Result<There, Refused> {
    if let Some(handle) = handle {
        return Ok(find_by_handle(base, handle)?);
    }
    let is_named = was_named(base, journal);
    let mut free = None;
    let paths = [Some(&journal.destination), journal.maybe.as_ref()];
    for path in paths.into_iter().flatten() {
        match look(base, path)? {
            // Another file may have got the inode since.
            At::Placeholder(found, ..)
                if is_named && !journal.was.is_same(&rustix::fs::fstat(&found)?) => {}
            At::Placeholder(found, directory, name) => {
                return Ok(There::Placeholder(found, Some((directory, name))));
            }
            // The process ended after the copy had got its name.
            At::Other if is_copy(&base.data(), path).unwrap_or(false) => return Ok(There::Done),
            At::Other => {}
            At::Nothing(directory, name) => free = free.or(Some((directory, name))),
        }
    }
    match free {
        _ if is_named || base.may_be_gone() => Ok(There::Done),
        Some((directory, name)) => Ok(There::Nothing(directory, name)),
        None => Err(Refused::Changed(journal.destination.clone())),
    }
}

/// Whether nobody needs the bytes of a file any more: its copy got its name, or it has lost its last one; as far as that
/// can be known.
pub(crate) fn is_obsolete(base: &Base, journal: &Journal) -> bool {
    matches!(find(base, journal, None), Ok(There::Done))
}

/// Whether the copy of a file has got its name. Then the hidden one is not there any more.
fn was_named(base: &Base, journal: &Journal) -> bool {
    let hidden = || {
        let directory = Directory::open(journal.destination.parent()?).ok()?;
        let hidden = base.hidden().ok()?;
        Some(rustix::fs::statat(&*directory, hidden, AtFlags::SYMLINK_NOFOLLOW))
    };
    journal.course == Course::Naming && matches!(hidden(), Some(Err(Errno::NOENT)))
}

/// The same with a handle. The kernel knows its name, whoever has renamed it.
fn find_by_handle(base: &Base, handle: BorrowedFd<'_>) -> Result<There, Errno> {
    let mut before = None;
    loop {
        if rustix::fs::fstat(handle)?.st_nlink == 0 {
            return Ok(There::Done);
        }
        let path = rustix::fs::readlink(path_by(handle)?.as_c_str(), Vec::new())?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path.as_bytes()));
        if let At::Placeholder(found, directory, name) = look(base, &path)? {
            return Ok(There::Placeholder(found, Some((directory, name))));
        }
        // It is being renamed, or this name was removed and there are others.
        if before.as_ref() == Some(&path) {
            return Ok(There::Placeholder(rustix::io::fcntl_dupfd_cloexec(handle, 0)?, None));
        }
        before = Some(path);
    }
}

/// Whether a file is a copy of the data: the same bytes from the same time.
fn is_copy(data: &Path, path: &Path) -> io::Result<bool> {
    use std::io::BufRead;
    use std::os::unix::fs::MetadataExt;
    let (left, right) = (std::fs::metadata(data)?, std::fs::symlink_metadata(path)?);
    let time = |found: &std::fs::Metadata| (found.mtime(), found.mtime_nsec());
    if !right.is_file() || left.len() != right.len() || time(&left) != time(&right) {
        return Ok(false);
    }
    let [mut left, mut right] =
        [io::BufReader::new(File::open(data)?), io::BufReader::new(File::open(path)?)];
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
