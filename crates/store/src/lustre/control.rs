//! [`LayoutControl`]: the calls by which layouts are set and read, and the system's own.

use std::ffi::c_long;
use std::fmt::Debug;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::libc;
use rustix::fs::{Mode, OFlags, fgetxattr, fstatfs, getxattr, statfs};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use super::FileSystem;
use super::decode::LONGEST;

/// The attribute that holds a layout.
const ATTRIBUTE: &str = "lustre.lov";

/// `LL_IOC_LOV_SETSTRIPE`, which is `_IOW('f', 154, long)`.
pub(super) const SET_STRIPE: Opcode = opcode::write::<c_long>(b'f', 154);
/// `LL_IOC_GETOBDCOUNT`, which is `_IOR('f', 168, long)`.
pub(super) const TARGET_COUNT: Opcode = opcode::read::<c_long>(b'f', 168);

/// `O_LOV_DELAY_CREATE`: two flags that mean nothing for files. Lustre takes both together for a
/// file that is to be created without a layout.
const WITHOUT_LAYOUT: OFlags =
    OFlags::NOCTTY.union(OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned()));

/// How a file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// For reading as well as for writing.
    pub read: bool,
    /// Permissions, less the umask.
    pub mode: u32,
}

/// The calls by which layouts are set and read.
///
/// # Contract
///
/// * Only the first two are made on file systems that are not Lustre.
/// * Layouts are bytes, as the file system has them. No layout is `Ok(None)`, and so is a file
///   system that knows of none.
/// * A layout is set on a file that [`LayoutControl::create`] has made, before it is written. A
///   file that has one already is `EEXIST` or `EALREADY`.
pub trait LayoutControl: Debug + Send + Sync {
    /// The file system of a directory.
    fn file_system(&self, directory: &Path) -> io::Result<FileSystem>;

    /// The file system of an open file.
    fn file_system_of(&self, file: BorrowedFd<'_>) -> io::Result<FileSystem>;

    /// Creates a file without a layout, for writing; fails with `EEXIST` if it exists.
    fn create(&self, path: &Path, how: Creation) -> io::Result<OwnedFd>;

    /// Gives a layout to a file that has none.
    fn set_layout(&self, file: BorrowedFd<'_>, layout: &[u8]) -> io::Result<()>;

    /// The layout of a file.
    fn layout(&self, file: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>>;

    /// The layout that new files in a directory get: its own, or that of the whole file system.
    fn directory_default(&self, directory: &Path) -> io::Result<Option<Vec<u8>>>;

    /// How many storage targets the file system of a directory has.
    fn targets(&self, directory: &Path) -> io::Result<u32>;
}

/// The calls of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLayouts;

impl LayoutControl for SystemLayouts {
    fn file_system(&self, directory: &Path) -> io::Result<FileSystem> {
        Ok(FileSystem::from_type(statfs(directory)?.f_type as u64))
    }

    fn file_system_of(&self, file: BorrowedFd<'_>) -> io::Result<FileSystem> {
        Ok(FileSystem::from_type(fstatfs(file)?.f_type as u64))
    }

    fn create(&self, path: &Path, how: Creation) -> io::Result<OwnedFd> {
        let access = if how.read { OFlags::RDWR } else { OFlags::WRONLY };
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | WITHOUT_LAYOUT;
        Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(how.mode))?)
    }

    fn set_layout(&self, file: BorrowedFd<'_>, layout: &[u8]) -> io::Result<()> {
        let mut memory = vec![0; LONGEST].into_boxed_slice();
        let front = memory.get_mut(..layout.len()).ok_or(Errno::TOOBIG)?;
        front.copy_from_slice(layout);
        let memory: &mut [u8; LONGEST] = (&mut *memory).try_into().map_err(|_| Errno::INVAL)?;
        // SAFETY: The call reads the layout that the memory begins with. It writes back the one
        // that the file has got, which may be another and longer: no layout is longer than the
        // memory.
        unsafe {
            let call = Updater::<SET_STRIPE, [u8; LONGEST]>::new(memory);
            Ok(ioctl(file, call)?)
        }
    }

    fn layout(&self, file: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
        value(|buffer| fgetxattr(file, ATTRIBUTE, buffer))
    }

    fn directory_default(&self, directory: &Path) -> io::Result<Option<Vec<u8>>> {
        let of = |path: &Path| value(|buffer| getxattr(path, ATTRIBUTE, buffer));
        match of(directory)? {
            // Since release 2.14 the file system has already looked there itself.
            None => of(&mount_point(directory)?),
            own => Ok(own),
        }
    }

    fn targets(&self, directory: &Path) -> io::Result<u32> {
        let directory = fs::File::open(directory)?;
        // Zero asks for object storage targets, anything else for metadata targets.
        let mut number = [0_u32; 2];
        // SAFETY: The call reads and writes one 32-bit number, although its code says `long`: both
        // fit into the memory.
        unsafe {
            let call = Updater::<TARGET_COUNT, [u32; 2]>::new(&mut number);
            ioctl(directory.as_fd(), call)?;
        }
        Ok(number[0])
    }
}

/// The value of an attribute, if there is one.
fn value(get: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; LONGEST];
    match get(&mut bytes) {
        Ok(len) => {
            bytes.truncate(len);
            Ok(Some(bytes))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The highest directory above this one, itself included, that is on the same device.
fn mount_point(directory: &Path) -> io::Result<PathBuf> {
    let directory = fs::canonicalize(directory)?;
    let device = fs::metadata(&directory)?.dev();
    let on_it = |path: &&Path| fs::metadata(path).is_ok_and(|about| about.dev() == device);
    let highest = directory.ancestors().take_while(on_it).last();
    Ok(highest.unwrap_or(&directory).to_path_buf())
}
