//! Attributes of files: how they are found and changed (`getattr`, `setattr`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{Request, TimeOrNow};
use rustix::io::Errno;
use striate_stack::{Action, Detail, FileOrName, Function, Kind, Op};

use crate::backend::AttributeChange;
use crate::source_fs::handle::Handle;
use crate::source_fs::identity::{self, Identity, last_error};
use crate::source_fs::nodes::Key;
use crate::source_fs::{Dentry, SourceFs, magic};

impl SourceFs {
    /// What a node is.
    pub(crate) fn attributes(&self, id: u64) -> Result<libc::statx, Errno> {
        if let Some(about) = self.stat_open(id) {
            return about;
        }
        if let Some(dentry) = self.dentry_of(id)?
            && dentry.route.wants(Kind::Stat)
        {
            let key = self.nodes().get(id).map(|node| node.key);
            let about = self.look(Function::Stat, &dentry);
            if let Ok(about) = about {
                let shown = Identity::of(&about);
                if [Key::Real(shown), Key::Virtual(shown)].map(Some).contains(&key) {
                    return Ok(about);
                }
            }
            self.follow(id);
            if let Ok(about) = self.attributes_by_key(id, &dentry) {
                return Ok(about);
            }
        }
        identity::at_descriptor(&*self.descriptor(id)?)
    }

    /// What stages show at a node's name, if that is the node.
    fn attributes_by_key(&self, id: u64, dentry: &Dentry) -> Result<libc::statx, Errno> {
        let about = self.look(Function::Stat, dentry)?;
        let shown = Identity::of(&about);
        let key = self.nodes().get(id).map(|node| node.key);
        let same = [Key::Real(shown), Key::Virtual(shown)].map(Some).contains(&key);
        if same { Ok(about) } else { Err(Errno::STALE) }
    }

    /// Finds out whether a stage has written a node's file to the source, where it is another file
    /// then.
    pub(crate) fn follow(&self, id: u64) {
        let name = {
            let nodes = self.nodes();
            nodes.name(id).filter(|_| nodes.may_change(id)).cloned()
        };
        let Some((parent, name)) = name else { return };
        let _names = self.keep_names(parent);
        if self.nodes().named(parent, &name) != Some(id) {
            return;
        }
        let found =
            self.dentry(parent, &name).and_then(|dentry| self.identify(parent, &name, &dentry, 0));
        if let Ok((found, _)) = found
            && found != id
        {
            // It was not returned to the kernel.
            self.forget(found, 0);
        }
    }

    /// Makes a call on a node's file by a descriptor; it is announced to stages, which get its
    /// result.
    pub(crate) fn reach<R>(
        &self,
        id: u64,
        (function, detail): (Function, Detail<&Path>),
        act: impl FnOnce(&Arc<OwnedFd>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if let Some(reached) = self.reach_open(id, function) {
            self.follow(id);
            let (descriptor, file, announced) = reached?;
            let done = act(&descriptor);
            if let Some(announced) = announced {
                let op = Op::on(&file, function, Action::Notice { of: FileOrName::File(&file) });
                let outcome = done.as_ref().map(|_| 0).map_err(|error| *error);
                self.stack.completed(&op, &detail, announced, outcome);
            }
            return done;
        }
        let dentry = self.dentry_of(id)?;
        let act = || {
            self.follow(id);
            act(&self.descriptor(id)?)
        };
        match dentry {
            Some(dentry) => self.noticed(function, &dentry, &detail, act),
            None => act(),
        }
    }

    /// Changes what a node is.
    pub(crate) fn change(
        &self,
        request: &Request,
        id: u64,
        handle: Option<&Arc<Handle>>,
        change: AttributeChange,
    ) -> Result<(), Errno> {
        if change.user.is_some() || change.group.is_some() {
            let [user, group] =
                [change.user, change.group].map(|number| number.unwrap_or(u32::MAX));
            let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
            let detail = Detail::numbers(&[user.into(), group.into()]);
            self.reach(id, (Function::Chown, detail), |descriptor| {
                // SAFETY: a descriptor, an empty text and numbers.
                done(unsafe {
                    libc::fchownat(descriptor.as_raw_fd(), c"".as_ptr(), user, group, flags)
                })
            })?;
        }
        if let Some(mode) = change.mode {
            let detail = Detail::numbers(&[mode.into()]);
            self.reach(id, (Function::Chmod, detail), |descriptor| {
                // SAFETY: a text and a number.
                done(unsafe { libc::chmod(magic(descriptor).as_ptr(), mode & 0o7777) })
            })?;
        }
        if let Some(size) = change.size {
            self.resize(request, id, handle, size)?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = [change.accessed, change.modified].map(stamp);
            let flags = libc::AT_EMPTY_PATH;
            self.reach(id, (Function::Utimens, Detail::default()), |descriptor| {
                // SAFETY: a descriptor, an empty text and two times.
                done(unsafe {
                    libc::utimensat(descriptor.as_raw_fd(), c"".as_ptr(), times.as_ptr(), flags)
                })
            })?;
        }
        Ok(())
    }

    fn resize(
        &self,
        request: &Request,
        id: u64,
        handle: Option<&Arc<Handle>>,
        size: u64,
    ) -> Result<(), Errno> {
        let staged = || {
            let mut handles = self.handles_of(id).into_iter();
            handles.find(|handle| handle.is_staged() && handle.is_writable())
        };
        if let Some(handle) = handle.cloned().or_else(staged) {
            self.truncate(&handle, size)?;
            if request.uid() != 0 {
                self.drop_rights(&handle)?;
            }
            return Ok(());
        }
        let detail = Detail::numbers(&[size]);
        let descriptor = self.reach(id, (Function::Truncate, detail), |descriptor| {
            // SAFETY: a text and a number.
            done(unsafe { libc::truncate(magic(descriptor).as_ptr(), size as i64) })?;
            Ok(Arc::clone(descriptor))
        })?;
        let path = magic(&descriptor);
        if request.uid() != 0 {
            let mode = u32::from(identity::at_descriptor(&*descriptor)?.stx_mode) & 0o7777;
            let remaining = mode & !0o4000 & !(if mode & 0o2010 == 0o2010 { 0o2000 } else { 0 });
            if remaining != mode {
                // SAFETY: a text and a number.
                done(unsafe { libc::chmod(path.as_ptr(), remaining) })?;
            }
        }
        Ok(())
    }
}

/// The answer of a call of the C library.
pub(crate) fn done(answer: libc::c_int) -> Result<(), Errno> {
    if answer < 0 { Err(last_error()) } else { Ok(()) }
}

fn stamp(time: Option<TimeOrNow>) -> libc::timespec {
    match time {
        None => libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        Some(TimeOrNow::Now) => libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => specific(time),
    }
}

fn specific(time: SystemTime) -> libc::timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => {
            libc::timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() }
        }
        Err(before) => {
            let before = before.duration();
            let part = i64::from(before.subsec_nanos());
            let carry = i64::from(part > 0);
            libc::timespec {
                tv_sec: -(before.as_secs() as i64) - carry,
                tv_nsec: if part > 0 { 1_000_000_000 - part } else { 0 },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_what_the_kernel_takes() {
        let parts = |time| {
            let stamp = specific(time);
            (stamp.tv_sec, stamp.tv_nsec)
        };
        assert_eq!(parts(UNIX_EPOCH + Duration::new(3, 4)), (3, 4));
        assert_eq!(parts(UNIX_EPOCH - Duration::from_nanos(1)), (-1, 999_999_999));
        assert_eq!(parts(UNIX_EPOCH - Duration::from_secs(2)), (-2, 0));
    }
}
