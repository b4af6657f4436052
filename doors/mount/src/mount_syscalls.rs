//! Mounting and unmounting: by system calls for the superuser, by `fusermount3` for other users.
//!
//! The `fuser` crate is not used for this: it unmounts at the end, whatever is mounted at the point
//! by then.

use std::ffi::CString;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use fuser::{Config, Filesystem, Session, SessionACL};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::source_fs::identity;

/// The program that mounts and unmounts for users.
const HELPER: &str = "fusermount3";

/// What the kernel's mount is called.
pub(crate) fn name(source: &str) -> String {
    format!("striate:{source}")
}

/// Mounts. Returns where the kernel's requests come from. `limits` are those of the source's own
/// mount, which hold here as well.
pub(crate) fn mount(
    (source, point): (&str, &Path),
    limits: StatVfsMountFlags,
) -> io::Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        by_kernel(source, point, limits)
    } else {
        by_helper(source, point, limits)
    }
}

/// Agrees with the kernel on how to talk. `clone` says whether each thread may have a descriptor of
/// its own, which the kernel refuses if the first one is of another user namespace.
pub(crate) fn talk<F: Filesystem>(
    requests: F,
    device: OwnedFd,
    threads: usize,
    clone: bool,
) -> io::Result<Session<F>> {
    let mut config = Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = clone;
    let is_root = rustix::process::geteuid().is_root();
    config.acl = if is_root { SessionACL::All } else { SessionACL::Owner };
    Session::from_fd(requests, device, config.acl, config)
}

/// By the program that mounts for users.
fn by_helper(source: &str, point: &Path, limits: StatVfsMountFlags) -> io::Result<OwnedFd> {
    let mut options = format!(
        "fsname={},subtype=striate,default_permissions,nosuid,nodev",
        name(source).replace([',', '\\'], "_")
    );
    if limits.contains(StatVfsMountFlags::NOEXEC) {
        options.push_str(",noexec");
    }
    if limits.contains(StatVfsMountFlags::RDONLY) {
        options.push_str(",ro");
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut helper = Command::new(HELPER)
        .args(["-o", &options, "--"])
        .arg(point)
        // It sends what it has opened by this descriptor, its standard input.
        .env("_FUSE_COMMFD", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let received = receive(&ours);
    let mut told = String::new();
    if let Some(stderr) = &mut helper.stderr {
        let _ = stderr.read_to_string(&mut told);
    }
    let status = helper.wait()?;
    match received? {
        (Some(device), _) if status.success() => Ok(device),
        _ => Err(io::Error::other(told.trim().to_owned())),
    }
}

/// Receives a descriptor, and a byte. Neither arrives if the other end is closed.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<(Option<OwnedFd>, Option<u8>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = loop {
        let mut into = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((device, (received.bytes > 0).then_some(byte[0])))
}

/// By the kernel.
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
    // SAFETY: all texts are valid.
    let mounted = unsafe {
        libc::mount(name.as_ptr(), point.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast())
    };
    if mounted == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts, lazily if asked to. `false` if a program still uses it.
pub(crate) fn unmount(point: &Path, lazily: bool) -> io::Result<bool> {
    let text = CString::new(point.as_os_str().as_bytes())?;
    let flags = if lazily { libc::MNT_DETACH } else { 0 };
    // SAFETY: the text is valid.
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
    let mut command = Command::new(HELPER);
    command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(point);
    let output = command.env("LC_ALL", "C").output()?;
    if output.status.success() {
        return Ok(true);
    }
    let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if told.contains("busy") { Ok(false) } else { Err(io::Error::other(told)) }
}
