//! [`Claim`]: the lock of a process that uses a file on fast storage, or writes to it at its
//! destination.
//!
//! Each process holds a shared lock on a lock file next to the bytes while it has the file open,
//! and loses it when it is killed. The process that holds the lock exclusively may move the bytes.
//! These are open file description locks (`F_OFD_SETLK`): a forked process has them as well, and
//! the upgrade of a shared lock either succeeds or changes nothing.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use striate_process::reopen::Identity;
use striate_stack::descriptor_table::{self, SharedDescriptor};
use striate_stack::descriptors::high;

use super::fast_place::FastPlace;
use crate::trust::{self, UntrustedPath};

/// How the files there end.
const LOCK: &str = "lock";
const JOURNAL: &str = "journal";
const DATA: &str = "data";
const FETCHED: &str = "fetched";
const GONE: &str = "gone";

/// The files beneath a fast place that stand for one at its destination, which is known by its
/// device and inode.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    place: Arc<FastPlace>,
    directory: PathBuf,
    identity: Identity,
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        (&self.directory, self.identity) == (&other.directory, other.identity)
    }
}

impl Base {
    /// Those of a file below a directory on fast storage, which exists and is trusted.
    pub(crate) fn new(place: &Arc<FastPlace>, identity: Identity) -> Result<Self, UntrustedPath> {
        let directory = place.moves()?;
        Ok(Self { place: Arc::clone(place), directory, identity })
    }

    /// The same; the directory is created if it does not exist.
    pub(crate) fn made(place: &Arc<FastPlace>, identity: Identity) -> Result<Self, UntrustedPath> {
        place.make()?;
        Self::new(place, identity)
    }

    /// All that are beneath a fast place.
    pub(crate) fn all(place: &Arc<FastPlace>) -> std::io::Result<Vec<Self>> {
        let mut all = Vec::new();
        let directory = match place.moves() {
            Err(distrust) if distrust.is_absent() => return Ok(all),
            directory => directory?,
        };
        let list = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(all),
            list => list?,
        };
        for entry in list {
            let name = entry?.file_name();
            let identity = name.to_str().and_then(|name| {
                let (device, inode) = name.strip_suffix(".lock")?.split_once('-')?;
                Some((device.parse().ok()?, inode.parse().ok()?))
            });
            all.extend(identity.map(|identity| Self {
                place: Arc::clone(place),
                directory: directory.clone(),
                identity,
            }));
        }
        all.sort_by_key(|base| base.identity);
        Ok(all)
    }

    /// Removes what processes that were killed have left beneath a fast place of files that no
    /// longer exist.
    pub(crate) fn clean(place: &FastPlace) {
        let Ok(directory) = place.moves() else { return };
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some((number, ending)) = name.to_str().and_then(|name| name.split_once('.')) else {
                continue;
            };
            // A lock is the first to come and the last to go.
            let is_left = ending != DATA && ending != LOCK;
            if is_left && !directory.join(format!("{number}.{LOCK}")).exists() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        remove_unused(&directory);
    }

    fn file(&self, ending: &str) -> PathBuf {
        let (device, inode) = self.identity;
        self.directory.join(format!("{device}-{inode}.{ending}"))
    }

    /// The fast place.
    pub(crate) fn place(&self) -> &FastPlace {
        &self.place
    }

    /// What stands for the file at its destination.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Its bytes.
    pub(crate) fn data(&self) -> PathBuf {
        self.file(DATA)
    }

    /// A copy of what is at the destination, before it is whole and known to the journal: it is not
    /// taken for the file.
    pub(crate) fn fetched(&self) -> PathBuf {
        self.file(FETCHED)
    }

    /// Where they belong.
    pub(crate) fn journal(&self) -> PathBuf {
        self.file(JOURNAL)
    }

    /// The lock file.
    pub(crate) fn lock(&self) -> PathBuf {
        self.file(LOCK)
    }

    /// How a copy at the destination is called before it is whole: it is hidden.
    pub(crate) fn hidden(&self) -> Result<CString, Errno> {
        let (device, inode) = self.identity;
        CString::new(format!(".striate-move-{device}-{inode}")).map_err(|_| Errno::INVAL)
    }

    /// Whether its bytes are at the fast place.
    pub(crate) fn has_data(&self) -> bool {
        std::fs::symlink_metadata(self.data()).is_ok_and(|data| data.is_file())
    }

    /// The last name of the file is about to be removed: if it is not found where it belongs, it is
    /// not to be found.
    pub(crate) fn mark_gone(&self) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = rustix::fs::open(self.file(GONE), flags, Mode::RUSR | Mode::WUSR);
    }

    /// It has a name.
    pub(crate) fn unmark_gone(&self) {
        let _ = std::fs::remove_file(self.file(GONE));
    }

    /// Whether it may have lost its last name.
    pub(crate) fn may_be_gone(&self) -> bool {
        self.file(GONE).exists()
    }

    /// Removes all but the lock. The bytes go first: a journal without them has no effect.
    pub(crate) fn forget(&self) {
        for ending in [DATA, FETCHED, JOURNAL, GONE] {
            let _ = std::fs::remove_file(self.file(ending));
        }
    }

    /// Makes the names of its files durable.
    pub(crate) fn sync_names(&self) -> Result<(), Errno> {
        crate::dentry::Directory::open_by(&self.directory)?.sync()
    }
}

/// A lock on a file at a fast place.
#[derive(Debug)]
pub(crate) struct Claim(SharedDescriptor);

impl Claim {
    /// Claims a file shared; `None` if no process has claimed it yet, unless it is to be `made`.
    /// `AGAIN`: a process has it exclusively, for a while.
    pub(crate) fn common(base: &Base, made: bool) -> Result<Option<Self>, Errno> {
        Self::take(base, made, libc::F_RDLCK)
    }

    /// Claims a file exclusively; `None` if no process had claimed it. `AGAIN`: a process uses it.
    pub(crate) fn alone(base: &Base) -> Result<Option<Self>, Errno> {
        Self::take(base, false, libc::F_WRLCK)
    }

    fn take(base: &Base, made: bool, kind: i32) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let flags = if made { flags | OFlags::CREATE } else { flags };
        loop {
            let opened = match rustix::fs::open(base.lock(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(opened) => opened,
                Err(Errno::NOENT) if made => {
                    base.place.make().map_err(|distrust| distrust.errno())?;
                    continue;
                }
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error),
            };
            descriptor_table::close_unused();
            let claim = Self(SharedDescriptor::new(high(opened)));
            // One that is being removed has no name.
            let opened = claim.0.local()?;
            trust::check_file(&opened, &base.lock()).map_err(|distrust| distrust.errno())?;
            claim.set(kind)?;
            // Its exclusive holder may have removed it.
            if rustix::fs::fstat(&opened)?.st_nlink > 0 {
                drop(opened);
                return Ok(Some(claim));
            }
        }
    }

    fn set(&self, kind: i32) -> Result<(), Errno> {
        // SAFETY: all of it are numbers, for which zero is a value: the whole file.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as i16;
        let here = self.0.local()?;
        let number = here.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open, and the structure is valid.
        let set = unsafe { libc::fcntl(number, libc::F_OFD_SETLK, &raw const lock) };
        if set == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match super::failed(&error) {
            Errno::ACCESS => Err(Errno::AGAIN),
            error => Err(error),
        }
    }

    /// Makes it exclusive, if no other process has it; else it is as it was.
    pub(crate) fn make_alone(&self) -> bool {
        self.set(libc::F_WRLCK).is_ok()
    }

    /// Others may have it as well.
    pub(crate) fn make_common(&self) {
        let _ = self.set(libc::F_RDLCK);
    }

    /// Lets programs have it that take the place of this one, or are started by it.
    pub(crate) fn leave_to_programs(&self) {
        if let Ok(here) = self.0.local() {
            let _ = rustix::io::fcntl_setfd(here, FdFlags::empty());
        }
    }

    /// Ends one that is held alone: nothing of the file is at the fast place any more.
    pub(crate) fn end(self, base: &Base) {
        let _ = std::fs::remove_file(base.lock());
        drop(self.0);
        remove_unused(&base.directory);
    }
}

/// Opens a directory to lock it, where it is out of the program's way: it may be held while the
/// program opens a file.
fn open_directory(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(high(rustix::fs::open(path, flags, Mode::empty())?).into())
}

/// Removes the directory if it is empty, and no process is making a file.
fn remove_unused(directory: &Path) {
    if let Ok(lock) = open_directory(directory)
        && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        let _ = std::fs::remove_dir(directory);
    }
}

/// Files are being made whose bytes will be at a fast place: a process that finds an empty file
/// waits until it is known which.
#[derive(Debug)]
pub(crate) struct Creating {
    _lock: File,
}

impl Creating {
    /// Begins. `AGAIN`: a process is looking.
    pub(crate) fn begin(place: &FastPlace) -> Result<Self, Errno> {
        loop {
            let directory = place.make().map_err(|distrust| distrust.errno())?;
            match open_directory(&directory) {
                Ok(lock) => {
                    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)?;
                    if rustix::fs::fstat(&lock)?.st_nlink > 0 {
                        return Ok(Self { _lock: lock });
                    }
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps other processes from making files or changing names. `AGAIN`: one is doing so.
    pub(crate) fn none(place: &FastPlace) -> Result<Option<File>, Errno> {
        // Where there is no directory there are no files.
        let Ok(directory) = place.moves() else { return Ok(None) };
        let Ok(lock) = open_directory(&directory) else { return Ok(None) };
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Some(lock))
    }
}

/// Waiting for others, which has an end.
#[derive(Debug)]
pub(crate) struct BoundedWait {
    begun: Instant,
    pause: Duration,
}

impl BoundedWait {
    /// As long as any process moves a file.
    const MOST: Duration = Duration::from_secs(600);

    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), pause: Duration::from_micros(50) }
    }

    /// Waits a little; an error if that was done for too long.
    pub(crate) fn wait(&mut self) -> Result<(), Errno> {
        if self.begun.elapsed() > Self::MOST {
            return Err(Errno::BUSY);
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(5));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_common_or_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = FastPlace::new(directory.path(), &[]);
        let base = Base::new(&place, (7, 12)).unwrap();
        assert!(Claim::common(&base, false).unwrap().is_none());
        let first = Claim::common(&base, true).unwrap().unwrap();
        let second = Claim::common(&base, false).unwrap().unwrap();
        assert!(!first.make_alone() && !second.make_alone());
        assert_eq!(Claim::alone(&base).err(), Some(Errno::AGAIN));
        drop(second);
        assert!(first.make_alone());
        assert_eq!(Claim::common(&base, false).err(), Some(Errno::AGAIN));
        first.make_common();
        let third = Claim::common(&base, false).unwrap().unwrap();
        drop(first);
        assert_eq!(Base::all(&place).unwrap(), std::slice::from_ref(&base));
        assert!(third.make_alone());
        third.end(&base);
        assert!(Claim::alone(&base).unwrap().is_none());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn who_finds_an_empty_file_waits_for_who_makes_one() {
        let directory = tempfile::tempdir().unwrap();
        let place = FastPlace::new(directory.path(), &[]);
        let no_maker = || Creating::none(&place).is_ok();
        assert!(no_maker());
        let [one, two] = [(); 2].map(|()| Creating::begin(&place).unwrap());
        drop(one);
        assert!(!no_maker());
        drop(two);
        assert!(no_maker());
    }
}
