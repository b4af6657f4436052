//! Opening files: through the stack if a stage wants them, otherwise directly, by passthrough if
//! the kernel has it.
//!
//! All handles of a node are opened in the same way, as far as possible: a file with passthrough
//! cannot be opened through stages, and one that stages have open does not get passthrough, so that
//! all programs see the same bytes.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{BackingId, FopenFlags, Request};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use striate_stack::{Action, FileOrName, Function, Kind, Op, OpenFile};

use crate::backend::{NewMode, Opened, Register};
use crate::source_fs::credentials::{CallerCredentials, without_keeping_rights};
use crate::source_fs::handle::{Handle, HandleAccess, Staged};
use crate::source_fs::identity;
use crate::source_fs::namespace::Entry;
use crate::source_fs::{Dentry, SourceFs, magic};
use crate::sync::lock;

/// Flags of `open` that the kernel adds or that do not concern the mount.
const NOT_OURS: i32 = 0x20 | libc::O_NOCTTY | libc::O_NOFOLLOW | 0o100_000;

impl SourceFs {
    /// Opens a node.
    pub(crate) fn open(
        &self,
        request: &Request,
        id: u64,
        flags: i32,
        register: Register<'_>,
    ) -> Result<Opened, Errno> {
        let flags = (flags & !NOT_OURS & !libc::O_CREAT & !libc::O_EXCL) | libc::O_CLOEXEC;
        let parent = self.nodes().name(id).map(|(parent, _)| *parent);
        let _names = parent.map(|parent| self.keep_names(parent));
        let used_by_kernel =
            lock(&self.backings).get(&id).is_some_and(|one| one.strong_count() > 0);
        let way = match self.dentry_of(id)? {
            Some(dentry) if !used_by_kernel && !dentry.route.is_empty() => {
                self.open_staged(id, &dentry, flags)?
            }
            _ => None,
        };
        let opened = if let Some(file) = way {
            self.add_staged(id, flags, file)
        } else {
            let descriptor = self.descriptor(id)?;
            let flags_below = OFlags::from_bits_retain(flags as u32);
            let opened = rustix::fs::open(&*magic(&descriptor), flags_below, Mode::empty())?;
            self.add_plain(id, flags, opened, register)
        };
        if flags & libc::O_TRUNC != 0 && request.uid() != 0 {
            let handle = self.handle(opened.handle)?;
            self.drop_rights(&handle)?;
        }
        Ok(opened)
    }

    fn open_staged(
        &self,
        id: u64,
        dentry: &Dentry,
        flags: i32,
    ) -> Result<Option<Arc<OpenFile>>, Errno> {
        let opened = self.stack.open(Function::Open, dentry.target(), flags | libc::O_NOFOLLOW, 0);
        let Some(file) = opened.transpose()? else { return Ok(None) };
        if self.is_of(&file, id) {
            return Ok(Some(file));
        }
        let _ = self.close_file(&file);
        // The kernel looks for the name once more.
        Err(Errno::STALE)
    }

    /// Creates a file, or opens an existing one. Returns its node and what it is.
    pub(crate) fn create(
        &self,
        request: &Request,
        (parent, name): (u64, &OsStr),
        flags: i32,
        mode: NewMode,
        register: Register<'_>,
    ) -> Result<(Entry, Opened), Errno> {
        let flags = (flags & !NOT_OURS) | libc::O_CREAT | libc::O_CLOEXEC;
        let _names = self.change_names(parent);
        let dentry = self.dentry(parent, name)?;
        let mode = masked(&dentry, mode);
        let flags_below = flags | libc::O_NOFOLLOW;
        let staged = {
            let _caller = CallerCredentials::new(self, request);
            if dentry.route.is_empty() {
                None
            } else {
                self.stack.open(Function::Open, dentry.target(), flags_below, mode)
            }
        };
        if let Some(file) = staged.transpose()? {
            let entry =
                self.give_to(request, &file).and_then(|()| self.identify(parent, name, &dentry, 1));
            return match entry {
                Ok((id, about)) => Ok(((id, about), self.add_staged(id, flags, file))),
                Err(error) => {
                    let _ = self.close_file(&file);
                    Err(error)
                }
            };
        }
        let opened = {
            let _caller = CallerCredentials::new(self, request);
            let flags = OFlags::from_bits_retain(flags_below as u32);
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::openat(&*dentry.parent, dentry.name.as_c_str(), flags, mode)?
        };
        let (id, about) = self.identify(parent, name, &dentry, 1)?;
        Ok(((id, about), self.add_plain(id, flags, opened, register)))
    }

    /// A file that stages have made belongs to the caller, also if they keep it elsewhere.
    fn give_to(&self, request: &Request, file: &Arc<OpenFile>) -> Result<(), Errno> {
        if !self.serves_others || request.uid() == 0 {
            return Ok(());
        }
        let about = self.stat_file(file)?;
        if about.stx_uid == request.uid() || about.stx_uid != 0 || about.stx_size != 0 {
            return Ok(());
        }
        if file.route().wants(Kind::Notice) {
            // The caller's `open` is what is recorded.
            let action = Action::Notice { of: FileOrName::File(file) };
            self.stack.announce(&mut Op::on(file, Function::Chown, action)).outcome?;
        }
        let [user, group] = [request.uid(), request.gid()];
        let group = if about.stx_gid == 0 { group } else { about.stx_gid };
        let descriptor = file.descriptor()?;
        // SAFETY: a descriptor that is open, and numbers.
        let given =
            unsafe { libc::fchown(std::os::fd::AsRawFd::as_raw_fd(&descriptor), user, group) };
        if given == 0 { Ok(()) } else { Err(identity::last_error()) }
    }

    fn add_staged(&self, id: u64, flags: i32, file: Arc<OpenFile>) -> Opened {
        self.mark_elsewhere(&file, id);
        let way = HandleAccess::Staged(std::sync::RwLock::new(Staged::Open(file)));
        let handle = self.add_handle(Handle::new(id, flags, way));
        Opened { handle, flags: self.by_request(), backing: None }
    }

    fn add_plain(
        &self,
        id: u64,
        flags: i32,
        descriptor: OwnedFd,
        register: Register<'_>,
    ) -> Opened {
        let mut otherwise = false;
        for handle in self.handles_of(id) {
            match &handle.way {
                HandleAccess::Plain { backing, .. } => otherwise |= backing.is_none(),
                HandleAccess::Staged(_) => {
                    // By a name that stages want; from now on they hold nothing back.
                    otherwise = true;
                    self.share(&handle);
                }
            }
        }
        let backing = if otherwise { None } else { self.backing(id, &descriptor, register) };
        let way = HandleAccess::Plain { descriptor, backing: backing.clone() };
        let handle = self.add_handle(Handle::new(id, flags, way));
        let by_request = backing.is_none() && self.cache.is_zero();
        let flags = if by_request { self.by_request() } else { FopenFlags::empty() };
        Opened { handle, flags, backing }
    }

    /// Every read and write is a request: the kernel keeps nothing.
    fn by_request(&self) -> FopenFlags {
        if self.direct.load(Ordering::Relaxed) {
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::empty()
        }
    }

    /// Gives a file to the kernel, or finds that it has it: it wants one and the same for all that
    /// is open of it.
    fn backing(
        &self,
        id: u64,
        descriptor: &OwnedFd,
        register: Register<'_>,
    ) -> Option<Arc<BackingId>> {
        if !self.passthrough.load(Ordering::Relaxed) {
            return None;
        }
        let mut backings = lock(&self.backings);
        if let Some(backing) = backings.get(&id).and_then(std::sync::Weak::upgrade) {
            return Some(backing);
        }
        match without_keeping_rights(|| register(descriptor)) {
            Ok(backing) => {
                let backing = Arc::new(backing);
                if backings.len() >= 4096 {
                    backings.retain(|_, one| one.strong_count() > 0);
                }
                backings.insert(id, Arc::downgrade(&backing));
                Some(backing)
            }
            Err(error) => {
                if self.passthrough.swap(false, Ordering::Relaxed) {
                    self.notice(format!(
                        "the kernel has no passthrough for files of {} ({error}): \
                         they are read and written by requests, which is slower",
                        self.source.display()
                    ));
                }
                None
            }
        }
    }
}

/// The permissions of something new: without those that the caller's mask takes away, unless the
/// directory has a list that says which it gets.
pub(crate) fn masked(dentry: &Dentry, NewMode { mode, umask }: NewMode) -> u32 {
    if umask & mode == 0 {
        return mode;
    }
    let list: &mut [u8] = &mut [];
    let path = magic(&dentry.parent);
    let has_list = rustix::fs::getxattr(&*path, c"system.posix_acl_default", list).is_ok();
    if has_list { mode } else { mode & !umask }
}
