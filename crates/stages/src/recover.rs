//! Recovery of what killed processes left behind: [`recover`]; and unpacking of containers:
//! [`unpack`].

mod combined;
mod leftover_logs;
mod rewritten;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use striate_stack::Configuration;

pub use self::combined::unpack;
pub use self::leftover_logs::{LeftoverLog, leftover_logs};
use crate::path_rewrite::fast_place::FastPlace;
use crate::{combine, path_rewrite};

/// What to do with what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryMode {
    /// Bring it to where it belongs.
    Finish,
    /// Only say what there is.
    List,
}

/// What came of a file.
#[derive(Debug)]
pub enum Fate {
    /// It is where it belongs.
    Finished,
    /// It was only to be listed.
    Found,
    /// It could not be brought there; it is where it was.
    Failed(io::Error),
}

/// A file that was found.
#[derive(Debug)]
pub struct Recovered {
    /// Where it belongs.
    pub destination: PathBuf,
    /// The log, the container, or the file at the fast place that has its bytes.
    pub source: PathBuf,
    /// How long it is.
    pub length: u64,
    /// Whether the program had closed it.
    pub closed: bool,
    /// What came of it.
    pub fate: Fate,
}

/// All that was found.
#[derive(Debug, Default)]
pub struct Report {
    /// The files.
    pub files: Vec<Recovered>,
    /// Logs and sessions of processes that still run: they are left alone.
    pub in_use: Vec<PathBuf>,
    /// What could not be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl Report {
    /// How many files could not be brought to where they belong.
    pub fn failures(&self) -> usize {
        let failed = |file: &&Recovered| matches!(file.fate, Fate::Failed(_));
        self.files.iter().filter(failed).count() + self.unreadable.len()
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (destination, source) = (self.destination.display(), self.source.display());
        match &self.fate {
            Fate::Finished => write!(f, "{destination}: {} bytes", self.length)?,
            Fate::Found => write!(f, "{destination}: {} bytes in {source}", self.length)?,
            Fate::Failed(error) => {
                write!(f, "{destination}: {error}; its {} bytes are in {source}", self.length)?;
            }
        }
        if self.closed { Ok(()) } else { f.write_str(" (was not closed)") }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "{file}")?;
        }
        for path in &self.in_use {
            writeln!(f, "{}: in use", path.display())?;
        }
        for (path, error) in &self.unreadable {
            writeln!(f, "{}: {error}", path.display())?;
        }
        Ok(())
    }
}

/// Finds what the stages of a stack have left behind, and finishes it if that is wanted.
///
/// Logs of `combine` are looked for in its `directory`; without one they are beside the files that
/// were made, and so in and below each of `places`. Files of `path-rewrite` are found at its fast
/// places. Containers that are to stay (`unpack = false`) are left alone; logs of such a stage that
/// were not finished become containers.
pub fn recover(configuration: &Configuration, places: &[PathBuf], wanted: RecoveryMode) -> Report {
    let mut report = Report::default();
    for (name, options) in configuration.options() {
        match name {
            "combine" => {
                if let Ok(options) = options.clone().try_into::<combine::CombineOptions>()
                    && let Some(directory) = options.directory
                {
                    combined::recover_in(&directory, false, options.unpack, wanted, &mut report);
                }
            }
            "path-rewrite" => {
                if let Ok(options) = options.clone().try_into::<path_rewrite::PathRewriteOptions>()
                {
                    for place in FastPlace::of_rules(&options.rules) {
                        rewritten::recover_in(&place, wanted, &mut report);
                    }
                }
            }
            _ => {}
        }
    }
    for place in places {
        combined::recover_in(place, true, true, wanted, &mut report);
    }
    report
}

/// Brings files of `path-rewrite` to their destination that no process uses any more: a run has
/// ended.
pub fn finish_moves(configuration: &Configuration) -> Report {
    let mut report = Report::default();
    for (name, options) in configuration.options() {
        if name == "path-rewrite"
            && let Ok(options) = options.clone().try_into::<path_rewrite::PathRewriteOptions>()
        {
            for place in FastPlace::of_rules(&options.rules) {
                rewritten::recover_in(&place, RecoveryMode::Finish, &mut report);
            }
        }
    }
    report
}

/// All directories in and below one. Links are not followed.
fn walk(root: &Path, report: &mut Report, visit: &mut dyn FnMut(&Path, &mut Report)) {
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        let list = match std::fs::read_dir(&directory) {
            Ok(list) => list,
            Err(error) => {
                report.unreadable.push((directory, error));
                continue;
            }
        };
        for entry in list.filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
        visit(&directory, report);
    }
}
