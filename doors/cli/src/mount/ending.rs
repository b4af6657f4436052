//! Waiting for the end of mounts that other processes serve, and reporting the logs that these have
//! left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use striate_mount::{Ended, FoundRecord, Record, Settling, State};
use striate_stack::Configuration;
use striate_stages::recover::{RecoveryMode, recover};

use crate::CommandError;
use crate::number::{counted, grouped};

/// How often it is looked whether a mount has ended.
const INTERVAL: Duration = Duration::from_millis(20);
/// So many files that are missing are named.
const NAMED: usize = 20;

/// For how long something is waited for.
#[derive(Clone, Debug)]
pub(crate) struct WaitLimit {
    until: Option<Instant>,
    /// Set by a signal.
    interrupted: Arc<AtomicBool>,
}

impl WaitLimit {
    pub(crate) fn new(seconds: Option<f64>, interrupted: Arc<AtomicBool>) -> Self {
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        Self { until, interrupted }
    }

    /// Why it is not waited for any longer.
    fn is_over(&self) -> Option<&'static str> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        self.until
            .is_some_and(|until| Instant::now() >= until)
            .then_some("the time limit was reached")
    }

    /// Waits until something holds. Fails with why it has not.
    pub(crate) fn until(&self, mut holds: impl FnMut() -> bool) -> Result<(), &'static str> {
        while !holds() {
            if let Some(reason) = self.is_over() {
                return Err(reason);
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }
}

/// A bar that shows how many files are still to be written; on terminals only.
pub(crate) struct SettlingBar(ProgressBar);

impl SettlingBar {
    pub(crate) fn new() -> Self {
        Self(ProgressBar::hidden())
    }

    pub(crate) fn show(&mut self, settling: Settling) {
        let Settling { held, left } = settling;
        if self.0.is_hidden() {
            let template = "settling [{bar:30}] {pos}/{len} files on the source";
            let style = ProgressStyle::with_template(template);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            // It draws on standard error, if that is a terminal.
            self.0 = ProgressBar::new(held).with_style(style.progress_chars("=> "));
        }
        self.0.set_length(held);
        self.0.set_position(held.saturating_sub(left));
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Waits for the end of a mount, until everything is on the source.
pub(super) fn wait(listed: &mut FoundRecord, patience: &WaitLimit) -> Result<Ended, CommandError> {
    let mut bar = SettlingBar::new();
    let mut ended = None;
    let waited = patience.until(|| {
        ended = listed.look();
        let Record { state, held, left, .. } = listed.record;
        if ended.is_none() && state == State::Settling && held > 0 {
            bar.show(Settling { held, left });
        }
        ended.is_some()
    });
    bar.clear();
    match (waited, ended) {
        (Ok(()), Some(ended)) => Ok(ended),
        (waited, _) => Err(unfinished(&listed.record, waited.err().unwrap_or_default())),
    }
}

/// It is not waited for a mount any longer.
fn unfinished(record: &Record, reason: &str) -> CommandError {
    let Record { process, source, point, left, .. } = record;
    let doing = match record.state {
        State::Serving => format!("process {process} still serves {point}"),
        _ if *left > 0 => {
            let files = counted(*left, "file");
            format!("process {process} still has {files} to write to {source}")
        }
        _ => format!("process {process} still writes to {source}"),
    };
    CommandError::failed(
        format!("not everything is on {source} yet"),
        format!("{reason}, and {doing}; it continues in the background"),
        format!("'striate mount --wait {point}' waits again"),
    )
}

/// What a mount that did not end well has left to be done.
pub(super) struct Leftovers {
    /// Files that are not on the source, and where their bytes are.
    pub(super) files: Vec<String>,
    /// The command that brings them.
    pub(super) remedy: String,
}

impl Leftovers {
    /// What the stages of a mount have left in their logs. Only records of this user's own
    /// processes are trusted.
    pub(super) fn of(listed: &FoundRecord) -> Self {
        let record = &listed.record;
        let mut files = Vec::new();
        if listed.user == rustix::process::geteuid().as_raw()
            && let Ok(configuration) = striate_stages::parse_stack(&record.configuration)
        {
            files = found(&configuration, Path::new(&record.source));
        }
        let stack = record.stack.as_deref().unwrap_or("STACK");
        Self { files, remedy: remedy(stack, &record.source) }
    }

    /// The first of them.
    pub(super) fn text(&self) -> String {
        if self.files.is_empty() {
            return String::new();
        }
        let mut lines: Vec<&str> = self.files.iter().take(NAMED).map(String::as_str).collect();
        let more = self.files.len().saturating_sub(NAMED);
        let rest = format!("and {} more", grouped(more as u64));
        if more > 0 {
            lines.push(&rest);
        }
        ["\n  ", &lines.join("\n  ")].concat()
    }
}

/// The command that brings what stages have left.
pub(super) fn remedy(stack: &str, source: &str) -> String {
    format!("'striate stack recover {stack} {source}' restores files from logs")
}

/// Files that stages have left elsewhere.
pub(super) fn found(configuration: &Configuration, source: &Path) -> Vec<String> {
    let report = recover(configuration, &[PathBuf::from(source)], RecoveryMode::List);
    let unreadable = report.unreadable.iter();
    let unreadable = unreadable.map(|(path, error)| format!("{}: {error}", path.display()));
    report.files.iter().map(ToString::to_string).chain(unreadable).collect()
}

/// What is wrong with a mount that did not end well.
pub(super) fn sentence(record: &Record, ended: &Ended) -> String {
    let Record { process, source, point, .. } = record;
    match ended {
        Ended::Settled => format!("everything is on {source}"),
        Ended::Failed(error) => format!("not everything of {point} is on {source}: {error}"),
        Ended::Killed if record.stack.is_none() => format!(
            "process {process}, which served it, was killed; without stages there was no buffered data"
        ),
        Ended::Killed => format!(
            "process {process}, which served {point}, was killed: data that its stages had not yet written from \
             {source} is in logs or lost"
        ),
    }
}
