//! Open files on servers, and their data.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::FileAttr;
use rustix::io::Errno;
use striate_store::remote::{FileInfo, RemoteFile, RemoteOptions};
use striate_store::{LockKind, Store as _, StoreError};

use super::nodes::NodeKind;
use super::{ServerFs, code, time};
use crate::request_buffer::with_buffer;
use crate::sync::{lock, read};

/// The range that is locked by an append, so that clients do not append at the same offset.
const APPENDING: std::ops::Range<u64> = i64::MAX as u64 - 1..i64::MAX as u64;

/// A file that programs have open in this mount.
#[derive(Debug)]
pub(super) struct OpenServerFile {
    number: u64,
    file: RemoteFile,
    appending: Mutex<()>,
    /// When something was written last, in milliseconds.
    written: AtomicU64,
}

/// The same, with how often it is open.
#[derive(Debug)]
pub(super) struct InUse {
    opened: Arc<OpenServerFile>,
    handles: usize,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

impl OpenServerFile {
    fn new(number: u64, file: RemoteFile) -> Arc<Self> {
        Arc::new(Self { number, file, appending: Mutex::default(), written: AtomicU64::new(0) })
    }
}

/// A time that a program gave a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenTime {
    time: SystemTime,
    /// What the metadata server said of the file's last change then.
    recorded: u64,
}

/// So many of them are remembered.
const MOST_GIVEN: usize = 1 << 16;

/// Tells the metadata server how long a file is, unless it was removed.
fn record(file: &RemoteFile) -> Result<(), Errno> {
    match coded(file.record()) {
        Err(Errno::NOENT) => Ok(()),
        recorded => recorded,
    }
}

fn coded<T>(result: Result<T, StoreError>) -> Result<T, Errno> {
    result.map_err(|error| code(&error))
}

impl ServerFs {
    /// Opens a file.
    pub(super) fn open(&self, number: u64, flags: i32) -> Result<u64, Errno> {
        let _names = read(&self.names);
        let opened = self.opened(number)?;
        if flags & libc::O_TRUNC != 0 {
            self.changes(&opened);
            coded(opened.file.set_len(0))?;
        }
        Ok(self.add_handle(&opened))
    }

    /// Creates a file, or opens an existing one.
    pub(super) fn create(
        &self,
        (directory, name): (u64, &OsStr),
        flags: i32,
    ) -> Result<(FileAttr, u64), Errno> {
        let path = self.path(directory, name)?;
        let _names = read(&self.names);
        let exclusive = flags & libc::O_EXCL != 0;
        let options = RemoteOptions { create: true, exclusive, layout: self.layout };
        let file = RemoteFile::open_with(&self.client, &self.client.url(&path), &options);
        let file = coded(file)?;
        let mut size = if exclusive { 0 } else { coded(file.len())? };
        if size > 0 && flags & libc::O_TRUNC != 0 {
            coded(file.set_len(0))?;
            size = 0;
        }
        let info = file.info().clone();
        let number = self.nodes().found_file(&path, info.file);
        let opened = self.keep(&OpenServerFile::new(number, file));
        Ok((self.file_attributes(number, &info, size, false), self.add_handle(&opened)))
    }

    /// The open file of a node.
    fn opened(&self, number: u64) -> Result<Arc<OpenServerFile>, Errno> {
        if let Some(in_use) = lock(&self.in_use).get(&number) {
            return Ok(Arc::clone(&in_use.opened));
        }
        let node = self.node(number)?;
        let NodeKind::File(file) = node.sort else { return Err(Errno::ISDIR) };
        let url = self.client.url(&node.path);
        let found = coded(RemoteFile::open_with(&self.client, &url, &RemoteOptions::default()))?;
        // The kernel looks for the name once more.
        if found.info().file != file {
            return Err(Errno::STALE);
        }
        Ok(self.keep(&OpenServerFile::new(number, found)))
    }

    /// There is one for each file: the first one is kept.
    fn keep(&self, opened: &Arc<OpenServerFile>) -> Arc<OpenServerFile> {
        let mut in_use = lock(&self.in_use);
        let kept = in_use
            .entry(opened.number)
            .or_insert_with(|| InUse { opened: Arc::clone(opened), handles: 0 });
        Arc::clone(&kept.opened)
    }

    fn add_handle(&self, opened: &Arc<OpenServerFile>) -> u64 {
        let mut in_use = lock(&self.in_use);
        let kept = in_use
            .entry(opened.number)
            .or_insert_with(|| InUse { opened: Arc::clone(opened), handles: 0 });
        kept.handles += 1;
        let opened = Arc::clone(&kept.opened);
        drop(in_use);
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.handles).insert(number, opened);
        number
    }

    pub(super) fn is_open(&self, number: u64) -> bool {
        lock(&self.in_use).get(&number).is_some_and(|in_use| in_use.handles > 0)
    }

    /// What the metadata server said of a file when it was opened.
    pub(super) fn open_info(&self, number: u64) -> Option<FileInfo> {
        lock(&self.in_use).get(&number).map(|in_use| in_use.opened.file.info().clone())
    }

    /// When a file was written to last that is open.
    pub(super) fn written(&self, number: u64) -> Option<SystemTime> {
        let in_use = lock(&self.in_use);
        let written = in_use.get(&number)?.opened.written.load(Ordering::Relaxed);
        (written > 0).then(|| time(written))
    }

    fn handle(&self, number: u64) -> Result<Arc<OpenServerFile>, Errno> {
        let handles = lock(&self.handles);
        handles.get(&number).cloned().ok_or(Errno::BADF)
    }

    /// Reads, and calls something with what was read.
    pub(super) fn read<R>(
        &self,
        handle: u64,
        (offset, size): (u64, usize),
        act: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Errno> {
        let opened = self.handle(handle)?;
        with_buffer(size, |buffer| {
            let count = coded(opened.file.read_at(offset, buffer))?;
            Ok(act(buffer.get(..count).unwrap_or_default()))
        })
    }

    /// Writes at an offset.
    pub(super) fn write_at(&self, handle: u64, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let opened = self.handle(handle)?;
        self.changes(&opened);
        coded(opened.file.write_at(offset, bytes))
    }

    /// Writes at the end, which no other client moves meanwhile.
    pub(super) fn append(&self, handle: u64, bytes: &[u8]) -> Result<(), Errno> {
        let opened = self.handle(handle)?;
        self.changes(&opened);
        let _in_this_mount = lock(&opened.appending);
        let wait = self.client.options().patience;
        let kind = LockKind::Exclusive;
        let _among_clients = coded(self.client.lock(opened.file.info(), APPENDING, kind, wait))?;
        let end = coded(opened.file.len())?;
        coded(opened.file.write_at(end, bytes))
    }

    /// Changes the size of a file.
    pub(super) fn truncate(&self, number: u64, length: u64) -> Result<(), Errno> {
        let _names = read(&self.names);
        let opened = self.opened(number)?;
        self.changes(&opened);
        let done = coded(opened.file.set_len(length));
        self.drop_unused(number);
        done
    }

    /// A file is about to be changed.
    fn changes(&self, opened: &OpenServerFile) {
        opened.written.store(now(), Ordering::Relaxed);
        let mut given = lock(&self.given);
        if !given.is_empty() {
            given.remove(&opened.number);
        }
    }

    /// A program says when a file was changed last. Servers do not know it: it is remembered here
    /// until the file is changed.
    pub(super) fn give_time(&self, number: u64, time: SystemTime) -> Result<(), Errno> {
        let node = self.node(number)?;
        if node.sort == NodeKind::Directory {
            return Ok(());
        }
        if let Some(in_use) = lock(&self.in_use).get(&number).map(|one| Arc::clone(&one.opened)) {
            coded(in_use.file.record())?;
        }
        let recorded = coded(self.client.lookup(&node.path))?.modified_ms;
        let mut given = lock(&self.given);
        if given.len() >= MOST_GIVEN {
            given.clear();
        }
        given.insert(number, GivenTime { time, recorded });
        Ok(())
    }

    /// The time that a program gave a file, unless it was changed since.
    pub(super) fn given_time(&self, number: u64, info: &FileInfo) -> Option<SystemTime> {
        let given = *lock(&self.given).get(&number)?;
        (given.recorded == info.modified_ms).then_some(given.time)
    }

    /// Changes the time of the last change to now.
    pub(super) fn touch(&self, number: u64) -> Result<(), Errno> {
        let node = self.node(number)?;
        if node.sort == NodeKind::Directory {
            return Ok(());
        }
        let info = coded(self.client.stat(&node.path))?;
        lock(&self.given).remove(&number);
        coded(self.client.record(&info, info.size))
    }

    /// Makes sure of space.
    pub(super) fn allocate(&self, handle: u64, end: u64) -> Result<(), Errno> {
        let opened = self.handle(handle)?;
        self.changes(&opened);
        coded(opened.file.preallocate(end))
    }

    /// Makes data durable.
    pub(super) fn sync(&self, handle: u64) -> Result<(), Errno> {
        let opened = self.handle(handle)?;
        coded(opened.file.sync())
    }

    /// A program closes a descriptor: the size of the file is sent to the metadata server.
    pub(super) fn flush(&self, handle: u64) -> Result<(), Errno> {
        record(&self.handle(handle)?.file)
    }

    /// Nothing stands for a handle any more.
    pub(super) fn release(&self, handle: u64) -> Result<(), Errno> {
        let removed = lock(&self.handles).remove(&handle).ok_or(Errno::BADF)?;
        let number = removed.number;
        if let Some(in_use) = lock(&self.in_use).get_mut(&number) {
            in_use.handles = in_use.handles.saturating_sub(1);
        }
        self.drop_unused(number);
        Ok(())
    }

    /// Gives up a file that is not open any more. If it was removed meanwhile, that is done now.
    fn drop_unused(&self, number: u64) {
        let mut in_use = lock(&self.in_use);
        let unused = in_use.get(&number).is_some_and(|in_use| in_use.handles == 0);
        let dropped = if unused { in_use.remove(&number) } else { None };
        drop(in_use);
        if dropped.is_some()
            && let Ok(node) = self.node(number)
            && node.gone
        {
            // If it fails, the hidden name is left, for `striate fs rm`.
            let _ = self.client.remove(&node.path);
        }
        // Outside the lock: it may send requests to servers.
        drop(dropped);
    }

    /// Closes all that programs have open. When a server does not answer once, none is asked any
    /// more.
    pub(super) fn end_handles(&self) -> Result<(), Errno> {
        lock(&self.handles).clear();
        let all: Vec<_> = lock(&self.in_use).drain().collect();
        let mut ended = Ok(());
        for (number, InUse { opened, .. }) in all {
            if ended.is_ok() {
                ended = record(&opened.file);
            }
            if ended.is_err() {
                // It would send the length of the file to the servers, and wait for them.
                std::mem::forget(opened);
                continue;
            }
            if let Ok(node) = self.node(number)
                && node.gone
            {
                ended = coded(self.client.remove(&node.path));
            }
        }
        ended
    }
}
