//! Errors of nonblocking calls, which MPI raises where they do not belong.
//!
//! A call that fails while the program goes on is told when the program waits for it. The handler of its file is
//! called then, as the standard wants it. But the request is a generalized one, which has no file: the MPI goes
//! on to call the handler of `MPI_COMM_WORLD` or `MPI_COMM_SELF`, which ends the job unless the program has
//! changed it. So these two are given a handler that forgives this one error and goes away.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Comm, MPI_Errhandler};
use crate::errors::{Outcome, check};

/// A communicator and the handler that it had.
struct Changed {
    comm: MPI_Comm,
    before: MPI_Errhandler,
}

// SAFETY: handles name their objects from any thread; the mutex keeps them apart.
unsafe impl Send for Changed {}

/// What has to be put back, and the class that is forgiven.
struct Forgiven {
    class: c_int,
    changed: Vec<Changed>,
}

static FORGIVEN: Mutex<Option<Forgiven>> = Mutex::new(None);

/// Forgives the next error of this class, which the MPI is about to raise in this thread.
pub(crate) fn forgive(class: c_int) {
    let mut place = FORGIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Where two threads wait for calls that fail, the handlers are changed already.
    let changed = match place.take() {
        Some(forgiven) => forgiven.changed,
        None => [mpi_constants::comm_world(), mpi_constants::comm_self()]
            .into_iter()
            .filter_map(|comm| change(comm).ok())
            .collect(),
    };
    *place = Some(Forgiven { class, changed });
}

/// Gives a communicator the handler that forgives.
fn change(comm: MPI_Comm) -> Outcome<Changed> {
    let mut before = mpi_constants::errhandler_null();
    let mut ours = mpi_constants::errhandler_null();
    // SAFETY: the communicators of MPI exist while it does; the function is of the type that it demands, since one
    // that takes less than it may be given is callable with more.
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
    Ok(Changed { comm, before })
}

/// Puts the handlers back; an error that is not the one to forgive is raised again.
unsafe extern "C" fn on_error(comm: *mut MPI_Comm, code: *mut c_int) {
    let forgiven = FORGIVEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    // SAFETY: MPI gives both.
    let (comm, code) = unsafe { (*comm, *code) };
    let expected = forgiven.as_ref().map(|forgiven| forgiven.class);
    for mut changed in forgiven.into_iter().flat_map(|forgiven| forgiven.changed) {
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
    let forgiven = [mpi_constants::ERR_OTHER, mpi_constants::ERR_IN_STATUS];
    if expected.is_none_or(|expected| class != expected && !forgiven.contains(&class)) {
        // SAFETY: the handler is the program's again.
        unsafe { ffi::MPI_Comm_call_errhandler(comm, code) };
    }
}
