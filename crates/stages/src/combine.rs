//! **combine**: buffers small files beyond their close and writes them out many at a time.
//!
//! A program that creates many small files pays for each with an open, a write and a close, each of
//! which goes to storage. This stage buffers such files beyond their close. The program sees them
//! under their names as if they existed; they are written out later, many at a time, or never, if
//! the program removes them before.
//!
//! ```toml
//! [[stage]]
//! kind = "combine"
//! limit = "64KiB"         # files up to this size are buffered; one that grows beyond it becomes a real file
//! memory = "256MiB"       # limit of buffered data, and size of the log; at the limit all is written out
//! files = 100000          # limit of the number of buffered files
//! threads = 24            # number of files that are written out at a time
//! directory = "/scratch"  # directory of the log; by default that of the first buffered file
//! unpack = true           # false: the files stay in the log, which is then called a container
//! ```
//!
//! It helps where requests are expensive, as on network storage. On a local file system, where
//! creating a file takes some tens of microseconds, it does not.
//!
//! **What is buffered**: files that did not exist, opened with `O_CREAT` and `O_TRUNC` or `O_EXCL`,
//! on a file system that the program may write to. Reads, writes, `stat`, `rename` to a name that
//! is free or buffered as well, `unlink`, `truncate` and opening again are handled in memory. Any
//! other operation writes files out first: the file in question (`fsync`, a mapping, a lock,
//! `chmod`, `link`, `access`, `exec` of it, two processes that share a descriptor), those in a
//! directory (listing or removing it), or all (renaming a directory, `fork`, `exec`, the end of the
//! process, the limits above).
//!
//! **What other processes see**: nothing of a buffered file until it is written out. With `threads
//! = 1` files are written out in the order of their creation; with more, a file may be early by
//! that many.
//!
//! **When the process is killed**: closed files are in the log, whose pages the kernel has;
//! `striate stack recover` restores them. Files that were not closed are lost. After a power
//! failure, only synced data is preserved, as with any file system.
//!
//! **Errors**: permissions of the directory are checked when a file is opened. Errors that cannot
//! be known then (a full disk, a quota) occur when files are written out: as the error of the call
//! that made it necessary, and in a line for each file on standard error at the end, with the
//! status of the process ([`LOSS_STATUS`](striate_stack::LOSS_STATUS)); the log is kept with all
//! files that could not be written.
//!
//! **The limit of file sizes** (`RLIMIT_FSIZE`) applies to the files: one that would grow beyond it
//! is written out, and the kernel returns the error. The log stays below it, too; files that do not
//! fit are written out.
//!
//! **With `unpack = false`** the log gets an index and the name `….combined` in `directory`, which
//! has to be given. Programs that run with the same stack see its files; `striate stack unpack`
//! extracts them. Listing a directory still writes out the files in it.
//!
//! **Identity**: device and inode number that the program has seen do not change when the file is
//! written out, for this process and its forks. Other processes, a program started by `exec`, and
//! listings of a directory (`d_ino`) have the real numbers; so an inherited descriptor and the name
//! agree there. The numbers of the last million files that were written out are kept.
//!
//! **What the log costs**: it is the stage's own file and does not pass the stages after this one,
//! so a throttle there does not slow it down. It is created, grows by 1 to 32 MiB at a time, and is
//! removed, each by one request; the kernel writes its bytes in large pieces, in the background.
//! With `directory` on a local disk, storage sees none of that.
//!
//! **Remaining differences**: the time of the last status change (`ctime`) of a file differs once
//! it is written out; the time of its last modification is kept. Files in directories with default
//! access-control lists are not buffered. The times of a directory change when files in it are
//! written out. Whether a name is free is looked up on storage once for each. Accesses by names
//! outside the paths of this stage are not seen. The log is a hidden file in its directory, and
//! does not appear when the program lists that directory.

mod buffered_file;
mod container;
mod container_set;
mod data;
mod entry;
mod identities;
mod log;
mod materialize;
mod names;
mod state;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use serde::Deserialize;
use striate_calls::{Kind, Kinds};
use striate_process::lock::lock;
use striate_process::origin::run_directory;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{Action, Classification, FileOrName, Loss, Next, Op, OpenFile, Outcome, Stage};
use toml::Table;

use self::buffered_file::{CombineHandle, Content};
pub(crate) use self::container::{Container, ContainerEntry, is_called_so};
use self::identities::Identities;
pub(crate) use self::log::NOTE;
pub use self::log::is_own_log;
use self::log::{AppendError, Log};
use self::materialize::Materializer;
use self::state::CombineState;
use crate::umask::Umask;

/// The kind of stage.
pub const CLASSIFICATION: Classification = Classification {
    scope: Scope::Both,
    interference: Interference::SeveralOperations,
    state: State::Stateful,
    meaning: Meaning::Deferred,
};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CombineOptions {
    limit: String,
    memory: String,
    files: usize,
    threads: NonZeroUsize,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) unpack: bool,
}

impl Default for CombineOptions {
    fn default() -> Self {
        Self {
            limit: "64KiB".into(),
            memory: "256MiB".into(),
            files: 100_000,
            threads: NonZeroUsize::MIN.saturating_add(23),
            directory: None,
            unpack: true,
        }
    }
}

/// The stage.
#[derive(Debug)]
pub struct Combine {
    /// Bytes of one file.
    limit: usize,
    /// Bytes of all.
    memory: u64,
    options: CombineOptions,
    state: Mutex<CombineState>,
    /// How many names are buffered: without any, names need not be looked at.
    named: AtomicUsize,
    /// How many files are buffered, and how many of them are written out by now.
    progress: Progress,
    umask: Umask,
    containers: container_set::ContainerSet,
    /// Of files that were buffered.
    identities: Identities,
}

/// How far the stage is with writing out. It can be looked at while that happens.
#[derive(Debug, Default)]
struct Progress {
    buffered: AtomicUsize,
    written: AtomicUsize,
}

/// Makes one, from its table in the configuration.
pub(crate) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: CombineOptions = table.try_into().map_err(|error| error.to_string())?;
    let size = |key: &str, text: &str| {
        striate_datatype::parse_size(text).map_err(|error| format!("{key}: {error}"))
    };
    let (limit, memory) = (size("limit", &options.limit)?, size("memory", &options.memory)?);
    if limit > memory / 2 {
        return Err(format!(
            "limit = {:?} of a file is more than half of memory = {:?}",
            options.limit, options.memory
        ));
    }
    if memory > 1 << 40 {
        return Err(format!("memory = {:?}: 1TiB is the most", options.memory));
    }
    if !options.unpack && options.directory.is_none() {
        return Err("unpack = false needs a directory, where containers stay".into());
    }
    if let Some(directory) = &options.directory
        && !directory.is_absolute()
    {
        return Err(format!("directory = {} is not an absolute path", directory.display()));
    }
    let mut state = CombineState::new(options.directory.clone(), memory, 0);
    state.run = run_directory();
    Ok(Box::new(Combine {
        limit: limit as usize,
        memory,
        state: Mutex::new(state),
        named: AtomicUsize::new(0),
        progress: Progress::default(),
        umask: Umask::default(),
        containers: container_set::ContainerSet::new(&options),
        identities: Identities::default(),
        options,
    }))
}

impl Combine {
    /// Whether a name may be buffered at all.
    fn holds_names(&self) -> bool {
        self.named.load(Ordering::Acquire) > 0 || self.containers.is_used()
    }

    /// Notes how many names are buffered. The log is one as well: it must not be in the way of the
    /// program.
    fn note_names(&self, state: &CombineState) {
        let names = state.names.len() + usize::from(state.log.is_some());
        self.named.store(names, Ordering::Release);
        self.progress.buffered.store(state.names.len(), Ordering::Relaxed);
        self.progress.written.store(0, Ordering::Relaxed);
    }

    /// Makes real files of these.
    fn materialize(
        &self,
        state: &mut CombineState,
        ids: &[u64],
        next: Next<'_>,
    ) -> Result<(), Errno> {
        if ids.is_empty() {
            return Ok(());
        }
        let way = Materializer {
            threads: self.options.threads,
            identities: &self.identities,
            written: &self.progress.written,
            next,
        };
        let outcome = way.materialize(state, ids);
        self.note_names(state);
        outcome
    }

    /// Makes real files of all that have a name, and removes the log.
    fn materialize_all(&self, state: &mut CombineState, next: Next<'_>) -> Result<(), Errno> {
        let ids = state.named();
        let outcome = self.materialize(state, &ids, next);
        state.drop_log();
        self.note_names(state);
        outcome
    }

    /// Puts a file into the log; makes room there if need be; makes a real file of it if that is
    /// not possible.
    fn store(&self, state: &mut CombineState, id: u64, next: Next<'_>) -> Result<(), Errno> {
        match state.store(id) {
            Ok(()) => return Ok(()),
            Err(AppendError::Full) if self.options.unpack => {
                let others: Vec<u64> =
                    state.named().into_iter().filter(|other| *other != id).collect();
                self.materialize(state, &others, next)?;
                state.reset_log();
            }
            Err(AppendError::Full) => self.seal(state)?,
            Err(AppendError::Failed(_)) => {}
        }
        if state.buffered.contains_key(&id) && state.store(id).is_err() {
            self.materialize(state, &[id], next)?;
        }
        Ok(())
    }
}

/// What the stage has left with an open file, if that stands for a buffered one.
fn open_handle<'f>(file: &'f Arc<OpenFile>, next: Next<'_>) -> Option<&'f CombineHandle> {
    file.state::<CombineHandle>(next.slot())
}

impl Stage for Combine {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Open { .. } => self.open(op, next),
            Action::Stat { of: FileOrName::Name(_), .. } => self.stat_name(op, next),
            Action::Rename { .. } => self.rename(op, next),
            Action::Unlink { .. } => self.unlink(op, next),
            Action::MakeDirectory { target, .. }
            | Action::Notice { of: FileOrName::Name(target) } => {
                self.before(*target, op.function, next)?;
                next.call(op)
            }
            Action::ReadDirectory { target } => {
                self.before_directory(*target, next)?;
                next.call(op)
            }
            _ => self.data(op, next),
        }
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn buffered_files(&self) -> u64 {
        // Containers that are to stay are not written out.
        let buffered =
            if self.options.unpack { self.progress.buffered.load(Ordering::Relaxed) } else { 0 };
        buffered.saturating_sub(self.progress.written.load(Ordering::Relaxed)) as u64
    }

    /// An identity that the program was given stays the answer.
    fn kinds_of_shared(&self) -> Kinds {
        Kinds::of(&[Kind::Close, Kind::Stat])
    }

    fn settle(&self, file: &Arc<OpenFile>, next: Next<'_>) -> Outcome {
        let Some(handle) = open_handle(file, next) else { return Ok(0) };
        if !handle.is_materialized() {
            let mut state = lock(&self.state);
            let id = handle.id;
            if !handle.is_materialized()
                && let Err(error) = self.materialize(&mut state, &[id], next)
            {
                // From now on the stage may not see it any more. At least it is not lost, if it has
                // a name.
                if state.buffered.get(&id).is_some_and(|buffered| buffered.key.is_some()) {
                    let _ = state.store(id);
                }
                return Err(error);
            }
        }
        Ok(0)
    }

    fn settle_all(&self, next: Next<'_>) -> Outcome {
        let mut state = lock(&self.state);
        let settled = if self.options.unpack {
            self.materialize_all(&mut state, next)
        } else {
            self.leave_container(&mut state, next)
        };
        state.failed = settled.err();
        if settled.is_err() {
            // What is only in memory goes with the process; the log stays.
            for id in state.named() {
                let _ = state.store(id);
            }
            self.note_names(&state);
        }
        settled.map(|()| 0)
    }

    fn start_anew(&self) {
        let mut state = lock(&self.state);
        state.start_anew();
        self.note_names(&state);
        self.umask.start_anew();
        self.containers.start_anew();
    }

    fn losses(&self) -> Vec<Loss> {
        let state = lock(&self.state);
        // Files of a container are where they are to stay.
        let Some(error) = state.failed else { return Vec::new() };
        let log = state.log.as_ref().map(Log::path).or_else(|| state.unsealed.clone());
        let lost = |id: &u64| {
            let buffered = state.buffered.get(id)?;
            let saved_in = match buffered.content {
                Content::Memory(_) => None,
                Content::InContainer(..) => return None,
                Content::Stored(_) => log.clone(),
            };
            let path = buffered.directory.path_to(buffered.c_name());
            Some(Loss { path, bytes: buffered.size() as u64, error, saved_in })
        };
        state.named().iter().filter_map(lost).collect()
    }
}
