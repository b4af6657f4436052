//! [`Log`]: the file that holds the contents of closed files until they are written out.
//!
//! It is a file that is mapped into memory and filled by copying. What is stored there belongs to
//! the kernel from the moment of the store: a `kill -9` of the process loses none of it, and no
//! system call was needed. A loss of power does lose it. The file is always allocated before it is
//! touched, so that a full disk is an error of `fallocate` and not a signal. Where a file system
//! cannot do that, each entry is a write.
//!
//! The invariant behind the `unsafe` blocks: `base` points to `capacity` mapped bytes while the log
//! lives, of which the first `allocated` are backed by the file, and nothing beyond those is
//! touched.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use striate_process::limits;
use striate_stack::descriptors::high;

use super::container::{index_length, sealed_name, write_index};
use super::entry::{DEAD, FIRST, HEADER, LOG_MAGIC, LogRecord, VERSION};
use crate::dentry::Directory;

/// How logs are called: they are hidden.
pub(super) const PREFIX: &str = ".striate-combine-";
/// How those that stay are called.
pub(super) const SEALED: &str = ".combined";

/// How notes of logs end, in the directory of a run.
pub(crate) const NOTE: &str = "combining";

/// The file grows by this at first, and by twice as much each time …
const FIRST_STEP: u64 = 1 << 20;
/// … up to this.
const MOST_STEP: u64 = 32 << 20;

/// Where something is in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPosition {
    /// The entry.
    pub(super) entry: u64,
    /// Its data.
    pub(super) data: u64,
    /// Their length.
    pub(super) length: usize,
}

/// Why something was not added.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AppendError {
    /// The log is as large as it may be.
    Full,
    /// The kernel says no.
    Failed(Errno),
}

/// A log that this process writes.
#[derive(Debug)]
pub(super) struct Log {
    directory: Arc<Directory>,
    name: CString,
    /// The file that records that the log exists.
    note: Option<PathBuf>,
    file: File,
    base: Option<NonNull<u8>>,
    allocated: u64,
    step: u64,
    capacity: u64,
    generation: u64,
    end: u64,
    /// Where entries are, for the index.
    entries: Vec<u64>,
}

// SAFETY: the mapping belongs to the log alone; it is changed by `&mut self` only, but for words of
// state, which are atomic.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    /// A new log in a directory, for so many bytes at most.
    ///
    /// With the directory of a run, its path is noted there as long as it exists: the command that
    /// watches the run can report what a process that was killed has left.
    pub(super) fn create(
        directory: Arc<Directory>,
        capacity: u64,
        run: Option<&Path>,
    ) -> Result<Self, Errno> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let limit = limits::refresh();
        if limit <= FIRST + HEADER as u64 {
            return Err(Errno::FBIG);
        }
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let process = rustix::process::getpid().as_raw_nonzero();
        // The time distinguishes it from those of another process that had this number, the count
        // from those of other stages of this process.
        let (time, count) = (now(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("{PREFIX}{}-{process}-{time}-{count}.log", host.replace('/', "_"));
        let note = run.map(|run| run.join(&name).with_extension(NOTE));
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        // Before the log: there may be a note without a log, but no log without a note.
        let note = note.filter(|note| {
            let path = directory.path_to(&name);
            std::fs::write(note, path.as_os_str().as_bytes()).is_ok()
        });
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR);
        let file = high(file.inspect_err(|_| remove_note(note.as_deref()))?);
        // So that it is not taken for one that a dead process left behind.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        // The program's limit is for its files, but the kernel knows no difference.
        let capacity = (capacity.max(FIRST_STEP).next_multiple_of(4096) + FIRST).min(limit);
        let mut log = Self {
            directory,
            name,
            note,
            file: file.into(),
            base: None,
            allocated: 0,
            step: FIRST_STEP,
            capacity,
            generation: 1,
            end: FIRST,
            entries: Vec::new(),
        };
        let mut header = [0u8; FIRST as usize];
        header[..8].copy_from_slice(LOG_MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&log.generation.to_le_bytes());
        header[32..40].copy_from_slice(&(process.get() as u64).to_le_bytes());
        let host = host.as_bytes();
        let length = host.len().min(64);
        header[40..40 + length].copy_from_slice(&host[..length]);
        if let Err(error) = log.file.write_all_at(&header, 0) {
            let _ = log.unlink();
            return Err(errno(&error));
        }
        log.map();
        Ok(log)
    }

    /// Maps it, if the file system lets it be allocated.
    fn map(&mut self) {
        if !self.grow(FIRST) {
            return;
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = self.capacity as usize;
        // SAFETY: a new mapping, where the kernel wants it.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                &self.file,
                0,
            )
        };
        self.base = base.ok().and_then(|base| NonNull::new(base.cast()));
        if !self.populate(0, self.allocated) {
            self.unmap();
        }
    }

    /// Allocates more, for `end` at least. Returns whether that is done.
    fn grow(&mut self, end: u64) -> bool {
        let to = (self.allocated + self.step).max(end.next_multiple_of(4096)).min(self.capacity);
        if to > limits::refresh() {
            // The limit was changed since: to go beyond it would end the program.
            return false;
        }
        let more = rustix::fs::fallocate(
            &self.file,
            FallocateFlags::empty(),
            self.allocated,
            to - self.allocated,
        );
        if more.is_err() {
            return false;
        }
        let from = std::mem::replace(&mut self.allocated, to);
        self.step = (self.step * 2).min(MOST_STEP);
        self.base.is_none() || self.populate(from, to)
    }

    /// Lets the kernel prepare pages at once; says whether it is safe to touch them.
    fn populate(&self, from: u64, to: u64) -> bool {
        let Some(base) = self.base else { return false };
        // SAFETY: the range is within the mapping; this changes no bytes.
        let populated = unsafe {
            let start = base.as_ptr().add(from as usize);
            rustix::mm::madvise(start.cast(), (to - from) as usize, Advice::LinuxPopulateWrite)
        };
        // Kernels before 5.14 do not know it: they prepare pages when they are touched.
        matches!(populated, Ok(()) | Err(Errno::INVAL))
    }

    fn unmap(&mut self) {
        if let Some(base) = self.base.take() {
            // SAFETY: it is the mapping that `map` made; nothing borrows from it, as `&mut self`
            // says.
            let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), self.capacity as usize) };
        }
    }

    /// The directory that it is in.
    pub(super) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path_to(&self.name)
    }

    /// Whether it is filled by copying.
    #[cfg(test)]
    pub(super) fn is_mapped(&self) -> bool {
        self.base.is_some()
    }

    /// Fills it by writes from now on.
    #[cfg(test)]
    pub(super) fn do_not_map(&mut self) {
        self.unmap();
    }

    /// Adds an entry. When this returns, a kill of the process does not lose it.
    pub(super) fn append(&mut self, entry: &LogRecord<'_>) -> Result<LogPosition, AppendError> {
        let (at, length) = (self.end, entry.length());
        let end = at + length;
        // There has to be room for the index, too.
        if end + index_length(self.entries.len() + 1) > self.capacity {
            return Err(AppendError::Full);
        }
        if self.base.is_some() && end > self.allocated && !self.grow(end) {
            // The disk is full, or the descriptor was closed. The existing part stays mapped.
            return Err(if at == FIRST {
                AppendError::Failed(Errno::NOSPC)
            } else {
                AppendError::Full
            });
        }
        let header = entry.header(self.generation);
        if let Some(base) = self.base {
            let parts = [entry.directory, entry.name, entry.data];
            let mut place = at as usize + HEADER;
            for part in parts {
                // SAFETY: `end` is within what is allocated, and there is no other writer.
                unsafe {
                    let to = base.as_ptr().add(place);
                    std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                }
                place += part.len();
            }
            // The body first: a header that says it is whole is the last to come.
            fence(Ordering::Release);
            // SAFETY: as above.
            unsafe {
                let to = base.as_ptr().add(at as usize);
                std::ptr::copy_nonoverlapping(header.as_ptr(), to, HEADER);
            }
            fence(Ordering::Release);
        } else {
            let mut bytes = Vec::with_capacity(length as usize);
            for part in [&header[..], entry.directory, entry.name, entry.data] {
                bytes.extend_from_slice(part);
            }
            bytes.resize(length as usize, 0);
            self.file
                .write_all_at(&bytes, at)
                .map_err(|error| AppendError::Failed(errno(&error)))?;
        }
        self.end = end;
        self.entries.push(at);
        Ok(LogPosition { entry: at, data: at + entry.data_at(), length: entry.data.len() })
    }

    /// The bytes at a place.
    pub(super) fn bytes(&self, at: LogPosition) -> Result<Cow<'_, [u8]>, Errno> {
        if let Some(base) = self.base {
            // SAFETY: an entry that was added is within what is allocated. It is not changed while
            // `&self` is borrowed.
            let bytes = unsafe {
                std::slice::from_raw_parts(base.as_ptr().add(at.data as usize), at.length)
            };
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = vec![0; at.length];
        self.file.read_exact_at(&mut bytes, at.data).map_err(|error| errno(&error))?;
        Ok(Cow::Owned(bytes))
    }

    /// An entry does not count any more.
    pub(super) fn kill(&self, at: LogPosition) -> Result<(), Errno> {
        let place = at.entry + 4;
        match self.base {
            Some(base) => {
                // SAFETY: the word of state of an entry; it is aligned, and within what is
                // allocated.
                let state =
                    unsafe { AtomicU32::from_ptr(base.as_ptr().add(place as usize).cast()) };
                state.store(DEAD.to_le(), Ordering::Release);
                Ok(())
            }
            None => {
                self.file.write_all_at(&DEAD.to_le_bytes(), place).map_err(|error| errno(&error))
            }
        }
    }

    /// None of its entries counts any more: it starts again.
    pub(super) fn reset(&mut self) -> Result<(), Errno> {
        self.generation += 1;
        match self.base {
            Some(base) => {
                // SAFETY: the generation in the header; aligned, and always there.
                let word = unsafe { AtomicU64::from_ptr(base.as_ptr().add(16).cast()) };
                word.store(self.generation.to_le(), Ordering::Release);
            }
            None => self
                .file
                .write_all_at(&self.generation.to_le_bytes(), 16)
                .map_err(|error| errno(&error))?,
        }
        self.end = FIRST;
        self.entries.clear();
        Ok(())
    }

    /// Gives it an index, and the name of one that stays. Returns that path.
    pub(super) fn seal(mut self) -> Result<PathBuf, Errno> {
        self.unmap();
        let failed = |error: std::io::Error| errno(&error);
        self.file.set_len(self.end).map_err(failed)?;
        write_index(&self.file, &self.entries, self.end).map_err(failed)?;
        let sealed = CString::new(sealed_name(self.name.to_bytes())).map_err(|_| Errno::INVAL)?;
        rustix::fs::renameat(&self.directory, &self.name, &self.directory, &sealed)?;
        remove_note(self.note.as_deref());
        Ok(self.directory.path_to(&sealed))
    }

    /// Whether it has entries.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes its name away. All that counted in it is elsewhere.
    pub(super) fn unlink(&self) -> Result<(), Errno> {
        let name: &CStr = &self.name;
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?;
        remove_note(self.note.as_deref());
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.unmap();
    }
}

/// Whether a name is that of a log of this process.
pub fn is_own_log(name: &CStr) -> bool {
    let Some(rest) = name.to_bytes().strip_prefix(PREFIX.as_bytes()) else { return false };
    // HOST-PROCESS-TIME-COUNT.log
    let process = rest.rsplit(|byte| *byte == b'-').nth(2);
    let process = process.and_then(|process| str::from_utf8(process).ok());
    process.and_then(|process| process.parse().ok()) == Some(std::process::id())
}

/// There is nothing to be noted any more.
fn remove_note(note: Option<&Path>) {
    if let Some(note) = note {
        let _ = std::fs::remove_file(note);
    }
}

/// The time, as entries note it: nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The error of the system behind one of the library.
pub(super) fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
