//! Generalized requests that the MPI polls while the program waits for them.
//!
//! Those of the standard have to be completed by another thread, which would call MPI. MPICH has an
//! extension that polls a callback instead (`MPIX_Grequest_start`). Open MPI lets libraries take
//! part in its progress (`opal_progress_register`), as its own MPI-IO does. Both are looked up when
//! they are needed; where neither exists, [`are_polled`] is false, and calls are carried out at
//! once.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Request, MPI_Status};
use crate::errors::{Outcome, check};
use crate::request::Job;

type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Poll = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
type Wait = unsafe extern "C" fn(c_int, *mut *mut c_void, f64, *mut MPI_Status) -> c_int;
type ExtendedStart =
    unsafe extern "C" fn(Query, Free, Cancel, Poll, Wait, *mut c_void, *mut MPI_Request) -> c_int;
type Register = unsafe extern "C" fn(unsafe extern "C" fn() -> c_int) -> c_int;

/// How the MPI polls requests.
#[derive(Clone, Copy, Debug)]
enum PollMethod {
    /// Each request has a function that the MPI calls.
    Extended(ExtendedStart),
    /// The MPI calls one function for all.
    Progress,
    None,
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Pending {
    job: Arc<Job>,
    /// Its handle, as soon as it is known.
    handle: OnceLock<Handle>,
}

#[derive(Clone, Copy, Debug)]
struct Handle(MPI_Request);

// SAFETY: a handle names a request from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// What is under way, and how many they are.
static PENDING: Mutex<Vec<Arc<Pending>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn means() -> PollMethod {
    static MEANS: OnceLock<PollMethod> = OnceLock::new();
    *MEANS.get_or_init(|| {
        if let Some(start) = function(c"PMPIX_Grequest_start") {
            // SAFETY: the type of MPICH's extension.
            return PollMethod::Extended(unsafe { transmute::<*mut c_void, ExtendedStart>(start) });
        }
        if let Some(register) = function(c"opal_progress_register") {
            // SAFETY: the type of Open MPI's function; the callback exists as long as the process.
            let register = unsafe { transmute::<*mut c_void, Register>(register) };
            // SAFETY: as above.
            if unsafe { register(progress) } == 0 {
                return PollMethod::Progress;
            }
        }
        PollMethod::None
    })
}

fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Whether requests are looked at until they are done.
pub(crate) fn are_polled() -> bool {
    !matches!(means(), PollMethod::None)
}

impl Pending {
    /// Polls the job, and completes the request when it is done.
    fn poll(&self) -> bool {
        let Some(Handle(handle)) = self.handle.get() else { return false };
        if !self.job.poll() {
            return false;
        }
        // SAFETY: the request was started, and is completed here, once.
        unsafe { ffi::MPI_Grequest_complete(*handle) };
        true
    }
}

/// The state of a request, as the MPI hands it back.
///
/// # Safety
///
/// `state` was given to the MPI by [`start`], and the request is not freed.
unsafe fn pending<'a>(state: *mut c_void) -> &'a Pending {
    // SAFETY: the caller's promise: the reference that `free` drops keeps it.
    unsafe { &*state.cast::<Pending>() }
}

unsafe extern "C" fn query(state: *mut c_void, to: *mut MPI_Status) -> c_int {
    // SAFETY: the MPI gives what it was given, and a status.
    unsafe { pending(state).job.tell(to) }
}

unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: the reference that the MPI was given; this is its last use of it.
    drop(unsafe { Arc::from_raw(state.cast::<Pending>()) });
    mpi_constants::SUCCESS
}

/// What was begun is done; the standard allows that.
unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    mpi_constants::SUCCESS
}

unsafe extern "C" fn poll(state: *mut c_void, _: *mut MPI_Status) -> c_int {
    // SAFETY: the MPI gives what it was given.
    unsafe { pending(state) }.poll();
    // Coordination may wait for calls on several files in different orders: all of them get on.
    // SAFETY: nothing is asked of the caller.
    unsafe { progress() };
    mpi_constants::SUCCESS
}

unsafe extern "C" fn wait(
    count: c_int,
    states: *mut *mut c_void,
    _: f64,
    _: *mut MPI_Status,
) -> c_int {
    for n in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as many states as the MPI says.
        let pending = unsafe { pending(*states.add(n)) };
        while !pending.job.is_done() {
            // SAFETY: nothing is asked of the caller.
            if unsafe { progress() } == 0 {
                std::thread::yield_now();
            }
        }
    }
    mpi_constants::SUCCESS
}

/// Polls all requests that are under way; returns how many have become complete. Open MPI calls it
/// whenever it makes progress.
unsafe extern "C" fn progress() -> c_int {
    if COUNT.load(Ordering::Acquire) == 0 {
        return 0;
    }
    // Polling calls MPI, which may call this again: once is enough.
    let mut list = match PENDING.try_lock() {
        Ok(list) => list,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return 0,
    };
    let before = list.len();
    list.retain(|pending| !pending.poll() && !pending.job.is_done());
    let done = before - list.len();
    COUNT.fetch_sub(done, Ordering::AcqRel);
    done as c_int
}

/// Gives the program a request for a job.
///
/// # Safety
///
/// `request` leads to a place for a handle.
pub(crate) unsafe fn start(job: Arc<Job>, request: *mut MPI_Request) -> Outcome {
    let done = job.is_done();
    let pending = Arc::new(Pending { job, handle: OnceLock::new() });
    let state = Arc::into_raw(Arc::clone(&pending)).cast_mut().cast::<c_void>();
    // SAFETY: functions and state are as MPI demands; the state is freed with the request.
    let started = unsafe {
        match means() {
            PollMethod::Extended(start) if !done => {
                start(query, free, cancel, poll, wait, state, request)
            }
            _ => ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), state, request),
        }
    };
    if let Err(failure) = check(started) {
        // SAFETY: the MPI did not take it.
        drop(unsafe { Arc::from_raw(state.cast::<Pending>()) });
        return Err(failure);
    }
    // SAFETY: the MPI has written the handle.
    let handle = unsafe { *request };
    // It is set here only.
    let _ = pending.handle.set(Handle(handle));
    if done {
        // SAFETY: the request was started, and is completed here, once.
        return check(unsafe { ffi::MPI_Grequest_complete(handle) });
    }
    if are_polled() {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
    Ok(())
}
