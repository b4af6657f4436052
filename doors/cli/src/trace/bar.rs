//! [`RecordingBar`]: the progress bar of a command that reads a recording, on terminals.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use striate_recording::Progress;

use crate::{CommandError, signals};

/// Shows progress while it lives. A signal ends what is watched.
#[derive(Debug)]
pub(crate) struct RecordingBar {
    progress: Arc<Progress>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a command does once its progress is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenStopped {
    /// It looks at the flag often enough, and ends.
    Ends,
    /// It may wait until its output is read.
    MayBlock,
}

/// What is said of standard output when a signal has come.
pub(crate) const PARTIAL: &str = "the output on standard output is incomplete";

impl RecordingBar {
    /// From now on signals set the flag of the progress.
    pub(crate) fn new() -> Result<Self, CommandError> {
        Self::with(shown(), WhenStopped::Ends)
    }

    /// For a command that writes to standard output: it is shown unless that is the terminal, and a
    /// signal ends the command even if its output is not read.
    pub(crate) fn of_output() -> Result<Self, CommandError> {
        let bar = if std::io::stdout().is_terminal() { ProgressBar::hidden() } else { shown() };
        Self::with(bar, WhenStopped::MayBlock)
    }

    fn with(bar: ProgressBar, when_stopped: WhenStopped) -> Result<Self, CommandError> {
        let progress = Arc::new(Progress::new(signals::flag()?));
        let over = Arc::new(AtomicBool::new(false));
        let thread = if bar.is_hidden() && when_stopped == WhenStopped::Ends {
            None
        } else {
            let (progress, over) = (Arc::clone(&progress), Arc::clone(&over));
            let show = move || show(&bar, &progress, &over, when_stopped);
            std::thread::Builder::new().spawn(show).ok()
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

impl Drop for RecordingBar {
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

fn show(bar: &ProgressBar, progress: &Progress, over: &AtomicBool, when_stopped: WhenStopped) {
    const LOOK: Duration = Duration::from_millis(100);
    /// So long a command may take to end by itself.
    const PATIENCE: Duration = Duration::from_millis(500);
    let mut stopped: Option<Instant> = None;
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(LOOK);
        let (phase, done, total) = progress.now();
        if total > 0 && !over.load(Ordering::Relaxed) {
            bar.set_length(total);
            bar.set_position(done.min(total));
            bar.set_message(phase);
        }
        if when_stopped == WhenStopped::MayBlock
            && progress.is_stopped()
            && stopped.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
            && !over.load(Ordering::Relaxed)
        {
            bar.finish_and_clear();
            interrupted_by_signal(PARTIAL.to_owned()).report();
            std::process::exit(1);
        }
    }
    bar.finish_and_clear();
}
