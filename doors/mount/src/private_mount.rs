//! A mount that only one program and its children see: [`start`].
//!
//! The program is started in a mount namespace of its own, in which the directory is mounted over
//! itself. This process stays outside and serves it there: for its stages the directory is the
//! original one. The mount disappears when the last process in the namespace has ended; it need not
//! be unmounted.
//!
//! Users other than root need a user namespace for that, in which they keep their user and group,
//! and files of other users and groups belong to `nobody`.

use std::ffi::CString;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::UnshareFlags;

use crate::error::MountError;
use crate::{mount_syscalls, mount_table};

/// What the child was about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Namespace = 1,
    Users,
    Separate,
    Device,
    Mount,
    /// All is mounted, and the descriptor comes with this.
    Mounted,
}

impl Step {
    const ALL: [Self; 6] =
        [Self::Namespace, Self::Users, Self::Separate, Self::Device, Self::Mount, Self::Mounted];

    const fn attempt(self) -> &'static str {
        match self {
            Self::Namespace => "the kernel gives this user no mount namespace",
            Self::Users => "the user cannot be made known in a user namespace",
            Self::Separate => "mounts cannot be made private",
            Self::Device => "/dev/fuse cannot be opened",
            Self::Mount | Self::Mounted => "the directory cannot be mounted over itself",
        }
    }
}

/// What a child needs to set up its namespace. It must not allocate, so all of it is made before.
#[derive(Debug)]
struct NamespaceSetup {
    /// What goes to `uid_map` and `gid_map`, unless it is root's.
    users: Option<[String; 2]>,
    name: CString,
    point: CString,
    /// Options of the mount, without the descriptor.
    options: String,
    flags: MountFlags,
    /// Where the program starts.
    directory: CString,
    mask: Mode,
    files: Rlimit,
}

/// The mask and the limits that the program gets; serving a mount changes them for this process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessLimits {
    pub(crate) mask: Mode,
    pub(crate) files: Rlimit,
}

/// A program that waits until its directory is served.
#[derive(Debug)]
pub(crate) struct PausedProgram {
    /// Where the kernel's requests come from.
    pub(crate) device: OwnedFd,
    socket: UnixStream,
    starting: JoinHandle<io::Result<Child>>,
}

impl PausedProgram {
    /// Lets the program go. Fails if it cannot be run.
    pub(crate) fn go(mut self) -> io::Result<Child> {
        // If it does not exist, that is reported below.
        let _ = self.socket.write_all(b".");
        self.starting.join().unwrap_or_else(|_| Err(io::Error::other("a thread has died")))
    }
}

/// Starts a program up to where its directory has to be served.
pub(crate) fn start(
    mut command: Command,
    (source, point): (&str, &Path),
    limits: StatVfsMountFlags,
    limits_of_program: &ProcessLimits,
) -> Result<PausedProgram, MountError> {
    let unprepared = |error| MountError::Private { attempted: "cannot be prepared", error };
    let setup =
        NamespaceSetup::new(source, point, limits, limits_of_program).map_err(unprepared)?;
    let (ours, theirs) = UnixStream::pair().map_err(unprepared)?;
    let their_end = theirs.as_raw_fd();
    // SAFETY: the child makes system calls only, on memory that existed before; the descriptor is
    // open there, because its owner is dropped after the start.
    let set_up = move || setup.perform(unsafe { BorrowedFd::borrow_raw(their_end) });
    // SAFETY: as above.
    unsafe { command.pre_exec(set_up) };
    // It returns when the program runs, which is after its directory is served.
    let spawn = move || {
        let child = command.spawn();
        drop(theirs);
        child
    };
    let thread = std::thread::Builder::new().name("striate-start".into());
    let starting = thread.spawn(spawn).map_err(unprepared)?;
    let received = mount_syscalls::receive(&ours).map_err(unprepared)?;
    if let (Some(device), Some(_)) = received {
        return Ok(PausedProgram { device, socket: ours, starting });
    }
    let failed = starting.join().unwrap_or_else(|_| Err(io::Error::other("a thread has died")));
    let error = failed.err().unwrap_or_else(|| io::Error::other("it has started by itself"));
    let step = received.1.and_then(|byte| Step::ALL.into_iter().find(|step| *step as u8 == byte));
    let attempted = step.map_or("the program cannot be started", Step::attempt);
    Err(MountError::Private { attempted, error })
}

impl NamespaceSetup {
    fn new(
        source: &str,
        point: &Path,
        limits: StatVfsMountFlags,
        limits_of_program: &ProcessLimits,
    ) -> io::Result<Self> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let (user_id, group_id) = (user.as_raw(), group.as_raw());
        let text = |path: &Path| mount_table::text(path).ok_or(io::ErrorKind::InvalidInput);
        let mut options =
            format!(",rootmode=40000,user_id={user_id},group_id={group_id},default_permissions");
        let mut flags = MountFlags::empty();
        for (limit, flag) in [
            (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
            (StatVfsMountFlags::NODEV, MountFlags::NODEV),
            (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
            (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        ] {
            flags.set(flag, limits.contains(limit));
        }
        let mut users = None;
        if user.is_root() {
            options.push_str(",allow_other");
        } else {
            flags |= MountFlags::NOSUID | MountFlags::NODEV;
            users = Some([format!("{user_id} {user_id} 1"), format!("{group_id} {group_id} 1")]);
        }
        Ok(Self {
            users,
            name: CString::new(mount_syscalls::name(source))?,
            point: text(point)?,
            options,
            flags,
            directory: text(&std::env::current_dir()?)?,
            mask: limits_of_program.mask,
            files: limits_of_program.files,
        })
    }

    /// What the child does before it becomes the program.
    fn perform(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut step = Step::Namespace;
        match self.mounted(&mut step) {
            Err(error) => {
                let _ = rustix::io::write(socket, &[step as u8]);
                return Err(error.into());
            }
            Ok(device) => send(socket, device.as_fd())?,
        }
        let mut go = [0];
        while match rustix::io::read(socket, &mut go) {
            Ok(1) => false,
            Err(Errno::INTR) => true,
            Ok(_) => return Err(Errno::CANCELED.into()),
            Err(error) => return Err(error.into()),
        } {}
        // From above the mount, not from below it.
        rustix::process::chdir(&*self.directory)?;
        rustix::process::umask(self.mask);
        Ok(setrlimit(Resource::Nofile, self.files)?)
    }

    fn mounted(&self, step: &mut Step) -> Result<OwnedFd, Errno> {
        let mut flags = UnshareFlags::NEWNS;
        if self.users.is_some() {
            flags |= UnshareFlags::NEWUSER;
        }
        // SAFETY: descriptors stay shared as they are.
        unsafe { rustix::thread::unshare_unsafe(flags)? };
        *step = Step::Users;
        if let Some([users, groups]) = &self.users {
            put("/proc/self/setgroups", "deny")?;
            put("/proc/self/uid_map", users)?;
            put("/proc/self/gid_map", groups)?;
        }
        *step = Step::Separate;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change(c"/", private)?;
        *step = Step::Device;
        // By the child itself: it has to be of the same user namespace as the mount.
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open(c"/dev/fuse", flags, Mode::empty())?;
        *step = Step::Mount;
        let mut data = [0_u8; 200];
        let mut rest = &mut data[..];
        // One byte is left, for the end of the text.
        write!(rest, "fd={}{}", device.as_raw_fd(), self.options)
            .map_err(|_| Errno::NAMETOOLONG)?;
        if rest.is_empty() {
            return Err(Errno::NAMETOOLONG);
        }
        let data = std::ffi::CStr::from_bytes_until_nul(&data).map_err(|_| Errno::INVAL)?;
        let kind = c"fuse.striate";
        rustix::mount::mount(&*self.name, &*self.point, kind, self.flags, data)?;
        *step = Step::Mounted;
        Ok(device)
    }
}

/// Writes a file, without allocating.
fn put(path: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(|_| ())
}

/// Sends a descriptor.
fn send(socket: BorrowedFd<'_>, device: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let devices = [device];
    if !control.push(SendAncillaryMessage::ScmRights(&devices)) {
        return Err(Errno::NOBUFS);
    }
    let byte = [Step::Mounted as u8];
    let parts = [IoSlice::new(&byte)];
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_descriptor_arrives() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (sent, other) = UnixStream::pair().unwrap();
        send(theirs.as_fd(), sent.as_fd()).unwrap();
        drop(sent);
        let (device, byte) = mount_syscalls::receive(&ours).unwrap();
        assert_eq!(byte, Some(Step::Mounted as u8));
        drop(device.unwrap());
        assert_eq!((&other).read(&mut [0]).unwrap(), 0);
        drop(theirs);
        assert!(matches!(mount_syscalls::receive(&ours), Ok((None, None))));
    }
}
