//! [`Progress`]: how many calls each worker has made, and waiting for that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::order::CallPoint;

/// How often a waiting worker looks whether to give up.
const LOOK: Duration = Duration::from_millis(50);

/// How far a worker is.
#[derive(Debug, Default)]
struct WorkerProgress {
    done: AtomicU64,
    waiting: AtomicU64,
    lock: Mutex<()>,
    moved: Condvar,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Progress {
    workers: Vec<WorkerProgress>,
    /// Calls that are done, of all.
    total: AtomicU64,
    /// Workers that wait for the time of a call.
    sleeping: AtomicU64,
    given_up: AtomicU64,
}

impl Progress {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| WorkerProgress::default()).collect(),
            total: AtomicU64::new(0),
            sleeping: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    /// How many calls a worker has done.
    pub(crate) fn done(&self, worker: u32) -> u64 {
        self.workers
            .get(worker as usize)
            .map_or(u64::MAX, |worker| worker.done.load(Ordering::SeqCst))
    }

    /// How many calls all have done.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::SeqCst)
    }

    /// How many waits were given up.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// A worker has done a call.
    pub(crate) fn complete(&self, worker: u32) {
        self.total.fetch_add(1, Ordering::SeqCst);
        let Some(worker) = self.workers.get(worker as usize) else { return };
        worker.done.fetch_add(1, Ordering::SeqCst);
        if worker.waiting.load(Ordering::SeqCst) > 0 {
            let _held = worker.lock.lock().unwrap_or_else(PoisonError::into_inner);
            worker.moved.notify_all();
        }
    }

    /// Waits until a worker is so far; not if all is to end, and not for ever if nothing moves any
    /// more.
    pub(crate) fn wait(&self, (number, count): CallPoint, stop: &AtomicBool, patience: Duration) {
        let Some(worker) = self.workers.get(number as usize) else { return };
        if worker.done.load(Ordering::SeqCst) >= count {
            return;
        }
        for _ in 0..20 {
            std::thread::yield_now();
            if worker.done.load(Ordering::SeqCst) >= count {
                return;
            }
        }
        worker.waiting.fetch_add(1, Ordering::SeqCst);
        let (mut before, mut since) = (self.total(), Instant::now());
        let mut held = worker.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while worker.done.load(Ordering::SeqCst) < count && !stop.load(Ordering::Relaxed) {
            held = match worker.moved.wait_timeout(held, LOOK) {
                Ok((held, _)) => held,
                Err(error) => error.into_inner().0,
            };
            let now = self.total();
            if now != before || self.sleeping.load(Ordering::Relaxed) > 0 {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() > patience {
                self.given_up.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
        drop(held);
        worker.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until a moment, and spins the last part of it: a sleep ends late.
    pub(crate) fn sleep_until(&self, moment: Instant, stop: &AtomicBool) {
        const SPIN: Duration = Duration::from_micros(60);
        let left = |now: Instant| moment.saturating_duration_since(now);
        let mut rest = left(Instant::now());
        if rest > SPIN {
            self.sleeping.fetch_add(1, Ordering::Relaxed);
            while rest > SPIN && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(rest.saturating_sub(SPIN).min(LOOK));
                rest = left(Instant::now());
            }
            self.sleeping.fetch_sub(1, Ordering::Relaxed);
        }
        while !stop.load(Ordering::Relaxed) && !left(Instant::now()).is_zero() {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken_or_gives_up() {
        let (progress, stop) = (Progress::new(2), AtomicBool::new(false));
        let forever = Duration::from_secs(3600);
        std::thread::scope(|scope| {
            scope.spawn(|| progress.wait((0, 2), &stop, forever));
            progress.complete(0);
            progress.complete(0);
        });
        assert_eq!((progress.done(0), progress.total(), progress.given_up()), (2, 2, 0));
        progress.wait((1, 1), &stop, Duration::ZERO);
        assert_eq!(progress.given_up(), 1);
        stop.store(true, Ordering::Relaxed);
        progress.wait((1, 1), &stop, forever);
        progress.sleep_until(Instant::now() + forever, &stop);
        assert_eq!(progress.given_up(), 1);
    }
}
