//! Mounting and unmounting: by the kernel for the superuser, by `fusermount3` for others.
//!
//! The superuser's mount is made here and not by the library: that unmounts once more when all is over, whatever is
//! at the point by then.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;

use crate::identity;

/// What the kernel's mount is called.
fn name(source: &str) -> String {
    format!("striate:{source}")
}

/// Mounts, and agrees with the kernel on how to talk. `limits` are those of the source's own mount, which hold
/// here as well.
pub(crate) fn mount<F: Filesystem>(
    requests: F,
    (source, point): (&str, &Path),
    threads: usize,
    limits: StatVfsMountFlags,
) -> io::Result<Session<F>> {
    let mut config = Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = true;
    if rustix::process::geteuid().is_root() {
        config.acl = SessionACL::All;
        let device = by_kernel(source, point, limits)?;
        let session = Session::from_fd(requests, device, SessionACL::All, config);
        if session.is_err() {
            let _ = unmount(point, true);
        }
        return session;
    }
    config.mount_options = vec![
        MountOption::FSName(name(source).replace(',', "_")),
        MountOption::Subtype("striate".into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    if limits.contains(StatVfsMountFlags::NOEXEC) {
        config.mount_options.push(MountOption::NoExec);
    }
    if limits.contains(StatVfsMountFlags::RDONLY) {
        config.mount_options.push(MountOption::RO);
    }
    Session::new(requests, point, &config)
}

fn by_kernel(source: &str, point: &Path, limits: StatVfsMountFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let mode = rustix::fs::stat(point)?.st_mode & libc::S_IFMT;
    let data = format!(
        "fd={},rootmode={mode:o},user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let kept = StatVfsMountFlags::NOSUID
        | StatVfsMountFlags::NODEV
        | StatVfsMountFlags::NOEXEC
        | StatVfsMountFlags::RDONLY;
    // These have the same numbers as those of mount.
    let flags = (limits & kept).bits() as libc::c_ulong;
    let [name, point, data] = [
        CString::new(name(source))?,
        CString::new(point.as_os_str().as_bytes())?,
        CString::new(data)?,
    ];
    let kind = c"fuse.striate";
    // SAFETY: all texts are there.
    let mounted = unsafe {
        libc::mount(name.as_ptr(), point.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast())
    };
    if mounted == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts, lazily if asked to. `false` if somebody still uses it.
pub(crate) fn unmount(point: &Path, lazily: bool) -> io::Result<bool> {
    let text = CString::new(point.as_os_str().as_bytes())?;
    let flags = if lazily { libc::MNT_DETACH } else { 0 };
    // SAFETY: the text is there.
    if unsafe { libc::umount2(text.as_ptr(), flags) } == 0 {
        return Ok(true);
    }
    match identity::last_error() {
        Errno::BUSY => Ok(false),
        Errno::PERM => for_user(point, lazily),
        error => Err(error.into()),
    }
}

/// The same by the program that does it for users.
fn for_user(point: &Path, lazily: bool) -> io::Result<bool> {
    let mut command = std::process::Command::new("fusermount3");
    command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(point);
    let output = command.env("LC_ALL", "C").output()?;
    if output.status.success() {
        return Ok(true);
    }
    let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if told.contains("busy") { Ok(false) } else { Err(io::Error::other(told)) }
}
