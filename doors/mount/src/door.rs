//! [`Door`]: what all requests of the kernel share, and the way from a node to its file.
//!
//! A request names nodes. For the source these are descriptors that only stand for files (`O_PATH`), so
//! whatever is renamed meanwhile, the right file is meant. For stages they are names: a directory's descriptor, the
//! name in it, and the path from the root on, which says who wants it.
//!
//! Descriptors are kept for the nodes that were used last; others are opened again by their name, and must then
//! be the same file still. Locks are taken in this order: names, a handle, nodes.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::time::Duration;

use fuser::BackingId;
use lru::LruCache;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use striate_stack::{
    Action, Detail, Function, Kind, Of, Op, Outcome, Route, Stack, StatInto, Target,
};

use crate::handle::Handle;
use crate::identity::{self, Identity};
use crate::listing::Listing;
use crate::nodes::{Key, Nodes, ROOT};
use crate::starting::{self, Starting};

/// Names are locked by their directory, in so many groups.
const GROUPS: usize = 64;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Door {
    /// The directory that is mounted, from the root on.
    pub(crate) source: PathBuf,
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) stack: Stack,
    nodes: Mutex<Nodes>,
    descriptors: Mutex<LruCache<u64, Arc<OwnedFd>>>,
    /// Who uses a name in a directory is not to find it gone or become another meanwhile.
    names: Box<[RwLock<()>]>,
    pub(crate) handles: Mutex<HashMap<u64, Arc<Handle>>>,
    pub(crate) listings: Mutex<HashMap<u64, Arc<Mutex<Listing>>>>,
    pub(crate) backings: Mutex<HashMap<u64, Weak<BackingId>>>,
    pub(crate) next_handle: AtomicU64,
    /// Whether the kernel may use files of the source without asking.
    pub(crate) passthrough: AtomicBool,
    /// Whether files that are read and written by request may be mapped.
    pub(crate) direct: AtomicBool,
    /// How long the kernel may believe what it was told.
    pub(crate) cache: Duration,
    /// Whether files are made for others than the one who mounted.
    pub(crate) serves_others: bool,
    /// Whether requests are still carried out.
    running: RwLock<bool>,
    /// What is to be told to whoever mounted.
    pub(crate) notices: Mutex<Vec<String>>,
    /// The program that this is for, if it is for one.
    pub(crate) starting: Starting,
}

/// What a door is made of.
#[derive(Debug)]
pub(crate) struct Plan {
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
pub(crate) struct Spot {
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) name: CString,
    /// From the root on; empty if there are no stages to compare it.
    pub(crate) path: PathBuf,
    pub(crate) route: Route,
}

impl Spot {
    /// As stages know it.
    pub(crate) fn target(&self) -> Target<'_> {
        Target { directory: self.parent.as_raw_fd(), path: &self.name, absolute: &self.path }
    }
}

/// A lock whose holder died is taken all the same: what it protects is never half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// A text for the kernel.
pub(crate) fn text(name: &OsStr) -> Result<CString, Errno> {
    CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)
}

impl Door {
    pub(crate) fn new(plan: Plan) -> Result<Self, Errno> {
        let root = Identity::of(&identity::at_descriptor(&plan.root)?);
        Ok(Self {
            source: plan.source,
            root: Arc::new(plan.root),
            stack: plan.stack.answering_first(),
            nodes: Mutex::new(Nodes::new(root)),
            descriptors: Mutex::new(LruCache::new(plan.descriptors)),
            names: (0..GROUPS).map(|_| RwLock::default()).collect(),
            handles: Mutex::default(),
            listings: Mutex::default(),
            backings: Mutex::default(),
            next_handle: AtomicU64::new(1),
            passthrough: AtomicBool::new(plan.passthrough),
            direct: AtomicBool::new(false),
            cache: plan.cache,
            serves_others: plan.serves_others,
            running: RwLock::new(true),
            notices: Mutex::default(),
            starting: Starting::default(),
        })
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// Carries out a request, unless the door is closed. Whoever closes it waits for all.
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

    /// What is to be told to whoever mounted.
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
            // A stage that still shows it as what it was has brought it home: it held only what was not there.
            Key::Virtual(identity) => {
                let shown = self.look(Function::Lstat, &self.spot(parent, &name)?)?;
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
    pub(crate) fn spot(&self, parent: u64, name: &OsStr) -> Result<Spot, Errno> {
        let mut spot = Spot {
            parent: self.descriptor(parent)?,
            name: text(name)?,
            path: PathBuf::new(),
            route: Route::NONE,
        };
        if !self.stack.stages().is_empty() && !starting::is_before_program() {
            let path = self.nodes().path(parent, &self.source);
            spot.path = path.unwrap_or_else(|| path_of(&spot.parent)).join(name);
            spot.route = self.stack.route(&spot.path);
        }
        Ok(spot)
    }

    /// A name of a node; `None` if it has none any more.
    pub(crate) fn spot_of(&self, id: u64) -> Result<Option<Spot>, Errno> {
        if id == ROOT {
            let before = starting::is_before_program();
            let route = if before { Route::NONE } else { self.stack.route(&self.source) };
            let parent = Arc::clone(&self.root);
            return Ok(Some(Spot { parent, name: c".".into(), path: self.source.clone(), route }));
        }
        let name = self.nodes().name(id).cloned();
        name.map(|(parent, name)| self.spot(parent, &name)).transpose()
    }

    /// Lets an operation on a name pass through the stages that want it.
    pub(crate) fn call(&self, function: Function, route: &Route, action: Action<'_>) -> Outcome {
        self.stack.call(&mut Op { function, route, action })
    }

    /// Does something else with a name, after stages were told; they are told what came of it, too.
    pub(crate) fn noticed<R>(
        &self,
        function: Function,
        spot: &Spot,
        detail: &Detail<&Path>,
        act: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (kind, target) = (function.kind(), spot.target());
        if !spot.route.wants(kind) {
            return act();
        }
        let action = match kind {
            Kind::ReadDirectory => Action::ReadDirectory { target },
            _ => Action::Notice { of: Of::Name(target) },
        };
        let mut op = Op { function, route: &spot.route, action };
        let announced = self.stack.announce(&mut op);
        let done = announced.outcome.and_then(|_| act());
        let outcome = done.as_ref().map(|_| 0).map_err(|error| *error);
        self.stack.completed(&op, detail, announced, outcome);
        done
    }

    /// What is at a name, for programs.
    pub(crate) fn look(&self, function: Function, spot: &Spot) -> Result<libc::statx, Errno> {
        if !spot.route.wants(Kind::Stat) {
            return identity::at_name(&spot.parent, &spot.name);
        }
        let mut about = identity::empty();
        let into = StatInto::Statx { mask: identity::WANTED, buffer: &mut about };
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let action = Action::Stat { of: Of::Name(spot.target()), flags, into };
        self.call(function, &spot.route, action)?;
        Ok(about)
    }

    /// Finds out which node is at a name, and counts that the kernel is told of it so many times. The caller
    /// has locked the names of the directory.
    pub(crate) fn identify(
        &self,
        parent: u64,
        name: &OsStr,
        spot: &Spot,
        times: u64,
    ) -> Result<(u64, libc::statx), Errno> {
        let mut last = None;
        loop {
            let mut about = self.look(Function::Lstat, spot)?;
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
            let opened = match open_path(&spot.parent, &spot.name) {
                Ok(opened) => Some(opened),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error),
            };
            let at_source = opened.as_ref().map(|(_, about)| Identity::of(about));
            if let Some((descriptor, found)) = opened {
                if at_source == Some(shown) || !spot.route.wants(Kind::Stat) {
                    if at_source != Some(shown) {
                        about = found;
                    }
                    let key = Key::Real(Identity::of(&about));
                    let id = self.found((parent, name), key, at_source, times);
                    self.keep(id, descriptor);
                    return Ok((id, about));
                }
            } else if !spot.route.wants(Kind::Stat) {
                return Err(Errno::NOENT);
            }
            // Stages show something else than the source has: once more, in case somebody was faster.
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

    /// The kernel forgets what it was told of a node.
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

/// A path by which a descriptor can be opened again, and used where only paths are taken. It is of use for as long
/// as the descriptor is there.
#[derive(Debug)]
pub(crate) struct Magic<'d> {
    path: CString,
    of: PhantomData<&'d OwnedFd>,
}

impl Deref for Magic<'_> {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        &self.path
    }
}

/// The path of a descriptor.
pub(crate) fn magic(descriptor: &OwnedFd) -> Magic<'_> {
    let path = CString::new(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    Magic { path: path.unwrap_or_default(), of: PhantomData }
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

    fn door(source: &Path) -> Door {
        let plan = Plan {
            source: source.to_path_buf(),
            root: fs::File::open(source).unwrap().into(),
            stack: Stack::new(striate_stack::Paths::all(), Vec::new()),
            descriptors: NonZeroUsize::MIN,
            passthrough: false,
            cache: Duration::ZERO,
            serves_others: false,
        };
        Door::new(plan).unwrap()
    }

    /// With place for one descriptor all others are opened again.
    #[test]
    fn descriptors_that_were_given_up_are_opened_again() {
        let source = tempfile::tempdir().unwrap();
        let path = |name: &str| source.path().join(name);
        fs::create_dir_all(path("d/e")).unwrap();
        fs::write(path("d/e/f"), "x").unwrap();
        fs::write(path("g"), "y").unwrap();
        let door = door(source.path());
        let look = |parent, name: &str| door.lookup(parent, OsStr::new(name)).unwrap().0;
        let d = look(ROOT, "d");
        let e = look(d, "e");
        let (f, g) = (look(e, "f"), look(ROOT, "g"));
        let inode = |id| Ok::<_, Errno>(rustix::fs::fstat(&*door.descriptor(id)?)?.st_ino);
        for id in [d, e, f, g, f, d] {
            assert_eq!(inode(id), Ok(id));
        }
        assert_eq!(lock(&door.descriptors).len(), 1);
        // Renamed through the door, it is found; by others, it is looked for again.
        door.rename((ROOT, OsStr::new("d")), (ROOT, OsStr::new("h")), 0).unwrap();
        assert_eq!((inode(g), inode(f)), (Ok(g), Ok(f)));
        fs::rename(path("h/e"), path("h/i")).unwrap();
        assert_eq!(inode(g), Ok(g));
        assert_eq!(inode(f), Err(Errno::NOENT));
        assert_eq!((look(d, "i"), inode(f)), (e, Ok(f)));
        // Another file at the name is not taken for the one that was there.
        assert_eq!(inode(g), Ok(g));
        fs::write(path("new"), "z").unwrap();
        fs::rename(path("new"), path("h/i/f")).unwrap();
        assert_eq!(inode(f), Err(Errno::STALE));
    }

    #[test]
    fn a_door_that_is_closed_carries_nothing_out() {
        let source = tempfile::tempdir().unwrap();
        let door = door(source.path());
        assert_eq!(door.while_running(|| Ok(1)), Ok(1));
        assert!(door.close());
        assert_eq!(door.while_running(|| Ok(1)), Err(Errno::NOTCONN));
        assert!(!door.close());
    }
}
