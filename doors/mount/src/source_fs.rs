//! [`SourceFs`]: a source directory, shown through a stack of stages.
//!
//! A request names nodes. On the source a node is an `O_PATH` descriptor, so that the right file is
//! used despite concurrent renames. For stages it is a name ([`Dentry`]): the descriptor of a
//! directory, a name in it, and the absolute path, by which stages are chosen.
//!
//! Descriptors are cached for the nodes that were used last; others are opened again by their name,
//! and must then still be the same file. Locks are taken in this order: names, a handle, nodes.
//!
//! [`nodes`] has the files that the kernel knows, [`handle`] what programs have open;
//! [`namespace`], [`attributes`], [`open`], [`data`], [`directory`] and [`xattr`] carry out
//! requests, which [`backend`] receives.

pub(crate) mod attributes;
mod backend;
pub(crate) mod credentials;
pub(crate) mod data;
pub(crate) mod directory;
pub(crate) mod handle;
pub(crate) mod identity;
pub(crate) mod namespace;
pub(crate) mod nodes;
pub(crate) mod open;
pub(crate) mod program_start;
pub(crate) mod xattr;

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use fuser::BackingId;
use lru::LruCache;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use striate_stack::{
    Action, Detail, FileOrName, Function, Kind, Op, Outcome, Route, Stack, StatInto, Target,
};

use crate::source_fs::directory::DirectoryHandle;
use crate::source_fs::handle::Handle;
use crate::source_fs::identity::Identity;
use crate::source_fs::nodes::{Key, Nodes, ROOT};
use crate::source_fs::program_start::ProgramStart;
use crate::sync::{lock, read, write};

/// Names are locked by their directory, in so many groups.
const GROUPS: usize = 64;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct SourceFs {
    /// The directory that is mounted, from the root on.
    pub(crate) source: PathBuf,
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) stack: Stack,
    nodes: Mutex<Nodes>,
    descriptors: Mutex<LruCache<u64, Arc<OwnedFd>>>,
    /// A request that uses a name must not find it removed or replaced meanwhile.
    names: Box<[RwLock<()>]>,
    pub(crate) handles: Mutex<HashMap<u64, Arc<Handle>>>,
    pub(crate) directories: Mutex<HashMap<u64, Arc<Mutex<DirectoryHandle>>>>,
    pub(crate) backings: Mutex<HashMap<u64, Weak<BackingId>>>,
    pub(crate) next_handle: AtomicU64,
    /// Whether the kernel may use files of the source without asking.
    pub(crate) passthrough: AtomicBool,
    /// Whether files that are read and written by request may be mapped.
    pub(crate) direct: AtomicBool,
    /// How long the kernel may cache names and attributes.
    pub(crate) cache: Duration,
    /// Whether users other than the one who mounted may use it.
    pub(crate) serves_others: bool,
    /// Whether requests are still carried out.
    running: RwLock<bool>,
    /// What is to be printed by the command that mounted.
    pub(crate) notices: Mutex<Vec<String>>,
    /// The program that this is for, if it is for one.
    pub(crate) starting: ProgramStart,
}

/// What a door is made of.
#[derive(Debug)]
pub(crate) struct SourceFsOptions {
    pub(crate) source: PathBuf,
    pub(crate) root: OwnedFd,
    pub(crate) stack: Stack,
    pub(crate) descriptors: NonZeroUsize,
    pub(crate) passthrough: bool,
    pub(crate) cache: Duration,
    pub(crate) serves_others: bool,
}

/// A name in a directory of the source.
#[derive(Debug)]
pub(crate) struct Dentry {
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) name: CString,
    /// From the root on; empty if there are no stages to compare it.
    pub(crate) path: PathBuf,
    pub(crate) route: Route,
}

impl Dentry {
    /// As stages know it.
    pub(crate) fn target(&self) -> Target<'_> {
        Target { directory: self.parent.as_raw_fd(), path: &self.name, absolute: &self.path }
    }
}

/// A text for the kernel.
pub(crate) fn text(name: &OsStr) -> Result<CString, Errno> {
    CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)
}

impl SourceFs {
    pub(crate) fn new(options: SourceFsOptions) -> Result<Self, Errno> {
        let root = Identity::of(&identity::at_descriptor(&options.root)?);
        Ok(Self {
            source: options.source,
            root: Arc::new(options.root),
            stack: options.stack.answering_first(),
            nodes: Mutex::new(Nodes::new(root)),
            descriptors: Mutex::new(LruCache::new(options.descriptors)),
            names: (0..GROUPS).map(|_| RwLock::default()).collect(),
            handles: Mutex::default(),
            directories: Mutex::default(),
            backings: Mutex::default(),
            next_handle: AtomicU64::new(1),
            passthrough: AtomicBool::new(options.passthrough),
            direct: AtomicBool::new(false),
            cache: options.cache,
            serves_others: options.serves_others,
            running: RwLock::new(true),
            notices: Mutex::default(),
            starting: ProgramStart::default(),
        })
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// Carries out a request, unless the mount has ended. `close` waits for all requests that are
    /// under way.
    pub(crate) fn while_running<R>(
        &self,
        act: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let running = read(&self.running);
        if *running { act() } else { Err(Errno::NOTCONN) }
    }

    /// No request is carried out any more. Returns whether that is new.
    pub(crate) fn close(&self) -> bool {
        std::mem::replace(&mut *write(&self.running), false)
    }

    /// Adds a notice for the command that mounted.
    pub(crate) fn notice(&self, text: String) {
        lock(&self.notices).push(text);
    }

    fn names_of(&self, parent: u64) -> &RwLock<()> {
        &self.names[parent as usize % GROUPS]
    }

    /// Names in a directory stay what they are.
    pub(crate) fn keep_names(&self, parent: u64) -> RwLockReadGuard<'_, ()> {
        read(self.names_of(parent))
    }

    /// Names in a directory are about to change.
    pub(crate) fn change_names(&self, parent: u64) -> RwLockWriteGuard<'_, ()> {
        write(self.names_of(parent))
    }

    /// The same for two directories.
    pub(crate) fn change_both(
        &self,
        one: u64,
        other: u64,
    ) -> (RwLockWriteGuard<'_, ()>, Option<RwLockWriteGuard<'_, ()>>) {
        let (one, other) = (one as usize % GROUPS, other as usize % GROUPS);
        let first = write(&self.names[one.min(other)]);
        (first, (one != other).then(|| write(&self.names[one.max(other)])))
    }

    /// The descriptor of a node's file on the source.
    pub(crate) fn descriptor(&self, id: u64) -> Result<Arc<OwnedFd>, Errno> {
        if id == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        if let Some(descriptor) = lock(&self.descriptors).get(&id) {
            return Ok(Arc::clone(descriptor));
        }
        let (key, (parent, name)) = {
            let nodes = self.nodes();
            let node = nodes.get(id).ok_or(Errno::STALE)?;
            if let Some(pinned) = &node.pinned {
                return Ok(Arc::clone(pinned));
            }
            (node.key, nodes.name(id).cloned().ok_or(Errno::STALE)?)
        };
        let directory = self.descriptor(parent)?;
        let (opened, about) = open_path(&directory, &text(&name)?)?;
        let same = match key {
            Key::Real(identity) => Identity::of(&about) == identity,
            // A stage that still shows the same identity has written it to the source, which had
            // nothing there before.
            Key::Virtual(identity) => {
                let shown = self.look(Function::Lstat, &self.dentry(parent, &name)?)?;
                Identity::of(&shown) == identity
            }
        };
        if same { Ok(self.keep(id, opened)) } else { Err(Errno::STALE) }
    }

    /// Keeps a descriptor of a node, for as long as it is one of those that were used last.
    pub(crate) fn keep(&self, id: u64, descriptor: OwnedFd) -> Arc<OwnedFd> {
        let descriptor = Arc::new(descriptor);
        lock(&self.descriptors).put(id, Arc::clone(&descriptor));
        descriptor
    }

    /// Gives up the descriptor of a node.
    pub(crate) fn drop_descriptor(&self, id: u64) {
        let dropped = lock(&self.descriptors).pop(&id);
        drop(dropped);
    }

    /// A name in a directory.
    pub(crate) fn dentry(&self, parent: u64, name: &OsStr) -> Result<Dentry, Errno> {
        let mut dentry = Dentry {
            parent: self.descriptor(parent)?,
            name: text(name)?,
            path: PathBuf::new(),
            route: Route::NONE,
        };
        if !self.stack.stages().is_empty() && !program_start::is_before_program() {
            let path = self.nodes().path(parent, &self.source);
            dentry.path = path.unwrap_or_else(|| path_of(&dentry.parent)).join(name);
            dentry.route = self.stack.route(&dentry.path);
        }
        Ok(dentry)
    }

    /// A name of a node; `None` if it has none any more.
    pub(crate) fn dentry_of(&self, id: u64) -> Result<Option<Dentry>, Errno> {
        if id == ROOT {
            let before = program_start::is_before_program();
            let route = if before { Route::NONE } else { self.stack.route(&self.source) };
            let parent = Arc::clone(&self.root);
            return Ok(Some(Dentry {
                parent,
                name: c".".into(),
                path: self.source.clone(),
                route,
            }));
        }
        let name = self.nodes().name(id).cloned();
        name.map(|(parent, name)| self.dentry(parent, &name)).transpose()
    }

    /// Lets an operation on a name pass through the stages that want it.
    pub(crate) fn call(&self, function: Function, route: &Route, action: Action<'_>) -> Outcome {
        self.stack.call(&mut Op { function, route, action })
    }

    /// Makes another call on a name; it is announced to stages, which get its result.
    pub(crate) fn noticed<R>(
        &self,
        function: Function,
        dentry: &Dentry,
        detail: &Detail<&Path>,
        act: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (kind, target) = (function.kind(), dentry.target());
        if !dentry.route.wants(kind) {
            return act();
        }
        let action = match kind {
            Kind::ReadDirectory => Action::ReadDirectory { target },
            _ => Action::Notice { of: FileOrName::Name(target) },
        };
        let mut op = Op { function, route: &dentry.route, action };
        let announced = self.stack.announce(&mut op);
        let done = announced.outcome.and_then(|_| act());
        let outcome = done.as_ref().map(|_| 0).map_err(|error| *error);
        self.stack.completed(&op, detail, announced, outcome);
        done
    }

    /// What is at a name, for programs.
    pub(crate) fn look(&self, function: Function, dentry: &Dentry) -> Result<libc::statx, Errno> {
        if !dentry.route.wants(Kind::Stat) {
            return identity::at_name(&dentry.parent, &dentry.name);
        }
        let mut about = identity::empty();
        let into = StatInto::Statx { mask: identity::WANTED, buffer: &mut about };
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let action = Action::Stat { of: FileOrName::Name(dentry.target()), flags, into };
        self.call(function, &dentry.route, action)?;
        Ok(about)
    }

    /// Finds out which node is at a name, which counts as so many lookups of the kernel. The caller
    /// has locked the names of the directory.
    pub(crate) fn identify(
        &self,
        parent: u64,
        name: &OsStr,
        dentry: &Dentry,
        times: u64,
    ) -> Result<(u64, libc::statx), Errno> {
        let mut last = None;
        loop {
            let mut about = self.look(Function::Lstat, dentry)?;
            let shown = Identity::of(&about);
            let known = self.nodes().known(Key::Real(shown));
            if let Some(id) = known
                && (id == ROOT || lock(&self.descriptors).contains(&id))
            {
                return Ok((self.found((parent, name), Key::Real(shown), None, times), about));
            }
            if self.nodes().known(Key::Virtual(shown)).is_some() {
                return Ok((self.found((parent, name), Key::Virtual(shown), None, times), about));
            }
            let opened = match open_path(&dentry.parent, &dentry.name) {
                Ok(opened) => Some(opened),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error),
            };
            let at_source = opened.as_ref().map(|(_, about)| Identity::of(about));
            if let Some((descriptor, found)) = opened {
                if at_source == Some(shown) || !dentry.route.wants(Kind::Stat) {
                    if at_source != Some(shown) {
                        about = found;
                    }
                    let key = Key::Real(Identity::of(&about));
                    let id = self.found((parent, name), key, at_source, times);
                    self.keep(id, descriptor);
                    return Ok((id, about));
                }
            } else if !dentry.route.wants(Kind::Stat) {
                return Err(Errno::NOENT);
            }
            // Stages show something else than the source has: once more, in case it changed in
            // between.
            if last == Some((shown, at_source)) {
                let key = Key::Virtual(shown);
                return Ok((self.found((parent, name), key, at_source, times), about));
            }
            last = Some((shown, at_source));
        }
    }

    fn found(&self, name: (u64, &OsStr), key: Key, at_source: Option<Identity>, times: u64) -> u64 {
        let found = self.nodes().found(name, key, at_source, times);
        if found.changed {
            self.drop_descriptor(found.id);
        }
        found.id
    }

    /// The kernel forgets lookups of a node.
    pub(crate) fn forget(&self, id: u64, times: u64) {
        if self.nodes().forget(id, times) {
            self.drop_descriptor(id);
        }
    }

    /// The handles of a node that are open.
    pub(crate) fn handles_of(&self, id: u64) -> Vec<Arc<Handle>> {
        let numbers = self.nodes().get(id).map(|node| node.handles.clone()).unwrap_or_default();
        if numbers.is_empty() {
            return Vec::new();
        }
        let handles = lock(&self.handles);
        numbers.iter().filter_map(|number| handles.get(number).cloned()).collect()
    }
}

/// Opens a name so that it only stands for its file, itself, even if it is a link.
pub(crate) fn open_path(directory: &OwnedFd, name: &CStr) -> Result<(OwnedFd, libc::statx), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let about = identity::at_descriptor(&opened)?;
    Ok((opened, about))
}

/// A path by which a descriptor can be opened again, and used where only paths are taken. It is
/// valid as long as the descriptor is open.
#[derive(Debug)]
pub(crate) struct ProcFdPath<'d> {
    path: CString,
    of: PhantomData<&'d OwnedFd>,
}

impl Deref for ProcFdPath<'_> {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        &self.path
    }
}

/// The path of a descriptor.
pub(crate) fn magic(descriptor: &OwnedFd) -> ProcFdPath<'_> {
    let path = CString::new(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    ProcFdPath { path: path.unwrap_or_default(), of: PhantomData }
}

/// Where the kernel says that a descriptor's file is.
fn path_of(descriptor: &OwnedFd) -> PathBuf {
    let path = rustix::fs::readlink(&*magic(descriptor), Vec::new());
    path.map_or_else(
        |_| Path::new("/").to_path_buf(),
        |path| PathBuf::from(OsStr::from_bytes(path.as_bytes())),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn source_fs_of(source: &Path) -> SourceFs {
        let options = SourceFsOptions {
            source: source.to_path_buf(),
            root: fs::File::open(source).unwrap().into(),
            stack: Stack::new(striate_stack::Paths::all(), Vec::new()),
            descriptors: NonZeroUsize::MIN,
            passthrough: false,
            cache: Duration::ZERO,
            serves_others: false,
        };
        SourceFs::new(options).unwrap()
    }

    /// With place for one descriptor all others are opened again.
    #[test]
    fn descriptors_that_were_given_up_are_opened_again() {
        let source = tempfile::tempdir().unwrap();
        let path = |name: &str| source.path().join(name);
        fs::create_dir_all(path("d/e")).unwrap();
        fs::write(path("d/e/f"), "x").unwrap();
        fs::write(path("g"), "y").unwrap();
        let source_fs = source_fs_of(source.path());
        let look = |parent, name: &str| source_fs.lookup(parent, OsStr::new(name)).unwrap().0;
        let d = look(ROOT, "d");
        let e = look(d, "e");
        let (f, g) = (look(e, "f"), look(ROOT, "g"));
        let inode = |id| Ok::<_, Errno>(rustix::fs::fstat(&*source_fs.descriptor(id)?)?.st_ino);
        for id in [d, e, f, g, f, d] {
            assert_eq!(inode(id), Ok(id));
        }
        assert_eq!(lock(&source_fs.descriptors).len(), 1);
        // Renamed through the mount, it is found; renamed on the source, it is looked for again.
        source_fs.rename((ROOT, OsStr::new("d")), (ROOT, OsStr::new("h")), 0).unwrap();
        assert_eq!((inode(g), inode(f)), (Ok(g), Ok(f)));
        fs::rename(path("h/e"), path("h/i")).unwrap();
        assert_eq!(inode(g), Ok(g));
        assert_eq!(inode(f), Err(Errno::NOENT));
        assert_eq!((look(d, "i"), inode(f)), (e, Ok(f)));
        // Another file at the name is not taken for the earlier one.
        assert_eq!(inode(g), Ok(g));
        fs::write(path("new"), "z").unwrap();
        fs::rename(path("new"), path("h/i/f")).unwrap();
        assert_eq!(inode(f), Err(Errno::STALE));
    }

    #[test]
    fn no_request_is_carried_out_after_the_end() {
        let source = tempfile::tempdir().unwrap();
        let source_fs = source_fs_of(source.path());
        assert_eq!(source_fs.while_running(|| Ok(1)), Ok(1));
        assert!(source_fs.close());
        assert_eq!(source_fs.while_running(|| Ok(1)), Err(Errno::NOTCONN));
        assert!(!source_fs.close());
    }
}
