//! [`supervised`]: an operation that a signal ends within a second, whatever it waits for.
//!
//! Work that looks at its flag ends in order. Work that waits for a server that does not answer
//! cannot look; then the process ends without it, after it has said what is true in that case.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{CommandError, signals};

/// How long work may take to end in order.
const GRACE: Duration = Duration::from_millis(800);

/// How often it is looked whether a signal came.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the operation, which ends when its flag is set. If that takes too long, the process ends
/// with the message of `interrupted`.
pub(crate) fn supervised<T: Send>(
    interrupted: impl Fn() -> CommandError,
    work: impl FnOnce(&AtomicBool) -> Result<T, CommandError> + Send,
) -> Result<T, CommandError> {
    let stop = signals::flag()?;
    let stop = &*stop;
    thread::scope(|scope| {
        let (done, is_done) = channel();
        let working = scope.spawn(move || {
            // Dropped when the work has ended, in whatever way.
            let _done = done;
            work(stop)
        });
        let mut since = None;
        let nothing: Result<(), _> = loop {
            match is_done.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                ended => break ended,
            }
            if stop.load(Ordering::SeqCst)
                && since.get_or_insert_with(Instant::now).elapsed() > GRACE
            {
                let _ = interrupted().report();
                std::process::exit(1);
            }
        };
        let _ = nothing;
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// For work that changes nothing.
pub(crate) fn unchanged(what: &'static str) -> impl Fn() -> CommandError {
    move || CommandError::failed(what, "it was interrupted; nothing was changed", "")
}

/// A bar for so many steps; it shows itself on a terminal only.
pub(crate) fn steps(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {human_pos}/{human_len} {eta} {wide_msg}");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Something that moves while it is not known how much there is to do; on a terminal only.
pub(crate) fn spinner(message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
    let bar = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        .with_message(message);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
