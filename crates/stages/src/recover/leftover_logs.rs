//! [`leftover_logs`]: logs of `combine` that processes of a run left behind.
//!
//! A log is in the directory of the files that it holds. Under `striate run` a process writes the
//! path of its log to a file in the directory of the run, and removes that file with the log. So a
//! log that is listed there after the run belongs to a process that was killed, or holds files that
//! could not be written out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::combined::recover_log;
use super::{RecoveryMode, Report};
use crate::combine::NOTE;

/// A log that a process has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftoverLog {
    /// Where it is.
    pub path: PathBuf,
    /// How many files are in it.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// The logs that are noted in the directory of a run and that no process uses any more.
pub fn leftover_logs(run: &Path) -> Vec<LeftoverLog> {
    let Ok(list) = std::fs::read_dir(run) else { return Vec::new() };
    let notes = list.filter_map(Result::ok).map(|entry| entry.path());
    let notes = notes.filter(|path| path.extension().is_some_and(|ending| ending == NOTE));
    let mut logs: Vec<LeftoverLog> = notes.filter_map(|note| leftover_log(&note)).collect();
    logs.sort_by(|one, other| one.path.cmp(&other.path));
    logs
}

fn leftover_log(note: &Path) -> Option<LeftoverLog> {
    let path = PathBuf::from(OsStr::from_bytes(&std::fs::read(note).ok()?));
    std::fs::symlink_metadata(&path).ok()?;
    let mut report = Report::default();
    // A log that cannot be read is listed as well, and `recover` says why it cannot be read.
    let _ = recover_log(&path, true, RecoveryMode::List, &mut report);
    if !report.in_use.is_empty() {
        return None;
    }
    let bytes = report.files.iter().map(|file| file.length).sum();
    Some(LeftoverLog { path, files: report.files.len(), bytes })
}
