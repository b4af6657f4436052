//! [`PosixFile`]: a file of a mounted file system.
//!
//! A contiguous request is one `pread` or `pwrite`, with no allocation and no lock around it. The
//! regions of a list that are neighbours in the file are one vectored call; the calls of a list are
//! made one after the other, or as batches of `io_uring`.
//!
//! # When lists go through `io_uring`
//!
//! Where transfers wait for a device, that is with direct I/O; in the page cache they are copies,
//! which a ring only makes more expensive. Microseconds for a list of 64 regions with gaps, plain
//! loop / ring (2 cores, Linux 6.18, virtual disk; `--example list_transfer`, median of 500, direct
//! of 50):
//!
//! | region | ext4 write | ext4 read | tmpfs write | tmpfs read | ext4 direct write | ext4 direct read |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 64 B | 20 / 104 | 14 / 15 | 19 / 90 | 14 / 50 | | |
//! | 512 B | 23 / 147 | 15 / 16 | 21 / 105 | 16 / 101 | | |
//! | 4 KiB | 28 / 51 | 21 / 21 | 25 / 110 | 22 / 104 | 3852 / 340 | 3636 / 314 |
//! | 16 KiB | 82 / 242 | 81 / 64 | 84 / 218 | 78 / 193 | 4293 / 590 | 4352 / 524 |
//! | 64 KiB | 360 / 542 | 327 / 328 | 447 / 601 | 420 / 588 | 4593 / 1118 | 4977 / 1254 |
//!
//! Reads through the cache of what is not in it are not in the table: there [`Uring::Always`] may
//! win.

mod direct;
mod list;
mod lock;
mod ring;
mod system;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::libc;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::error::{Cause, Operation, StoreError};
use crate::expand;
use crate::file_system::{Consistency, FileSystem, FileSystemTraits};
use crate::lustre::{self, LayoutControl, Opened, StripeRequest, StripingReport};
use crate::placement::check_extent;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};
use direct::Direct;
use list::{FailedTransfer, List};
use lock::Locks;
use ring::Ring;
use system::System;
pub use system::{Intervention, SystemCall, SystemFaults};

/// Zeros that are appended at a time where space cannot be reserved otherwise.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// When list requests go through `io_uring`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uring {
    /// Where it is faster: with direct I/O.
    #[default]
    Auto,
    /// Wherever the system allows it.
    Always,
    /// Never.
    Never,
}

/// How a file is opened.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of open(2) that people know")]
pub struct PosixOptions {
    /// For reading. Shared locks need it.
    pub read: bool,
    /// For writing. Exclusive locks need it.
    pub write: bool,
    /// Creates the file if there is none.
    pub create: bool,
    /// Fails if the file is there already; together with `create`.
    pub exclusive: bool,
    /// Cuts the file to nothing.
    pub truncate: bool,
    /// Permissions of a new file, less the umask.
    pub mode: u32,
    /// Around the page cache. Requests need not be aligned, but are slower if they are not: see
    /// [`Capabilities::alignment`].
    pub direct: bool,
    /// When lists go through `io_uring`.
    pub uring: Uring,
    /// What [`Capabilities::list_regions`] says where lists are more than loops.
    pub list_regions: usize,
    /// How long to wait for a lock.
    pub lock_limit: Duration,
    /// How a file that is created on Lustre shall be striped. Means nothing elsewhere.
    pub striping: Option<StripeRequest>,
    /// The calls that do so, if not those of the system; for tests.
    pub layouts: Option<Arc<dyn LayoutControl>>,
    /// Faults below the loops that continue transfers; for tests.
    pub faults: Option<Arc<dyn SystemFaults>>,
}

impl Default for PosixOptions {
    /// For reading.
    fn default() -> Self {
        Self {
            read: true,
            write: false,
            create: false,
            exclusive: false,
            truncate: false,
            mode: 0o666,
            direct: false,
            uring: Uring::Auto,
            list_regions: 64,
            lock_limit: Duration::from_secs(600),
            striping: None,
            layouts: None,
            faults: None,
        }
    }
}

impl PosixOptions {
    /// For reading a file that exists.
    pub fn read_only() -> Self {
        Self::default()
    }

    /// For reading and writing a file that exists.
    pub fn read_write() -> Self {
        Self { write: true, ..Self::default() }
    }

    /// For reading and writing a file that is created if it does not exist.
    pub fn create() -> Self {
        Self { create: true, ..Self::read_write() }
    }
}

/// A file.
#[derive(Debug)]
pub struct PosixFile {
    path: PathBuf,
    /// Through the page cache.
    system: System,
    /// Around it.
    direct: Option<Direct>,
    ring: Ring,
    use_ring: bool,
    locks: Locks,
    writable: bool,
    capabilities: Capabilities,
    striping: Option<StripingReport>,
    file_system: Option<FileSystem>,
    /// Whether the file's name in its directory may not be durable yet.
    name_pending: AtomicBool,
}

impl PosixFile {
    /// Opens or creates the file at `path`.
    pub fn open(path: impl AsRef<Path>, options: &PosixOptions) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let fail = |source| StoreError::system(Operation::Open, path.display().to_string(), source);
        // Opening a FIFO waits for a process that opens its other end, and its bytes have no
        // offsets.
        let kind = std::fs::metadata(&path).map(|known| known.file_type());
        let what = kind.map_or("", |kind| match kind {
            kind if kind.is_fifo() => "a FIFO",
            kind if kind.is_socket() => "a socket",
            _ => "",
        });
        if !what.is_empty() {
            let why = format!("it is {what}, not a file");
            return Err(StoreError::unsupported(Operation::Open, path.display().to_string(), why));
        }
        let Opened { file, file_system, striping } = lustre::open(&path, options)?;
        let direct = if options.direct {
            let faults = options.faults.clone();
            let direct = Direct::open(&file, options.read, options.write, faults);
            Some(direct.map_err(|source| match source.raw_os_error() {
                Some(libc::EINVAL) => StoreError::unsupported(
                    Operation::Open,
                    path.display().to_string(),
                    "its file system has no direct I/O (O_DIRECT); open it without",
                ),
                Some(libc::ENOENT) => StoreError::unsupported(
                    Operation::Open,
                    path.display().to_string(),
                    "direct I/O needs /proc, which is not mounted; open it without",
                ),
                _ => fail(source),
            })?)
        } else {
            None
        };
        let use_ring = match options.uring {
            Uring::Auto => options.direct,
            Uring::Always => true,
            Uring::Never => false,
        };
        let actual = striping.as_ref().and_then(|report| report.actual);
        let traits = file_system.map(FileSystem::traits);
        let block = traits.filter(|traits| traits.aligned_to_blocks).and_then(|_| {
            let about = rustix::fs::fstat(&file).ok()?;
            u64::try_from(about.st_blksize).ok().filter(|block| *block > 0)
        });
        let capabilities = Capabilities {
            // Without a ring, lists are loops of plain calls.
            list_regions: use_ring.then_some(options.list_regions),
            typed: false,
            locks: traits.is_none_or(FileSystemTraits::may_sieve_writes)
                && lock::are_supported(&file),
            stripe_unit: actual.map(|actual| actual.unit).or(block),
            stripe_count: actual.and_then(|actual| actual.count),
            alignment: direct.as_ref().map_or(1, |direct| direct.block),
            serial_writes: traits.is_some_and(|traits| traits.serial_writes),
        };
        Ok(Self {
            path,
            system: System::new(file, options.faults.clone(), 1),
            direct,
            ring: Ring::default(),
            use_ring,
            locks: Locks::new(options.lock_limit),
            writable: options.write,
            capabilities,
            striping,
            file_system,
            // Also if the file was there: the process that created it may have died before making
            // it durable.
            name_pending: AtomicBool::new(options.create),
        })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether lists go through `io_uring`: it is asked for, and the system allows it.
    pub fn uses_uring(&self) -> bool {
        self.use_ring && self.ring.is_available(&self.system)
    }

    /// What identifies the file on this machine: its device and its inode. `None` if the system
    /// does not say.
    pub fn identity(&self) -> Option<(u64, u64)> {
        let about = rustix::fs::fstat(&self.system.file).ok()?;
        Some((about.st_dev, about.st_ino))
    }

    /// Bytes that this user can still write to the file system; `None` if it does not say.
    pub fn space_left(&self) -> Option<u64> {
        let about = rustix::fs::fstatvfs(&self.system.file).ok()?;
        about.f_bavail.checked_mul(about.f_frsize)
    }

    /// How the file is striped and how it was to be, if it lies on Lustre.
    pub const fn striping(&self) -> Option<&StripingReport> {
        self.striping.as_ref()
    }

    /// The file system that it lies on, if the system says.
    pub const fn file_system(&self) -> Option<FileSystem> {
        self.file_system
    }

    /// Whether other nodes see writes only when both sides ask for it: such a file is used through
    /// [`crate::Coherent`].
    pub fn is_close_to_open(&self) -> bool {
        let close_to_open =
            |system: FileSystem| system.traits().consistency == Consistency::CloseToOpen;
        self.file_system.is_some_and(close_to_open)
    }

    fn label(&self) -> String {
        self.path.display().to_string()
    }

    #[cold]
    fn failed(&self, operation: Operation, cause: Cause, offset: u64, len: u64) -> StoreError {
        StoreError::new(operation, self.label(), cause).at(offset, len)
    }

    #[inline]
    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), StoreError> {
        check_extent(offset, len)
            .map_err(|what| self.failed(operation, Cause::Malformed(what), offset, len))
    }

    /// Transfers a checked list by the best means; returns the bytes.
    fn transfer(&self, list: &List<'_>) -> Result<u64, FailedTransfer> {
        let Some(direct) = &self.direct else {
            if self.use_ring
                && let Some(result) = self.ring.transfer_all(&self.system, list, list.groups())
            {
                return result;
            }
            return list.transfer_all(&self.system, list.groups());
        };
        let straight = |region: &&Region| direct.is_straight(region, list.address(region).addr());
        let others = list.regions.iter().filter(|region| !straight(region));
        let total = list.one_by_one(others, |offset, part| match part {
            list::Part::Read(part) => direct.read(&self.system, offset, part),
            list::Part::Write(part) => {
                direct.write(&self.system, offset, part)?;
                Ok(part.len())
            }
        })?;
        let groups = || list.regions.iter().filter(straight).map(std::slice::from_ref);
        if self.use_ring
            && let Some(result) = self.ring.transfer_all(&direct.system, list, groups())
        {
            return Ok(total + result?);
        }
        Ok(total + list.transfer_all(&direct.system, groups())?)
    }

    fn list_failed(&self, operation: Operation, failed: FailedTransfer) -> StoreError {
        self.failed(operation, Cause::System(failed.source), failed.offset, failed.len)
    }

    /// Extends the file to `len` without space being reserved by the system.
    fn append_zeros(&self, len: u64) -> io::Result<()> {
        loop {
            let now = self.system.file.metadata()?.len();
            if now >= len {
                return Ok(());
            }
            let part = (len - now).min(ZEROS.len() as u64) as usize;
            // Appended at the end of that moment: bytes that other processes write meanwhile are
            // not overwritten.
            let zeros = [io::IoSlice::new(&ZEROS[..part])];
            match pwritev2(&self.system.file, &zeros, 0, ReadWriteFlags::APPEND) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Store for PosixFile {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn name(&self) -> String {
        self.label()
    }

    fn len(&self) -> Result<u64, StoreError> {
        let about = self.system.file.metadata();
        about
            .map(|about| about.len())
            .map_err(|source| StoreError::system(Operation::Len, self.label(), source))
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.check(Operation::SetLen, 0, len)?;
        let set = if self.writable {
            self.system.file.set_len(len)
        } else {
            // The system says EINVAL, which does not say why.
            Err(io::Error::from_raw_os_error(libc::EBADF))
        };
        set.map_err(|source| self.failed(Operation::SetLen, Cause::System(source), 0, len))
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.check(Operation::Preallocate, 0, len)?;
        if len == 0 {
            return Ok(());
        }
        let call = || -> io::Result<()> {
            self.system.permitted(SystemCall::Allocate, 0, len as usize)?;
            Ok(fallocate(&self.system.file, FallocateFlags::empty(), 0, len)?)
        };
        let reserved = loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) =>
                {
                    break self.append_zeros(len);
                }
                done => break done,
            }
        };
        reserved
            .map_err(|source| self.failed(Operation::Preallocate, Cause::System(source), 0, len))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let data = || {
            self.system.permitted(SystemCall::Sync, 0, 0)?;
            self.system.file.sync_data()
        };
        let result = loop {
            match data() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        let result = result.and_then(|()| {
            if self.name_pending.load(Ordering::Acquire) {
                self.sync_directory()?;
                self.name_pending.store(false, Ordering::Release);
            }
            Ok(())
        });
        result.map_err(|source| StoreError::system(Operation::Sync, self.label(), source))
    }

    /// Another open of the same file makes the system ask the servers whether their file has
    /// changed; if so, it forgets the pages that it has.
    fn revalidate(&self) -> Result<(), StoreError> {
        if !self.is_close_to_open() {
            return Ok(());
        }
        let descriptor = self.system.file.as_raw_fd();
        let options = [(true, false), (false, true)];
        let open = |(read, write)| {
            let path = format!("/proc/self/fd/{descriptor}");
            File::options().read(read).write(write).open(path)
        };
        // A file may be open for writing by a user who may not read it.
        let opened = open(options[0]).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => open(options[1]),
            _ => Err(error),
        });
        opened.map(drop).map_err(|source| StoreError::system(Operation::Read, self.label(), source))
    }

    #[inline]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let len = buffer.len() as u64;
        self.check(Operation::Read, offset, len)?;
        let got = match &self.direct {
            None => self.system.read(offset, buffer),
            Some(direct) => direct.read(&self.system, offset, buffer),
        };
        got.map_err(|source| self.failed(Operation::Read, Cause::System(source), offset, len))
    }

    #[inline]
    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let len = buffer.len() as u64;
        self.check(Operation::Write, offset, len)?;
        let written = match &self.direct {
            None => self.system.write(offset, buffer),
            Some(direct) => direct.write(&self.system, offset, buffer),
        };
        written.map_err(|source| self.failed(Operation::Write, Cause::System(source), offset, len))
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        let list = List::read(regions, memory).map_err(|what| {
            let (offset, len) = Region::hull(regions);
            self.failed(Operation::Read, Cause::Malformed(what), offset, len)
        })?;
        self.transfer(&list).map_err(|failed| self.list_failed(Operation::Read, failed))
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        let list = List::write(regions, memory).map_err(|what| {
            let (offset, len) = Region::hull(regions);
            self.failed(Operation::Write, Cause::Malformed(what), offset, len)
        })?;
        self.transfer(&list).map_err(|failed| self.list_failed(Operation::Write, failed))?;
        Ok(())
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        expand::read_typed(self, request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        expand::write_typed(self, request, memory)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        lock::lock(self, range, kind)
    }
}
