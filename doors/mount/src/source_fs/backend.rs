//! A source directory as the [`Backend`] of a mount.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fuser::{FileAttr, InitFlags, KernelConfig, Request};
use rustix::io::Errno;
use striate_stack::for_caller;

use crate::backend::{
    AttributeChange, Backend, DirectoryEntry, NameIn, NewMode, Opened, Register, Space,
    WriteRequest, XattrAnswer,
};
use crate::source_fs::SourceFs;
use crate::source_fs::identity::attributes;
use crate::source_fs::namespace::Entry;
use crate::source_fs::nodes::ROOT;

/// Requests that the kernel has under way at a time for which no program waits, such as reads
/// ahead.
const MOST_BACKGROUND: u16 = 64;

/// What is asked of the kernel, each only if it offers it.
const WANTED: [InitFlags; 8] = [
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_POSIX_ACL,
    // Without it, the kernel asks with every write of its own whether the file has special rights.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_MAX_PAGES,
];

fn of_entry((id, about): Entry) -> FileAttr {
    attributes(id, &about)
}

impl Backend for SourceFs {
    fn configure(&self, config: &mut KernelConfig) {
        for wanted in WANTED {
            // What the kernel does not have it does without.
            let _ = config.add_capabilities(wanted);
        }
        if !self.cache.is_zero() {
            let listing = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
            let _ = config.add_capabilities(listing);
        }
        let direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.direct.store(direct, Ordering::Relaxed);
        let passes = self.passthrough.load(Ordering::Relaxed)
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            // So that the source may be a stacked file system itself, as in containers.
            && config.set_max_stack_depth(2).is_ok();
        self.passthrough.store(passes, Ordering::Relaxed);
        let _ = config.set_max_background(MOST_BACKGROUND);
    }

    fn cache(&self) -> &Duration {
        &self.cache
    }

    fn while_running<R>(
        &self,
        request: &Request,
        act: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let act = || for_caller(request.pid(), || Self::while_running(self, act));
        self.starting.while_known(request.pid(), act)
    }

    fn lookup(&self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        Self::lookup(self, parent, name).map(of_entry)
    }

    fn forget(&self, node: u64, times: u64) {
        let _ = catch_unwind(AssertUnwindSafe(|| Self::forget(self, node, times)));
    }

    fn getattr(&self, node: u64) -> Result<FileAttr, Errno> {
        let about = self.attributes(node)?;
        // Programs see the number that the directory has on the source.
        let number = if node == ROOT { about.stx_ino } else { node };
        Ok(attributes(number, &about))
    }

    fn setattr(
        &self,
        request: &Request,
        node: u64,
        handle: Option<u64>,
        change: AttributeChange,
    ) -> Result<FileAttr, Errno> {
        let handle = handle.and_then(|handle| self.handle(handle).ok());
        self.change(request, node, handle.as_ref(), change)?;
        self.getattr(node)
    }

    fn readlink(&self, node: u64) -> Result<Vec<u8>, Errno> {
        self.read_link(node)
    }

    fn mknod(
        &self,
        request: &Request,
        name: NameIn<'_>,
        mode: NewMode,
        device: u32,
    ) -> Result<FileAttr, Errno> {
        self.make_node(request, name, mode, device).map(of_entry)
    }

    fn mkdir(&self, request: &Request, name: NameIn<'_>, mode: NewMode) -> Result<FileAttr, Errno> {
        self.make_directory(request, name, mode).map(of_entry)
    }

    fn unlink(&self, (parent, name): NameIn<'_>) -> Result<(), Errno> {
        self.remove(parent, name, 0)
    }

    fn rmdir(&self, (parent, name): NameIn<'_>) -> Result<(), Errno> {
        self.remove(parent, name, libc::AT_REMOVEDIR)
    }

    fn symlink(&self, request: &Request, name: NameIn<'_>, to: &Path) -> Result<FileAttr, Errno> {
        self.make_symlink(request, name, to).map(of_entry)
    }

    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, flags: u32) -> Result<(), Errno> {
        Self::rename(self, from, to, flags)
    }

    fn link(&self, request: &Request, node: u64, name: NameIn<'_>) -> Result<FileAttr, Errno> {
        Self::link(self, request, node, name).map(of_entry)
    }

    fn open(
        &self,
        request: &Request,
        node: u64,
        flags: i32,
        register: Register<'_>,
    ) -> Result<Opened, Errno> {
        Self::open(self, request, node, flags, register)
    }

    fn create(
        &self,
        request: &Request,
        name: NameIn<'_>,
        flags: i32,
        mode: NewMode,
        register: Register<'_>,
    ) -> Result<(FileAttr, Opened), Errno> {
        let (entry, opened) = Self::create(self, request, name, flags, mode, register)?;
        Ok((of_entry(entry), opened))
    }

    fn read(
        &self,
        handle: u64,
        (offset, size): (u64, usize),
        flags: i32,
        act: impl FnOnce(&[u8]),
    ) -> Result<(), Errno> {
        Self::read(self, &*self.handle(handle)?, (offset, size), flags, act)
    }

    fn write(&self, handle: u64, data: &WriteRequest<'_>) -> Result<usize, Errno> {
        let handle = self.handle(handle)?;
        // What was written to a mapping goes where it belongs, whatever the file was opened with.
        let never = libc::O_APPEND | libc::O_DIRECT;
        let flags = if data.from_page_cache { handle.flags() & !never } else { data.flags };
        if self.serves_others && data.drops_privileges {
            self.drop_rights(&handle)?;
        }
        Self::write(self, &handle, data.offset, data.bytes, flags)
    }

    fn after_write(&self, handle: u64) {
        self.catch_up(handle);
    }

    fn flush(&self, handle: u64) -> Result<(), Errno> {
        Self::flush(self, &*self.handle(handle)?)
    }

    fn release(&self, handle: u64) -> Result<(), Errno> {
        Self::release(self, handle)
    }

    fn fsync(&self, handle: u64, data_only: bool) -> Result<(), Errno> {
        self.sync(&*self.handle(handle)?, data_only)
    }

    fn opendir(&self, node: u64) -> Result<u64, Errno> {
        self.open_directory(node)
    }

    fn readdir(
        &self,
        handle: u64,
        _: u64,
        offset: u64,
        take: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.list(handle, offset, take)
    }

    fn releasedir(&self, handle: u64) -> Result<(), Errno> {
        self.close_directory(handle)
    }

    fn fsyncdir(&self, handle: u64, data_only: bool) -> Result<(), Errno> {
        self.sync_directory(handle, data_only)
    }

    fn statfs(&self, node: u64) -> Result<Space, Errno> {
        let about = rustix::fs::fstatvfs(&*self.descriptor(node)?)?;
        Ok(Space {
            blocks: about.f_blocks,
            free_blocks: about.f_bfree,
            available_blocks: about.f_bavail,
            files: about.f_files,
            free_files: about.f_ffree,
            block_size: about.f_bsize as u32,
            longest_name: about.f_namemax as u32,
            fragment_size: about.f_frsize as u32,
        })
    }

    fn setxattr(&self, node: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<(), Errno> {
        self.set_attribute(node, name, value, flags)
    }

    fn getxattr(&self, node: u64, name: &OsStr, size: usize) -> Result<XattrAnswer, Errno> {
        self.attribute(node, name, size)
    }

    fn listxattr(&self, request: &Request, node: u64, size: usize) -> Result<XattrAnswer, Errno> {
        self.attribute_names(request, node, size)
    }

    fn removexattr(&self, node: u64, name: &OsStr) -> Result<(), Errno> {
        self.remove_attribute(node, name)
    }

    fn fallocate(&self, handle: u64, mode: i32, offset: u64, length: u64) -> Result<(), Errno> {
        self.allocate(&*self.handle(handle)?, mode, offset, length)
    }

    fn lseek(&self, handle: u64, offset: i64, whence: i32) -> Result<u64, Errno> {
        self.seek(&*self.handle(handle)?, offset, whence)
    }

    fn copy_file_range(
        &self,
        (from, source): (u64, u64),
        (to, sink): (u64, u64),
        length: u64,
    ) -> Result<u64, Errno> {
        let (from, to) = (self.handle(from)?, self.handle(to)?);
        self.copy((&*from, source), (&*to, sink), length)
    }
}
