//! [`Requests`]: the requests of the kernel, each carried out by a [`Backend`] and answered.
//!
//! This is the only place that knows the FUSE protocol. A panic while a request is carried out is
//! an error of that request (`EIO`) only.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno as Code, FileAttr, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;

use crate::backend::{AttributeChange, Backend, NewMode, WriteRequest, XattrAnswer};

/// Answers the requests of the kernel.
#[derive(Debug)]
pub(crate) struct Requests<B>(pub(crate) Arc<B>);

fn code(error: Errno) -> Code {
    Code::from_i32(error.raw_os_error())
}

impl<B: Backend> Requests<B> {
    /// Carries out a request.
    fn carry_out<R>(
        &self,
        request: &Request,
        act: impl FnOnce(&B) -> Result<R, Errno>,
    ) -> Result<R, Code> {
        let backend = &*self.0;
        let act = AssertUnwindSafe(|| backend.while_running(request, || act(backend)));
        catch_unwind(act).unwrap_or(Err(Errno::IO)).map_err(code)
    }

    fn entry(
        &self,
        request: &Request,
        reply: ReplyEntry,
        act: impl FnOnce(&B) -> Result<FileAttr, Errno>,
    ) {
        match self.carry_out(request, act) {
            Ok(attributes) => reply.entry(self.0.cache(), &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn empty(
        &self,
        request: &Request,
        reply: ReplyEmpty,
        act: impl FnOnce(&B) -> Result<(), Errno>,
    ) {
        match self.carry_out(request, act) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn attr(
        &self,
        request: &Request,
        reply: ReplyAttr,
        act: impl FnOnce(&B) -> Result<FileAttr, Errno>,
    ) {
        match self.carry_out(request, act) {
            Ok(attributes) => reply.attr(self.0.cache(), &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn xattr(
        &self,
        request: &Request,
        reply: ReplyXattr,
        act: impl FnOnce(&B) -> Result<XattrAnswer, Errno>,
    ) {
        match self.carry_out(request, act) {
            Ok(XattrAnswer::Length(length)) => reply.size(length),
            Ok(XattrAnswer::Value(value)) => reply.data(&value),
            Err(error) => reply.error(error),
        }
    }
}

impl<B: Backend> Filesystem for Requests<B> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.0.configure(config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(request, reply, |backend| backend.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.forget(node.0, times)));
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(request, reply, |backend| backend.getattr(node.0));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = AttributeChange { mode, user, group, size, accessed, modified };
        let handle = handle.map(|handle| handle.0);
        self.attr(request, reply, |backend| backend.setattr(request, node.0, handle, change));
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        match self.carry_out(request, |backend| backend.readlink(node.0)) {
            Ok(to) => reply.data(&to),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |backend| {
            let mode = NewMode { mode, umask: mask };
            backend.mknod(request, (parent.0, name), mode, device)
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |backend| {
            backend.mkdir(request, (parent.0, name), NewMode { mode, umask: mask })
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |backend| backend.unlink((parent.0, name)));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |backend| backend.rmdir((parent.0, name)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: &Path,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |backend| backend.symlink(request, (parent.0, name), to));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        self.empty(request, reply, |backend| backend.rename(from, to, flags.bits()));
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |backend| backend.link(request, node.0, (parent.0, name)));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let register = |descriptor: &std::os::fd::OwnedFd| reply.open_backing(descriptor);
        match self.carry_out(request, |backend| backend.open(request, node.0, flags.0, &register)) {
            Err(error) => reply.error(error),
            Ok(opened) => match &opened.backing {
                Some(backing) => {
                    reply.opened_passthrough(FileHandle(opened.handle), opened.flags, backing);
                }
                None => reply.opened(FileHandle(opened.handle), opened.flags),
            },
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let register = |descriptor: &std::os::fd::OwnedFd| reply.open_backing(descriptor);
        let made = self.carry_out(request, |backend| {
            let mode = NewMode { mode, umask: mask };
            backend.create(request, (parent.0, name), flags, mode, &register)
        });
        match made {
            Err(error) => reply.error(error),
            Ok((attributes, opened)) => {
                let (handle, how) = (FileHandle(opened.handle), opened.flags);
                let (cache, first) = (self.0.cache(), Generation(0));
                match &opened.backing {
                    Some(backing) => {
                        reply.created_passthrough(cache, &attributes, first, handle, how, backing);
                    }
                    None => reply.created(cache, &attributes, first, handle, how),
                }
            }
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut reply = Some(reply);
        let done = self.carry_out(request, |backend| {
            backend.read(handle.0, (offset, size as usize), flags.0, |bytes| {
                if let Some(reply) = reply.take() {
                    reply.data(bytes);
                }
            })
        });
        if let (Err(error), Some(reply)) = (done, reply) {
            reply.error(error);
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let from_page_cache = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let drops_privileges = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
            || !from_page_cache && request.uid() != 0;
        let data =
            WriteRequest { offset, bytes, flags: flags.0, from_page_cache, drops_privileges };
        match self.carry_out(request, |backend| backend.write(handle.0, &data)) {
            Ok(count) => {
                reply.written(count as u32);
                // The program goes on meanwhile.
                let _ = self.carry_out(request, |backend| {
                    backend.after_write(handle.0);
                    Ok(())
                });
            }
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.flush(handle.0));
    }

    fn release(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.release(handle.0));
    }

    fn fsync(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.fsync(handle.0, data));
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.carry_out(request, |backend| backend.opendir(node.0)) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.carry_out(request, |backend| {
            backend.readdir(handle.0, node.0, offset, |entry| {
                reply.add(INodeNo(entry.number), entry.next, entry.kind, entry.name)
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.carry_out(request, |backend| {
            backend.readdir(handle.0, node.0, offset, |entry| {
                let is_dot = entry.name == "." || entry.name == "..";
                // Entries that no longer exist are left out.
                let found = if is_dot {
                    backend.getattr(node.0)
                } else {
                    backend.lookup(node.0, entry.name)
                };
                let Ok(attributes) = found else { return false };
                let number = if is_dot { node } else { attributes.ino };
                let (name, cache) = (entry.name, backend.cache());
                let full = reply.add(number, entry.next, name, cache, &attributes, Generation(0));
                if full && !is_dot {
                    backend.forget(number.0, 1);
                }
                full
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.releasedir(handle.0));
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.fsyncdir(handle.0, data));
    }

    fn statfs(&self, request: &Request, node: INodeNo, reply: ReplyStatfs) {
        match self.carry_out(request, |backend| backend.statfs(node.0)) {
            Ok(space) => reply.statfs(
                space.blocks,
                space.free_blocks,
                space.available_blocks,
                space.files,
                space.free_files,
                space.block_size,
                space.longest_name,
                space.fragment_size,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.setxattr(node.0, name, value, flags));
    }

    fn getxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.xattr(request, reply, |backend| backend.getxattr(node.0, name, size as usize));
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.xattr(request, reply, |backend| backend.listxattr(request, node.0, size as usize));
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |backend| backend.removexattr(node.0, name));
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Code::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |backend| backend.fallocate(handle.0, mode, offset, length));
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.carry_out(request, |backend| backend.lseek(handle.0, offset, whence)) {
            Ok(place) => reply.offset(place as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        source: u64,
        _: INodeNo,
        to: FileHandle,
        sink: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copied = self.carry_out(request, |backend| {
            backend.copy_file_range((from.0, source), (to.0, sink), length)
        });
        match copied {
            Ok(count) => reply.written(count as u32),
            Err(error) => reply.error(error),
        }
    }
}
