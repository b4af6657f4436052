//! Copies files in parallel.
//!
//! Threads take chunks from a queue, each with one buffer, so that the memory is bounded whatever
//! is copied. Chunks of one large file and of many small ones are alike; a thread that finds none
//! opens the next file. The thread that writes the last chunk of a file gives the file its name
//! ([`UnfinishedFile`]). After a failure nothing new is begun, and what is unfinished is removed;
//! what cannot be removed is named ([`UnfinishedCopies`]). Objects are uploaded in parts, and
//! appear with the last one.

mod location;
mod plan;
mod unfinished_copies;

use std::collections::VecDeque;
use std::fs;
use std::iter::Enumerate;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use indicatif::ProgressBar;
use striate_store::rados::{RadosCreation, RadosFile};
use striate_store::remote::{Client, Layout, RemoteFile, RemoteOptions};
use striate_store::s3::{S3Object, S3Upload, UploadParts};
use striate_store::{ErrorKind, PosixFile, PosixOptions, Store, StoreError};

pub(crate) use location::Location;
pub(crate) use plan::{CopyJob, plan};
use striate_process::part_file::Existing;
pub(crate) use unfinished_copies::UnfinishedCopies;

use super::path;
use crate::CommandError;
use crate::unfinished::{UnfinishedFile, remove_stale};

/// Bytes of a chunk, and of a buffer; chunks of objects are the parts of their uploads.
const CHUNK: u64 = 4 << 20;

/// How long chunks that are under way are waited for when the copy is interrupted.
const LAST_CHUNKS: Duration = Duration::from_millis(400);

/// Copies all files; returns their sizes in the order of the jobs. `stop` ends it early. What is
/// unfinished, or left in the end, is in `left` at any time. What earlier copies have left is
/// removed first.
pub(crate) fn run(
    jobs: Vec<CopyJob>,
    layout: Layout,
    threads: usize,
    bar: &ProgressBar,
    left: &UnfinishedCopies,
    stop: &AtomicBool,
) -> Result<Vec<u64>, CommandError> {
    remove_stale(jobs.iter().map(|job| &job.to));
    let state = CopyState {
        copied: vec![0; jobs.len()],
        jobs: jobs.into_iter().enumerate(),
        chunks: VecDeque::new(),
        opening: 0,
        unfinished: Vec::new(),
        failed: None,
    };
    let state = Mutex::new(state);
    let copy = Copy { layout, bar, left, stop, state, changed: Condvar::new() };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| copy.work())).collect();
        copy.wait_for(&workers);
        let (unfinished, failed) = {
            let mut state = copy.state();
            (std::mem::take(&mut state.unfinished), state.failed.take())
        };
        let Some(error) = failed else { return Ok(std::mem::take(&mut copy.state().copied)) };
        // A chunk that is still under way may come to its server after the removal, and be stored
        // then.
        let all_ended = workers.iter().all(ScopedJoinHandle::is_finished);
        for copying in unfinished {
            if copying.to.discard().is_ok() && all_ended {
                left.remove(&copying.to.left_name());
            }
        }
        Err(left.added_to(error))
    })
}

/// The state that the threads share.
struct Copy<'c> {
    layout: Layout,
    bar: &'c ProgressBar,
    left: &'c UnfinishedCopies,
    stop: &'c AtomicBool,
    state: Mutex<CopyState>,
    changed: Condvar,
}

struct CopyState {
    jobs: Enumerate<IntoIter<CopyJob>>,
    /// Open files with chunks that no thread has taken yet, from this offset on.
    chunks: VecDeque<(Arc<Copying>, u64)>,
    /// Threads that are opening a file.
    opening: usize,
    /// Files that have not got their names yet.
    unfinished: Vec<Arc<Copying>>,
    copied: Vec<u64>,
    failed: Option<CommandError>,
}

/// A file that is being copied.
struct Copying {
    index: usize,
    from: Box<dyn Store>,
    to: CopyTarget,
    len: u64,
    /// Bytes of its chunks.
    chunk: u64,
    /// Chunks that are not copied yet.
    remaining: AtomicU64,
}

/// Where the data of a file goes.
enum CopyTarget {
    /// To a file that has another name until it is whole.
    File { unfinished: UnfinishedFile, store: Box<dyn Store> },
    /// To an object that is not seen until it is whole.
    Object { upload: S3Upload, name: String },
}

impl CopyTarget {
    /// What may be left of it.
    fn left_name(&self) -> String {
        match self {
            Self::File { unfinished, .. } => unfinished.part().to_string(),
            Self::Object { name, .. } => name.clone(),
        }
    }

    /// Stores a chunk, which is the whole part if it is an object.
    fn write(&self, offset: u64, chunk: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::File { store, .. } => store.write_at(offset, chunk),
            Self::Object { upload, .. } => upload.put(offset / upload.parts().part, chunk),
        }
    }

    /// Gives the whole file its name.
    fn finish(&self) -> Result<(), StoreError> {
        match self {
            Self::File { unfinished, store } => {
                store.sync()?;
                unfinished.finish(Existing::Replace)
            }
            Self::Object { upload, .. } => upload.complete(),
        }
    }

    fn discard(&self) -> Result<(), StoreError> {
        match self {
            Self::File { unfinished, .. } => unfinished.discard(),
            Self::Object { upload, .. } => upload.abort(),
        }
    }
}

enum Task {
    Open(usize, CopyJob),
    Chunk(Arc<Copying>, u64),
}

impl Copy<'_> {
    fn state(&self) -> MutexGuard<'_, CopyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all have ended; if the copy is interrupted, not much longer than that.
    fn wait_for(&self, workers: &[ScopedJoinHandle<'_, ()>]) {
        let mut since = None;
        while !workers.iter().all(ScopedJoinHandle::is_finished) {
            if self.stop.load(Ordering::SeqCst)
                && since.get_or_insert_with(Instant::now).elapsed() > LAST_CHUNKS
            {
                let mut state = self.state();
                state.failed.get_or_insert_with(interrupted);
                break;
            }
            let state = self.state();
            let limit = Duration::from_millis(20);
            drop(self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn work(&self) {
        let mut buffer = Vec::new();
        while let Some(task) = self.take() {
            let opens = matches!(task, Task::Open(..));
            // A thread that panics does not leave the others waiting for its task.
            let done = catch_unwind(AssertUnwindSafe(|| match task {
                Task::Open(index, job) => self.open(index, &job),
                Task::Chunk(copying, offset) => self.copy_chunk(&copying, offset, &mut buffer),
            }));
            let done = done.unwrap_or_else(|_| {
                Err(CommandError::failed("the copy is not complete", "a thread panicked", ""))
            });
            self.state().opening -= usize::from(opens);
            if let Err(error) = done {
                // The first failure causes the ones after it.
                self.state().failed.get_or_insert(error);
            }
            self.changed.notify_all();
        }
    }

    /// What to do next; `None` if there is nothing left.
    fn take(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if self.stop.load(Ordering::SeqCst) {
                state.failed.get_or_insert_with(interrupted);
            }
            if state.failed.is_some() {
                return None;
            }
            if let Some((copying, offset)) = state.chunks.pop_front() {
                if copying.len - offset > copying.chunk {
                    state.chunks.push_front((Arc::clone(&copying), offset + copying.chunk));
                }
                return Some(Task::Chunk(copying, offset));
            }
            if let Some((index, job)) = state.jobs.next() {
                state.opening += 1;
                return Some(Task::Open(index, job));
            }
            if state.opening == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, index: usize, job: &CopyJob) -> Result<(), CommandError> {
        self.bar.set_message(job.to.to_string());
        let from: Box<dyn Store> = match &job.from {
            Location::Local(path) => Box::new(PosixFile::open(path, &PosixOptions::read_only())?),
            Location::Remote(url) => {
                let client = Client::shared(url)?;
                Box::new(RemoteFile::open_with(&client, url, &RemoteOptions::default())?)
            }
            Location::Object(url) => Box::new(S3Object::open(url)?),
            Location::Pool(url) => Box::new(RadosFile::open(url, &RadosCreation::default())?),
        };
        let len = from.len()?;
        let (to, chunk) = self.create(&job.to, len)?;
        let remaining = AtomicU64::new(len.div_ceil(chunk));
        let copying = Arc::new(Copying { index, from, to, len, chunk, remaining });
        let mut state = self.state();
        state.unfinished.push(Arc::clone(&copying));
        drop(state);
        if len == 0 {
            if let CopyTarget::Object { upload, .. } = &copying.to {
                upload.put(0, &[])?;
            }
            return self.finish(&copying);
        }
        self.state().chunks.push_back((copying, 0));
        Ok(())
    }

    /// Begins a file of so many bytes, and says how long its chunks are; whatever becomes of that,
    /// `left` knows what may be there.
    fn create(&self, name: &Location, len: u64) -> Result<(CopyTarget, u64), CommandError> {
        if let Location::Object(url) = name {
            let parts = UploadParts::new(len, UploadParts::USUAL);
            let name = name.to_string();
            if parts.count() > 1 {
                self.left.add(&name);
            }
            let upload = S3Upload::begin(url, parts).inspect_err(|_| self.left.remove(&name))?;
            return Ok((CopyTarget::Object { upload, name }, parts.part));
        }
        let (unfinished, store) = self.create_file(name)?;
        Ok((CopyTarget::File { unfinished, store }, CHUNK))
    }

    fn create_file(
        &self,
        name: &Location,
    ) -> Result<(UnfinishedFile, Box<dyn Store>), CommandError> {
        let to = UnfinishedFile::new(name);
        let shown = to.part().to_string();
        match to.part() {
            Location::Object(url) => Ok((to, Box::new(S3Object::open(&url)?))),
            Location::Local(part) => {
                let directory = part.parent().unwrap_or(Path::new("."));
                fs::create_dir_all(directory)
                    .map_err(|source| CommandError::Write { path: directory.into(), source })?;
                let options = PosixOptions { exclusive: true, ..PosixOptions::create() };
                let store = PosixFile::open(&part, &options)?;
                self.left.add(&shown);
                to.claim()?;
                Ok((to, Box::new(store)))
            }
            Location::Remote(url) => {
                let client = Client::shared(&url)?;
                let options = RemoteOptions { create: true, exclusive: true, layout: self.layout };
                self.left.add(&shown);
                let store = RemoteFile::open_with(&client, &url, &options).inspect_err(|_| {
                    // It may have its name and not all of its objects.
                    let found = client.lookup(path(&url));
                    if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                        self.left.remove(&shown);
                    }
                })?;
                to.claim_on_servers(&client, store.info());
                Ok((to, Box::new(store)))
            }
            Location::Pool(url) => {
                let strip = RadosCreation::default().strip;
                let creation = RadosCreation { create: true, exclusive: true, strip };
                self.left.add(&shown);
                let store =
                    RadosFile::open(&url, &creation).inspect_err(|_| self.left.remove(&shown))?;
                Ok((to, Box::new(store)))
            }
        }
    }

    fn copy_chunk(
        &self,
        copying: &Copying,
        offset: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let len = (copying.len - offset).min(copying.chunk) as usize;
        // Small files need no large buffers.
        buffer.resize(buffer.len().max(len), 0);
        let chunk = &mut buffer[..len];
        if copying.from.read_at(offset, chunk)? < len {
            return Err(CommandError::failed(
                format!("cannot copy {}", copying.from.name()),
                "it became shorter during the copy",
                "copy it again when no program writes to it",
            ));
        }
        copying.to.write(offset, chunk)?;
        self.bar.inc(len as u64);
        if copying.remaining.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.finish(copying)
        } else {
            Ok(())
        }
    }

    fn finish(&self, copying: &Copying) -> Result<(), CommandError> {
        copying.to.finish()?;
        self.left.remove(&copying.to.left_name());
        let mut state = self.state();
        state.unfinished.retain(|other| other.index != copying.index);
        state.copied[copying.index] = copying.len;
        Ok(())
    }
}

/// What is true of a copy that a signal has ended.
fn interrupted() -> CommandError {
    CommandError::failed("the copy is not complete", "it was interrupted", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(files: &[usize], threads: usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: String| directory.path().join(name);
        let content = |index: usize, len: usize| -> Vec<u8> {
            (0..len).map(|i| (i * 31 + i / 4096 + index) as u8).collect()
        };
        let jobs = files.iter().enumerate().map(|(index, &len)| {
            std::fs::write(path(format!("from{index}")), content(index, len)).unwrap();
            let [from, to] =
                ["from", "to"].map(|side| Location::Local(path(format!("{side}{index}"))));
            CopyJob { from, to, bytes: len as u64 }
        });
        let (bar, stop) = (ProgressBar::hidden(), AtomicBool::new(false));
        let left = UnfinishedCopies::default();
        let sizes = run(jobs.collect(), Layout::default(), threads, &bar, &left, &stop).unwrap();
        assert_eq!(sizes, files.iter().map(|len| *len as u64).collect::<Vec<_>>());
        for (index, &len) in files.iter().enumerate() {
            assert!(std::fs::read(path(format!("to{index}"))).unwrap() == content(index, len));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2 * files.len());
    }

    #[test]
    fn all_sizes_arrive_whole() {
        let chunk = CHUNK as usize;
        copied(&[], 3);
        copied(&[0], 1);
        copied(&[3 * chunk + 5], 4);
        copied(&[1, chunk, 0, chunk + 1, 2 * chunk - 1, 7], 3);
        copied(&[9; 40], 8);
    }

    #[test]
    fn a_failure_leaves_nothing_unfinished() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Location::Local(directory.path().join(name));
        std::fs::write(directory.path().join("a"), vec![1; 9 << 20]).unwrap();
        let job = |from, to| CopyJob { from: path(from), to: path(to), bytes: 0 };
        let (bar, stop) = (ProgressBar::hidden(), AtomicBool::new(false));
        let jobs = vec![job("missing", "b"), job("a", "c")];
        let left = UnfinishedCopies::default();
        let error = run(jobs, Layout::default(), 1, &bar, &left, &stop).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
        let stop = AtomicBool::new(true);
        let jobs = vec![job("a", "c")];
        let error = run(jobs, Layout::default(), 2, &bar, &left, &stop).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
