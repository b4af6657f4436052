//! [`Handle`]: an open file description, made by one `open` of a program.
//!
//! A file that no stage wants is a descriptor of the source, which the kernel uses itself where it
//! can. One that stages want is an [`OpenFile`] of the stack.
//!
//! The kernel reports each close of a descriptor (`flush`), which waits for the answer, and later
//! the last one (`release`), without waiting. Errors of `close` can only be returned at a flush;
//! but whether duplicated or inherited descriptors remain is not known then. So the file is closed
//! through the stack at every flush, and opened again if it is used afterwards, which is rare.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, RwLock};

use fuser::BackingId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use striate_stack::{
    Action, Announced, FileOrName, Function, Kind, Op, OpenFile, Outcome, StatInto,
};

use crate::source_fs::identity::{self, Identity};
use crate::source_fs::nodes::Key;
use crate::source_fs::{SourceFs, magic};
use crate::sync::{lock, read, write};

/// What one `open` made.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) node: u64,
    /// `O_…`, as it is opened again.
    flags: AtomicI32,
    pub(crate) way: HandleAccess,
}

/// How a handle is used.
#[derive(Debug)]
pub(crate) enum HandleAccess {
    /// Without stages.
    Plain {
        descriptor: OwnedFd,
        /// By which the kernel uses it without asking.
        backing: Option<Arc<BackingId>>,
    },
    /// Through the stack.
    Staged(RwLock<Staged>),
}

/// The state of a handle that goes through the stack.
#[derive(Debug)]
pub(crate) enum Staged {
    /// It is open.
    Open(Arc<OpenFile>),
    /// A descriptor of it was closed, and since then nothing came.
    Closed,
    /// It was to be opened again, and has no name any more: stages do not see it.
    Detached(OwnedFd),
}

/// What a handle is at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HandleState<'a> {
    Descriptor(&'a OwnedFd),
    Stages(&'a Arc<OpenFile>),
}

/// What is not to happen once more when a file is opened again.
const ONCE: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;

/// Flags that programs change while a file is open.
const CHANGEABLE: i32 = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK;

/// A descriptor of a file that stages have open, the file, and the call that was announced to them.
pub(crate) type Reached = (Arc<OwnedFd>, Arc<OpenFile>, Option<Announced>);

impl Handle {
    pub(crate) fn new(node: u64, flags: i32, way: HandleAccess) -> Self {
        Self { node, flags: AtomicI32::new(flags & !ONCE), way }
    }

    pub(crate) fn flags(&self) -> i32 {
        self.flags.load(Ordering::Relaxed)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.flags() & libc::O_ACCMODE != libc::O_RDONLY
    }

    pub(crate) fn is_staged(&self) -> bool {
        matches!(self.way, HandleAccess::Staged(_))
    }

    /// Does something with the file of the stack, if it is open.
    fn if_open<R>(&self, act: impl FnOnce(&Arc<OpenFile>) -> R) -> Option<R> {
        let HandleAccess::Staged(state) = &self.way else { return None };
        match &*read(state) {
            Staged::Open(file) => Some(act(file)),
            _ => None,
        }
    }
}

impl SourceFs {
    /// The handle of a number.
    pub(crate) fn handle(&self, number: u64) -> Result<Arc<Handle>, Errno> {
        lock(&self.handles).get(&number).cloned().ok_or(Errno::BADF)
    }

    /// Adds a handle. Returns its number.
    pub(crate) fn add_handle(&self, handle: Handle) -> u64 {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let node = handle.node;
        lock(&self.handles).insert(number, Arc::new(handle));
        if let Some(node) = self.nodes().get_mut(node) {
            node.handles.push(number);
        }
        number
    }

    /// Does something with the file of a handle, which is opened again if need be.
    pub(crate) fn using<R>(
        &self,
        handle: &Handle,
        act: impl FnOnce(HandleState<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let state = match &handle.way {
            HandleAccess::Plain { descriptor, .. } => {
                return act(HandleState::Descriptor(descriptor));
            }
            HandleAccess::Staged(state) => state,
        };
        loop {
            match &*read(state) {
                Staged::Open(file) => return act(HandleState::Stages(file)),
                Staged::Detached(descriptor) => return act(HandleState::Descriptor(descriptor)),
                Staged::Closed => {}
            }
            self.open_again(handle, state)?;
        }
    }

    /// The same for data, with flags that the program may have changed since.
    pub(crate) fn using_with<R>(
        &self,
        handle: &Handle,
        flags: i32,
        act: impl FnOnce(HandleState<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let flags = flags & CHANGEABLE;
        if handle.flags() & CHANGEABLE != flags {
            let now = (handle.flags() & !CHANGEABLE) | flags;
            self.using(handle, |using| set_flags(self, using, now))?;
            handle.flags.store(now, Ordering::Relaxed);
        }
        self.using(handle, act)
    }

    /// Opens the file of a handle again, by the name it has now.
    fn open_again(&self, handle: &Handle, state: &RwLock<Staged>) -> Result<(), Errno> {
        loop {
            let name = self.nodes().name(handle.node).cloned();
            let names = name.as_ref().map(|(parent, _)| self.keep_names(*parent));
            if self.nodes().name(handle.node) != name.as_ref() {
                // It was renamed meanwhile.
                drop(names);
                continue;
            }
            let mut state = write(state);
            if matches!(*state, Staged::Closed) {
                *state = self.opened_again(handle)?;
            }
            return Ok(());
        }
    }

    fn opened_again(&self, handle: &Handle) -> Result<Staged, Errno> {
        let flags = handle.flags() | libc::O_CLOEXEC;
        if let Some(dentry) = self.dentry_of(handle.node)? {
            let flags = flags | libc::O_NOFOLLOW;
            let opened = self.stack.open(Function::Open, dentry.target(), flags, 0);
            if let Some(Ok(file)) = opened {
                if self.is_of(&file, handle.node) {
                    self.mark_elsewhere(&file, handle.node);
                    return Ok(Staged::Open(file));
                }
                let _ = self.close_file(&file);
            }
        }
        let descriptor = self.descriptor(handle.node)?;
        let flags = OFlags::from_bits_retain(flags as u32);
        Ok(Staged::Detached(rustix::fs::open(&*magic(&descriptor), flags, Mode::empty())?))
    }

    /// Whether a file that was opened by a name is a node's.
    pub(crate) fn is_of(&self, file: &Arc<OpenFile>, id: u64) -> bool {
        let key = self.nodes().get(id).map(|node| node.key);
        let below = file.descriptor().and_then(identity::at_descriptor);
        if below.is_ok_and(|about| Some(Key::Real(Identity::of(&about))) == key) {
            return true;
        }
        // Stages may show another file than there is.
        let Some((parent, name)) = self.nodes().name(id).cloned() else { return false };
        let found =
            self.dentry(parent, &name).and_then(|dentry| self.identify(parent, &name, &dentry, 0));
        let Ok((found, _)) = found else { return false };
        if found != id {
            self.forget(found, 0);
        }
        found == id
    }

    /// Marks a node whose bytes stages have elsewhere.
    pub(crate) fn mark_elsewhere(&self, file: &Arc<OpenFile>, id: u64) {
        let below = file.descriptor().and_then(identity::at_descriptor);
        let below = below.map(|about| Key::Real(Identity::of(&about)));
        if let Some(node) = self.nodes().get_mut(id)
            && below != Ok(node.key)
        {
            node.is_elsewhere = true;
        }
    }

    /// What a file of the stack is, for programs.
    pub(crate) fn stat_file(&self, file: &Arc<OpenFile>) -> Result<libc::statx, Errno> {
        if !file.route().wants(Kind::Stat) {
            return identity::at_descriptor(file.descriptor()?);
        }
        let mut about = identity::empty();
        let into = StatInto::Statx { mask: identity::WANTED, buffer: &mut about };
        let action = Action::Stat { of: FileOrName::File(file), flags: 0, into };
        self.stack.call(&mut Op::on(file, Function::Fstat, action))?;
        Ok(about)
    }

    /// What a node is, asked of a handle that is open, if there is one.
    pub(crate) fn stat_open(&self, id: u64) -> Option<Result<libc::statx, Errno>> {
        self.handles_of(id).iter().find_map(|handle| handle.if_open(|file| self.stat_file(file)))
    }

    /// A descriptor of a node that stages have open, after a call on it was announced to them.
    pub(crate) fn reach_open(&self, id: u64, function: Function) -> Option<Result<Reached, Errno>> {
        let reach = |file: &Arc<OpenFile>| {
            let mut announced = None;
            if file.route().wants(Kind::Notice) {
                let action = Action::Notice { of: FileOrName::File(file) };
                let call = self.stack.announce(&mut Op::on(file, function, action));
                call.outcome?;
                announced = Some(call);
            }
            let descriptor = Arc::new(rustix::io::fcntl_dupfd_cloexec(file.descriptor()?, 3)?);
            Ok((descriptor, Arc::clone(file), announced))
        };
        self.handles_of(id).iter().find_map(|handle| handle.if_open(reach))
    }

    /// Shares the file of a handle: stages hold nothing of it back from now on.
    pub(crate) fn share(&self, handle: &Handle) {
        handle.if_open(|file| self.stack.share(file));
    }

    /// Stages do what they have put off of a write that was answered.
    pub(crate) fn catch_up(&self, number: u64) {
        if let Ok(handle) = self.handle(number) {
            handle.if_open(|file| self.stack.catch_up(file));
        }
    }

    /// Closes a file of the stack.
    pub(crate) fn close_file(&self, file: &Arc<OpenFile>) -> Outcome {
        let descriptor = file.raw_descriptor();
        let last = file.remove_descriptor(descriptor);
        let action = Action::Close { file, descriptor, last };
        self.stack.call(&mut Op::on(file, Function::Close, action))
    }

    /// A program closes a descriptor of a handle.
    pub(crate) fn flush(&self, handle: &Handle) -> Result<(), Errno> {
        let state = match &handle.way {
            // What a close finds out is the same for all descriptors of a file.
            HandleAccess::Plain { descriptor, .. } => return close_copy(descriptor),
            HandleAccess::Staged(state) => state,
        };
        let mut state = write(state);
        let closed = match &*state {
            Staged::Closed => return Ok(()),
            Staged::Detached(descriptor) => return close_copy(descriptor),
            Staged::Open(file) if !self.may_open_again(handle, file) => {
                return self.stack.settle(file).map(|_| ());
            }
            Staged::Open(_) => {
                // Before it is closed: whatever comes of that, it is not open any more.
                match std::mem::replace(&mut *state, Staged::Closed) {
                    Staged::Open(file) => self.close_file(&file).map(|_| ()),
                    _ => Ok(()),
                }
            }
        };
        drop(state);
        // The stage may have replaced it on the source.
        self.follow(handle.node);
        closed
    }

    /// Whether a file can be opened once more: it has a name, and permissions that allow it.
    fn may_open_again(&self, handle: &Handle, file: &Arc<OpenFile>) -> bool {
        if self.nodes().name(handle.node).is_none() {
            return false;
        }
        if rustix::process::geteuid().is_root() {
            return true;
        }
        let wanted = match handle.flags() & libc::O_ACCMODE {
            libc::O_RDONLY => 0o400,
            libc::O_WRONLY => 0o200,
            _ => 0o600,
        };
        let about = file.descriptor().and_then(identity::at_descriptor);
        about.is_ok_and(|about| {
            about.stx_uid == rustix::process::geteuid().as_raw()
                && u32::from(about.stx_mode) & wanted == wanted
        })
    }

    /// Nothing stands for a handle any more.
    pub(crate) fn release(&self, number: u64) -> Result<(), Errno> {
        let handle = lock(&self.handles).remove(&number).ok_or(Errno::BADF)?;
        if let Some(node) = self.nodes().get_mut(handle.node) {
            node.handles.retain(|other| *other != number);
        }
        self.end_handle(&handle)
    }

    /// Closes what is still open of a handle.
    fn end_handle(&self, handle: &Handle) -> Result<(), Errno> {
        let HandleAccess::Staged(state) = &handle.way else { return Ok(()) };
        match std::mem::replace(&mut *write(state), Staged::Closed) {
            Staged::Open(file) => self.close_file(&file).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Closes all that programs have open. Returns how many handles there were.
    pub(crate) fn end_handles(&self) -> usize {
        let handles: Vec<_> = lock(&self.handles).drain().map(|(_, handle)| handle).collect();
        for handle in &handles {
            let _ = self.end_handle(handle);
        }
        handles.len()
    }

    /// The name of a node is about to go: what could only be opened again by it is opened now.
    /// The caller has locked the name.
    pub(crate) fn open_closed_handles(&self, id: u64) {
        if !self.nodes().may_change(id) {
            return;
        }
        for handle in self.handles_of(id) {
            if let HandleAccess::Staged(state) = &handle.way {
                let mut state = write(state);
                if matches!(*state, Staged::Closed)
                    && let Ok(opened) = self.opened_again(&handle)
                {
                    *state = opened;
                }
            }
        }
    }
}

/// Closes a copy of a descriptor, to learn what a close has to say.
fn close_copy(descriptor: &OwnedFd) -> Result<(), Errno> {
    let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?;
    // SAFETY: the copy is ours, and is not used any more.
    let closed = unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(copy)) };
    if closed == 0 { Ok(()) } else { Err(identity::last_error()) }
}

fn set_flags(door: &SourceFs, using: HandleState<'_>, flags: i32) -> Result<(), Errno> {
    match using {
        HandleState::Descriptor(descriptor) => {
            rustix::fs::fcntl_setfl(descriptor, OFlags::from_bits_retain(flags as u32))
        }
        HandleState::Stages(file) => {
            let descriptor = file.descriptor()?.as_raw_fd();
            let (command, argument) = (libc::F_SETFL, flags as u64);
            let action = Action::Control { file, descriptor, command, argument };
            door.stack.call(&mut Op::on(file, Function::Fcntl, action))?;
            file.set_flags((file.flags() & !CHANGEABLE) | (flags & CHANGEABLE));
            Ok(())
        }
    }
}
