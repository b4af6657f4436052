//! [`StoreBackend`]: calls are carried out on a store, such as I/O servers.
//!
//! Positions, descriptors and modes are kept here: a store only has files with sizes and bytes at
//! offsets. Operations without a counterpart there are left out and named.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use striate_recording::{ProcessIndex, Progress};
use striate_store::{Region, Store};
use striate_trace::{Call as Traced, Subject, TracedFile};

use super::memory::lengths;
use super::store_files::{ErrnoResult, StoreFiles, errno};
use super::{Backend, Execution};
use crate::compare::Observed;
use crate::contents::{Phase, WorkerBuffer};
use crate::error::ReplayError;
use crate::fix::Fix;
use crate::namespace::{FileId, FileType, Initial};
use crate::options::{StoreAt, VectorMethod};
use crate::task::Call;

/// As much is written at a time when files are made.
const STEP: u64 = 1 << 20;

/// A file that is open.
#[derive(Debug)]
struct OpenStoreFile {
    store: Arc<dyn Store>,
    position: Mutex<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct StoreBackend {
    files: StoreFiles,
    method: VectorMethod,
    open: Mutex<HashMap<FileId, Arc<OpenStoreFile>>>,
    /// Directories of the recording: stores have none.
    directories: Mutex<HashSet<PathBuf>>,
    /// Files that other processes inherit: these stay open.
    inherited: HashSet<FileId>,
    /// One append at a time: its place is the end of the file.
    appending: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn timed(operation: impl FnOnce() -> ErrnoResult<(u64, Option<u64>)>) -> Execution {
    let begin = Instant::now();
    let (outcome, size) = match operation() {
        Ok((value, size)) => (Ok(value), size),
        Err(error) => (Err(error), None),
    };
    Execution::Made(Observed { outcome, size }, begin.elapsed().as_nanos() as u64)
}

impl StoreBackend {
    pub(crate) fn new(
        at: &StoreAt,
        method: VectorMethod,
        inherited: HashSet<FileId>,
    ) -> Result<Self, ReplayError> {
        Ok(Self {
            inherited,
            files: StoreFiles::new(at)?,
            method,
            open: Mutex::default(),
            directories: Mutex::default(),
            appending: Mutex::default(),
        })
    }

    fn write_initial(&self, path: &Path, size: u64, buffer: &mut WorkerBuffer) -> ErrnoResult<()> {
        let file = self.files.open(path, true, false)?;
        let phase = Phase::of(path);
        let mut at = file.len().map_err(|error| errno(&error))?;
        if at > size {
            file.set_len(size).map_err(|error| errno(&error))?;
        }
        while at < size {
            let count = (size - at).min(STEP) as usize;
            let bytes = buffer.bytes(phase, at, count, false);
            file.write_at(at, bytes).map_err(|error| errno(&error))?;
            at += count as u64;
        }
        Ok(())
    }

    fn opened(&self, id: FileId, traced: &TracedFile) -> ErrnoResult<Arc<OpenStoreFile>> {
        if let Some(opened) = lock(&self.open).get(&id) {
            return Ok(Arc::clone(opened));
        }
        // It was opened before the recording began, or is inherited from a process that has closed
        // it.
        let store = self.files.open(&traced.path, false, false)?;
        let opened = Arc::new(OpenStoreFile { store, position: Mutex::new(0) });
        lock(&self.open).insert(id, Arc::clone(&opened));
        Ok(opened)
    }

    fn open(&self, id: FileId, path: &Path, flags: i32) -> ErrnoResult<(u64, Option<u64>)> {
        if lock(&self.directories).contains(path) {
            return Err(libc::EISDIR);
        }
        let (creates, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let store = self.files.open(path, creates, exclusive)?;
        if flags & libc::O_TRUNC != 0 {
            store.set_len(0).map_err(|error| errno(&error))?;
        }
        let size = store.len().map_err(|error| errno(&error))?;
        lock(&self.open).insert(id, Arc::new(OpenStoreFile { store, position: Mutex::new(0) }));
        Ok((0, Some(size)))
    }

    fn read(
        &self,
        file: &OpenStoreFile,
        at: u64,
        length: usize,
        parts: u32,
        buffer: &mut WorkerBuffer,
    ) -> ErrnoResult<u64> {
        let room = buffer.memory(length);
        if room.len() < length {
            // There is not as much memory for one call: it is made in turns.
            let mut total = 0;
            while total < length as u64 {
                let part = (room.len() as u64).min(length as u64 - total) as usize;
                let count = file.store.read_at(at + total, &mut room[..part]);
                let count = count.map_err(|error| errno(&error))?;
                total += count as u64;
                if count < part {
                    break;
                }
            }
            return Ok(total);
        }
        if parts <= 1 {
            return file
                .store
                .read_at(at, room)
                .map(|count| count as u64)
                .map_err(|error| errno(&error));
        }
        let regions = regions(at, length, parts);
        if self.method == VectorMethod::List {
            return file.store.read_list(&regions, room).map_err(|error| errno(&error));
        }
        let mut total = 0;
        for Region { memory, offset, len } in regions {
            let part = &mut room[memory..memory + len];
            let count = file.store.read_at(offset, part).map_err(|error| errno(&error))?;
            total += count as u64;
            if count < len {
                break;
            }
        }
        Ok(total)
    }

    fn write(&self, file: &OpenStoreFile, at: u64, bytes: &[u8], parts: u32) -> ErrnoResult<u64> {
        let failed = |error: striate_store::StoreError| errno(&error);
        if parts <= 1 {
            file.store.write_at(at, bytes).map_err(failed)?;
        } else {
            let regions = regions(at, bytes.len(), parts);
            if self.method == VectorMethod::List {
                file.store.write_list(&regions, bytes).map_err(failed)?;
            } else {
                for Region { memory, offset, len } in regions {
                    let part = &bytes[memory..memory + len];
                    file.store.write_at(offset, part).map_err(failed)?;
                }
            }
        }
        Ok(bytes.len() as u64)
    }

    fn on_file(
        &self,
        traced: &TracedFile,
        file: &OpenStoreFile,
        call: &Call,
        buffer: &mut WorkerBuffer,
    ) -> Execution {
        let failed = |error: striate_store::StoreError| errno(&error);
        match call.record.call {
            Traced::Read { placed, offset, length, parts, .. } => {
                let mut position = lock(&file.position);
                let at = if placed { offset.unwrap_or(0) } else { *position };
                let did = timed(|| {
                    let length = length.min(MOST_TRANSFER) as usize;
                    let count = self.read(file, at, length, parts, buffer)?;
                    Ok((count, None))
                });
                if let (false, Execution::Made(Observed { outcome: Ok(count), .. }, _)) =
                    (placed, &did)
                {
                    *position = at + count;
                }
                did
            }
            Traced::Write { placed, offset, length, parts, .. } => {
                let appends = traced.flags & libc::O_APPEND != 0;
                let _appending = appends.then(|| lock(&self.appending));
                let mut position = lock(&file.position);
                let phase = Phase::of(&traced.path);
                let length = length.min(MOST_TRANSFER);
                let bytes = buffer.bytes(phase, offset.unwrap_or(0), length as usize, false);
                let mut at = if placed { offset.unwrap_or(0) } else { *position };
                let did = timed(|| {
                    if appends {
                        at = file.store.len().map_err(failed)?;
                    }
                    let mut total = self.write(file, at, bytes, parts)?;
                    // There is not as much memory for one call: it is made in turns.
                    while total < length && !bytes.is_empty() {
                        let part = &bytes[..(length - total).min(bytes.len() as u64) as usize];
                        total += self.write(file, at + total, part, 1)?;
                    }
                    Ok((total, None))
                });
                if let (false, Execution::Made(Observed { outcome: Ok(count), .. }, _)) =
                    (placed, &did)
                {
                    *position = at + count;
                }
                did
            }
            Traced::Seek { offset, whence, .. } => {
                let mut position = lock(&file.position);
                timed(|| {
                    let from = match whence {
                        // There are no holes.
                        libc::SEEK_SET | libc::SEEK_DATA => 0,
                        libc::SEEK_CUR => *position,
                        _ => file.store.len().map_err(failed)?,
                    };
                    let offset = if whence == libc::SEEK_HOLE { 0 } else { offset };
                    *position = from.checked_add_signed(offset).ok_or(libc::EINVAL)?;
                    Ok((*position, None))
                })
            }
            Traced::Sync { .. } => timed(|| file.store.sync().map(|()| (0, None)).map_err(failed)),
            Traced::Truncate { length, .. } => {
                timed(|| file.store.set_len(length).map(|()| (0, None)).map_err(failed))
            }
            Traced::Allocate { mode: 0, offset, length, .. } => timed(|| {
                let end = offset.saturating_add(length);
                file.store.preallocate(end).map(|()| (0, None)).map_err(failed)
            }),
            Traced::Stat { .. } => timed(|| Ok((0, Some(file.store.len().map_err(failed)?)))),
            Traced::Duplicate { .. } | Traced::Control { .. } => {
                let outcome = call.record.outcome;
                Execution::Made(Observed { outcome, size: None }, 0)
            }
            Traced::Map { .. } => Execution::Skipped("a store has no mappings"),
            Traced::Allocate { .. } => Execution::Skipped("a store has no holes to make"),
            _ => Execution::Skipped(
                "a store has no counterpart: locks, links, permissions and the like",
            ),
        }
    }
}

/// The longest transfer that the kernel makes.
const MOST_TRANSFER: u64 = 0x7fff_f000;

/// Parts of memory one after the other, and where they belong.
fn regions(at: u64, length: usize, parts: u32) -> Vec<Region> {
    let mut memory = 0;
    lengths(length, parts)
        .filter(|len| *len > 0)
        .map(|len| {
            let region = Region { memory, offset: at + memory as u64, len };
            memory += len;
            region
        })
        .collect()
}

impl Backend for StoreBackend {
    fn make(&self, initial: &[Initial], watched: &Progress) -> Result<u64, ReplayError> {
        let (mut buffer, mut bytes) = (WorkerBuffer::default(), 0);
        for Initial { path, file_type, .. } in initial {
            let FileType::File(size) = file_type else {
                lock(&self.directories).insert(path.clone());
                continue;
            };
            if watched.is_stopped() {
                break;
            }
            watched.add(*size);
            bytes += size;
            self.write_initial(path, *size, &mut buffer).map_err(|error| {
                ReplayError::make(path, std::io::Error::from_raw_os_error(error))
            })?;
        }
        Ok(bytes)
    }

    fn start(&self, _: ProcessIndex, _: Option<ProcessIndex>) -> Result<u64, String> {
        Ok(0)
    }

    fn fix(&self, _: ProcessIndex, fix: &Fix, buffer: &mut WorkerBuffer) {
        match fix {
            Fix::File(path, size) | Fix::Size(path, size) => {
                let _ = self.write_initial(path, *size, buffer);
            }
            Fix::Directory(path) | Fix::Link(path, _) => {
                lock(&self.directories).insert(path.clone());
            }
            Fix::Position(id, position) => {
                if let Some(opened) = lock(&self.open).get(id) {
                    *lock(&opened.position) = *position;
                }
            }
            Fix::Nothing(path) => {
                if !lock(&self.directories).remove(path) {
                    let _ = self.files.remove(path);
                }
            }
        }
    }

    fn call(&self, process: ProcessIndex, call: &Call, buffer: &mut WorkerBuffer) -> Execution {
        let record = &call.record;
        match (&record.call, call.files[0]) {
            (Traced::Open { path, flags, .. }, Some(id)) => {
                let did = timed(|| self.open(id, path, *flags));
                if record.outcome.is_err() {
                    lock(&self.open).remove(&id);
                }
                did
            }
            (Traced::Close { last, .. }, Some(id)) => timed(|| {
                let ends = *last && id.owner == process && !self.inherited.contains(&id);
                let closed = if ends { lock(&self.open).remove(&id) } else { None };
                drop(closed);
                Ok((0, None))
            }),
            (Traced::Stat { of: Subject::Name(path), .. }, _) => {
                if lock(&self.directories).contains(&**path) {
                    return Execution::Skipped("a store has no directories");
                }
                timed(|| {
                    let file = self.files.open(path, false, false)?;
                    Ok((0, Some(file.len().map_err(|error| errno(&error))?)))
                })
            }
            (Traced::Rename { from, to, flags }, _) => {
                if lock(&self.directories).contains(&**from) || *flags > libc::RENAME_NOREPLACE {
                    return Execution::Skipped(
                        "a store cannot rename directories, or exchange names",
                    );
                }
                timed(|| {
                    let keeps = *flags == libc::RENAME_NOREPLACE;
                    if keeps && self.files.open(to, false, false).is_ok() {
                        return Err(libc::EEXIST);
                    }
                    self.files.rename(from, to).map(|()| (0, None))
                })
            }
            (Traced::Unlink { path, flags }, _) => {
                if flags & libc::AT_REMOVEDIR != 0 {
                    lock(&self.directories).remove(&**path);
                    return Execution::Skipped("a store has no directories");
                }
                timed(|| self.files.remove(path).map(|()| (0, None)))
            }
            (Traced::MakeDirectory { path, .. }, _) => {
                lock(&self.directories).insert(path.to_path_buf());
                Execution::Skipped("a store has no directories")
            }
            (Traced::ReadDirectory { .. }, _) => Execution::Skipped("a store has no directories"),
            (Traced::CopyRange { .. } | Traced::SendFile { .. }, _) => {
                Execution::Skipped("a store copies nothing by itself")
            }
            (traced, Some(id)) => match traced.file().map(|file| (file, self.opened(id, file))) {
                Some((file, Ok(opened))) => self.on_file(file, &opened, call, buffer),
                _ => Execution::Skipped("its file could not be opened"),
            },
            _ => Execution::Skipped(
                "a store has no counterpart: locks, links, permissions and the like",
            ),
        }
    }

    fn end(&self, process: ProcessIndex) -> Result<(), String> {
        lock(&self.open).retain(|id, _| id.owner != process || self.inherited.contains(id));
        Ok(())
    }

    fn end_all(&self) -> Vec<String> {
        lock(&self.open).clear();
        Vec::new()
    }

    fn kept(&self) -> Option<PathBuf> {
        self.files.kept()
    }
}
