//! [`IoQueue`]: the windows that an aggregator's I/O threads read and write while messages travel.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use striate_store::store::Store;

use super::FirstError;
use super::node_work::NodeWork;
use crate::Direction;

/// A window to read into its slot, or to write from it.
pub(super) struct WindowIo {
    pub(super) direction: Direction,
    pub(super) slot: usize,
    pub(super) range: Range<u64>,
}

/// A window that was read or written.
#[derive(Clone, Copy)]
pub(super) struct WindowDone {
    pub(super) direction: Direction,
    pub(super) slot: usize,
    /// Bytes that the file had.
    pub(super) got: u64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<WindowIo>,
    done: Vec<WindowDone>,
    closed: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct IoQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl IoQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submit(&self, io: WindowIo) {
        self.lock().waiting.push_back(io);
        self.changed.notify_one();
    }

    pub(super) fn take_done(&self) -> Vec<WindowDone> {
        std::mem::take(&mut self.lock().done)
    }

    /// No more windows follow: the threads end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The body of an I/O thread.
    pub(super) fn serve(&self, store: &dyn Store, work: &NodeWork, first_error: &FirstError<'_>) {
        let mut queue = self.lock();
        loop {
            let Some(WindowIo { direction, slot, range }) = queue.waiting.pop_front() else {
                if queue.closed {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let len = (range.end - range.start) as usize;
            let got = first_error.attempt(|| {
                // SAFETY: the slot is long enough, and no rank accesses it until this is done.
                let bytes = unsafe { std::slice::from_raw_parts_mut(work.slot(slot), len) };
                match direction {
                    Direction::Read => {
                        let got = store.read_at(range.start, bytes)?;
                        bytes[got..].fill(0);
                        Ok(got)
                    }
                    Direction::Write => {
                        store.write_at(range.start, bytes)?;
                        Ok(len)
                    }
                }
            });
            queue = self.lock();
            queue.done.push(WindowDone { direction, slot, got: got.unwrap_or(0) as u64 });
            work.notify();
        }
    }
}
