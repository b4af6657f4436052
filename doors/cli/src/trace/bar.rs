//! [`Bar`]: how far a command is that goes through a recording, on terminals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use striate_recording::Progress;

use crate::{CommandError, signals};

/// Shows progress while it lives. A signal ends what is watched.
#[derive(Debug)]
pub(crate) struct Bar {
    progress: Arc<Progress>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    /// From now on signals set the flag of the progress.
    pub(crate) fn new() -> Result<Self, CommandError> {
        let progress = Arc::new(Progress::new(signals::flag()?));
        let over = Arc::new(AtomicBool::new(false));
        let bar = shown();
        // Nobody looks.
        let thread = if bar.is_hidden() {
            None
        } else {
            let (progress, over) = (Arc::clone(&progress), Arc::clone(&over));
            std::thread::Builder::new().spawn(move || show(&bar, &progress, &over)).ok()
        };
        Ok(Self { progress, over, thread })
    }

    /// What is shown.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Ends the display. Fails if a signal has come: `left` says what is left where.
    pub(crate) fn end(self, left: impl FnOnce() -> String) -> Result<(), CommandError> {
        let interrupted = self.progress.is_stopped();
        drop(self);
        if interrupted { Err(interrupted_by_signal(left())) } else { Ok(()) }
    }
}

/// What a command says that a signal has ended.
pub(crate) fn interrupted_by_signal(left: String) -> CommandError {
    CommandError::failed("interrupted", left, "")
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn shown() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:24} {percent:>3} % {elapsed} {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, progress: &Progress, over: &AtomicBool) {
    const LOOK: Duration = Duration::from_millis(100);
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(LOOK);
        let (phase, done, total) = progress.now();
        if total > 0 && !over.load(Ordering::Relaxed) {
            bar.set_length(total);
            bar.set_position(done.min(total));
            bar.set_message(phase);
        }
    }
    bar.finish_and_clear();
}
