//! Nonblocking independent calls, carried out by a few I/O threads of the process;
//! [`BackgroundCalls`] counts those of a file.
//!
//! A thread for each call would be too many for a program that starts thousands, so all files of a
//! process share a few. Threads are started when there is work and none is free, and end when there
//! has been none for a while. They are never joined: a process may exit or fork at any time, and a
//! child process starts threads of its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use striate_comm::task::{Tasks, in_task, pause};

use crate::Stats;

/// Threads of a process, at most.
const THREADS: usize = 4;

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many nonblocking independent calls of a file are under way, and what the complete ones have
/// cost.
#[derive(Debug, Default)]
pub(super) struct BackgroundCalls {
    /// Calls under way; changed under the lock only.
    under_way: AtomicUsize,
    spent: Mutex<Stats>,
    done: Condvar,
}

impl BackgroundCalls {
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    pub(super) fn begin(&self) {
        let _spent = lock(&self.spent);
        self.under_way.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end(&self, cost: Stats) {
        let mut spent = lock(&self.spent);
        *spent += cost;
        self.under_way.fetch_sub(1, Ordering::AcqRel);
        drop(spent);
        self.done.notify_all();
    }

    /// Waits until no call is under way, and returns what they have cost since the last time. In a
    /// task, other tasks run meanwhile; a task that is cancelled does not wait.
    pub(super) fn join(&self, tasks: &Tasks) -> Stats {
        let mut spent = lock(&self.spent);
        while !self.is_idle() {
            if in_task() {
                drop(spent);
                let cancelled = pause(tasks, 0).is_err();
                spent = lock(&self.spent);
                if cancelled {
                    break;
                }
            } else {
                spent = self.done.wait(spent).unwrap_or_else(PoisonError::into_inner);
            }
        }
        std::mem::take(&mut *spent)
    }
}

/// A call that a thread carries out.
type Job = Box<dyn FnOnce() + Send>;

/// The threads of a process.
struct Pool {
    process: u32,
    work: Mutex<JobQueue>,
    more: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    free: usize,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// The pool of this process. It lives as long as the process; one of a parent process is left
/// alone, since its threads do not exist in the child and its locks may be held.
fn pool() -> &'static Pool {
    let process = std::process::id();
    loop {
        let found = POOL.load(Ordering::Acquire);
        // SAFETY: every pointer stored there came from a box that is never freed.
        if let Some(pool) = unsafe { found.as_ref() }
            && pool.process == process
        {
            return pool;
        }
        let fresh = Pool { process, work: Mutex::default(), more: Condvar::new() };
        let fresh = Box::into_raw(Box::new(fresh));
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if POOL.compare_exchange(found, fresh, order.0, order.1).is_err() {
            // SAFETY: it was just made, and no other thread has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

/// Has a thread run `job`; the calling thread runs it if no thread can be started.
pub(super) fn submit(job: Job) {
    let pool = pool();
    let mut work = lock(&pool.work);
    work.jobs.push_back(job);
    if work.jobs.len() <= work.free {
        pool.more.notify_one();
        return;
    }
    if work.threads < THREADS {
        work.threads += 1;
        drop(work);
        let started = std::thread::Builder::new().name("striate-io".into()).spawn(|| pool.serve());
        if started.is_ok() {
            return;
        }
        work = lock(&pool.work);
        work.threads -= 1;
    }
    // The running threads take it when they are free.
    if work.threads == 0 {
        let jobs = std::mem::take(&mut work.jobs);
        drop(work);
        for job in jobs {
            job();
        }
    }
}

impl Pool {
    fn serve(&self) {
        let mut work = lock(&self.work);
        loop {
            if let Some(job) = work.jobs.pop_front() {
                drop(work);
                job();
                work = lock(&self.work);
                continue;
            }
            work.free += 1;
            let (again, waited) =
                self.more.wait_timeout(work, IDLE).unwrap_or_else(PoisonError::into_inner);
            work = again;
            work.free -= 1;
            if waited.timed_out() && work.jobs.is_empty() {
                work.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn many_jobs_need_few_threads() {
        let background = Arc::new(BackgroundCalls::default());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..200 {
            background.begin();
            let its = Arc::clone(&background);
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            submit(Box::new(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(100));
                now.fetch_sub(1, Ordering::SeqCst);
                its.end(Stats { calls: 1, ..Stats::default() });
            }));
        }
        assert_eq!(background.join(&Tasks::default()).calls, 200);
        assert!(background.is_idle());
        assert!((1..=THREADS).contains(&most.load(Ordering::SeqCst)));
    }
}
