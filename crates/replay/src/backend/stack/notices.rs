//! Calls that stages are only notified of: stages are notified, and the call is made.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use striate_stack::{Action, Detail, FileOrName, Function, Op, OpenFile, Outcome};

use super::super::Execution;
use super::super::root::Root;
use super::calls::{CallInProgress, made, noted, timed};
use super::locks::{Lock, last_error, until_free};
use crate::namespace::{FileId, descriptor_shown};

type NoticeDetail = Detail<Arc<Path>>;

/// What is done with an extended attribute.
const GET: u64 = 0;
const SET: u64 = 1;
const LIST: u64 = 2;

/// Bytes that an attribute, or what a link says, has at most.
const MOST: usize = 64 << 10;

/// The least that a list of access rights says: the owner may do all, others may read and pass.
const ACCESS_CONTROL: &[u8; 28] = b"\x02\0\0\0\
    \x01\0\x07\0\xff\xff\xff\xff\x04\0\x05\0\xff\xff\xff\xff\x20\0\x05\0\xff\xff\xff\xff";

/// What a call on a name or a file is made with: a directory and a name, or a descriptor and none.
#[derive(Clone, Copy)]
struct NameOrDescriptor<'n> {
    descriptor: RawFd,
    name: Option<&'n CString>,
}

/// What a function of the C library returned.
fn returned(value: impl Into<i64>) -> Outcome {
    u64::try_from(value.into()).map_err(|_| last_error())
}

impl CallInProgress<'_> {
    /// Announces a call to the stages, makes it, and announces its outcome.
    fn announced(
        &self,
        mut op: Op<'_>,
        detail: &NoticeDetail,
        operation: impl FnOnce() -> Outcome,
        before: impl FnOnce(),
    ) -> Execution {
        let stack = &self.replayed.stack;
        let begin = Instant::now();
        let announced = stack.announce(&mut op);
        before();
        let outcome = announced.outcome.and_then(|_| operation());
        let took = begin.elapsed().as_nanos() as u64;
        let Detail { text, flags, numbers } = detail;
        let detail = Detail { text: text.as_deref(), flags: *flags, numbers: *numbers };
        stack.completed(&op, &detail, announced, outcome);
        made(outcome, None, took)
    }

    /// A call on a name.
    pub(super) fn noticed_name(&self, path: &Path, detail: &NoticeDetail) -> Execution {
        // Which descriptor that was is known; it has another number here.
        let shown = descriptor_shown(path).and_then(|number| self.replayed.descriptor_of(number));
        let name = match shown {
            Some(descriptor) => CString::new(format!("/proc/self/fd/{descriptor}")),
            None => Ok(Root::c_relative(path)),
        };
        let name = name.unwrap_or_default();
        let on = NameOrDescriptor { descriptor: self.backend.root.descriptor(), name: Some(&name) };
        let route = self.replayed.stack.route(path);
        let target = self.backend.target(&name, path);
        let action = Action::Notice { of: FileOrName::Name(target) };
        let op = Op { function: self.record.function, route: &route, action };
        if !is_made(self.record.function) {
            return noted(self.announced(op, detail, || Ok(0), || {}));
        }
        self.announced(op, detail, || self.perform_notice(on, None, path, detail), || {})
    }

    /// A call on an open file.
    pub(super) fn noticed_file(
        &self,
        id: FileId,
        file: &Arc<OpenFile>,
        detail: &NoticeDetail,
    ) -> Execution {
        let function = self.record.function;
        let descriptor = self.replayed.descriptor(id, -1).unwrap_or(file.raw_descriptor());
        let on = NameOrDescriptor { descriptor, name: None };
        let op = Op {
            function,
            route: file.route(),
            action: Action::Notice { of: FileOrName::File(file) },
        };
        // Other processes want to see the data.
        let before = || match function {
            Function::Flock | Function::Fcntl | Function::Splice | Function::Other => {
                let _ = self.replayed.stack.share(file);
            }
            Function::SyncFileRange => {
                let _ = self.replayed.stack.settle(file);
            }
            _ => {}
        };
        if !is_made(function) {
            return noted(self.announced(op, detail, || Ok(0), before));
        }
        let path = file.path();
        self.announced(op, detail, || self.perform_notice(on, Some(file), path, detail), before)
    }

    fn perform_notice(
        &self,
        on: NameOrDescriptor<'_>,
        file: Option<&Arc<OpenFile>>,
        path: &Path,
        detail: &NoticeDetail,
    ) -> Outcome {
        let first = detail.numbers[0];
        match self.record.function {
            Function::Access => access(on, first as i32, detail.flags),
            Function::Chmod => on.chmod(first as u32 & 0o1777, detail.flags),
            Function::Chown => on.chown(first as u32, detail.numbers[1] as u32, detail.flags),
            Function::Utimens => on.set_times(detail.flags),
            Function::Link => self.link(on, detail),
            Function::Symlink => {
                let to = detail.text.as_deref().unwrap_or(Path::new("unknown"));
                let to = self.backend.root.link_text(path, to);
                let (root, name) = (on.directory(), on.name.ok_or(Errno::INVAL)?);
                rustix::fs::symlinkat(&to, root, name.as_c_str()).map(|()| 0)
            }
            Function::Readlink => self.read_link(on, detail),
            Function::Xattr => self.attribute(on, detail),
            Function::Truncate => {
                let place = self.place(on)?;
                // SAFETY: a C string, and a number.
                returned(unsafe { libc::truncate(place.as_ptr(), first as i64) })
            }
            Function::Statfs => match on.name {
                Some(_) => rustix::fs::statfs(self.place(on)?.as_c_str()).map(|_| 0),
                None => rustix::fs::fstatfs(on.directory()).map(|_| 0),
            },
            Function::Realpath => self.real_path(on),
            Function::Chdir => Self::change_directory(on),
            Function::Mknod => make_node(on, first as u32),
            Function::Open | Function::Openat => {
                let name = on.name.ok_or(Errno::INVAL)?;
                let flags = OFlags::from_bits_retain(detail.flags as u32) | OFlags::CLOEXEC;
                rustix::fs::openat(on.directory(), name.as_c_str(), flags, Mode::empty()).map(|_| 0)
            }
            Function::Flock => {
                let (operation, waits) = (first as i32 | libc::LOCK_NB, first as i32);
                let waits = waits & libc::LOCK_NB == 0;
                until_free(waits, &self.backend.stop, self.backend.patience, || {
                    // SAFETY: a descriptor that is open, and a number.
                    returned(unsafe { libc::flock(on.descriptor, operation) })
                })
            }
            Function::Fcntl => {
                let (file, lock) = (file.ok_or(Errno::BADF)?, Lock::recorded(detail.numbers));
                self.replayed.locks.lock(file, lock, &self.backend.stop, self.backend.patience)
            }
            Function::SyncFileRange => {
                let [offset, length] = [first, detail.numbers[1]].map(u64::cast_signed);
                // SAFETY: a descriptor that is open, and numbers.
                returned(unsafe {
                    libc::sync_file_range(on.descriptor, offset, length, detail.flags as u32)
                })
            }
            Function::Fadvise => {
                let [offset, length] = [first, detail.numbers[1]].map(u64::cast_signed);
                // SAFETY: as above.
                let error =
                    unsafe { libc::posix_fadvise(on.descriptor, offset, length, detail.flags) };
                if error == 0 { Ok(0) } else { Err(Errno::from_raw_os_error(error)) }
            }
            Function::Readahead => {
                let [offset, length] = [first, detail.numbers[1]];
                // SAFETY: as above.
                returned(unsafe {
                    libc::readahead(on.descriptor, offset.cast_signed(), length as usize)
                } as i64)
            }
            Function::Splice => self.splice(on, detail),
            _ => Ok(0),
        }
    }

    /// The name as calls take it that know no directory to start from.
    fn place(&self, on: NameOrDescriptor<'_>) -> Result<CString, Errno> {
        let Some(name) = on.name else {
            return CString::new(format!("/proc/self/fd/{}", on.descriptor))
                .map_err(|_| Errno::INVAL);
        };
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let place = if name.is_absolute() { name.into() } else { self.backend.root.full(name) };
        CString::new(place.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)
    }

    fn link(&self, on: NameOrDescriptor<'_>, detail: &NoticeDetail) -> Outcome {
        let to = detail.text.as_deref().ok_or(Errno::INVAL)?;
        let new = Root::c_relative(to);
        // SAFETY: the root is open as long as the backend is.
        let root = unsafe { BorrowedFd::borrow_raw(self.backend.root.descriptor()) };
        let flags = AtFlags::from_bits_retain(detail.flags as u32) & AtFlags::SYMLINK_FOLLOW;
        let linked = if let Some(name) = on.name {
            rustix::fs::linkat(on.directory(), name.as_c_str(), root, new.as_c_str(), flags)
        } else {
            let old = format!("/proc/self/fd/{}", on.descriptor);
            rustix::fs::linkat(CWD, old, root, new.as_c_str(), AtFlags::SYMLINK_FOLLOW)
        };
        linked.map(|()| 0)
    }

    /// As long as what the link said when it was recorded, also if it says something else here to
    /// stay beneath the root.
    fn read_link(&self, on: NameOrDescriptor<'_>, detail: &NoticeDetail) -> Outcome {
        let text = match on.name {
            Some(name) => rustix::fs::readlinkat(on.directory(), name.as_c_str(), Vec::new())?,
            None => rustix::fs::readlinkat(on.directory(), c"", Vec::new())?,
        };
        let found = Path::new(std::ffi::OsStr::from_bytes(text.as_bytes()));
        let length = match &detail.text {
            Some(recorded) if self.backend.root.is_rewritten(found) => recorded.as_os_str().len(),
            _ => found.as_os_str().len(),
        };
        let room = detail.numbers[0];
        Ok(if room == 0 { length as u64 } else { (length as u64).min(room) })
    }

    fn attribute(&self, on: NameOrDescriptor<'_>, detail: &NoticeDetail) -> Outcome {
        let key = detail.text.as_deref().unwrap_or(Path::new(""));
        let key = CString::new(key.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        let (what, length) = (detail.numbers[0], (detail.numbers[1] as usize).min(MOST));
        let (place, mut value) = (self.place(on)?, vec![0_u8; length]);
        if what == SET && key.as_bytes().starts_with(b"system.posix_acl_") {
            // File systems look at these: zeros would be refused.
            value = ACCESS_CONTROL.to_vec();
        }
        let itself = on.name.is_some() && detail.flags & libc::AT_SYMLINK_NOFOLLOW != 0;
        let (place, key) = (place.as_ptr(), key.as_ptr());
        let (memory, room) = (value.as_mut_ptr(), value.len());
        // SAFETY: C strings, and memory of this length.
        let done = unsafe {
            match (what, itself) {
                (GET, false) => libc::getxattr(place, key, memory.cast(), room),
                (GET, true) => libc::lgetxattr(place, key, memory.cast(), room),
                (SET, false) => libc::setxattr(place, key, memory.cast(), room, 0) as isize,
                (SET, true) => libc::lsetxattr(place, key, memory.cast(), room, 0) as isize,
                (LIST, false) => libc::listxattr(place, memory.cast(), room),
                (LIST, true) => libc::llistxattr(place, memory.cast(), room),
                (_, false) => libc::removexattr(place, key) as isize,
                (_, true) => libc::lremovexattr(place, key) as isize,
            }
        };
        returned(done as i64)
    }

    fn real_path(&self, on: NameOrDescriptor<'_>) -> Outcome {
        let place = self.place(on)?;
        // SAFETY: a C string; what is returned is freed once.
        let found = unsafe { libc::realpath(place.as_ptr(), std::ptr::null_mut()) };
        if found.is_null() {
            return Err(last_error());
        }
        // SAFETY: as above.
        unsafe { libc::free(found.cast()) };
        Ok(0)
    }

    /// Each worker may have a current directory of its own. Nothing starts from it: all paths are
    /// recorded from the root.
    fn change_directory(on: NameOrDescriptor<'_>) -> Outcome {
        thread_local! {
            /// Whether this thread has one.
            static OWN: bool = {
                // SAFETY: it has an effect on this thread alone.
                unsafe { libc::unshare(libc::CLONE_FS) == 0 }
            };
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened;
        let directory = match on.name {
            Some(name) => {
                let name = name.as_c_str();
                opened = rustix::fs::openat(on.directory(), name, flags, Mode::empty())?;
                opened.as_raw_fd()
            }
            None => on.descriptor,
        };
        if OWN.with(|own| *own) {
            // SAFETY: the descriptor is open.
            return returned(unsafe { libc::fchdir(directory) });
        }
        // The thread cannot have one, but it could go there.
        access(NameOrDescriptor { descriptor: directory, name: None }, libc::X_OK, 0)
    }

    /// As many bytes go through a pipe as did then.
    fn splice(&self, on: NameOrDescriptor<'_>, detail: &NoticeDetail) -> Outcome {
        let [into, at, length, _] = detail.numbers;
        let moved = self.record.outcome.unwrap_or(length).min(1 << 30) as usize;
        let (out, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // A pipe may have been larger than this one can be: then it is done in parts.
        let mut offset = at.checked_sub(1);
        let mut done = 0;
        while done == 0 || done < moved {
            let part = (moved - done).clamp(1, 32 << 10);
            let count = if into == 1 {
                let written = rustix::io::write(&input, &vec![0; part])?;
                rustix::pipe::splice(
                    &out,
                    None,
                    on.directory(),
                    offset.as_mut(),
                    written,
                    rustix::pipe::SpliceFlags::empty(),
                )?
            } else {
                let count = rustix::pipe::splice(
                    on.directory(),
                    offset.as_mut(),
                    &input,
                    None,
                    part.min(moved.max(1)),
                    rustix::pipe::SpliceFlags::empty(),
                )?;
                let mut left = count;
                let mut memory = vec![0; count];
                while left > 0 {
                    left -= rustix::io::read(&out, &mut memory[..left])?;
                }
                count
            };
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done as u64)
    }

    /// Stages are notified, and the directory is listed.
    pub(super) fn list(&self, path: &Path) -> Execution {
        let name = Root::c_relative(path);
        let route = self.replayed.stack.route(path);
        let action = Action::ReadDirectory { target: self.backend.target(&name, path) };
        let op = Op { function: self.record.function, route: &route, action };
        let on = NameOrDescriptor { descriptor: self.backend.root.descriptor(), name: Some(&name) };
        let operation = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(on.directory(), &name, flags, Mode::empty())?;
            let mut names = Dir::new(opened)?;
            while let Some(name) = names.read() {
                name?;
            }
            Ok(0)
        };
        if self.record.known {
            return self.announced(op, &Detail::default(), operation, || {});
        }
        // How long the listing took then is not recorded: it is think time.
        let mut op = op;
        let told = timed(|| self.replayed.stack.call(&mut op));
        let _ = operation();
        told
    }

    /// Stages are notified, and the file is mapped for a moment.
    pub(super) fn map(
        &self,
        file: &Arc<OpenFile>,
        offset: u64,
        length: u64,
        writable: bool,
    ) -> Execution {
        let action = Action::Map { file, offset, length, writable };
        let op = Op { function: self.record.function, route: file.route(), action };
        let operation = || {
            let descriptor = file.descriptor()?.as_raw_fd();
            let protection = if writable { libc::PROT_WRITE } else { 0 } | libc::PROT_READ;
            let flags = if writable { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
            let length = usize::try_from(length).map_err(|_| Errno::NOMEM)?;
            let offset = i64::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
            let flags = flags | libc::MAP_NORESERVE;
            // SAFETY: a new place in memory, which nothing refers to and which is unmapped at once.
            unsafe {
                let nowhere = std::ptr::null_mut();
                let place = libc::mmap(nowhere, length, protection, flags, descriptor, offset);
                if place == libc::MAP_FAILED {
                    return Err(last_error());
                }
                libc::munmap(place, length);
            }
            Ok(0)
        };
        self.announced(op, &Detail::default(), operation, || {
            let _ = self.replayed.stack.share(file);
        })
    }
}

impl<'n> NameOrDescriptor<'n> {
    fn directory(&self) -> BorrowedFd<'n> {
        // SAFETY: the root, or a file that is open while the call is made.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }

    fn chmod(self, mode: u32, flags: i32) -> Outcome {
        let mode = mode as libc::mode_t;
        // SAFETY: a descriptor that is open, a C string, and numbers.
        returned(unsafe {
            match self.name {
                Some(name) => libc::fchmodat(self.descriptor, name.as_ptr(), mode, flags),
                None => libc::fchmod(self.descriptor, mode),
            }
        })
    }

    fn chown(self, owner: u32, group: u32, flags: i32) -> Outcome {
        // SAFETY: as above.
        returned(unsafe {
            match self.name {
                Some(name) => libc::fchownat(self.descriptor, name.as_ptr(), owner, group, flags),
                None => libc::fchown(self.descriptor, owner, group),
            }
        })
    }

    /// To now: times are not recorded.
    fn set_times(self, flags: i32) -> Outcome {
        let now = std::ptr::null();
        // SAFETY: as above.
        returned(unsafe {
            match self.name {
                Some(name) => libc::utimensat(self.descriptor, name.as_ptr(), now, flags),
                None => libc::futimens(self.descriptor, now),
            }
        })
    }
}

fn access(on: NameOrDescriptor<'_>, mode: i32, flags: i32) -> Outcome {
    let (name, flags) = match on.name {
        Some(name) => (name.as_ptr(), flags),
        None => (c"".as_ptr(), flags | libc::AT_EMPTY_PATH),
    };
    // SAFETY: a descriptor that is open, a C string, and numbers.
    let answer = unsafe { libc::syscall(libc::SYS_faccessat2, on.descriptor, name, mode, flags) };
    returned(answer)
}

/// Devices are made as files: what they were for is not recorded.
fn make_node(on: NameOrDescriptor<'_>, mode: u32) -> Outcome {
    let name = on.name.ok_or(Errno::INVAL)?;
    let sort = match mode & libc::S_IFMT {
        sort @ (libc::S_IFIFO | libc::S_IFSOCK) => sort,
        _ => libc::S_IFREG,
    };
    let mode = sort | mode & 0o777;
    // SAFETY: a descriptor that is open, a C string, and numbers.
    returned(unsafe { libc::mknodat(on.descriptor, name.as_ptr(), mode, 0) })
}

/// Whether a recording says enough of such calls that they can be made.
const fn is_made(function: Function) -> bool {
    !matches!(
        function,
        Function::Fdopen | Function::Freopen | Function::Exec | Function::Other | Function::Move
    )
}
