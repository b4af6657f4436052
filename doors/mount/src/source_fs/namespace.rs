//! Operations on names: lookup, creation, renaming and removal.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use fuser::Request;
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};
use rustix::io::Errno;
use striate_stack::{Action, Detail, FileOrName, Function, Kind, Op};

use crate::backend::{NameIn, NewMode};
use crate::source_fs::credentials::CallerCredentials;
use crate::source_fs::open::masked;
use crate::source_fs::{Dentry, SourceFs, magic, text};

/// What a name was found to be: its node, and what that is.
pub(crate) type Entry = (u64, libc::statx);

impl SourceFs {
    /// Looks a name up.
    pub(crate) fn lookup(&self, parent: u64, name: &OsStr) -> Result<Entry, Errno> {
        let _names = self.keep_names(parent);
        let dentry = self.dentry(parent, name)?;
        let found = self.identify(parent, name, &dentry, 1);
        if found.as_ref().is_err_and(|error| *error == Errno::NOENT) {
            // It was removed on the source.
            self.nodes().removed(parent, name, None);
        }
        found
    }

    /// Makes something at a name, for the caller.
    fn make(
        &self,
        request: &Request,
        (parent, name): NameIn<'_>,
        (function, detail): (Function, Detail<&Path>),
        make: impl FnOnce(&Dentry) -> Result<(), Errno>,
    ) -> Result<Entry, Errno> {
        let _names = self.change_names(parent);
        let dentry = self.dentry(parent, name)?;
        let act = || {
            let _caller = CallerCredentials::new(self, request);
            make(&dentry)
        };
        if function == Function::Link && dentry.route.wants(Kind::Notice) {
            // Its result is recorded with the old name.
            let action = Action::Notice { of: FileOrName::Name(dentry.target()) };
            self.stack.announce(&mut Op { function, route: &dentry.route, action }).outcome?;
            act()?;
        } else if function.kind() == Kind::Notice {
            self.noticed(function, &dentry, &detail, act)?;
        } else {
            act()?;
        }
        self.identify(parent, name, &dentry, 1)
    }

    pub(crate) fn make_directory(
        &self,
        request: &Request,
        name: NameIn<'_>,
        mode: NewMode,
    ) -> Result<Entry, Errno> {
        self.make(request, name, (Function::Mkdir, Detail::default()), |dentry| {
            let mode = masked(dentry, mode);
            if dentry.route.wants(Kind::MakeDirectory) {
                let action = Action::MakeDirectory { target: dentry.target(), mode };
                return self.call(Function::Mkdir, &dentry.route, action).map(|_| ());
            }
            rustix::fs::mkdirat(&*dentry.parent, dentry.name.as_c_str(), Mode::from_raw_mode(mode))
        })
    }

    pub(crate) fn make_node(
        &self,
        request: &Request,
        name: NameIn<'_>,
        mode: NewMode,
        device: u32,
    ) -> Result<Entry, Errno> {
        let detail = Detail::numbers(&[mode.mode.into()]);
        self.make(request, name, (Function::Mknod, detail), |dentry| {
            let permissions = NewMode { mode: mode.mode & 0o7777, ..mode };
            let mode = (mode.mode & libc::S_IFMT) | masked(dentry, permissions);
            let kind = FileType::from_raw_mode(mode);
            let permissions = Mode::from_raw_mode(mode & 0o7777);
            let name = dentry.name.as_c_str();
            rustix::fs::mknodat(&*dentry.parent, name, kind, permissions, device.into())
        })
    }

    pub(crate) fn make_symlink(
        &self,
        request: &Request,
        name: NameIn<'_>,
        to: &Path,
    ) -> Result<Entry, Errno> {
        let detail = Detail::default().with_text(Some(to));
        let to = text(to.as_os_str())?;
        self.make(request, name, (Function::Symlink, detail), |dentry| {
            rustix::fs::symlinkat(to.as_c_str(), &*dentry.parent, dentry.name.as_c_str())
        })
    }

    /// Gives a node another name.
    pub(crate) fn link(
        &self,
        request: &Request,
        id: u64,
        name: NameIn<'_>,
    ) -> Result<Entry, Errno> {
        let new = self.dentry(name.0, name.1)?.path;
        let detail = Detail::default().with_text(Some(new.as_path()));
        self.reach(id, (Function::Link, detail), |file| {
            self.make(request, name, (Function::Link, Detail::default()), |dentry| {
                let (parent, name) = (&*dentry.parent, dentry.name.as_c_str());
                let path = magic(file);
                let flags = AtFlags::SYMLINK_FOLLOW;
                rustix::fs::linkat(rustix::fs::CWD, &*path, parent, name, flags)
            })
        })
    }

    pub(crate) fn read_link(&self, id: u64) -> Result<Vec<u8>, Errno> {
        let descriptor = self.descriptor(id)?;
        Ok(rustix::fs::readlinkat(&*descriptor, c"", Vec::new())?.into_bytes())
    }

    /// A descriptor of a file that is about to lose its name, so that it exists for as long as a
    /// program uses it.
    fn pinned(&self, parent: u64, name: &OsStr) -> Option<Arc<OwnedFd>> {
        let id = self.nodes().named(parent, name)?;
        self.open_closed_handles(id);
        self.descriptor(id).ok()
    }

    /// Removes a name; of a directory if the flags say so (`AT_REMOVEDIR`).
    pub(crate) fn remove(&self, parent: u64, name: &OsStr, flags: i32) -> Result<(), Errno> {
        let _names = self.change_names(parent);
        let dentry = self.dentry(parent, name)?;
        let pinned = self.pinned(parent, name);
        if dentry.route.wants(Kind::Unlink) {
            let function = if flags == 0 { Function::Unlink } else { Function::Rmdir };
            let action = Action::Unlink { target: dentry.target(), flags };
            self.call(function, &dentry.route, action)?;
        } else {
            let flags = AtFlags::from_bits_retain(flags as u32);
            rustix::fs::unlinkat(&*dentry.parent, dentry.name.as_c_str(), flags)?;
        }
        self.nodes().removed(parent, name, pinned);
        Ok(())
    }

    /// Gives a file another name.
    pub(crate) fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, flags: u32) -> Result<(), Errno> {
        let _names = self.change_both(from.0, to.0);
        let (source, sink) = (self.dentry(from.0, from.1)?, self.dentry(to.0, to.1)?);
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        let pinned = if exchanges { None } else { self.pinned(to.0, to.1) };
        let route = source.route.or(&sink.route);
        if route.wants(Kind::Rename) {
            let action = Action::Rename { from: source.target(), to: sink.target(), flags };
            self.call(Function::Rename, &route, action)?;
        } else {
            let flags = RenameFlags::from_bits_retain(flags);
            let (old, new) = (source.name.as_c_str(), sink.name.as_c_str());
            rustix::fs::renameat_with(&*source.parent, old, &*sink.parent, new, flags)?;
        }
        let mut nodes = self.nodes();
        if exchanges {
            nodes.exchanged(from, to);
        } else if nodes.named(from.0, from.1) != nodes.named(to.0, to.1)
            || nodes.named(from.0, from.1).is_none()
        {
            // Two names of one file stay as they are.
            nodes.removed(to.0, to.1, pinned);
            nodes.renamed(from, to);
        }
        Ok(())
    }
}
