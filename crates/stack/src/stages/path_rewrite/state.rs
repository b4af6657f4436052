//! [`Moved`]: a file that is not at its destination; [`Shared`]: all of them.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use rustix::io::Errno;

use super::journal::{Journal, Session};
use crate::file::OpenFile;
use crate::place::{Directory, Identity, Key, Place};
use crate::route::Route;

/// What the stage leaves with an open file.
#[derive(Debug)]
pub(super) enum Left {
    /// It is where it belongs.
    Plain(Identity),
    /// It is elsewhere.
    Moved(Handle),
}

/// An open file that is elsewhere.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) moved: Arc<Moved>,
    /// The same open file as the next stages know it: by its name at the fast place.
    pub(super) inner: Arc<OpenFile>,
}

/// A file that is not at its destination.
#[derive(Debug)]
pub(super) struct Moved {
    /// Where its bytes are.
    pub(super) fast: PathBuf,
    pub(super) c_fast: CString,
    pub(super) journal: PathBuf,
    /// What it is at the fast place.
    pub(super) identity: Identity,
    /// What stands at its destination meanwhile.
    pub(super) placeholder: Identity,
    /// The stages that want operations on it at the fast place.
    pub(super) route: Route,
    /// Held for reading by operations on its bytes, for writing while its descriptors are replaced.
    pub(super) in_use: RwLock<()>,
    home: AtomicBool,
    /// What it is at its destination, if it was open when it got there.
    pub(super) at_home: OnceLock<Identity>,
}

impl Moved {
    pub(super) fn new(
        (fast, c_fast): (PathBuf, CString),
        journal: PathBuf,
        identity: Identity,
        placeholder: Identity,
        route: Route,
    ) -> Self {
        Self {
            fast,
            c_fast,
            journal,
            identity,
            placeholder,
            route,
            in_use: RwLock::new(()),
            home: AtomicBool::new(false),
            at_home: OnceLock::new(),
        }
    }

    /// Whether it is at its destination by now.
    pub(super) fn is_home(&self) -> bool {
        self.home.load(Ordering::Acquire)
    }

    pub(super) fn set_home(&self) {
        self.home.store(true, Ordering::Release);
    }
}

/// What is known of a file that is elsewhere.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) moved: Arc<Moved>,
    pub(super) directory: Arc<Directory>,
    pub(super) name: CString,
    /// Who has it open: the file as the program knows it.
    pub(super) open: Vec<Weak<OpenFile>>,
    /// How many are being closed just now.
    pub(super) closing: usize,
    /// How often it was opened: a copy that was begun before is out of date.
    pub(super) opened: u64,
}

impl Entry {
    /// Whether nobody has it open.
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_empty() && self.closing == 0
    }

    /// Where it belongs.
    pub(super) fn destination(&self) -> PathBuf {
        self.directory.path_to(&self.name)
    }

    /// Writes down where it belongs.
    pub(super) fn note(&self, closed: bool, maybe: Option<PathBuf>) -> std::io::Result<()> {
        let placeholder = self.moved.placeholder;
        let destination = self.destination();
        Journal { closed, placeholder, destination, maybe }.write(&self.moved.journal)
    }
}

/// What operations and the thread that moves share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// How many names there are: without any, names need not be looked at.
    pub(super) named: AtomicUsize,
}

impl Shared {
    /// Notes how many names there are.
    pub(super) fn note_names(&self, state: &State) {
        self.named.store(state.entries.len(), Ordering::Release);
    }

    /// Whether there are any.
    pub(super) fn has_names(&self) -> bool {
        self.named.load(Ordering::Acquire) > 0
    }
}

/// All files that are elsewhere and have a name.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) entries: HashMap<Key, Entry>,
    /// The name of each, by where it is in memory.
    keys: HashMap<usize, Key>,
    sessions: HashMap<PathBuf, Session>,
    /// Files that the program has open where they belong, and how often.
    plain: HashMap<Identity, usize>,
}

/// Where it is in memory: no other is there while it is known.
fn address(moved: &Arc<Moved>) -> usize {
    Arc::as_ptr(moved) as usize
}

impl State {
    /// The process at a fast place.
    pub(super) fn session(&mut self, place: &Path) -> std::io::Result<&mut Session> {
        if !self.sessions.contains_key(place) {
            self.sessions.insert(place.to_path_buf(), Session::begin(place)?);
        }
        self.sessions.get_mut(place).ok_or_else(|| std::io::Error::other("no session"))
    }

    /// Nothing is on its way any more.
    pub(super) fn end_sessions(&mut self) {
        for (_, session) in self.sessions.drain() {
            session.end();
        }
    }

    /// All that have a name.
    pub(super) fn named(&self) -> Vec<Arc<Moved>> {
        self.entries.values().map(|entry| Arc::clone(&entry.moved)).collect()
    }

    /// The name of a file.
    pub(super) fn key_of(&self, moved: &Arc<Moved>) -> Option<&Key> {
        self.keys.get(&address(moved))
    }

    /// Adds a file.
    pub(super) fn insert(&mut self, key: Key, entry: Entry) {
        self.keys.insert(address(&entry.moved), key.clone());
        self.entries.insert(key, entry);
    }

    /// Takes a file away.
    pub(super) fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.keys.remove(&address(&entry.moved));
        Some(entry)
    }

    /// A file loses its name. Its bytes are there only for who has it open.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.take(key) {
            let _ = std::fs::remove_file(&entry.moved.journal);
            let _ = std::fs::remove_file(&entry.moved.fast);
        }
    }

    /// A file gets another name.
    pub(super) fn rename(&mut self, from: &Key, to: &Place) -> Result<(), Errno> {
        let directory = to.open_directory()?;
        if let Some(mut entry) = self.take(from) {
            entry.directory = directory;
            to.name().clone_into(&mut entry.name);
            let noted = entry.note(entry.is_closed(), None);
            self.insert(to.key(), entry);
            noted.map_err(|error| super::failed(&error))?;
        }
        Ok(())
    }

    /// The program has opened a file where it belongs.
    pub(super) fn add_plain(&mut self, identity: Identity) {
        *self.plain.entry(identity).or_default() += 1;
    }

    /// It has closed it.
    pub(super) fn remove_plain(&mut self, identity: Identity) {
        if let Some(count) = self.plain.get_mut(&identity) {
            *count -= 1;
            if *count == 0 {
                self.plain.remove(&identity);
            }
        }
    }

    /// Whether the program has it open where it belongs.
    pub(super) fn is_open(&self, identity: Identity) -> bool {
        self.plain.contains_key(&identity)
    }

    /// This is another process: what is on its way belongs to the one that it was copied from.
    pub(super) fn start_anew(&mut self) {
        *self = Self::default();
    }
}
