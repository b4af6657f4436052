//! [`RemoteRequests`]: what the kernel asks of a mount of servers, one function each.
//!
//! What is not here the kernel is told not to ask for: servers know neither links, devices, attributes of users'
//! own nor holes. A panic is an error of the request (`EIO`) and no more.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno as Code, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;

use super::Remote;

/// The unit that space is told in.
const BLOCK: u64 = 4096;

/// What the kernel is asked for, each only if it offers it.
const WANTED: [InitFlags; 5] = [
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_MAX_PAGES,
];

/// What the kernel asks.
#[derive(Debug)]
pub(crate) struct RemoteRequests(pub(crate) Arc<Remote>);

fn code(error: Errno) -> Code {
    Code::from_i32(error.raw_os_error())
}

impl RemoteRequests {
    fn carry_out<R>(&self, act: impl FnOnce(&Remote) -> Result<R, Errno>) -> Result<R, Code> {
        let remote = &*self.0;
        let act = AssertUnwindSafe(|| remote.while_running(|| act(remote)));
        catch_unwind(act).unwrap_or(Err(Errno::IO)).map_err(code)
    }

    fn entry(&self, reply: ReplyEntry, act: impl FnOnce(&Remote) -> Result<FileAttr, Errno>) {
        match self.carry_out(act) {
            Ok(about) => reply.entry(&self.0.cache, &about, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn empty(&self, reply: ReplyEmpty, act: impl FnOnce(&Remote) -> Result<(), Errno>) {
        match self.carry_out(act) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn attr(&self, reply: ReplyAttr, act: impl FnOnce(&Remote) -> Result<FileAttr, Errno>) {
        match self.carry_out(act) {
            Ok(about) => reply.attr(&self.0.cache, &about),
            Err(error) => reply.error(error),
        }
    }

    /// Every read and write is a request: the kernel keeps nothing.
    fn how(&self) -> FopenFlags {
        if self.0.direct.load(Ordering::Relaxed) {
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::empty()
        }
    }
}

/// What is to be changed of a file.
#[derive(Debug)]
struct Change {
    mode: Option<u32>,
    owner: [Option<u32>; 2],
    size: Option<u64>,
    modified: Option<TimeOrNow>,
}

impl Remote {
    fn change(&self, number: u64, change: &Change) -> Result<FileAttr, Errno> {
        let sort = self.node(number)?.sort;
        let others_mode = change.mode.is_some_and(|mode| mode & 0o7777 != self.permissions(sort));
        let [user, group] = change.owner;
        let others_owner = user.is_some_and(|user| user != self.owner.user)
            || group.is_some_and(|group| group != self.owner.group);
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

    /// Space of all servers together: blocks, free ones, those that can be used, objects.
    fn space(&self) -> Result<[u64; 4], Errno> {
        let mut sum = [0_u64; 4];
        for server in self.client.servers().map_err(|error| super::code(&error))? {
            let space = self.client.space(&server).map_err(|error| super::code(&error))?;
            let of_one =
                [space.total / BLOCK, space.free / BLOCK, space.available / BLOCK, space.objects];
            for (sum, one) in sum.iter_mut().zip(of_one) {
                *sum = sum.saturating_add(one);
            }
        }
        Ok(sum)
    }
}

impl Filesystem for RemoteRequests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wanted in WANTED {
            // What the kernel does not have it does without.
            let _ = config.add_capabilities(wanted);
        }
        let direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.0.direct.store(direct, Ordering::Relaxed);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, |remote| remote.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        self.0.tree().forget(node.0, times);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(reply, |remote| remote.attributes(node.0));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, owner: [user, group], size, modified };
        self.attr(reply, |remote| remote.change(node.0, &change));
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.entry(reply, |remote| {
            if mode & libc::S_IFMT != libc::S_IFREG && mode & libc::S_IFMT != 0 {
                return Err(Errno::PERM);
            }
            let (about, handle) = remote.create((parent.0, name), libc::O_EXCL)?;
            remote.release(handle)?;
            Ok(about)
        });
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Code::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Code::EPERM);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        self.entry(reply, |remote| remote.make_directory(parent.0, name));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |remote| remote.remove_file(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |remote| remote.remove_directory(parent.0, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        self.empty(reply, |remote| remote.rename(from, to, flags.bits()));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.carry_out(|remote| remote.open(node.0, flags.0)) {
            Ok(handle) => reply.opened(FileHandle(handle), self.how()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.carry_out(|remote| remote.create((parent.0, name), flags)) {
            Ok((about, handle)) => {
                let handle = FileHandle(handle);
                reply.created(&self.0.cache, &about, Generation(0), handle, self.how());
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut reply = Some(reply);
        let done = self.carry_out(|remote| {
            remote.read(handle.0, (offset, size as usize), |bytes| {
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
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // What was written to a mapping goes where it belongs, whatever the file was opened with.
        let from_memory = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = flags.0 & libc::O_APPEND != 0 && !from_memory;
        match self.carry_out(|remote| remote.write(handle.0, offset, bytes, appends)) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.empty(reply, |remote| remote.flush(handle.0));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |remote| remote.release(handle.0));
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty(reply, |remote| remote.sync(handle.0));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |remote| {
            if mode != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            remote.allocate(handle.0, offset.checked_add(length).ok_or(Errno::FBIG)?)
        });
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.carry_out(|remote| remote.open_listing(node.0)) {
            Ok(listing) => reply.opened(FileHandle(listing), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.carry_out(|remote| {
            // Whoever begins anew wants to see what is there by then.
            if offset == 0 {
                remote.renew_listing(handle.0, node.0)?;
            }
            let listing = remote.listing(handle.0)?;
            let entries = (1..).zip(&listing.entries).skip(offset as usize);
            for (next, (name, number, kind)) in entries {
                if reply.add(INodeNo(*number), next, *kind, name) {
                    break;
                }
            }
            Ok(())
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |remote| remote.close_listing(handle.0));
    }

    /// Names are durable when the servers have answered.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.carry_out(Remote::space) {
            Ok([total, free, available, objects]) => {
                let (block, longest) = (BLOCK as u32, super::LONGEST_NAME as u32);
                reply.statfs(total, free, available, objects, 0, block, longest, block);
            }
            Err(error) => reply.error(error),
        }
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
}
