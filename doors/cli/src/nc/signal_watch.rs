//! [`SignalWatch`]: a command that is asked to end (Ctrl-C, SIGTERM) ends within a second, says
//! what it leaves behind, and fails.
//!
//! A loop that can stop in order reads [`SignalWatch::stop`]. A rank may wait for a device or a
//! server, or be busy for long, so a thread waits for the signal as well, and ends the process a
//! moment later.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{CommandError, ranks};

/// How long a command that writes may take to end in order.
const GRACE: Duration = Duration::from_millis(600);

/// What a command leaves if it ends now.
#[derive(Clone, Debug)]
pub(super) enum Leftover {
    /// Nothing that has to be removed; a sentence says so.
    Nothing(&'static str),
    /// Something that is consistent as it is; a sentence describes it.
    Unfinished(String),
    /// An unfinished copy, which is removed.
    Copy { part: PathBuf, name: String },
    /// A partitioned dataset that is not published yet, or just was.
    Dataset { unpublished: PathBuf, name: String },
}

#[derive(Debug)]
struct Shared {
    stop: Arc<AtomicBool>,
    ended: AtomicBool,
    leaves: Mutex<Leftover>,
    bar: ProgressBar,
}

/// Waits for signals as long as it lives.
#[derive(Debug)]
pub(super) struct SignalWatch(Arc<Shared>);

impl SignalWatch {
    /// From now on a signal ends the command.
    pub(super) fn new(leaves: Leftover) -> Result<Self, CommandError> {
        let cannot = |error| CommandError::failed("cannot listen to signals", error, "");
        let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(cannot)?;
        let shared = Arc::new(Shared {
            stop: Arc::new(AtomicBool::new(false)),
            ended: AtomicBool::new(false),
            leaves: Mutex::new(leaves),
            bar: progress_bar(),
        });
        let own = Arc::clone(&shared);
        let watch = move || {
            if let Some(signal) = signals.forever().next() {
                own.end(signal);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(cannot)?;
        Ok(Self(shared))
    }

    /// Set by the first signal.
    pub(super) fn stop(&self) -> &Arc<AtomicBool> {
        &self.0.stop
    }

    /// What is shown on a terminal meanwhile.
    pub(super) fn bar(&self) -> &ProgressBar {
        &self.0.bar
    }

    /// From now on something else is left.
    pub(super) fn leaves(&self, leaves: Leftover) {
        *self.0.leaves() = leaves;
    }

    /// Does something that must not be interrupted between its parts: after it, something else is
    /// left.
    pub(super) fn between<T>(
        &self,
        work: impl FnOnce() -> Result<T, CommandError>,
        after: Leftover,
    ) -> Result<T, CommandError> {
        let mut leaves = self.0.leaves();
        let done = work()?;
        *leaves = after;
        Ok(done)
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.bar.finish_and_clear();
    }
}

impl Shared {
    fn leaves(&self) -> MutexGuard<'_, Leftover> {
        self.leaves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process, unless the command does so by itself.
    fn end(&self, signal: i32) {
        self.stop.store(true, Ordering::SeqCst);
        let in_order = !matches!(*self.leaves(), Leftover::Nothing(_));
        let limit = Instant::now() + GRACE;
        while in_order && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(5));
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
        }
        let leaves = self.leaves();
        if self.ended.load(Ordering::SeqCst) {
            return;
        }
        if ranks::is_printing_rank() {
            self.bar.finish_and_clear();
            eprintln!("error: interrupted: {}", leaves.told());
        }
        signal_hook::low_level::exit(128 + signal);
    }
}

impl Leftover {
    /// Clears up what can be cleared up in no time, and says what is left.
    fn told(&self) -> String {
        match self {
            Self::Nothing(told) => (*told).to_owned(),
            Self::Unfinished(told) => told.clone(),
            Self::Copy { part, name } => {
                let is_url = part.to_str().is_some_and(|text| text.contains("://"));
                let is_there = || part.symlink_metadata().is_ok();
                if is_url || (is_there() && std::fs::remove_file(part).is_err()) {
                    let part = part.display();
                    format!(
                        "the copy is not complete, and {name} is as it was; {part} is left, and goes \
                         when {name} is written again"
                    )
                } else {
                    format!("the copy was not complete and is removed; {name} is as it was")
                }
            }
            Self::Dataset { unpublished, name } => {
                let is_url = unpublished.to_str().is_some_and(|text| text.contains("://"));
                if is_url || unpublished.symlink_metadata().is_ok() {
                    let left = unpublished.display();
                    format!(
                        "the dataset is not complete, and {name} is as it was; 'striate nc rm {left}' \
                         removes what is left, and so does writing {name} again"
                    )
                } else {
                    format!("{name} may be complete: 'striate nc validate {name}' tells")
                }
            }
        }
    }
}

/// Shows itself on a terminal only, and in one process only.
fn progress_bar() -> ProgressBar {
    if !ranks::is_printing_rank() {
        return ProgressBar::hidden();
    }
    let style = "{bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(style);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
