//! Closed files go to their destination, here or in a thread.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use rustix::io::Errno;

use super::moving::{commit, give_up, prepare};
use super::state::{Moved, Shared};
use crate::file::lock;
use crate::gate::stay_within;
use crate::threads::without_signals;

/// Moves a file that nobody has open to its destination. If it is opened meanwhile, it stays, and its next
/// close moves it.
pub(super) fn move_home(shared: &Shared, moved: &Arc<Moved>) -> Result<(), Errno> {
    let (directory, opened) = {
        let state = lock(&shared.state);
        let Some(entry) = state.key_of(moved).and_then(|key| state.entries.get(key)) else {
            return Ok(());
        };
        if !entry.is_closed() {
            return Ok(());
        }
        (Arc::clone(&entry.directory), entry.opened)
    };
    let ready = prepare(&moved.fast, &directory)?;
    let mut state = lock(&shared.state);
    let key = state.key_of(moved).cloned();
    let entry = key.as_ref().and_then(|key| state.entries.get(key));
    let same = |entry: &&super::state::Entry| {
        entry.opened == opened && Arc::ptr_eq(&entry.directory, &directory) && entry.is_closed()
    };
    let Some(entry) = entry.filter(same) else {
        give_up(&ready, &directory);
        let again = key
            .is_some_and(|key| state.entries.get(&key).is_some_and(super::state::Entry::is_closed));
        drop(state);
        // Its directory is another now, or it was opened and closed.
        return if again { move_home(shared, moved) } else { Ok(()) };
    };
    if let Err(error) = commit(&ready, &moved.fast, &directory, &entry.name) {
        give_up(&ready, &directory);
        return Err(error);
    }
    let _ = std::fs::remove_file(&moved.journal);
    moved.set_home();
    if let Some(key) = key {
        state.take(&key);
    }
    shared.named.store(state.entries.len(), Ordering::Release);
    Ok(())
}

/// The thread that moves files, and what it has to do.
#[derive(Debug)]
pub(super) struct Mover {
    shared: Weak<Shared>,
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    waiting: VecDeque<Arc<Moved>>,
    busy: bool,
    /// Whether there is a thread.
    runs: bool,
}

impl Mover {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), queue: Arc::default() }
    }

    /// Has a file moved, soon. Returns whether somebody will.
    pub(super) fn take(&self, moved: &Arc<Moved>) -> bool {
        let mut work = lock(&self.queue.work);
        if !work.runs {
            let (shared, queue) = (Weak::clone(&self.shared), Arc::clone(&self.queue));
            let thread = without_signals(|| {
                let name = "striate-mover".to_owned();
                std::thread::Builder::new().name(name).spawn(move || run(&shared, &queue))
            });
            if thread.is_err() {
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
    }

    /// This process is a copy: the thread is not in it.
    pub(super) fn start_anew(&self) {
        *lock(&self.queue.work) = Work::default();
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        // The thread ends when it finds that the stage is gone.
        lock(&self.queue.work).runs = false;
        self.queue.changed.notify_all();
    }
}

fn run(shared: &Weak<Shared>, queue: &Queue) {
    stay_within();
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
