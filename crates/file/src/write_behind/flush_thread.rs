//! [`FlushThread`]: the thread of one rank of a node that writes full windows, and those that have
//! waited long enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use striate_store::StoreError;

use super::{WindowSlot, WriteBehind};

/// A window is written when nothing has been added to it for so long, or after so many of these
/// periods.
const PERIOD: Duration = Duration::from_millis(20);
const PERIODS: u64 = 5;

/// How long the thread sleeps while nothing waits.
const IDLE: Duration = Duration::from_secs(1);

/// The thread, if this rank has it.
#[derive(Debug, Default)]
pub(super) struct FlushThread {
    handle: Mutex<Option<JoinHandle<()>>>,
    ended: AtomicBool,
}

impl WriteBehind {
    /// Starts the thread, unless a rank of the node has one.
    pub(super) fn start_thread(self: &Arc<Self>) {
        let has_thread = &self.shared.header().has_thread;
        if has_thread.load(Ordering::Relaxed) != 0 || has_thread.swap(1, Ordering::AcqRel) != 0 {
            return;
        }
        let this = Arc::clone(self);
        let builder = std::thread::Builder::new().name("striate-flush".into());
        match builder.spawn(move || this.run_thread()) {
            Ok(handle) => {
                *self.thread.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
            }
            // Nothing may wait for a thread that does not exist.
            Err(_) => self.disable(),
        }
    }

    fn run_thread(&self) {
        let header = self.shared.header();
        let mut start = Instant::now();
        while !self.thread.ended.load(Ordering::Acquire) {
            let seen = header.work.load(Ordering::SeqCst);
            if let Some(claimed) = self.shared.claim(WindowSlot::is_full) {
                self.write_slot(&claimed);
                continue;
            }
            if header.waiting.load(Ordering::Acquire) == 0 {
                self.shared.rest(seen, IDLE);
                start = Instant::now();
                continue;
            }
            if let Some(left) = PERIOD.checked_sub(start.elapsed()) {
                self.shared.rest(seen, left);
                continue;
            }
            start = Instant::now();
            let now = header.period.fetch_add(1, Ordering::Relaxed);
            let is_due = |slot: &WindowSlot| slot.touched < now || slot.taken + PERIODS < now;
            while let Some(claimed) = self.shared.claim(is_due) {
                self.write_slot(&claimed);
            }
        }
    }

    /// Writes everything that waits and ends this rank's part: nothing of it waits after. Returns
    /// an error that not all ranks know of.
    pub(crate) fn end(&self) -> Result<(), StoreError> {
        self.flush();
        self.thread.ended.store(true, Ordering::Release);
        let handle = self.thread.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            self.shared.wake_thread();
            // It does not panic; if it did, what waits is written already.
            let _ = handle.join();
            // Ranks that still have the file open may start their own.
            self.shared.header().has_thread.store(0, Ordering::Release);
        }
        self.check_failure()
    }
}
