//! [`Watcher`]: a process that unmounts when the serving process dies.
//!
//! A mount whose server was killed is dead: every access to it fails until it is unmounted.
//! `fusermount3` has an option for that, but only for its own mounts. So there is a small watcher
//! process. It holds one end of a pipe, and no other resource of the serving process; when the
//! other end is closed without a message, it unmounts, if the [`MountId`] shows that it is still
//! the same mount.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::mount_id::{self, MountId};

/// The program that unmounts for users.
const UNMOUNT: &CStr = c"/usr/bin/fusermount3";

/// A process that takes the mount away when this one dies.
#[derive(Debug)]
pub(crate) struct Watcher {
    process: libc::pid_t,
    /// `None` when it was asked to end.
    pipe: Option<OwnedFd>,
}

impl Watcher {
    /// Starts it. It does nothing before it receives the mount.
    pub(crate) fn start(point: &Path) -> io::Result<Self> {
        let point = CString::new(point.as_os_str().as_bytes())?;
        let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the child makes system calls only, on memory that existed before.
        let process = unsafe { libc::fork() };
        match process {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child, which has nothing else to do.
            0 => unsafe { watch(theirs.as_raw_fd(), &point) },
            process => Ok(Self { process, pipe: Some(ours) }),
        }
    }

    /// Tells it which mount it is.
    pub(crate) fn tell(&self, mount: MountId) -> io::Result<()> {
        match &self.pipe {
            Some(pipe) => Ok(rustix::io::write(pipe, &mount.to_bytes()).map(|_| ())?),
            None => Ok(()),
        }
    }

    /// There is nothing to look after any more.
    pub(crate) fn dismiss(&mut self) {
        let Some(pipe) = self.pipe.take() else { return };
        let _ = rustix::io::write(&pipe, b".");
        drop(pipe);
        let mut status = 0;
        // SAFETY: it is a child of ours that no other code waits for.
        while unsafe { libc::waitpid(self.process, &raw mut status, 0) } < 0
            && crate::source_fs::identity::last_error() == Errno::INTR
        {}
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// What the process does.
///
/// # Safety
/// It is a child that has only this thread.
unsafe fn watch(pipe: RawFd, point: &CStr) -> ! {
    // SAFETY: system calls, on what is there; other threads and their locks are not.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"striate-watch".as_ptr());
        libc::chdir(c"/".as_ptr());
        // Above all not the end of the pipe that is not ours, nor that of another watcher, nor
        // /dev/fuse.
        let pipe = if pipe == 0 { 0 } else { libc::dup2(pipe, 0) };
        libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0);
        let mut mount = [0_u8; MountId::BYTES];
        if !fill(pipe, &mut mount) {
            libc::_exit(0);
        }
        let mut word = [0_u8; 1];
        if !fill(pipe, &mut word)
            && is_still_there(point, MountId::from_bytes(&mount))
            && libc::umount2(point.as_ptr(), libc::MNT_DETACH) < 0
        {
            let words = [UNMOUNT, c"-u", c"-z", c"-q", c"--", point];
            let mut list = [std::ptr::null(); 7];
            for (place, word) in list.iter_mut().zip(words) {
                *place = word.as_ptr();
            }
            libc::execv(UNMOUNT.as_ptr(), list.as_ptr());
        }
        libc::_exit(0)
    }
}

/// Whether the mount of the process that has died is at the point, and not another one. It makes
/// system calls only.
fn is_still_there(point: &CStr, mount: MountId) -> bool {
    // Numbers that may be another's by now are enough for one that is dead.
    MountId::at(point) == Some(mount) && (mount.unique || mount_id::is_dead(point))
}

/// Reads so many bytes; `false` if the other end is gone before.
///
/// # Safety
/// The descriptor is that of a pipe.
unsafe fn fill(pipe: RawFd, bytes: &mut [u8]) -> bool {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: the memory is there.
        match unsafe { libc::read(pipe, rest.as_mut_ptr().cast(), rest.len()) } {
            0 => return false,
            count @ 1.. => filled += count as usize,
            _ => {
                // SAFETY: the place of this thread's last error.
                if unsafe { *libc::__errno_location() } != libc::EINTR {
                    return false;
                }
            }
        }
    }
    true
}
