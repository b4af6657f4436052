//! **path-rewrite**: files are made at a fast place, and go to their destination when they are closed.
//!
//! ```toml
//! [[stage]]
//! kind = "path-rewrite"
//! rules = [{ from = "/scratch/run", to = "/local/fast" }]
//! exclude = ["*.lock"]   # as for every stage: files that it leaves alone
//! background = false     # true: closed files are moved by a thread
//! existing = false       # true: files that are there and opened for writing go to the fast place as well
//! ```
//!
//! **What is rewritten**: files under `from` that are made, or opened for writing and emptied. At the
//! destination there is an empty file meanwhile, or the old one: so names, permissions and errors of the
//! directory are those of the kernel. The bytes are under `to`, in a directory `.striate-moves`. The program
//! sees them under the name it knows: opened again, by `stat`, after a rename, from several descriptors.
//!
//! **When they move**: with the last close; when they are about to be mapped, linked, truncated by name,
//! executed or shared with another process (`fork`, `exec`, locks), even while they are open; at the end of the
//! process. A move copies to a hidden name beside the destination, makes that durable, and renames it over what
//! is there, so that nobody ever sees half a file; on the same file system it is a rename. Permissions, owner
//! and times go with it; holes stay holes. If the fast place is full, the file goes to its destination and the
//! program goes on there.
//!
//! **What others see**: the empty or old file, until the move.
//!
//! **When the process is killed**: a journal that was written before the file was used says where it belongs.
//! `striate stack recover` moves what is left, closed or not: what the program had written is there, as it would
//! be without this stage. What was synced survives a loss of power if the fast place does.
//!
//! **Errors** of a move (the destination is full) are errors of the `close`; the data stay at the fast place, are
//! seen by the program, and are tried again at the end. With `background` they are told at the end, on standard
//! error.
//!
//! **Differences that remain**: the inode of a file is another after it was moved to another file system. Rules
//! are for paths as the program says them; links are looked through only for files that are on their way. Files
//! with several names (hard links), and those that the program has open otherwise, are left where they are.

mod data;
pub(crate) mod journal;
mod mover;
pub(crate) mod moving;
mod names;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::Deserialize;
use toml::Table;

use self::state::{Left, Shared};
use crate::classification::{Classification, Interference, Meaning, Scope, State};
use crate::file::{OpenFile, lock};
use crate::kind::{Kind, Kinds};
use crate::op::{Action, Of, Op, Outcome};
use crate::stage::{Next, Stage};

/// What sort of stage it is.
pub const CLASSIFICATION: Classification = Classification {
    scope: Scope::Metadata,
    interference: Interference::Open,
    state: State::Stateful,
    meaning: Meaning::Deferred,
};

/// Names under one directory are made under another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    from: PathBuf,
    pub(crate) to: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    pub(crate) rules: Vec<Rule>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    existing: bool,
}

/// The stage.
#[derive(Debug)]
pub struct PathRewrite {
    options: Options,
    shared: Arc<Shared>,
    mover: mover::Mover,
}

/// Makes one, from its table in the configuration.
pub(crate) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: Options = table.try_into().map_err(|error| error.to_string())?;
    if options.rules.is_empty() {
        return Err("no rules: there is nothing to rewrite".into());
    }
    for Rule { from, to } in &options.rules {
        for path in [from, to] {
            if !path.is_absolute() {
                return Err(format!("rules: {} is not an absolute path", path.display()));
            }
        }
        if from.starts_with(to) || to.starts_with(from) {
            let (from, to) = (from.display(), to.display());
            return Err(format!("rules: one of {from} and {to} is within the other"));
        }
    }
    let shared = Arc::<Shared>::default();
    let mover = mover::Mover::new(&shared);
    Ok(Box::new(PathRewrite { options, shared, mover }))
}

impl PathRewrite {
    /// The fast place for a path, if there is one.
    fn fast_place(&self, path: &Path) -> Option<&Path> {
        let rule = self.options.rules.iter().find(|rule| path.starts_with(&rule.from));
        rule.map(|rule| rule.to.as_path())
    }
}

/// What the stage has left with an open file.
fn left<'f>(file: &'f Arc<OpenFile>, next: Next<'_>) -> Option<&'f Left> {
    file.state::<Left>(next.slot())
}

impl Stage for PathRewrite {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[
            Kind::Open,
            Kind::Close,
            Kind::Read,
            Kind::Write,
            Kind::Seek,
            Kind::Sync,
            Kind::Truncate,
            Kind::Allocate,
            Kind::Stat,
            Kind::Rename,
            Kind::Unlink,
            Kind::ReadDirectory,
            Kind::Duplicate,
            Kind::Control,
            Kind::Map,
            Kind::CopyRange,
            Kind::SendFile,
            Kind::Notice,
        ])
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Open { .. } => self.open(op, next),
            Action::Close { .. } => self.close(op, next),
            Action::Stat { of: Of::Name(_), .. } => self.stat_name(op, next),
            Action::Rename { .. } => self.rename(op, next),
            Action::Unlink { .. } => self.unlink(op, next),
            Action::Notice { of: Of::Name(target) } => {
                self.before(*target, op.function, next)?;
                next.call(op)
            }
            Action::ReadDirectory { .. } => {
                // Copies that are under way are not the program's.
                self.mover.wait();
                next.call(op)
            }
            Action::CopyRange { .. } | Action::SendFile { .. } => data::transfer(op, next),
            _ => self.data(op, next),
        }
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn settle(&self, file: &Arc<OpenFile>, next: Next<'_>) -> Outcome {
        if let Some(Left::Moved(handle)) = left(file, next) {
            self.bring_home(&handle.moved, next)?;
            if !handle.moved.is_home() {
                // It has no name any more, and stays where it is.
                next.settle(&handle.inner)?;
                handle.inner.give_position_back()?;
            }
        }
        Ok(0)
    }

    fn settle_all(&self, next: Next<'_>) -> Outcome {
        self.mover.wait();
        let all = lock(&self.shared.state).named();
        let mut first = Ok(0);
        for moved in all {
            first = first.and(self.bring_home(&moved, next).map(|()| 0));
        }
        let mut state = lock(&self.shared.state);
        if state.entries.is_empty() {
            // Another program may take the place of this one, and would not know of it.
            state.end_sessions();
        }
        first
    }

    fn start_anew(&self) {
        lock(&self.shared.state).start_anew();
        self.mover.start_anew();
    }

    fn finish(&self) {
        let left = lock(&self.shared.state).named();
        if let Some(first) = left.first() {
            eprintln!(
                "striate: path-rewrite: {} files could not be moved to their destination; they are in {}, \
                 and `striate stack recover` tries again",
                left.len(),
                first.fast.parent().unwrap_or(Path::new("/")).display()
            );
        }
    }
}

/// An error of the library as one of the system.
fn failed(error: &std::io::Error) -> Errno {
    moving::errno(error)
}
