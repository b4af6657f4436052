//! [`ContainerSet`]: containers that stay (`unpack = false`), and the files that earlier processes
//! left in them.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::Timespec;
use rustix::io::Errno;
use striate_process::lock::lock;
use striate_stack::Next;

use super::buffered_file::{BufferedFile, Content};
use super::container::{Container, ContainerEntry, is_called_so};
use super::identities::new_inode;
use super::state::{CombineState, c_name};
use super::{Combine, CombineOptions};
use crate::dentry::{DentryKey, Directory};

/// The containers of a directory, as far as they were read.
#[derive(Debug)]
pub(super) struct ContainerSet {
    directory: Option<PathBuf>,
    seen: Mutex<SeenContainers>,
}

#[derive(Debug, Default)]
struct SeenContainers {
    /// When the directory had last changed.
    changed: Option<(i64, i64)>,
    read: HashSet<PathBuf>,
    /// The time of the newest entry of each name.
    newest: HashMap<DentryKey, u64>,
}

impl ContainerSet {
    pub(super) fn new(options: &CombineOptions) -> Self {
        let directory = options.directory.clone().filter(|_| !options.unpack);
        Self { directory, seen: Mutex::default() }
    }

    /// Whether there may be any.
    pub(super) fn is_used(&self) -> bool {
        self.directory.is_some()
    }

    pub(super) fn start_anew(&self) {
        *lock(&self.seen) = SeenContainers::default();
    }
}

impl Combine {
    /// Takes up what others have left since the last time.
    pub(super) fn load(&self, state: &mut CombineState) {
        let Some(directory) = &self.containers.directory else { return };
        let mut seen = lock(&self.containers.seen);
        let Ok(stat) = rustix::fs::stat(directory) else { return };
        let changed = Some((stat.st_mtime, stat.st_mtime_nsec as i64));
        if seen.changed == changed {
            return;
        }
        // Not when it has changed just now: it may change again within the resolution of the clock.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let recent = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as i64 };
        seen.changed = changed.filter(|_| now > recent);
        let Ok(list) = std::fs::read_dir(directory) else { return };
        let mut entries: Vec<(Arc<Container>, ContainerEntry)> = Vec::new();
        for path in list.filter_map(Result::ok).map(|entry| entry.path()) {
            let is_container = path.file_name().is_some_and(is_called_so);
            if !is_container || seen.read.contains(&path) {
                continue;
            }
            let Ok(container) = Container::open(&path) else { continue };
            if !container.is_sealed() {
                continue;
            }
            seen.read.insert(path);
            let container = Arc::new(container);
            let found = container.entries(false).unwrap_or_default();
            entries.extend(found.into_iter().map(|found| (Arc::clone(&container), found)));
        }
        entries.sort_by_key(|(_, found)| found.time());
        for (container, found) in entries {
            take_up(state, &mut seen, &container, &found);
        }
        self.note_names(state);
    }

    /// Gives the log an index and leaves it as a container. Files that are open become real ones;
    /// the others are known from the container from now on.
    pub(super) fn leave_container(
        &self,
        state: &mut CombineState,
        next: Next<'_>,
    ) -> Result<(), Errno> {
        let open: Vec<u64> = state
            .buffered
            .iter()
            .filter(|(_, buffered)| buffered.key.is_some() && buffered.is_open())
            .map(|(id, _)| *id)
            .collect();
        let outcome = self.materialize(state, &open, next);
        self.seal(state)?;
        outcome
    }

    /// Leaves the log as a container.
    pub(super) fn seal(&self, state: &mut CombineState) -> Result<(), Errno> {
        let Some(path) = state.seal_log()? else { return Ok(()) };
        let container = Container::open(&path).map_err(|error| super::log::errno(&error));
        let container = Arc::new(container.inspect_err(|_| state.unsealed = Some(path.clone()))?);
        let mut seen = lock(&self.containers.seen);
        seen.read.insert(path);
        for buffered in state.buffered.values_mut() {
            if let Some(at) = buffered.stored.take() {
                buffered.kept = true;
                if let Content::Stored(_) = buffered.content {
                    buffered.content = Content::InContainer(Arc::clone(&container), at);
                }
                if let Some(key) = &buffered.key {
                    seen.newest.insert(key.clone(), super::log::now());
                }
            }
        }
        Ok(())
    }
}

/// Takes up an entry of a container, if none that is newer is known.
fn take_up(
    state: &mut CombineState,
    seen: &mut SeenContainers,
    container: &Arc<Container>,
    found: &ContainerEntry,
) {
    let Ok(directory) = Directory::open(&found.directory) else { return };
    let key = (directory.identity(), found.name.clone());
    let newest = seen.newest.entry(key.clone()).or_default();
    if found.time() <= *newest {
        return;
    }
    *newest = found.time();
    if let Some(id) = state.find(&key) {
        let buffered = state.buffered.get(&id);
        if buffered.is_none_or(|buffered| {
            buffered.is_open() || !matches!(buffered.content, Content::InContainer(..))
        }) {
            // This process has made it anew.
            return;
        }
        state.forget(id);
    }
    if !found.is_file() {
        return;
    }
    let directory = state.keep_directory(directory);
    let Ok(stat) = rustix::fs::fstat(&*directory) else { return };
    state.add(BufferedFile {
        key: Some(key),
        name: c_name(&found.name),
        content: Content::InContainer(Arc::clone(container), found.at),
        stored: None,
        changed: false,
        kept: true,
        mode: found.mode,
        owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        identity: (stat.st_dev, new_inode()),
        told: false,
        born: found.modified,
        modified: found.modified,
        touched: found.modified,
        handles: Vec::new(),
        directory,
    });
}
