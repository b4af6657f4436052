//! A directory of I/O servers as the [`Backend`] of a mount.
//!
//! What servers do not have (links, devices, extended attributes, holes) is left to the defaults of
//! the trait.

use std::ffi::OsStr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fuser::{FileAttr, FopenFlags, InitFlags, KernelConfig, Request, TimeOrNow};
use rustix::io::Errno;

use super::{LONGEST_NAME, ServerFs, code};
use crate::backend::{
    AttributeChange, Backend, DirectoryEntry, NameIn, NewMode, Opened, Register, Space,
    WriteRequest,
};

/// The unit in which space is reported.
const BLOCK: u64 = 4096;

/// What is asked of the kernel, each only if it offers it.
const WANTED: [InitFlags; 5] = [
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_MAX_PAGES,
];

impl ServerFs {
    fn change(&self, number: u64, change: &AttributeChange) -> Result<FileAttr, Errno> {
        let sort = self.node(number)?.sort;
        let others_mode = change.mode.is_some_and(|mode| mode & 0o7777 != self.permissions(sort));
        let others_owner = change.user.is_some_and(|user| user != self.owner.user)
            || change.group.is_some_and(|group| group != self.owner.group);
        // Servers do not know them.
        if others_mode || others_owner {
            return Err(Errno::PERM);
        }
        if let Some(size) = change.size {
            self.truncate(number, size)?;
        }
        match change.modified {
            // What the kernel says of itself when a file was truncated.
            Some(TimeOrNow::Now) if change.size.is_none() => self.touch(number)?,
            Some(TimeOrNow::SpecificTime(time)) => self.give_time(number, time)?,
            _ => {}
        }
        self.attributes(number)
    }

    fn as_opened(&self, handle: u64) -> Opened {
        // Every read and write is a request: the kernel caches nothing.
        let flags = if self.direct.load(Ordering::Relaxed) {
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::empty()
        };
        Opened { handle, flags, backing: None }
    }
}

impl Backend for ServerFs {
    fn configure(&self, config: &mut KernelConfig) {
        for wanted in WANTED {
            // What the kernel does not have it does without.
            let _ = config.add_capabilities(wanted);
        }
        let direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.direct.store(direct, Ordering::Relaxed);
    }

    fn cache(&self) -> &Duration {
        &self.cache
    }

    fn while_running<R>(
        &self,
        _: &Request,
        act: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        Self::while_running(self, act)
    }

    fn lookup(&self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        Self::lookup(self, parent, name)
    }

    fn forget(&self, node: u64, times: u64) {
        self.nodes().forget(node, times);
    }

    fn getattr(&self, node: u64) -> Result<FileAttr, Errno> {
        self.attributes(node)
    }

    fn setattr(
        &self,
        _: &Request,
        node: u64,
        _: Option<u64>,
        change: AttributeChange,
    ) -> Result<FileAttr, Errno> {
        self.change(node, &change)
    }

    fn mknod(
        &self,
        _: &Request,
        name: NameIn<'_>,
        NewMode { mode, .. }: NewMode,
        _: u32,
    ) -> Result<FileAttr, Errno> {
        if mode & libc::S_IFMT != libc::S_IFREG && mode & libc::S_IFMT != 0 {
            return Err(Errno::PERM);
        }
        let (attributes, handle) = Self::create(self, name, libc::O_EXCL)?;
        Self::release(self, handle)?;
        Ok(attributes)
    }

    fn mkdir(
        &self,
        _: &Request,
        (parent, name): NameIn<'_>,
        _: NewMode,
    ) -> Result<FileAttr, Errno> {
        self.make_directory(parent, name)
    }

    fn unlink(&self, (parent, name): NameIn<'_>) -> Result<(), Errno> {
        self.remove_file(parent, name)
    }

    fn rmdir(&self, (parent, name): NameIn<'_>) -> Result<(), Errno> {
        self.remove_directory(parent, name)
    }

    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, flags: u32) -> Result<(), Errno> {
        Self::rename(self, from, to, flags)
    }

    fn open(&self, _: &Request, node: u64, flags: i32, _: Register<'_>) -> Result<Opened, Errno> {
        Self::open(self, node, flags).map(|handle| self.as_opened(handle))
    }

    fn create(
        &self,
        _: &Request,
        name: NameIn<'_>,
        flags: i32,
        _: NewMode,
        _: Register<'_>,
    ) -> Result<(FileAttr, Opened), Errno> {
        let (attributes, handle) = Self::create(self, name, flags)?;
        Ok((attributes, self.as_opened(handle)))
    }

    fn read(
        &self,
        handle: u64,
        (offset, size): (u64, usize),
        _: i32,
        act: impl FnOnce(&[u8]),
    ) -> Result<(), Errno> {
        Self::read(self, handle, (offset, size), act)
    }

    fn write(&self, handle: u64, data: &WriteRequest<'_>) -> Result<usize, Errno> {
        // What was written to a mapping goes where it belongs, whatever the file was opened with.
        if data.flags & libc::O_APPEND != 0 && !data.from_page_cache {
            self.append(handle, data.bytes)?;
        } else {
            self.write_at(handle, data.offset, data.bytes)?;
        }
        Ok(data.bytes.len())
    }

    fn flush(&self, handle: u64) -> Result<(), Errno> {
        Self::flush(self, handle)
    }

    fn release(&self, handle: u64) -> Result<(), Errno> {
        Self::release(self, handle)
    }

    fn fsync(&self, handle: u64, _: bool) -> Result<(), Errno> {
        self.sync(handle)
    }

    fn opendir(&self, node: u64) -> Result<u64, Errno> {
        self.open_directory(node)
    }

    fn readdir(
        &self,
        handle: u64,
        node: u64,
        offset: u64,
        mut take: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        // A listing that begins again shows the current entries.
        if offset == 0 {
            self.renew_directory(handle, node)?;
        }
        let snapshot = self.snapshot(handle)?;
        let entries = (1..).zip(&snapshot.entries).skip(offset as usize);
        for (next, (name, number, kind)) in entries {
            let name = OsStr::new(name);
            if take(DirectoryEntry { number: *number, next, kind: *kind, name }) {
                break;
            }
        }
        Ok(())
    }

    fn releasedir(&self, handle: u64) -> Result<(), Errno> {
        self.close_directory(handle)
    }

    /// Names are durable when the servers have answered.
    fn fsyncdir(&self, _: u64, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    /// The space of all servers together.
    fn statfs(&self, _: u64) -> Result<Space, Errno> {
        let mut sum = Space {
            block_size: BLOCK as u32,
            fragment_size: BLOCK as u32,
            longest_name: LONGEST_NAME as u32,
            ..Space::default()
        };
        for server in self.client.servers().map_err(|error| code(&error))? {
            let space = self.client.space(&server).map_err(|error| code(&error))?;
            for (sum, one) in [
                (&mut sum.blocks, space.total / BLOCK),
                (&mut sum.free_blocks, space.free / BLOCK),
                (&mut sum.available_blocks, space.available / BLOCK),
                (&mut sum.files, space.objects),
            ] {
                *sum = sum.saturating_add(one);
            }
        }
        Ok(sum)
    }

    fn fallocate(&self, handle: u64, mode: i32, offset: u64, length: u64) -> Result<(), Errno> {
        if mode != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        self.allocate(handle, offset.checked_add(length).ok_or(Errno::FBIG)?)
    }
}
