//! [`ProbeBar`]: how much of a probe is written, on a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// A bar that follows a number of bytes until this is dropped.
#[derive(Debug)]
pub(super) struct ProbeBar {
    bar: ProgressBar,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProbeBar {
    /// Nothing is shown yet.
    pub(super) fn new(written: &Arc<AtomicU64>) -> Self {
        let bar = ProgressBar::new(0).with_style(
            ProgressStyle::with_template("{bar:24} {bytes} of {total_bytes}, {bytes_per_sec}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let ended = Arc::new(AtomicBool::new(false));
        let follow = {
            let (bar, ended, written) = (bar.clone(), Arc::clone(&ended), Arc::clone(written));
            move || {
                while !ended.load(Ordering::Relaxed) {
                    if bar.length() > Some(0) {
                        bar.set_position(written.load(Ordering::Relaxed));
                    }
                    std::thread::park_timeout(EVERY);
                }
            }
        };
        // Without a terminal, or without a thread, nothing is shown.
        let thread = (!bar.is_hidden()).then(|| std::thread::Builder::new().spawn(follow).ok());
        Self { bar, ended, thread: thread.flatten() }
    }

    /// So many bytes are going to be written.
    pub(super) fn begin(&self, bytes: u64) {
        self.bar.set_length(bytes);
    }
}

impl Drop for ProbeBar {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
