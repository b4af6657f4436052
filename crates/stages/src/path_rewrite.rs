//! **path-rewrite**: creates files on fast storage, and moves them to their destination when they
//! are closed.
//!
//! ```toml
//! [[stage]]
//! kind = "path-rewrite"
//! rules = [{ from = "/scratch/run", to = "/local/scratch/NAME/fast" }]
//! exclude = ["*.lock"]   # as for every stage: files that it leaves alone
//! background = false     # true: closed files are moved by a thread
//! existing = false       # true: files that are there and opened for writing go to the fast place as well
//! ```
//!
//! **What is rewritten**: files under `from` that are made, or opened for writing and emptied. At
//! the destination there is an empty file meanwhile, the *placeholder*: so names, permissions and
//! errors of the directory are those of the kernel. The bytes are under `to`, in a directory
//! `.striate-moves`, where they are found by the placeholder's device and inode: so every process
//! under the same stack finds them, by whichever name, and uses the same file there. It sees what
//! it would see without the stage: `stat` and `fstat` tell the placeholder's identity and links,
//! and the size and times of the bytes.
//!
//! **When they move**: with the last close of the last process; or when they are shared (`fork`,
//! `exec`, locks, mappings) or something is done to their name that the kernel has to answer
//! (`truncate`, `chmod`, attributes), if no other process uses them. Locks and mappings bring a
//! file to its destination because they are meant for processes that are not under the stack as
//! well, and mappings last longer than descriptors. If another process uses the file as well, it
//! stays for all of them at the fast place, which serves locks and mappings among them. A file
//! without a user is moved by the end of any process that used the stage, by the end of `striate
//! run`, by its next open, and by `striate stack recover`.
//!
//! **How they move**: what is closed is copied to a hidden name beside the destination, made
//! durable, and renamed over the placeholder, so that no process ever sees half a file; on the same
//! file system it is a rename. Where the inode has to stay – the file is open, has several names or
//! attributes, is another user's – bytes are copied into the placeholder, and the journal says so
//! until they are durable. Permissions, owner and times go with it; holes stay holes. If the fast
//! place is full, the file goes to its destination and the program goes on there, unless other
//! processes use it, too: then the program is told that there is no space.
//!
//! **What processes see that are not under the stack**: the placeholder, until the move. If they
//! write to it, the file is not moved: the `close` that would have moved it fails with `ESTALE`, a
//! line on standard error names both files, and both stay. `striate stack recover` moves it once
//! the other file was removed or given another name.
//!
//! **When the process is killed**: a journal that was written before the file was used says where
//! it belongs. What the program had written is there, closed or not, as it would be without this
//! stage. What was synced survives a loss of power if the fast place does. A file that was there
//! before is the one at its destination until its copy at the fast place is whole, durable and in
//! the journal.
//!
//! **What is trusted**: the fast place is writable by the caller alone (`fast_place.rs`), and a
//! file goes only below a directory that a rule names, whatever a journal says.
//!
//! **Errors** of a move (the destination is full) are errors of the `close`; the data stay at the
//! fast place, are seen by the program, and are tried again at the end. With `background` they are
//! reported at the end, on standard error.
//!
//! **Differences that remain**: a file is another inode after its last close; a process that is not
//! under the stack and has the placeholder open does not see the file. A process that has a file
//! open for reading where it belongs sees what another writes after that one's close. Extended
//! attributes that are set by a descriptor while several processes use a file are lost. Rules are
//! for paths as the program says them, and for files that are really there: a link that leads out
//! of `from` is followed, and the file used where it is. Processes of several users need fast
//! places of their own.

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
use striate_stack::{Action, Classification, Loss, Next, Of, Op, OpenFile, Outcome, Stage};
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
