//! **path-rewrite**: creates files on fast storage, and moves them to their destination when they
//! are closed.
//!
//! ```toml
//! [[stage]]
//! kind = "path-rewrite"
//! rules = [{ from = "/scratch/run", to = "/local/scratch/NAME/fast" }]
//! exclude = ["*.lock"]   # as for every stage: files that it leaves alone
//! background = false     # true: closed files are moved by a thread
//! existing = false       # true: existing files that are opened for writing are copied to fast storage as well
//! ```
//!
//! **What is rewritten**: files under `from` that are created, or opened for writing and truncated.
//! Until the move there is an empty file at the destination, the *placeholder*, so that names,
//! permissions and errors of the directory are those of the kernel. The data is under `to`, in a
//! directory `.striate-moves`, where it is found by the placeholder's device and inode: every
//! process under the same stack finds it, by any name, and uses the same file there. Processes see
//! what they would see without the stage: `stat` and `fstat` return the placeholder's identity and
//! links, and the size and times of the data.
//!
//! **When they move**: with the last close of the last process; or when they are shared (`fork`,
//! `exec`, locks, mappings) or an operation on their name must be carried out by the kernel
//! (`truncate`, `chmod`, attributes), if no other process uses them. Locks and mappings move a file
//! to its destination because they may also be meant for processes outside the stack, and mappings
//! last longer than descriptors. If another process uses the file as well, it stays on fast storage
//! for all of them, where locks and mappings work among them. A file that no process uses is moved
//! by the end of any process that used the stage, by the end of `striate run`, by its next open,
//! and by `striate stack recover`.
//!
//! **How they move**: a closed file is copied to a hidden name beside the destination, made
//! durable, and renamed over the placeholder, so that no process ever sees a partial file; on the
//! same file system it is a rename. Where the inode must stay – the file is open, has several names
//! or attributes, or belongs to another user – the data is copied into the placeholder, and the
//! journal says so until it is durable. Permissions, owner and times are kept, and so are holes. If
//! the fast storage is full, the file is moved to its destination and the program continues there,
//! unless other processes use it, too: then the program gets `ENOSPC`.
//!
//! **What processes outside the stack see**: the placeholder, until the move. If they write to it,
//! the file is not moved: the `close` that would have moved it fails with `ESTALE`, a line on
//! standard error names both files, and both are kept. `striate stack recover` moves it once the
//! other file was removed or renamed.
//!
//! **When the process is killed**: a journal that was written before the file was used has its
//! destination. All data that the program had written is preserved, closed or not, as it would be
//! without this stage. Synced data survives a power failure if the fast storage does. An existing
//! file is the one at its destination until its copy on fast storage is complete, durable and in
//! the journal.
//!
//! **What is trusted**: the directory on fast storage is writable by the caller alone
//! (`fast_place.rs`), and a file is moved only below a directory that a rule names, whatever a
//! journal says.
//!
//! **Errors** of a move (the destination is full) are errors of the `close`; the data stays on fast
//! storage, is visible to the program, and the move is retried at the end. With `background` they
//! are reported at the end, on standard error.
//!
//! **Remaining differences**: a file has another inode after its last close; a process outside the
//! stack that has the placeholder open does not see the file. A process that has a file open for
//! reading at its destination sees writes of another process after that process has closed the
//! file. Extended attributes that are set by a descriptor while several processes use a file are
//! lost. Rules apply to paths as the program gives them, and to files that are really there: a link
//! that leads out of `from` is followed, and its target is used in place. Processes of different
//! users need separate directories on fast storage.

pub(crate) mod claim;
mod copying;
mod data;
pub(crate) mod fast_place;
pub(crate) mod journal;
mod mover;
pub(crate) mod moving;
mod names;
mod open;
mod state;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use serde::Deserialize;
use striate_calls::{Kind, Kinds};
use striate_process::lock::lock;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{Action, Classification, FileOrName, Loss, Next, Op, OpenFile, Outcome, Stage};
use toml::Table;

use self::claim::Base;
use self::fast_place::FastPlace;
use self::journal::Journal;
use self::state::{FileState, SharedState};

/// The kind of stage.
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
pub(crate) struct PathRewriteOptions {
    pub(crate) rules: Vec<Rule>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    existing: bool,
}

/// The stage.
#[derive(Debug)]
pub struct PathRewrite {
    options: PathRewriteOptions,
    /// All fast places.
    places: Vec<Arc<FastPlace>>,
    shared: Arc<SharedState>,
    mover: mover::Mover,
    /// Files that are at a fast place when the process ends, and stay there.
    unmoved: Mutex<Vec<Loss>>,
}

/// Makes one, from its table in the configuration.
pub(crate) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: PathRewriteOptions = table.try_into().map_err(|error| error.to_string())?;
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
    let places = FastPlace::of_rules(&options.rules);
    for place in &places {
        place.check().map_err(|distrust| format!("rules: {distrust}"))?;
    }
    let shared = Arc::<SharedState>::default();
    lock(&shared.state).inherit(&places);
    let mover = mover::Mover::new(&shared);
    Ok(Box::new(PathRewrite { options, places, shared, mover, unmoved: Mutex::default() }))
}

impl PathRewrite {
    /// The fast place for a path, if there is one.
    fn fast_place(&self, path: &Path) -> Option<&Arc<FastPlace>> {
        let rule = self.options.rules.iter().find(|rule| path.starts_with(&rule.from))?;
        self.places.iter().find(|place| place.to() == rule.to)
    }
}

/// What the stage has left with an open file.
fn left<'f>(file: &'f Arc<OpenFile>, next: Next<'_>) -> Option<&'f FileState> {
    file.state::<FileState>(next.slot())
}

impl Stage for PathRewrite {
    fn kinds(&self) -> Kinds {
        Kinds::ALL.without(Kind::MakeDirectory)
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Open { .. } => self.open(op, next),
            Action::Close { .. } => self.close(op, next),
            Action::Stat { of: FileOrName::Name(_), .. } => self.stat_name(op, next),
            Action::Rename { .. } => self.rename(op, next),
            Action::Unlink { .. } => self.unlink(op, next),
            Action::Notice { of: FileOrName::Name(target) } => {
                let elsewhere = self.before(*target, op.function, next)?;
                next.call(op).map(|outcome| outcome | elsewhere)
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

    fn settle(&self, file: &Arc<OpenFile>, next: Next<'_>) -> Outcome {
        let Some(FileState::Moved(handle)) = left(file, next) else { return Ok(0) };
        let moved = &handle.moved;
        if !file.is_shared() {
            return if moved.is_at_destination() { Ok(0) } else { next.settle(handle.inner(file)) };
        }
        let outcome = self.bring_home(moved, next);
        if !moved.is_at_destination() {
            // Other processes use it, too. Those that get its descriptors are to be among them.
            self.with_entry(moved, |entry| entry.stays = true);
            moved.leave_to_programs();
            next.share(handle.inner(file))?;
        }
        outcome.map(|()| 0)
    }

    fn buffered_files(&self) -> u64 {
        lock(&self.shared.state).all().len() as u64
    }

    fn settle_all(&self, next: Next<'_>) -> Outcome {
        self.mover.wait();
        let all = lock(&self.shared.state).all();
        let mut first = Ok(0);
        for moved in all {
            first = first.and(self.bring_home(&moved, next).map(|()| 0));
        }
        first
    }

    fn start_anew(&self) {
        lock(&self.shared.state).start_anew();
        self.mover.start_anew();
    }

    fn finish(&self) {
        let mut left = Vec::new();
        let (all, any) = {
            let mut state = lock(&self.shared.state);
            state.unclaim_all();
            (state.all(), state.was_used)
        };
        for moved in all {
            if let Err(refused) = moved.release() {
                moved.tell(&refused, &self.shared.stderr);
                let journal = Journal::read(&moved.base).ok().flatten();
                left.push(Loss {
                    path: journal.map_or_else(|| moved.fast.clone(), |found| found.destination),
                    bytes: std::fs::metadata(&moved.fast).map_or(0, |data| data.len()),
                    error: refused.errno(),
                    saved_in: Some(moved.fast.clone()),
                });
            }
        }
        if any {
            for base in self.places.iter().filter_map(|place| Base::all(place).ok()).flatten() {
                // Of processes that were killed.
                let _ = moving::move_unused(&base, None);
            }
        }
        for refusal in self.places.iter().filter_map(|place| place.refusal()) {
            self.shared.stderr.say(&format!(
                "striate: path-rewrite: {refusal}; files were made at their destination\n"
            ));
        }
        *lock(&self.unmoved) = left;
    }

    fn losses(&self) -> Vec<Loss> {
        lock(&self.unmoved).clone()
    }
}

/// An error of the library as one of the system.
fn failed(error: &std::io::Error) -> Errno {
    moving::errno(error)
}
