//! [`Requests`]: what the kernel asks, one function each.
//!
//! A panic while a request is carried out, in a stage or here, is an error of that request (`EIO`) and no more.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno as Code, FileHandle, Filesystem, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;
use striate_stack::for_caller;

use crate::change::Change;
use crate::door::Door;
use crate::identity::attributes;
use crate::naming::Entry;
use crate::nodes::ROOT;
use crate::xattr::Answer;

/// Requests that the kernel has under way at a time without somebody waiting, such as for data that is read ahead.
const MOST_BACKGROUND: u16 = 64;

/// What the kernel is asked for, each only if it offers it.
const WANTED: [InitFlags; 8] = [
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_POSIX_ACL,
    // Without it, it asks with every write of its own whether the file has special rights.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_MAX_PAGES,
];

/// What the kernel asks.
#[derive(Debug)]
pub(crate) struct Requests(pub(crate) Arc<Door>);

fn code(error: Errno) -> Code {
    Code::from_i32(error.raw_os_error())
}

impl Requests {
    /// Carries out a request.
    fn carry_out<R>(
        &self,
        request: &Request,
        act: impl FnOnce(&Door) -> Result<R, Errno>,
    ) -> Result<R, Code> {
        let door = &*self.0;
        let act = || for_caller(request.pid(), || door.while_running(|| act(door)));
        let act = || door.starting.while_known(request.pid(), act);
        catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Errno::IO)).map_err(code)
    }

    fn entry(
        &self,
        request: &Request,
        reply: ReplyEntry,
        act: impl FnOnce(&Door) -> Result<Entry, Errno>,
    ) {
        match self.carry_out(request, act) {
            Ok((id, about)) => {
                reply.entry(&self.0.cache, &attributes(id, &about), Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn empty(
        &self,
        request: &Request,
        reply: ReplyEmpty,
        act: impl FnOnce(&Door) -> Result<(), Errno>,
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
        id: u64,
        act: impl FnOnce(&Door) -> Result<(), Errno>,
    ) {
        let about = self.carry_out(request, |door| act(door).and_then(|()| door.attributes(id)));
        match about {
            Ok(about) => {
                // Programs see the number that the directory has on the source.
                let number = if id == ROOT { about.stx_ino } else { id };
                reply.attr(&self.0.cache, &attributes(number, &about));
            }
            Err(error) => reply.error(error),
        }
    }

    fn xattr(
        &self,
        request: &Request,
        reply: ReplyXattr,
        act: impl FnOnce(&Door) -> Result<Answer, Errno>,
    ) {
        match self.carry_out(request, act) {
            Ok(Answer::Length(length)) => reply.size(length),
            Ok(Answer::Value(value)) => reply.data(&value),
            Err(error) => reply.error(error),
        }
    }
}

impl Filesystem for Requests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let door = &*self.0;
        for wanted in WANTED {
            // What the kernel does not have it does without.
            let _ = config.add_capabilities(wanted);
        }
        if !door.cache.is_zero() {
            let listing = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
            let _ = config.add_capabilities(listing);
        }
        let direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        door.direct.store(direct, Ordering::Relaxed);
        let passes = door.passthrough.load(Ordering::Relaxed)
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            // So that the source may be a stacked file system itself, as in containers.
            && config.set_max_stack_depth(2).is_ok();
        door.passthrough.store(passes, Ordering::Relaxed);
        let _ = config.set_max_background(MOST_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(request, reply, |door| door.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.forget(node.0, times)));
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(request, reply, node.0, |_| Ok(()));
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
        let change = Change { mode, user, group, size, accessed, modified };
        self.attr(request, reply, node.0, |door| {
            let handle = handle.and_then(|handle| door.handle(handle.0).ok());
            door.change(request, node.0, handle.as_ref(), change)
        });
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        match self.carry_out(request, |door| door.read_link(node.0)) {
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
        self.entry(request, reply, |door| {
            door.make_node(request, (parent.0, name), (mode, mask), device)
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
        self.entry(request, reply, |door| {
            door.make_directory(request, (parent.0, name), (mode, mask))
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |door| door.remove(parent.0, name, 0));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |door| door.remove(parent.0, name, libc::AT_REMOVEDIR));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: &Path,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |door| door.make_symlink(request, (parent.0, name), to));
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
        self.empty(request, reply, |door| door.rename(from, to, flags.bits()));
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |door| door.link(request, node.0, (parent.0, name)));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let register = |descriptor: &std::os::fd::OwnedFd| reply.open_backing(descriptor);
        match self.carry_out(request, |door| door.open(request, node.0, flags.0, &register)) {
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
        let made = self.carry_out(request, |door| {
            door.create(request, (parent.0, name), flags, (mode, mask), &register)
        });
        match made {
            Err(error) => reply.error(error),
            Ok((id, about, opened)) => {
                let about = attributes(id, &about);
                let (handle, how) = (FileHandle(opened.handle), opened.flags);
                let (cache, first) = (&self.0.cache, Generation(0));
                match &opened.backing {
                    Some(backing) => {
                        reply.created_passthrough(cache, &about, first, handle, how, backing);
                    }
                    None => reply.created(cache, &about, first, handle, how),
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
        let done = self.carry_out(request, |door| {
            let handle = door.handle(handle.0)?;
            door.read(&handle, (offset, size as usize), flags.0, |bytes| {
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
        let done = self.carry_out(request, |door| {
            let handle = door.handle(handle.0)?;
            let from_memory = how.contains(WriteFlags::FUSE_WRITE_CACHE);
            // What was written to a mapping goes where it belongs, whatever the file was opened with.
            let never = libc::O_APPEND | libc::O_DIRECT;
            let flags = if from_memory { handle.flags() & !never } else { flags.0 };
            let drops_rights = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
                || !from_memory && request.uid() != 0;
            if door.serves_others && drops_rights {
                door.drop_rights(&handle)?;
            }
            door.write(&handle, offset, bytes, flags)
        });
        match done {
            Ok(count) => {
                reply.written(count as u32);
                // The program goes on meanwhile.
                let _ = self.carry_out(request, |door| {
                    door.catch_up(handle.0);
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
        self.empty(request, reply, |door| door.flush(&*door.handle(handle.0)?));
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
        self.empty(request, reply, |door| door.release(handle.0));
    }

    fn fsync(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |door| door.sync(&*door.handle(handle.0)?, data));
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.carry_out(request, |door| door.open_listing(node.0)) {
            Ok(listing) => reply.opened(FileHandle(listing), fuser::FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.carry_out(request, |door| {
            door.list(handle.0, offset, |_, entry| {
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
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.carry_out(request, |door| {
            door.list(handle.0, offset, |parent, entry| {
                let is_dot = entry.name == "." || entry.name == "..";
                // What is gone by now is left out.
                let found = if is_dot {
                    door.attributes(parent).map(|about| (parent, about))
                } else {
                    door.lookup(parent, entry.name)
                };
                let Ok((id, about)) = found else { return false };
                let attributes = attributes(id, &about);
                let (name, cache) = (entry.name, &door.cache);
                let node = INodeNo(id);
                let full = reply.add(node, entry.next, name, cache, &attributes, Generation(0));
                if full && !is_dot {
                    door.forget(id, 1);
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
        self.empty(request, reply, |door| door.close_listing(handle.0));
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(request, reply, |door| door.sync_listing(handle.0, data));
    }

    fn statfs(&self, request: &Request, node: INodeNo, reply: ReplyStatfs) {
        let about =
            self.carry_out(request, |door| rustix::fs::fstatvfs(&*door.descriptor(node.0)?));
        match about {
            Ok(about) => reply.statfs(
                about.f_blocks,
                about.f_bfree,
                about.f_bavail,
                about.f_files,
                about.f_ffree,
                about.f_bsize as u32,
                about.f_namemax as u32,
                about.f_frsize as u32,
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
        self.empty(request, reply, |door| door.set_attribute(node.0, name, value, flags));
    }

    fn getxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.xattr(request, reply, |door| door.attribute(node.0, name, size as usize));
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.xattr(request, reply, |door| door.attribute_names(request, node.0, size as usize));
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(request, reply, |door| door.remove_attribute(node.0, name));
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
        self.empty(request, reply, |door| {
            door.allocate(&*door.handle(handle.0)?, mode, offset, length)
        });
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
        match self.carry_out(request, |door| door.seek(&*door.handle(handle.0)?, offset, whence)) {
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
        let copied = self.carry_out(request, |door| {
            let (from, to) = (door.handle(from.0)?, door.handle(to.0)?);
            door.copy((&*from, source), (&*to, sink), length)
        });
        match copied {
            Ok(count) => reply.written(count as u32),
            Err(error) => reply.error(error),
        }
    }
}
