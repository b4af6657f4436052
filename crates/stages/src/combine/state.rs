//! [`CombineState`]: everything that the stage buffers, under one lock.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use striate_process::reopen::Identity;
use striate_stack::descriptors::high;
use striate_stack::{OpenFile, StatInto};

use super::buffered_file::{BufferedFile, CombineHandle, Content};
use super::entry::{LogRecord, NameState};
use super::log::{AppendError, Log, now};
use crate::dentry::{Dentry, DentryKey, Directory};

/// Directories are kept open for buffered files in no more than so many of them.
const MOST_DIRECTORIES: usize = 64;

/// All that is buffered.
#[derive(Debug)]
pub(super) struct CombineState {
    /// In the order in which they were made.
    pub(super) buffered: BTreeMap<u64, BufferedFile>,
    pub(super) names: HashMap<DentryKey, u64>,
    pub(super) log: Option<Log>,
    directories: HashMap<Identity, Arc<Directory>>,
    /// What the descriptors of buffered files stand for.
    placeholder: Option<OwnedFd>,
    next: u64,
    /// Bytes of files that are being written.
    pub(super) in_memory: usize,
    /// Entries of the log that count.
    alive: usize,
    /// Where logs are, if not beside the files.
    pub(super) containers: Option<PathBuf>,
    /// How large a log may be.
    pub(super) capacity: u64,
    /// Why not all could be written out when that was tried last.
    pub(super) failed: Option<Errno>,
    /// A log that could not be given an index.
    pub(super) unsealed: Option<PathBuf>,
    /// The directory of the run, in which the path of the log is noted.
    pub(super) run: Option<PathBuf>,
}

impl CombineState {
    /// Nothing is buffered; files are counted from `next` on.
    pub(super) fn new(containers: Option<PathBuf>, capacity: u64, next: u64) -> Self {
        Self {
            buffered: BTreeMap::new(),
            names: HashMap::new(),
            log: None,
            directories: HashMap::new(),
            placeholder: None,
            next,
            in_memory: 0,
            alive: 0,
            containers,
            capacity,
            failed: None,
            unsealed: None,
            run: None,
        }
    }

    /// The buffered file of a name.
    pub(super) fn find(&self, key: &DentryKey) -> Option<u64> {
        self.names.get(key).copied()
    }

    /// Answers a `stat` of a name, if it is that of a buffered file.
    pub(super) fn stat(&mut self, place: &Dentry, into: &mut StatInto<'_>) -> bool {
        let id = self.find(&place.key());
        let buffered = id.and_then(|id| self.buffered.get_mut(&id));
        buffered.map(|buffered| buffered.stat(into)).is_some()
    }

    /// The buffered files in a directory.
    pub(super) fn in_directory(&self, directory: Identity) -> Vec<u64> {
        let mut ids: Vec<u64> =
            self.names.iter().filter(|(key, _)| key.0 == directory).map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// All that have a name.
    pub(super) fn named(&self) -> Vec<u64> {
        self.buffered
            .iter()
            .filter(|(_, buffered)| buffered.key.is_some())
            .map(|(id, _)| *id)
            .collect()
    }

    /// A directory, kept open.
    pub(super) fn directory(&mut self, place: &Dentry) -> Result<Arc<Directory>, Errno> {
        let identity = place.directory_identity();
        if let Some(directory) = self.directories.get(&identity) {
            return Ok(Arc::clone(directory));
        }
        if self.directories.len() >= MOST_DIRECTORIES {
            self.directories.retain(|_, directory| Arc::strong_count(directory) > 1);
        }
        if self.directories.len() >= MOST_DIRECTORIES {
            return Err(Errno::MFILE);
        }
        let directory = place.open_directory()?;
        self.directories.insert(identity, Arc::clone(&directory));
        Ok(directory)
    }

    /// A directory that was opened elsewhere, kept open.
    pub(super) fn keep_directory(&mut self, directory: Arc<Directory>) -> Arc<Directory> {
        Arc::clone(self.directories.entry(directory.identity()).or_insert(directory))
    }

    /// Whether the log is in a directory.
    pub(super) fn log_is_in(&self, directory: Identity) -> bool {
        self.log.as_ref().is_some_and(|log| log.directory().identity() == directory)
    }

    /// Forgets all directories.
    pub(super) fn forget_directories(&mut self) {
        self.directories.clear();
    }

    /// Forgets a directory that the program is about to change.
    pub(super) fn forget_directory(&mut self, directory: Identity) {
        self.directories.remove(&directory);
    }

    /// Adds a file. Returns its number.
    pub(super) fn add(&mut self, buffered: BufferedFile) -> u64 {
        self.next += 1;
        if let Some(key) = &buffered.key {
            self.names.insert(key.clone(), self.next);
        }
        self.in_memory += buffered.in_memory();
        self.buffered.insert(self.next, buffered);
        self.next
    }

    /// A new descriptor that stands for a buffered file, and its handle.
    pub(super) fn open(
        &mut self,
        id: u64,
        file: &Arc<OpenFile>,
        flags: i32,
        slot: usize,
    ) -> Result<RawFd, Errno> {
        let placeholder = self.placeholder()?;
        let opened = if flags & libc::O_CLOEXEC == 0 {
            // SAFETY: a system call without memory.
            let descriptor = unsafe { libc::fcntl(placeholder, libc::F_DUPFD, 0) };
            if descriptor < 0 {
                return Err(Errno::MFILE);
            }
            // SAFETY: it is new.
            unsafe { OwnedFd::from_raw_fd(descriptor) }
        } else {
            rustix::io::fcntl_dupfd_cloexec(striate_stack::descriptors::borrow(placeholder), 0)?
        };
        let buffered = self.buffered.get_mut(&id).ok_or(Errno::NOENT)?;
        buffered.handles.push(Arc::downgrade(file));
        let opened = opened.into_raw_fd();
        file.set_state(slot, CombineHandle::new(id, opened));
        // The placeholder has only one, for all.
        file.keep_position(0);
        Ok(opened)
    }

    /// A file that is always empty, for descriptors of buffered files: whatever reaches the kernel
    /// by mistake fails, and is not lost silently.
    fn placeholder(&mut self) -> Result<RawFd, Errno> {
        if self.placeholder.is_none() {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("striate-combine", flags)?;
            let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&file, seals)?;
            self.placeholder = Some(high(file));
        }
        self.placeholder.as_ref().map(AsRawFd::as_raw_fd).ok_or(Errno::IO)
    }

    /// Whether a descriptor is still a placeholder.
    pub(super) fn is_placeholder(&self, descriptor: RawFd) -> bool {
        let identity = |descriptor: RawFd| {
            rustix::fs::fstat(striate_stack::descriptors::borrow(descriptor))
                .map(|stat| (stat.st_dev, stat.st_ino))
                .ok()
        };
        let own = self.placeholder.as_ref().and_then(|own| identity(own.as_raw_fd()));
        own.is_some() && own == identity(descriptor)
    }

    /// One open file less. A file without a name that is not open is dropped.
    pub(super) fn close(&mut self, id: u64, file: &Arc<OpenFile>) {
        let Some(buffered) = self.buffered.get_mut(&id) else { return };
        let closed = Arc::downgrade(file);
        buffered.handles.retain(|other| !Weak::ptr_eq(other, &closed));
        if buffered.key.is_none() && buffered.handles.is_empty() {
            self.in_memory -= buffered.in_memory();
            self.buffered.remove(&id);
        }
    }

    /// Changes the bytes of a file, and counts the memory.
    pub(super) fn change<T>(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> Result<T, Errno> {
        let buffered = self.buffered.get_mut(&id).ok_or(Errno::IO)?;
        self.in_memory -= buffered.in_memory();
        let outcome = buffered.bytes_mut(self.log.as_ref()).map(change);
        self.in_memory += buffered.in_memory();
        if outcome.is_ok() {
            buffered.note_change();
        }
        outcome
    }

    /// Puts the bytes of a file into the log: from now on a kill does not lose them.
    pub(super) fn store(&mut self, id: u64) -> Result<(), AppendError> {
        let Some(buffered) = self.buffered.get(&id) else { return Ok(()) };
        let Content::Memory(bytes) = &buffered.content else { return Ok(()) };
        let entry = LogRecord {
            said: NameState::File,
            directory: buffered.directory.path().as_os_str().as_bytes(),
            name: buffered.name.to_bytes(),
            mode: buffered.mode,
            modified: buffered.modified,
            replaces: buffered.stored.map_or(0, |at| at.entry),
            time: now(),
            data: bytes,
        };
        let place = self.containers.clone();
        let (capacity, run) = (self.capacity, self.run.as_deref());
        let log = log(&mut self.log, &buffered.directory, place.as_deref(), capacity, run)?;
        let at = log.append(&entry)?;
        self.alive += usize::from(buffered.stored.is_none());
        if let Some(buffered) = self.buffered.get_mut(&id) {
            self.in_memory -= buffered.in_memory();
            (buffered.stored, buffered.content, buffered.changed) =
                (Some(at), Content::Stored(at), false);
        }
        Ok(())
    }

    /// A file was written out, or removed: nothing of it is buffered.
    pub(super) fn is_materialized(&mut self, id: u64) {
        let Some(mut buffered) = self.buffered.remove(&id) else { return };
        self.in_memory -= buffered.in_memory();
        if let Some(key) = buffered.key.take() {
            self.names.remove(&key);
        }
        self.drop_entry(&buffered);
    }

    /// A name was removed. Open files stay usable.
    pub(super) fn unname(&mut self, id: u64) {
        if self.buffered.get(&id).is_none_or(|buffered| !buffered.is_open()) {
            return self.is_materialized(id);
        }
        let log = self.log.as_ref();
        let Some(buffered) = self.buffered.get_mut(&id) else { return };
        self.in_memory -= buffered.in_memory();
        // The log may start again without it.
        let kept = buffered.bytes_mut(log).is_ok();
        debug_assert!(kept);
        self.in_memory += buffered.in_memory();
        if let Some(key) = buffered.key.take() {
            self.names.remove(&key);
        }
        let gone = BufferedFile {
            stored: buffered.stored.take(),
            content: Content::Memory(Vec::new()),
            directory: Arc::clone(&buffered.directory),
            name: buffered.name.clone(),
            handles: Vec::new(),
            key: None,
            ..*buffered
        };
        self.drop_entry(&gone);
    }

    /// The entry of a file does not count any more.
    fn drop_entry(&mut self, buffered: &BufferedFile) {
        if buffered.kept {
            self.alive += usize::from(self.note_removed(buffered).is_ok());
        }
        if let (Some(at), Some(log)) = (buffered.stored, &mut self.log) {
            let _ = log.kill(at);
            self.alive -= 1;
            if self.alive == 0 {
                let _ = log.reset();
            }
        }
    }

    /// Gives a file another name in the log and here; what had that name before has none any more.
    pub(super) fn rename(
        &mut self,
        id: u64,
        place: &Dentry,
        directory: Arc<Directory>,
    ) -> Result<(), AppendError> {
        let Some(buffered) = self.buffered.get(&id) else { return Ok(()) };
        let name = place.name().to_owned();
        if let Some(at) = buffered.stored {
            // What the last close left goes under the new name; what was written since stays where
            // it is.
            let log = self.log.as_mut().ok_or(AppendError::Failed(Errno::IO))?;
            let stored = log.bytes(at)?.into_owned();
            let entry = LogRecord {
                said: NameState::File,
                directory: directory.path().as_os_str().as_bytes(),
                name: name.to_bytes(),
                mode: buffered.mode,
                modified: buffered.modified,
                replaces: at.entry,
                time: now(),
                data: &stored,
            };
            let at = log.append(&entry)?;
            if let Some(buffered) = self.buffered.get_mut(&id) {
                buffered.stored = Some(at);
                if let Content::Stored(content) = &mut buffered.content {
                    *content = at;
                }
            }
        }
        let Some(buffered) = self.buffered.get_mut(&id) else { return Ok(()) };
        buffered.touched = super::buffered_file::file_time();
        buffered.name = name;
        buffered.directory = directory;
        if let Some(key) = buffered.key.replace(place.key()) {
            self.names.remove(&key);
        }
        if let Some(replaced) = self.names.insert(place.key(), id) {
            // Its name is not its own any more, and what a container says of that is for the new
            // one to take back: its entry is later.
            let kept = self.buffered.get_mut(&replaced).is_some_and(|other| {
                other.key = None;
                std::mem::take(&mut other.kept)
            });
            if let Some(buffered) = self.buffered.get_mut(&id) {
                buffered.kept = kept;
            }
            self.unname(replaced);
        }
        Ok(())
    }

    /// Records in the log the removal of a name that an earlier container has.
    fn note_removed(&mut self, buffered: &BufferedFile) -> Result<(), AppendError> {
        let entry = LogRecord {
            said: NameState::Removed,
            directory: buffered.directory.path().as_os_str().as_bytes(),
            name: buffered.name.to_bytes(),
            mode: 0,
            modified: buffered.modified,
            replaces: buffered.stored.map_or(0, |at| at.entry),
            time: now(),
            data: &[],
        };
        let place = self.containers.clone();
        let (capacity, run) = (self.capacity, self.run.as_deref());
        log(&mut self.log, &buffered.directory, place.as_deref(), capacity, run)?.append(&entry)?;
        Ok(())
    }

    /// Forgets a file, whatever the log or a container says of it.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(buffered) = self.buffered.remove(&id) {
            self.in_memory -= buffered.in_memory();
            if let Some(key) = &buffered.key {
                self.names.remove(key);
            }
        }
    }

    /// Lets the log start again, if nothing in it counts any more.
    pub(super) fn reset_log(&mut self) {
        if self.alive == 0
            && let Some(log) = &mut self.log
        {
            let _ = log.reset();
        }
    }

    /// Gives the log an index and a name that stays. Returns its path, if there was something in
    /// it.
    pub(super) fn seal_log(&mut self) -> Result<Option<PathBuf>, Errno> {
        match self.log.take() {
            Some(log) if log.is_empty() || self.alive == 0 => log.unlink().map(|()| None),
            Some(log) => {
                self.alive = 0;
                let path = log.path();
                log.seal().inspect_err(|_| self.unsealed = Some(path)).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Removes the log if nothing in it counts any more. If that is not possible now, it is tried
    /// again later.
    pub(super) fn drop_log(&mut self) {
        if self.alive == 0
            && let Some(log) = &self.log
            && matches!(log.unlink(), Ok(()) | Err(Errno::NOENT))
        {
            self.log = None;
        }
    }

    /// This is another process: what is buffered belongs to the one that it was copied from.
    pub(super) fn start_anew(&mut self) {
        let run = self.run.take();
        *self = Self::new(self.containers.take(), self.capacity, self.next);
        self.run = run;
    }
}

impl From<Errno> for AppendError {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

/// The log; a new one if there is none, in `directory`, or else where the file is.
fn log<'l>(
    log: &'l mut Option<Log>,
    beside: &Arc<Directory>,
    directory: Option<&Path>,
    capacity: u64,
    run: Option<&Path>,
) -> Result<&'l mut Log, AppendError> {
    if log.is_none() {
        let directory = match directory {
            Some(path) => Directory::open(path).or_else(|_| {
                let _ = std::fs::create_dir_all(path);
                Directory::open(path)
            })?,
            None => Arc::clone(beside),
        };
        *log = Some(Log::create(directory, capacity, run)?);
    }
    log.as_mut().ok_or(AppendError::Failed(Errno::IO))
}

/// The name of a file as C has it.
pub(super) fn c_name(name: &[u8]) -> CString {
    CString::new(name).unwrap_or_default()
}
