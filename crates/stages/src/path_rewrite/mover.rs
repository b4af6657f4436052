//! Moves of closed files to their destination, by the closing thread or by a background thread.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use rustix::io::Errno;
use striate_process::lock::lock;
use striate_stack::descriptor_table::{close_unused, has_own_table, leave_table};
use striate_stack::stay_within;

use super::claim::BoundedWait;
use super::moving::{MoveRefusal, commit, give_up, prepare};
use super::state::{MovedFile, SharedState};
use crate::threads::without_signals;

/// As many files wait for the thread at most: they have descriptors.
const MOST_WAITING: usize = 64;

/// Moves a file that is not open to its destination, unless another process uses it: that one moves
/// it then. If it is opened meanwhile, it stays, and its next close moves it.
pub(super) fn move_home(shared: &SharedState, moved: &Arc<MovedFile>) -> Result<(), Errno> {
    let told = |refused: MoveRefusal| {
        // Standard error is the program's; at the end it is tried again and said by one of its
        // threads.
        if !has_own_table() {
            moved.tell(&refused, &shared.stderr);
        }
        refused.errno()
    };
    let mut patience = BoundedWait::new();
    loop {
        let opened = {
            let mut state = lock(&shared.state);
            let Some(entry) = state.entry(moved) else { return Ok(()) };
            if entry.moving {
                // Another thread does it.
                drop(state);
                patience.wait()?;
                continue;
            }
            if !entry.is_closed() || entry.mapped {
                return Ok(());
            }
            // A process that was copied from this one has the same claim.
            if entry.stays || !moved.claim_alone() {
                if has_own_table() {
                    // To give up the claim is for a thread of the program: by its close.
                    return Ok(());
                }
                state.take(moved);
                drop(state);
                return moved.release().map_err(told);
            }
            entry.moving = true;
            entry.opened
        };
        let ready = match moved.handle() {
            Ok(handle) => prepare(&moved.base, Some(handle.as_fd())),
            Err(error) => Err(error.into()),
        };
        let mut state = lock(&shared.state);
        let Some(entry) = state.entry(moved) else {
            // It was removed.
            let _ = ready.map(|ready| give_up(&ready, &moved.base));
            return Ok(());
        };
        entry.moving = false;
        let is_same = entry.opened == opened && entry.is_closed();
        let done = match ready {
            Ok(ready) if is_same => {
                let done = commit(&ready, &moved.base);
                done.inspect_err(|_| give_up(&ready, &moved.base)).map(|()| true)
            }
            Ok(ready) => {
                give_up(&ready, &moved.base);
                Ok(false)
            }
            // It was changed while it was copied.
            Err(_) if !is_same => Ok(false),
            Err(refused) => Err(refused),
        };
        match done {
            Ok(true) => {
                moved.set_at_destination();
                state.take(moved);
                return Ok(());
            }
            // It was opened, and perhaps closed again.
            Ok(false) | Err(MoveRefusal::Renamed) => moved.claim_in_common(),
            Err(refused) => {
                moved.claim_in_common();
                return Err(told(refused));
            }
        }
    }
}

/// The thread that moves files, and what it has to do.
#[derive(Debug)]
pub(super) struct Mover {
    shared: Weak<SharedState>,
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    waiting: VecDeque<Arc<MovedFile>>,
    busy: bool,
    /// Whether there is a thread.
    runs: bool,
    /// Whether there cannot be one.
    fails: bool,
}

impl Mover {
    pub(super) fn new(shared: &Arc<SharedState>) -> Self {
        Self { shared: Arc::downgrade(shared), queue: Arc::default() }
    }

    /// Queues a file to be moved. Returns whether it will be.
    pub(super) fn take(&self, moved: &Arc<MovedFile>) -> bool {
        let mut work = lock(&self.queue.work);
        if work.waiting.len() >= MOST_WAITING || work.fails {
            return false;
        }
        if !work.runs {
            let (shared, queue) = (Weak::clone(&self.shared), Arc::clone(&self.queue));
            let sample = moved.handle_number();
            let (tell, hear) = std::sync::mpsc::channel();
            let thread = without_signals(|| {
                let name = "striate-mover".to_owned();
                std::thread::Builder::new().name(name).spawn(move || {
                    stay_within();
                    let left = leave_table(sample);
                    let _ = tell.send(left);
                    if left.is_ok() {
                        run(&shared, &queue);
                    }
                })
            });
            // Where a thread cannot have descriptors of its own, the closing thread moves a file.
            work.fails = thread.is_err() || !matches!(hear.recv(), Ok(Ok(())));
            if work.fails {
                return false;
            }
            work.runs = true;
        }
        work.waiting.push_back(Arc::clone(moved));
        self.queue.changed.notify_all();
        true
    }

    /// Waits until nothing is left to do. The thread is idle then, and holds nothing.
    pub(super) fn wait(&self) {
        let mut work = lock(&self.queue.work);
        while work.runs && (work.busy || !work.waiting.is_empty()) {
            work = self.queue.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        drop(work);
        close_unused();
    }

    /// This process is a copy: the thread is not in it.
    pub(super) fn start_anew(&self) {
        *lock(&self.queue.work) = Work::default();
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        // The thread ends when it finds that the stage was dropped.
        lock(&self.queue.work).runs = false;
        self.queue.changed.notify_all();
    }
}

fn run(shared: &Weak<SharedState>, queue: &Queue) {
    let mut work = lock(&queue.work);
    loop {
        if let Some(moved) = work.waiting.pop_front() {
            work.busy = true;
            drop(work);
            if let Some(shared) = shared.upgrade() {
                // What fails stays where it is, and is tried again at the end.
                let _ = move_home(&shared, &moved);
            }
            work = lock(&queue.work);
            work.busy = false;
            queue.changed.notify_all();
        } else if work.runs {
            work = queue.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        } else {
            return;
        }
    }
}
