//! [`Mounted`]: a mount, from its beginning to its end.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Filesystem, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use striate_stack::Stack;
use striate_store::remote::{Client, Layout};

use crate::error::MountError;
use crate::guard::{Guard, Guarded};
use crate::mount_id::MountId;
use crate::mount_record::{MountFacts, RecordWriter};
use crate::private_mount::{self, ProcessLimits};
use crate::requests::Requests;
use crate::server_fs::{Owner, ServerFs};
use crate::settling::{self, Settling};
use crate::source_fs::handle::Handle;
use crate::source_fs::{SourceFs, SourceFsOptions};
use crate::sync::lock;
use crate::watcher::Watcher;
use crate::{check, mount_syscalls, mount_table};

/// How something is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory.
    pub source: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// For how long the kernel may cache names and attributes. Whatever changes on the source
    /// meanwhile, not through the mount, is seen late by as much.
    pub cache: Duration,
    /// Requests that are carried out at a time.
    pub threads: NonZeroUsize,
    /// Whether the kernel may read and write files itself that no stage wants.
    pub passthrough: bool,
    /// Whether the directory at the point is unwritable while a mount is expected there.
    pub guard: bool,
    /// The file with the stages, which `striate stack recover` needs after a kill.
    pub stack: Option<PathBuf>,
    /// What is in it.
    pub configuration: String,
}

impl Options {
    /// Never late, with the kernel's help.
    pub fn new(source: impl Into<PathBuf>, point: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            point: point.into(),
            cache: Duration::ZERO,
            threads: NonZeroUsize::MIN.saturating_add(7),
            passthrough: true,
            guard: false,
            stack: None,
            configuration: String::new(),
        }
    }
}

/// How a directory of I/O servers is mounted.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The file system.
    pub client: Client,
    /// The directory in it; empty for all of it.
    pub directory: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// How new files are dealt to servers.
    pub layout: Layout,
    /// As in [`Options`].
    pub cache: Duration,
    /// As in [`Options`].
    pub threads: NonZeroUsize,
    /// As in [`Options`].
    pub guard: bool,
}

impl ServerOptions {
    /// Never late.
    pub fn new(client: Client, directory: &str, point: impl Into<PathBuf>) -> Self {
        let Options { point, cache, threads, .. } = Options::new("", point);
        let directory = directory.trim_matches('/').to_owned();
        let layout = Layout::default();
        Self { client, directory, point, layout, cache, threads, guard: false }
    }
}

/// The end of a backend, and what it has to report.
pub(crate) trait MountedBackend: std::fmt::Debug + Send + Sync {
    /// No request is carried out any more. Waits for those that are.
    fn close(&self);

    /// The same; then all buffered data is written.
    fn settle(&self) -> Result<(), MountError>;

    /// Notices for the user, since this was called last.
    fn notices(&self) -> Vec<String>;

    /// Number of files that stages buffer, as far as known.
    fn held(&self) -> Backlog {
        Backlog::default()
    }

    /// The directory that is shown, if it is one.
    fn directory(&self) -> Option<Arc<OwnedFd>> {
        None
    }
}

/// Files that stages buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Files that programs have closed.
    pub(crate) files: u64,
    /// Files that programs have open for writing.
    pub(crate) open: u64,
}

impl MountedBackend for SourceFs {
    fn close(&self) {
        Self::close(self);
    }

    fn settle(&self) -> Result<(), MountError> {
        Self::close(self);
        self.end_handles();
        let settle = || self.stack.finish();
        let settled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(settle));
        settled.unwrap_or(Err(Errno::IO)).map(|_| ()).map_err(MountError::Unsettled)
    }

    fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.notices))
    }

    fn held(&self) -> Backlog {
        let open = |handle: &&Arc<Handle>| handle.is_staged() && handle.is_writable();
        let open = lock(&self.handles).values().filter(open).count() as u64;
        Backlog { files: self.stack.buffered_files(), open }
    }

    fn directory(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(&self.root))
    }
}

/// How a mount was unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountKind {
    /// No program used it any more.
    Unmounted,
    /// Programs still have files open, which cannot be used any more.
    Detached,
}

#[derive(Debug)]
struct Shared {
    served: Arc<dyn MountedBackend>,
    point: PathBuf,
    /// `None` where it cannot be seen from here.
    mount: Option<MountId>,
    /// A duplicate of the descriptor for requests, as long as there are any: it shows whether the
    /// mount still exists.
    connection: Mutex<Option<OwnedFd>>,
    watcher: Mutex<Option<Watcher>>,
    over: Mutex<Sender<SessionEnd>>,
    record: Mutex<Option<RecordWriter>>,
    guard: Mutex<Option<Guard>>,
    notices: Mutex<Vec<String>>,
}

/// Where and how something is mounted.
struct MountSetup<'a> {
    source: &'a str,
    point: PathBuf,
    threads: NonZeroUsize,
    limits: StatVfsMountFlags,
    guard: bool,
    stack: Option<&'a Path>,
    configuration: &'a str,
}

impl MountSetup<'_> {
    fn about(&self, mount: Option<MountId>) -> MountFacts<'_> {
        let Self { source, ref point, stack, configuration, .. } = *self;
        MountFacts { source, point, stack, configuration, mount }
    }
}

/// Why a mount is over.
#[derive(Debug)]
enum SessionEnd {
    /// The kernel has no more requests.
    Session(io::Result<()>),
    /// It was detached, and programs that still use it are not waited for.
    Detached,
}

/// A directory that is mounted a second time.
#[derive(Debug)]
pub struct Mounted {
    shared: Arc<Shared>,
    over: Receiver<SessionEnd>,
    session: Option<JoinHandle<()>>,
}

/// Unmounts, from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Shared>);

impl Mounted {
    /// Mounts a directory, with stages in between. When it returns, the mount works.
    ///
    /// From then on this process takes no permissions away from files that it makes (`umask`): the
    /// mask of the caller comes with the request.
    pub fn new(options: &Options, stack: Stack) -> Result<Self, MountError> {
        let (source, point) = check::check_places(&options.source, &options.point)?;
        check::fuse()?;
        let (door, limits) = door(source, options, stack)?;
        // New files have the permissions that the caller asks for.
        rustix::process::umask(Mode::empty());
        let requests = Requests(Arc::clone(&door));
        let shown = door.source.display().to_string();
        let served = Arc::clone(&door) as Arc<dyn MountedBackend>;
        let setup = MountSetup {
            source: &shown,
            point,
            threads: options.threads,
            limits,
            guard: options.guard,
            stack: options.stack.as_deref(),
            configuration: &options.configuration,
        };
        let mounted = Self::begin(served, requests, &setup)?;
        notice_passthrough(options, &door);
        Ok(mounted)
    }

    /// Starts a program that sees a directory through the stages, by the directory's own name.
    /// Others do not: the mount is in a namespace of the program, and gone when that and all that
    /// it has started have ended. The point of the options is not used.
    pub fn of_program(
        options: &Options,
        stack: Stack,
        command: Command,
    ) -> Result<(Self, Child), MountError> {
        let source = check::source(&options.source)?;
        check::fuse()?;
        let files = getrlimit(Resource::Nofile);
        let (door, limits) = door(source.clone(), options, stack)?;
        let mask = rustix::process::umask(Mode::empty());
        let shown = source.display().to_string();
        let limits_of_program = ProcessLimits { mask, files };
        door.starting.begin();
        let waiting = private_mount::start(command, (&shown, &source), limits, &limits_of_program)?;
        let device = waiting.device.try_clone().map_err(MountError::Session)?;
        let requests = Requests(Arc::clone(&door));
        let served = Arc::clone(&door) as Arc<dyn MountedBackend>;
        let setup = MountSetup {
            source: &shown,
            point: source,
            threads: options.threads,
            limits,
            guard: false,
            stack: options.stack.as_deref(),
            configuration: &options.configuration,
        };
        let mounted = Self::attach(served, requests, device, &setup, None)?;
        let started = waiting.go();
        door.starting.end();
        match started {
            Ok(child) => Ok((mounted, child)),
            Err(error) => {
                mounted.unmounter().abandon();
                mounted.wait()?;
                Err(MountError::Program(error))
            }
        }
    }

    /// Mounts a directory of I/O servers. When it returns, the mount works.
    pub fn of_servers(options: &ServerOptions) -> Result<Self, MountError> {
        let point = check::point(&options.point)?;
        check::fuse()?;
        let mask = rustix::process::umask(Mode::empty());
        rustix::process::umask(mask);
        let owner = Owner {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            mask: mask.bits(),
        };
        let ServerOptions { client, directory, layout, cache, threads, guard, .. } =
            options.clone();
        let shown = client.url(&directory).to_string();
        let server_fs = Arc::new(ServerFs::new(client, &directory, layout, owner, cache));
        let requests = Requests(Arc::clone(&server_fs));
        let limits = StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV;
        let source = &*shown;
        let (stack, configuration) = (None, "");
        let setup = MountSetup { source, point, threads, limits, guard, stack, configuration };
        Self::begin(server_fs, requests, &setup)
    }

    fn begin<F: Filesystem>(
        served: Arc<dyn MountedBackend>,
        requests: F,
        setup: &MountSetup<'_>,
    ) -> Result<Self, MountError> {
        let point = &setup.point;
        let guard_error = |error| MountError::Guard { path: point.clone(), error };
        // While the directory can still be reached.
        let guard = match Guard::open(point) {
            Err(error) if setup.guard => return Err(guard_error(error)),
            opened => opened.ok().filter(|guard| setup.guard || guard.was_left()),
        };
        // Before anything is open that it should not have.
        let watcher = Watcher::start(point).map_err(MountError::Watcher)?;
        let refused = |error| MountError::Refused { path: point.clone(), error };
        let device = mount_syscalls::mount((setup.source, point), setup.limits).map_err(refused)?;
        let mount = mount_table::text(point).and_then(|point| MountId::at(&point));
        let watched = mount.map_or(Ok(()), |mount| watcher.tell(mount));
        let attached = watched.map_err(MountError::Watcher).and_then(|()| {
            Self::attach(served, requests, device, setup, mount.map(|mount| (mount, watcher)))
        });
        let mounted = match attached {
            Ok(mounted) => mounted,
            Err(error) => {
                let _ = mount_syscalls::unmount(point, true);
                return Err(error);
            }
        };
        if let Some(mut guard) = guard {
            if guard.set().map_err(guard_error)? == Guarded::Mode
                && rustix::process::geteuid().is_root()
            {
                lock(&mounted.shared.notices).push(format!(
                    "{} cannot be made immutable: without the mount, only users other than root are kept from writing there",
                    point.display()
                ));
            }
            *lock(&mounted.shared.guard) = Some(guard);
        }
        // The first request is answered, or there is no mount.
        std::fs::symlink_metadata(mounted.point())
            .map_err(|error| MountError::Refused { path: mounted.point().into(), error })?;
        Ok(mounted)
    }

    /// Answers the requests of something that is mounted.
    fn attach<F: Filesystem>(
        served: Arc<dyn MountedBackend>,
        requests: F,
        device: OwnedFd,
        setup: &MountSetup<'_>,
        visible: Option<(MountId, Watcher)>,
    ) -> Result<Self, MountError> {
        let connection = device.try_clone().map_err(MountError::Session)?;
        let clone = visible.is_some() || rustix::process::geteuid().is_root();
        let session = mount_syscalls::talk(requests, device, setup.threads.get(), clone)
            .map_err(|error| MountError::Refused { path: setup.point.clone(), error })?;
        let (mount, watcher) = visible.unzip();
        let mut notices = Vec::new();
        let record = match RecordWriter::new(&setup.about(mount)) {
            Ok(record) => Some(record),
            Err(error) => {
                notices.push(format!(
                    "no record of the mount can be kept, so that 'striate umount' cannot wait for its end: {error}"
                ));
                None
            }
        };
        let (sender, over) = channel();
        let shared = Arc::new(Shared {
            served,
            point: setup.point.clone(),
            mount,
            connection: Mutex::new(Some(connection)),
            watcher: Mutex::new(watcher),
            over: Mutex::new(sender.clone()),
            record: Mutex::new(record),
            guard: Mutex::default(),
            notices: Mutex::new(notices),
        });
        let session = serve(session, sender, Arc::clone(&shared))?;
        Ok(Self { shared, over, session: Some(session) })
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.shared.point
    }

    /// Notices for the user, since this was called last.
    pub fn notices(&self) -> Vec<String> {
        self.unmounter().notices()
    }

    /// An unmounter, for another thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(Arc::clone(&self.shared))
    }

    /// Waits until it is unmounted, by an [`Unmounter`] or by another process. Then all buffered
    /// data is written, and stages print their reports.
    pub fn wait(self) -> Result<(), MountError> {
        self.wait_showing(&mut |_| {})
    }

    /// The same; shows how much is left while all is settled.
    pub fn wait_showing(mut self, show: &mut dyn FnMut(Settling)) -> Result<(), MountError> {
        let over = self.over.recv().unwrap_or(SessionEnd::Session(Ok(())));
        let session = match over {
            SessionEnd::Session(ended) => {
                if let Some(thread) = self.session.take() {
                    let _ = thread.join();
                }
                match ended {
                    // The kernel says so where it took the mount away while a request was on its
                    // way.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
                    ended => ended.map_err(MountError::Session),
                }
            }
            // Its threads wait for programs that still use it, and end with the process.
            SessionEnd::Detached => Ok(()),
        };
        drop(lock(&self.shared.watcher).take());
        let settled = self.shared.settle(show);
        session.and(settled)
    }

    /// Unmounts, and waits until all buffered data is written.
    pub fn end(self) -> Result<UnmountKind, MountError> {
        let how = self.unmounter().unmount()?;
        self.wait()?;
        Ok(how)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After `wait` nothing is mounted any more.
        if self.shared.is_mounted() {
            let _ = self.unmounter().unmount();
            let _ = self.shared.settle(&mut |_| {});
        }
    }
}

impl Unmounter {
    /// Notices for the user, since this was called last.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = std::mem::take(&mut *lock(&self.0.notices));
        notices.extend(self.0.served.notices());
        notices
    }

    /// Stops waiting for programs that still use it; their calls fail from now on.
    pub fn abandon(&self) {
        self.0.served.close();
        let _ = lock(&self.0.over).send(SessionEnd::Detached);
    }

    /// Unmounts. A mount that programs still use is detached: it cannot be reached any more, and
    /// calls on files that are open there fail.
    pub fn unmount(&self) -> Result<UnmountKind, MountError> {
        let shared = &*self.0;
        let failed = |error| MountError::Unmount { path: shared.point.clone(), error };
        if !shared.is_mounted() {
            return Ok(UnmountKind::Unmounted);
        }
        if mount_syscalls::unmount(&shared.point, false).map_err(failed)? {
            return Ok(UnmountKind::Unmounted);
        }
        mount_syscalls::unmount(&shared.point, true).map_err(failed)?;
        // Nothing that comes from now on would be settled.
        self.abandon();
        Ok(UnmountKind::Detached)
    }
}

impl Shared {
    /// Whether the mount that is at the point is this one.
    fn is_mounted(&self) -> bool {
        let Some(mount) = self.mount else { return false };
        // Numbers that may be reused later are those of this mount as long as it exists.
        (mount.unique || self.is_connected())
            && mount_table::text(&self.point).and_then(|point| MountId::at(&point)) == Some(mount)
    }

    /// Whether the kernel still has requests.
    fn is_connected(&self) -> bool {
        let connection = lock(&self.connection);
        let Some(connection) = &*connection else { return false };
        let mut asked = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&now)).is_ok() && !asked[0].revents().contains(PollFlags::ERR)
    }

    /// No requests are answered any more. If that was not because of an unmount, it is unmounted.
    fn let_go(&self) {
        if self.is_mounted() {
            let _ = mount_syscalls::unmount(&self.point, true);
        }
        // Programs that still have files open there would wait for ever.
        drop(lock(&self.connection).take());
    }

    /// Writes buffered data, and updates the record that other processes wait for.
    fn settle(&self, show: &mut dyn FnMut(Settling)) -> Result<(), MountError> {
        let record = lock(&self.record).take();
        let guard = lock(&self.guard).take();
        settling::settle(&*self.served, record, guard, show)
    }
}

/// Carries out requests until there are no more.
fn serve<F: Filesystem>(
    session: Session<F>,
    over: Sender<SessionEnd>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, MountError> {
    let serve = move || {
        let ended = session.run();
        shared.let_go();
        // The receiver may have been dropped.
        let _ = over.send(SessionEnd::Session(ended));
    };
    let thread = std::thread::Builder::new().name("striate-mount".into()).spawn(serve);
    thread.map_err(MountError::Session)
}

/// What answers for a directory, and the limits of the mount that it is on.
fn door(
    source: PathBuf,
    options: &Options,
    stack: Stack,
) -> Result<(Arc<SourceFs>, StatVfsMountFlags), MountError> {
    let is_root = rustix::process::geteuid().is_root();
    let path = source.clone();
    let source_error = |error: Errno| MountError::Source { path, error: error.into() };
    let made = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&source, flags, Mode::empty())?;
        let limits = rustix::fs::fstatvfs(&root)?.f_flag;
        let plan = SourceFsOptions {
            source,
            root,
            stack,
            descriptors: descriptors(),
            // The kernel allows it to the superuser only.
            passthrough: options.passthrough && is_root,
            cache: options.cache,
            serves_others: is_root,
        };
        Ok((Arc::new(SourceFs::new(plan)?), limits))
    };
    made().map_err(source_error)
}

/// Says that the kernel does not use files itself, where that was wanted.
fn notice_passthrough(options: &Options, door: &SourceFs) {
    if options.passthrough && !door.passthrough.load(std::sync::atomic::Ordering::Relaxed) {
        door.notice("passthrough is not available: files are read and written by requests".into());
    }
}

/// How many descriptors are kept for nodes: half of those that there can be, the rest is for files
/// that are open.
fn descriptors() -> NonZeroUsize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // As many as allowed; it goes on with fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
    NonZeroUsize::new(most as usize / 2).unwrap_or(NonZeroUsize::MIN)
}
