//! Copies files in parallel.
//!
//! Threads take parts from a queue, each with one buffer, so that the memory is bounded whatever is
//! copied. Parts of one large file and of many small ones are alike; who finds no part opens the next
//! file. The last part of a file to be written gives the file its name. After a failure nothing new is
//! begun, and what is unfinished is removed; what cannot be removed is named ([`Left`]).

mod left;
mod place;
mod plan;
mod unfinished;

use std::collections::VecDeque;
use std::iter::Enumerate;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use indicatif::ProgressBar;
use striate_store::remote::{Client, Layout, RemoteFile, RemoteOptions};
use striate_store::{PosixFile, PosixOptions, Store};

pub(crate) use left::Left;
pub(crate) use place::Place;
pub(crate) use plan::{Job, plan};
pub(crate) use unfinished::IN_USE;
use unfinished::Unfinished;

use crate::CommandError;

/// Bytes of a part, and of a buffer.
const PART: u64 = 4 << 20;

/// How long parts that are under way are waited for when the copy is interrupted.
const LAST_PARTS: Duration = Duration::from_millis(400);

/// Copies all files; returns their sizes in the order of the jobs. `stop` ends it early. What is unfinished, or left
/// in the end, is in `left` at any time.
pub(crate) fn run(
    jobs: Vec<Job>,
    layout: Layout,
    threads: usize,
    bar: &ProgressBar,
    left: &Left,
    stop: &AtomicBool,
) -> Result<Vec<u64>, CommandError> {
    let state = State {
        copied: vec![0; jobs.len()],
        jobs: jobs.into_iter().enumerate(),
        parts: VecDeque::new(),
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
        // A part that is still under way may come to its server after the removal, and be stored then.
        let all_ended = workers.iter().all(ScopedJoinHandle::is_finished);
        for copying in unfinished {
            if copying.to.discard().is_ok() && all_ended {
                left.remove(&copying.to.part());
            }
        }
        Err(left.told_by(error))
    })
}

/// All that threads share.
struct Copy<'c> {
    layout: Layout,
    bar: &'c ProgressBar,
    left: &'c Left,
    stop: &'c AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    jobs: Enumerate<IntoIter<Job>>,
    /// Open files with parts that nobody has taken yet, from this offset on.
    parts: VecDeque<(Arc<Copying>, u64)>,
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
    to: Unfinished,
    len: u64,
    /// Parts that are not copied yet.
    left: AtomicU64,
}

enum Task {
    Open(usize, Job),
    Part(Arc<Copying>, u64),
}

impl Copy<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all have ended; if the copy is interrupted, not much longer than that.
    fn wait_for(&self, workers: &[ScopedJoinHandle<'_, ()>]) {
        let mut since = None;
        while !workers.iter().all(ScopedJoinHandle::is_finished) {
            if self.stop.load(Ordering::SeqCst)
                && since.get_or_insert_with(Instant::now).elapsed() > LAST_PARTS
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
            // Who panics must not leave the others waiting for what he was at.
            let done = catch_unwind(AssertUnwindSafe(|| match task {
                Task::Open(index, job) => self.open(index, &job),
                Task::Part(copying, offset) => self.copy_part(&copying, offset, &mut buffer),
            }));
            let done = done.unwrap_or_else(|_| {
                Err(CommandError::failed("the copy is not complete", "a thread panicked", ""))
            });
            self.state().opening -= usize::from(opens);
            if let Err(error) = done {
                // The first failure is the cause of others.
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
            if let Some((copying, offset)) = state.parts.pop_front() {
                if copying.len - offset > PART {
                    state.parts.push_front((Arc::clone(&copying), offset + PART));
                }
                return Some(Task::Part(copying, offset));
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

    fn open(&self, index: usize, job: &Job) -> Result<(), CommandError> {
        self.bar.set_message(job.to.to_string());
        let from: Box<dyn Store> = match &job.from {
            Place::Local(path) => Box::new(PosixFile::open(path, &PosixOptions::read_only())?),
            Place::Remote(url) => {
                let client = Client::shared(url)?;
                Box::new(RemoteFile::open_with(&client, url, &RemoteOptions::default())?)
            }
        };
        let len = from.len()?;
        let to = Unfinished::create(&job.to, self.layout, self.left)?;
        let left = AtomicU64::new(len.div_ceil(PART));
        let copying = Arc::new(Copying { index, from, to, len, left });
        let mut state = self.state();
        state.unfinished.push(Arc::clone(&copying));
        drop(state);
        if len == 0 {
            return self.finish(&copying);
        }
        self.state().parts.push_back((copying, 0));
        Ok(())
    }

    fn copy_part(
        &self,
        copying: &Copying,
        offset: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let len = (copying.len - offset).min(PART) as usize;
        // Small files need no large buffers.
        buffer.resize(buffer.len().max(len), 0);
        let part = &mut buffer[..len];
        if copying.from.read_at(offset, part)? < len {
            return Err(CommandError::failed(
                format!("cannot copy {}", copying.from.name()),
                "it became shorter meanwhile",
                "copy it again when nobody writes to it",
            ));
        }
        copying.to.store.write_at(offset, part)?;
        self.bar.inc(len as u64);
        if copying.left.fetch_sub(1, Ordering::SeqCst) == 1 { self.finish(copying) } else { Ok(()) }
    }

    fn finish(&self, copying: &Copying) -> Result<(), CommandError> {
        copying.to.finish()?;
        self.left.remove(&copying.to.part());
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
                ["from", "to"].map(|side| Place::Local(path(format!("{side}{index}"))));
            Job { from, to, bytes: len as u64 }
        });
        let (bar, stop) = (ProgressBar::hidden(), AtomicBool::new(false));
        let left = Left::default();
        let sizes = run(jobs.collect(), Layout::default(), threads, &bar, &left, &stop).unwrap();
        assert_eq!(sizes, files.iter().map(|len| *len as u64).collect::<Vec<_>>());
        for (index, &len) in files.iter().enumerate() {
            assert!(std::fs::read(path(format!("to{index}"))).unwrap() == content(index, len));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2 * files.len());
    }

    #[test]
    fn all_sizes_arrive_whole() {
        let part = PART as usize;
        copied(&[], 3);
        copied(&[0], 1);
        copied(&[3 * part + 5], 4);
        copied(&[1, part, 0, part + 1, 2 * part - 1, 7], 3);
        copied(&[9; 40], 8);
    }

    #[test]
    fn a_failure_leaves_nothing_unfinished() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Place::Local(directory.path().join(name));
        std::fs::write(directory.path().join("a"), vec![1; 9 << 20]).unwrap();
        let job = |from, to| Job { from: path(from), to: path(to), bytes: 0 };
        let (bar, stop) = (ProgressBar::hidden(), AtomicBool::new(false));
        let jobs = vec![job("missing", "b"), job("a", "c")];
        let left = Left::default();
        let error = run(jobs, Layout::default(), 1, &bar, &left, &stop).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
        let stop = AtomicBool::new(true);
        let jobs = vec![job("a", "c")];
        let error = run(jobs, Layout::default(), 2, &bar, &left, &stop).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
