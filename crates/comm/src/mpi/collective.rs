//! Collectives of MPI, all of them begun and then waited for, so that the rank's tasks get on meanwhile.
//!
//! MPI does not match a blocking collective with one that is begun, and whether a rank has something else to
//! do is known to itself only; so all collectives are of the second kind, always. A rank that has nothing
//! else to do waits inside of the library.

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use ::mpi::ffi;

use super::session::{RawComm, check, tasks};
use crate::error::CommError;
use crate::task::{in_task, pause};

/// Waits for a request, and lets tasks get on meanwhile.
pub(super) fn complete(
    request: &mut ffi::MPI_Request,
    status: *mut ffi::MPI_Status,
) -> Result<(), CommError> {
    let (tasks, mut looks) = (tasks(), 0);
    while in_task() || !tasks.is_empty() {
        let mut done: c_int = 0;
        // SAFETY: the request was started; the status is one that MPI may fill, or the one that means none.
        check("MPI_Test", unsafe { ffi::MPI_Test(&raw mut *request, &raw mut done, status) })?;
        if done != 0 {
            return Ok(());
        }
        pause(tasks, looks)?;
        looks = looks.saturating_add(1);
    }
    // SAFETY: as above.
    check("MPI_Wait", unsafe { ffi::MPI_Wait(&raw mut *request, status) })
}

/// Begins a collective by `start`, which gets the buffers and a place for the request, and waits for it.
///
/// The buffers are handed over, and returned when MPI is done with them. If the wait is given up, MPI may
/// use them for nobody knows how long: they are never freed then. So they have to lie on the heap.
pub(super) fn collective<B>(
    comm: &RawComm,
    call: &'static str,
    buffers: B,
    start: impl FnOnce(&mut B, *mut ffi::MPI_Request) -> c_int,
) -> Result<B, CommError> {
    let mut buffers = ManuallyDrop::new(buffers);
    // SAFETY: a handle is plain data.
    let (mut request, ignore) = unsafe { (ffi::RSMPI_REQUEST_NULL, ffi::RSMPI_STATUS_IGNORE) };
    check(call, start(&mut buffers, &raw mut request))?;
    complete(&mut request, ignore).inspect_err(|_| comm.abandon())?;
    Ok(ManuallyDrop::into_inner(buffers))
}
