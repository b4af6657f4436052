//! [`Session`]: the time between the start and the end of MPI, and its raw communicators.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use ::mpi::Threading;
use ::mpi::environment::{Universe, initialize_with_threading, is_finalized};
use ::mpi::ffi;

use super::watch;
use crate::error::CommError;
use crate::task::Tasks;

/// How long a rank that failed waits for the other ranks to finish by themselves.
const GRACE: Duration = Duration::from_secs(5);

/// How long a launcher is given to read a last message.
const READING: Duration = Duration::from_secs(2);
/// How long it is given to pass it to the user.
const HANDING_ON: Duration = Duration::from_millis(100);

/// MPI is initialised while this lives.
pub(super) struct Session {
    /// Finalises MPI when dropped; `None` if the application initialised it.
    _universe: Option<Universe>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

/// The session that all communicators of the process share.
static CURRENT: Mutex<Weak<Session>> = Mutex::new(Weak::new());

/// The tasks of this process, on all communicators.
pub(super) fn tasks() -> &'static Arc<Tasks> {
    static TASKS: OnceLock<Arc<Tasks>> = OnceLock::new();
    TASKS.get_or_init(Arc::default)
}

/// Turns the result of an MPI function into ours.
pub(super) fn check(call: &'static str, code: c_int) -> Result<(), CommError> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len: c_int = 0;
    // SAFETY: the buffer is as long as MPI demands, and `len` is a place for a number.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut len) };
    let text = &text[..(len.max(0) as usize).min(text.len())];
    Err(CommError::Mpi { call, code, message: String::from_utf8_lossy(text).into_owned() })
}

impl Session {
    /// Initialises MPI, unless that is done.
    pub(super) fn start() -> Result<Arc<Self>, CommError> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = current.upgrade() {
            return Ok(session);
        }
        if is_finalized() {
            let message = "MPI has been finalised and cannot start again".to_owned();
            return Err(CommError::Mpi { call: "MPI_Init_thread", code: 0, message });
        }
        let universe = initialize_with_threading(Threading::Multiple).map(|(universe, _)| universe);
        let session = Arc::new(Self { _universe: universe });
        *current = Arc::downgrade(&session);
        Ok(session)
    }

    /// A communicator of all ranks for the end of the job. Collective.
    pub(super) fn exit(self: &Arc<Self>) -> Result<RawComm, CommError> {
        // SAFETY: the world exists during the session.
        unsafe { RawComm::duplicate(self, ffi::RSMPI_COMM_WORLD) }
    }

    /// Waits for all ranks; one that failed does not wait for ever.
    pub(super) fn leave(
        &self,
        exit: &RawComm,
        rank: usize,
        failure: Option<&str>,
    ) -> Result<(), CommError> {
        let start = Instant::now();
        let mut nap = Duration::from_micros(10);
        // SAFETY: a handle is plain data, and the constant is the one for "none".
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: the communicator exists, and the request is waited for below or the job ends.
        check("MPI_Ibarrier", unsafe { ffi::MPI_Ibarrier(exit.raw(), &raw mut request) })?;
        loop {
            let mut done: c_int = 0;
            // SAFETY: the request was started above; both places outlive the call.
            check("MPI_Test", unsafe {
                ffi::MPI_Test(&raw mut request, &raw mut done, ffi::RSMPI_STATUS_IGNORE)
            })?;
            if done != 0 {
                break;
            }
            if let Err(lost) = watch::check() {
                // Nothing can be waited for any more.
                self.abort(rank, failure.unwrap_or(&lost.to_string()));
            }
            if let Some(reason) = failure
                && start.elapsed() > GRACE
            {
                self.abort(rank, reason);
            }
            // Ranks that still work may need the core.
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
        // All are here, so this is short. Without it, ranks of MPICH on several nodes stay in
        // MPI_Finalize more often: a message of the barrier above may still wait to be sent when
        // the library ceases to make progress.
        // SAFETY: the communicator exists, and all ranks make this call.
        check("MPI_Barrier", unsafe { ffi::MPI_Barrier(exit.raw()) })
    }

    /// Ends the job with a message that names the rank.
    #[allow(clippy::unused_self, reason = "MPI has to be initialised")]
    pub(super) fn abort(&self, rank: usize, reason: &str) -> ! {
        // In one write, because other ranks write to the same terminal; errors of it are ignored.
        let text = format!("rank {rank} failed: {reason}; the MPI job is ended\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        watch::must_end();
        wait_for_reader();
        // SAFETY: MPI is initialised while a session lives.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, 1) };
        // The standard lets MPI_Abort return; the launcher notices the exit of the process then.
        std::process::exit(1)
    }
}

/// Waits until the launcher has read this rank's standard error: a launcher that ends a job drops
/// what is still in the pipe.
pub fn wait_for_reader() {
    let start = Instant::now();
    let unread = || rustix::io::ioctl_fionread(std::io::stderr()).unwrap_or(0);
    while unread() > 0 && start.elapsed() < READING {
        std::thread::sleep(Duration::from_millis(1));
    }
    // And has passed it on.
    std::thread::sleep(HANDING_ON);
}

/// A communicator of our own: errors on it are returned, and it is freed with this value.
#[derive(Debug)]
pub(super) struct RawComm {
    raw: ffi::MPI_Comm,
    /// Whether it is not to be freed: a collective on it was cancelled, and may go on for ever, or
    /// it is not our own.
    abandoned: AtomicBool,
    session: Arc<Session>,
}

// SAFETY: a handle names a communicator from any thread. MPI was initialised for several threads,
// or the caller keeps to those that the application promised, as the module says.
unsafe impl Send for RawComm {}
// SAFETY: as above; one thread uses a communicator at a time, as the contract of `Comm` says.
unsafe impl Sync for RawComm {}

impl RawComm {
    /// A communicator of the ranks of `raw`. Unlike a duplicate it has no attributes of the
    /// application, since it may live longer. Collective.
    ///
    /// # Safety
    ///
    /// `raw` exists.
    pub(super) unsafe fn duplicate(
        session: &Arc<Session>,
        raw: ffi::MPI_Comm,
    ) -> Result<Self, CommError> {
        // SAFETY: handles are plain data.
        let (mut group, mut copy) = unsafe { (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_COMM_NULL) };
        // SAFETY: `raw` exists by the caller's promise; the place for the handle outlives the call.
        check("MPI_Comm_group", unsafe { ffi::MPI_Comm_group(raw, &raw mut group) })?;
        // SAFETY: as above, and the group is that of all its ranks.
        let made =
            check("MPI_Comm_create", unsafe { ffi::MPI_Comm_create(raw, group, &raw mut copy) });
        // SAFETY: the group is ours, and this is its end.
        let _ = unsafe { ffi::MPI_Group_free(&raw mut group) };
        made?;
        Self::adopt(session, copy)
    }

    /// A communicator of the application, for as long as a call lasts. It keeps its error handler,
    /// and is not freed.
    pub(super) fn lent(session: &Arc<Session>, raw: ffi::MPI_Comm) -> Self {
        Self { raw, abandoned: AtomicBool::new(true), session: Arc::clone(session) }
    }

    /// The ranks with the same `color`, in order of `key`; `None` makes no communicator.
    /// Collective.
    pub(super) fn split(
        &self,
        color: Option<c_int>,
        key: c_int,
    ) -> Result<Option<Self>, CommError> {
        // SAFETY: a handle is plain data, and so is the constant.
        let (mut part, undefined) = unsafe { (ffi::RSMPI_COMM_NULL, ffi::RSMPI_UNDEFINED) };
        // SAFETY: this communicator exists; the place for the new handle outlives the call.
        check("MPI_Comm_split", unsafe {
            ffi::MPI_Comm_split(self.raw, color.unwrap_or(undefined), key, &raw mut part)
        })?;
        color.map(|_| Self::adopt(&self.session, part)).transpose()
    }

    fn adopt(session: &Arc<Session>, raw: ffi::MPI_Comm) -> Result<Self, CommError> {
        let abandoned = AtomicBool::new(false);
        let comm = Self { raw, abandoned, session: Arc::clone(session) };
        // SAFETY: the communicator was just made.
        check("MPI_Comm_set_errhandler", unsafe {
            ffi::MPI_Comm_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN)
        })?;
        Ok(comm)
    }

    /// Records that a collective on it was cancelled.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn raw(&self) -> ffi::MPI_Comm {
        self.raw
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(super) fn rank(&self) -> Result<usize, CommError> {
        let mut rank: c_int = 0;
        // SAFETY: the communicator exists; the place for the number outlives the call.
        check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(self.raw, &raw mut rank) })?;
        Ok(rank as usize)
    }

    pub(super) fn size(&self) -> Result<usize, CommError> {
        let mut size: c_int = 0;
        // SAFETY: the communicator exists; the place for the number outlives the call.
        check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(self.raw, &raw mut size) })?;
        Ok(size as usize)
    }

    /// The largest tag that can be sent. It is the same for all communicators; Open MPI has the
    /// attribute on the world and its duplicates only.
    #[allow(clippy::unused_self, reason = "MPI has to be initialised")]
    pub(super) fn max_tag(&self) -> Result<u32, CommError> {
        /// The minimum of the standard.
        const PROMISED: u32 = 32767;
        let mut value: *const c_int = std::ptr::null();
        let mut found: c_int = 0;
        // SAFETY: MPI stores a pointer to the value, which it owns, in the place given.
        check("MPI_Comm_get_attr", unsafe {
            let (key, world) = (ffi::MPI_TAG_UB as c_int, ffi::RSMPI_COMM_WORLD);
            ffi::MPI_Comm_get_attr(world, key, (&raw mut value).cast(), &raw mut found)
        })?;
        // SAFETY: MPI says that it found the attribute, so the pointer leads to its value.
        let max = if found == 0 || value.is_null() { None } else { Some(unsafe { *value }) };
        Ok(max.and_then(|max| u32::try_from(max).ok()).unwrap_or(PROMISED))
    }
}

impl Drop for RawComm {
    fn drop(&mut self) {
        // The application may have finalised MPI before, and the communicator with it. Open MPI 4.1
        // crashes if one is freed that a collective is still under way on: that one is left to it.
        let whole = watch::check().is_ok() && !self.abandoned.load(Ordering::Relaxed);
        if !is_finalized() && whole {
            // SAFETY: it exists, and this is its last use. MPI calls this collective, but libraries
            // only drop a reference, and operations under way complete first.
            let _ = unsafe { ffi::MPI_Comm_free(&raw mut self.raw) };
        }
    }
}
