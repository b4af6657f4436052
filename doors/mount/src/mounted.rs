//! [`Mounted`]: a mount, from its beginning to its end.

use std::ffi::CString;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Filesystem, Session};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use striate_stack::Stack;
use striate_store::remote::{Client, Layout};

use crate::door::{Door, Plan, lock};
use crate::error::MountError;
use crate::remote::{Owner, Remote, RemoteRequests};
use crate::requests::Requests;
use crate::watcher::{self, Watcher};
use crate::{check, system};

/// How something is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory.
    pub source: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// For how long the kernel may believe what it was told of names and attributes. Whatever changes on the source
    /// meanwhile, not through the mount, is seen late by as much.
    pub cache: Duration,
    /// Requests that are carried out at a time.
    pub threads: NonZeroUsize,
    /// Whether the kernel may read and write files itself that no stage wants.
    pub passthrough: bool,
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
}

impl ServerOptions {
    /// Never late.
    pub fn new(client: Client, directory: &str, point: impl Into<PathBuf>) -> Self {
        let Options { point, cache, threads, .. } = Options::new("", point);
        let directory = directory.trim_matches('/').to_owned();
        Self { client, directory, point, layout: Layout::default(), cache, threads }
    }
}

/// What is shown at a mount, apart from the requests for it.
pub(crate) trait Served: std::fmt::Debug + Send + Sync {
    /// No request is carried out any more. Waits for those that are.
    fn close(&self);

    /// The same; then all that was held back is written.
    fn settle(&self) -> Result<(), MountError>;

    /// What there is to be told to people, since this was asked for last.
    fn notices(&self) -> Vec<String>;
}

impl Served for Door {
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
}

/// How a mount was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nobody used it any more.
    Unmounted,
    /// Somebody still has files open, which cannot be used any more.
    Detached,
}

#[derive(Debug)]
struct Shared {
    served: Arc<dyn Served>,
    point: PathBuf,
    number: Option<u64>,
    watcher: Mutex<Watcher>,
    over: Mutex<Sender<Over>>,
}

/// Why a mount is over.
#[derive(Debug)]
enum Over {
    /// The kernel has no more requests.
    Session(io::Result<()>),
    /// It was detached, and whoever still uses it is not waited for.
    Detached,
}

/// A directory that is mounted a second time.
#[derive(Debug)]
pub struct Mounted {
    shared: Arc<Shared>,
    over: Receiver<Over>,
    session: Option<JoinHandle<()>>,
}

/// Takes a mount away, from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Shared>);

impl Mounted {
    /// Mounts a directory, with stages in between. When it returns, the mount works.
    ///
    /// From then on this process takes no permissions away from files that it makes (`umask`): the mask of whoever
    /// asks for a file comes with the request.
    pub fn new(options: &Options, stack: Stack) -> Result<Self, MountError> {
        let (source, point) = check::places(&options.source, &options.point)?;
        check::fuse()?;
        let is_root = rustix::process::geteuid().is_root();
        let source_error =
            |error: Errno| MountError::Source { path: source.clone(), error: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&source, flags, Mode::empty()).map_err(source_error)?;
        let limits = rustix::fs::fstatvfs(&root).map_err(source_error)?.f_flag;
        let plan = Plan {
            source: source.clone(),
            root,
            stack,
            descriptors: descriptors(),
            // The kernel allows it to the superuser only.
            passthrough: options.passthrough && is_root,
            cache: options.cache,
            serves_others: is_root,
        };
        let door = Arc::new(Door::new(plan).map_err(source_error)?);
        // What is made has the permissions that the one who asks says.
        rustix::process::umask(Mode::empty());
        let requests = Requests(Arc::clone(&door));
        let shown = source.display().to_string();
        let served = Arc::clone(&door) as Arc<dyn Served>;
        let mounted = Self::begin(served, requests, (&shown, point), options.threads, limits)?;
        if options.passthrough && !door.passthrough.load(std::sync::atomic::Ordering::Relaxed) {
            door.notice("the kernel cannot read and write files itself: requests do it".into());
        }
        Ok(mounted)
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
        let ServerOptions { client, directory, layout, cache, threads, .. } = options.clone();
        let shown = client.url(&directory).to_string();
        let remote = Arc::new(Remote::new(client, &directory, layout, owner, cache));
        let requests = RemoteRequests(Arc::clone(&remote));
        let limits = StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV;
        Self::begin(remote, requests, (&shown, point), threads, limits)
    }

    fn begin<F: Filesystem>(
        served: Arc<dyn Served>,
        requests: F,
        (source, point): (&str, PathBuf),
        threads: NonZeroUsize,
        limits: StatVfsMountFlags,
    ) -> Result<Self, MountError> {
        // Before anything is open that it should not have.
        let watcher = Watcher::start(&point).map_err(MountError::Watcher)?;
        let refused = |error| MountError::Refused { path: point.clone(), error };
        let session =
            system::mount(requests, (source, &point), threads.get(), limits).map_err(refused)?;
        let number = CString::new(point.as_os_str().as_bytes())
            .ok()
            .and_then(|point| watcher::mount_at(&point));
        if let Some(number) = number {
            watcher.tell(number).map_err(MountError::Watcher)?;
        }
        let (sender, over) = channel();
        let session = serve(session, sender.clone())?;
        let watcher = Mutex::new(watcher);
        let shared = Shared { served, point, number, watcher, over: Mutex::new(sender) };
        let mounted = Self { shared: Arc::new(shared), over, session: Some(session) };
        // The first request is answered, or there is no mount.
        std::fs::symlink_metadata(mounted.point())
            .map_err(|error| MountError::Refused { path: mounted.point().into(), error })?;
        Ok(mounted)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.shared.point
    }

    /// What there is to be told to people, since this was asked for last.
    pub fn notices(&self) -> Vec<String> {
        self.unmounter().notices()
    }

    /// Something that takes it away, for another thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(Arc::clone(&self.shared))
    }

    /// Waits until it was taken away, by an [`Unmounter`] or by others. Then all is settled and stages say what they have
    /// to say.
    pub fn wait(mut self) -> Result<(), MountError> {
        let over = self.over.recv().unwrap_or(Over::Session(Ok(())));
        let session = match over {
            Over::Session(ended) => {
                if let Some(thread) = self.session.take() {
                    let _ = thread.join();
                }
                match ended {
                    // The kernel says so where it took the mount away while a request was on its way.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
                    ended => ended.map_err(MountError::Session),
                }
            }
            // Its threads wait for whoever still uses it, and end with the process.
            Over::Detached => Ok(()),
        };
        lock(&self.shared.watcher).dismiss();
        let settled = self.shared.served.settle();
        session.and(settled)
    }

    /// Takes it away, and waits until all is settled.
    pub fn end(self) -> Result<How, MountError> {
        let how = self.unmounter().unmount()?;
        self.wait()?;
        Ok(how)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whoever has waited finds nothing mounted any more.
        if self.shared.is_mounted() {
            let _ = self.unmounter().unmount();
            let _ = self.shared.served.settle();
        }
    }
}

impl Unmounter {
    /// What there is to be told to people, since this was asked for last.
    pub fn notices(&self) -> Vec<String> {
        self.0.served.notices()
    }

    /// Takes the mount away. If somebody still uses it, it is not to be seen any more all the same, and who has files
    /// open there gets errors.
    pub fn unmount(&self) -> Result<How, MountError> {
        let shared = &*self.0;
        let failed = |error| MountError::Unmount { path: shared.point.clone(), error };
        if !shared.is_mounted() {
            return Ok(How::Unmounted);
        }
        if system::unmount(&shared.point, false).map_err(failed)? {
            return Ok(How::Unmounted);
        }
        system::unmount(&shared.point, true).map_err(failed)?;
        // Nothing that comes from now on would be settled.
        shared.served.close();
        let _ = lock(&shared.over).send(Over::Detached);
        Ok(How::Detached)
    }
}

impl Shared {
    /// Whether the mount that is at the point is this one.
    fn is_mounted(&self) -> bool {
        let point = CString::new(self.point.as_os_str().as_bytes()).unwrap_or_default();
        self.number.is_some() && watcher::mount_at(&point) == self.number
    }
}

/// Carries out requests until there are no more.
fn serve<F: Filesystem>(
    session: Session<F>,
    over: Sender<Over>,
) -> Result<JoinHandle<()>, MountError> {
    let serve = move || {
        let ended = session.run();
        // Nobody may be there to hear it.
        let _ = over.send(Over::Session(ended));
    };
    let thread = std::thread::Builder::new().name("striate-mount".into()).spawn(serve);
    thread.map_err(MountError::Session)
}

/// How many descriptors are kept for nodes: half of those that there can be, the rest is for files that are open.
fn descriptors() -> NonZeroUsize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // As many as allowed; it goes on with fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
    NonZeroUsize::new(most as usize / 2).unwrap_or(NonZeroUsize::MIN)
}
