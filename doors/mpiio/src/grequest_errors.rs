//! Errors of generalized requests, which the MPI would raise on a communicator.
//!
//! The error of a nonblocking call is returned when the program waits for it. The handler of its
//! file is called then, as the standard requires. But a generalized request has no file: the MPI
//! also calls the handler of `MPI_COMM_WORLD` or `MPI_COMM_SELF`, which ends the job unless the
//! program has changed it. So these two get a handler that suppresses this one error and then
//! restores the handler before it.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Comm, MPI_Errhandler};
use crate::errors::{Outcome, check};

/// A communicator and the handler that it had.
struct ReplacedHandler {
    comm: MPI_Comm,
    before: MPI_Errhandler,
}

// SAFETY: handles name their objects from any thread; the mutex keeps them apart.
unsafe impl Send for ReplacedHandler {}

/// The handlers to be restored, and the class that is suppressed.
struct Suppressed {
    class: c_int,
    changed: Vec<ReplacedHandler>,
}

static SUPPRESSED: Mutex<Option<Suppressed>> = Mutex::new(None);

/// Forgives the next error of this class, which the MPI is about to raise in this thread.
pub(crate) fn suppress(class: c_int) {
    let mut place = SUPPRESSED.lock().unwrap_or_else(PoisonError::into_inner);
    // Where two threads wait for calls that fail, the handlers are changed already.
    let changed = match place.take() {
        Some(suppressed) => suppressed.changed,
        None => [mpi_constants::comm_world(), mpi_constants::comm_self()]
            .into_iter()
            .filter_map(|comm| change(comm).ok())
            .collect(),
    };
    *place = Some(Suppressed { class, changed });
}

/// Gives a communicator the handler that forgives.
fn change(comm: MPI_Comm) -> Outcome<ReplacedHandler> {
    let mut before = mpi_constants::errhandler_null();
    let mut ours = mpi_constants::errhandler_null();
    // SAFETY: the communicators of MPI exist while it does; the function is of the type that it
    // demands, since one that takes less than it may be given is callable with more.
    unsafe {
        let function = std::mem::transmute::<
            unsafe extern "C" fn(*mut MPI_Comm, *mut c_int),
            unsafe extern "C" fn(*mut MPI_Comm, *mut c_int, ...),
        >(on_error);
        check(ffi::MPI_Comm_get_errhandler(comm, &raw mut before))?;
        check(ffi::MPI_Comm_create_errhandler(Some(function), &raw mut ours))?;
        let done = check(ffi::MPI_Comm_set_errhandler(comm, ours));
        // The communicator has a reference.
        ffi::MPI_Errhandler_free(&raw mut ours);
        done?;
    }
    Ok(ReplacedHandler { comm, before })
}

/// Puts the handlers back; an error that is not the one to suppress is raised again.
unsafe extern "C" fn on_error(comm: *mut MPI_Comm, code: *mut c_int) {
    let suppressed = SUPPRESSED.lock().unwrap_or_else(PoisonError::into_inner).take();
    // SAFETY: MPI gives both.
    let (comm, code) = unsafe { (*comm, *code) };
    let expected = suppressed.as_ref().map(|suppressed| suppressed.class);
    for mut changed in suppressed.into_iter().flat_map(|suppressed| suppressed.changed) {
        // SAFETY: a reference of ours, to a handler that the communicator had.
        unsafe {
            ffi::MPI_Comm_set_errhandler(changed.comm, changed.before);
            ffi::MPI_Errhandler_free(&raw mut changed.before);
        }
    }
    let mut class = mpi_constants::ERR_OTHER;
    // SAFETY: the place for the class outlives the call.
    unsafe { ffi::MPI_Error_class(code, &raw mut class) };
    // An MPI may call the error of a function of ours another error, or one that is in a status.
    let suppressed = [mpi_constants::ERR_OTHER, mpi_constants::ERR_IN_STATUS];
    if expected.is_none_or(|expected| class != expected && !suppressed.contains(&class)) {
        // SAFETY: the handler is the program's again.
        unsafe { ffi::MPI_Comm_call_errhandler(comm, code) };
    }
}
