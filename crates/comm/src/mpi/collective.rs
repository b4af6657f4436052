//! Collectives of MPI: nonblocking ones that are waited for, so that the rank's tasks run
//! meanwhile.
//!
//! MPI does not match a blocking collective with a nonblocking one, and whether a rank has tasks is
//! known to itself only; so all collectives are nonblocking, always. A rank without tasks waits
//! inside of the library, if all ranks are on one node: otherwise it looks whether a node is lost.

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use ::mpi::ffi;

use super::session::{RawComm, check, tasks};
use super::watch;
use crate::error::CommError;
use crate::task::{Paused, Tasks, in_task, pause};

/// Waits for a request, and lets tasks run meanwhile.
pub(super) fn complete(
    request: &mut ffi::MPI_Request,
    status: *mut ffi::MPI_Status,
) -> Result<(), CommError> {
    let (tasks, mut looks) = (tasks(), 0);
    while in_task() || !tasks.is_empty() || watch::is_watching() {
        let mut done: c_int = 0;
        // SAFETY: the request was started; the status is one that MPI may fill, or the one that
        // means none.
        check("MPI_Test", unsafe { ffi::MPI_Test(&raw mut *request, &raw mut done, status) })?;
        if done != 0 {
            return Ok(());
        }
        watch::check()?;
        look_again(tasks, looks)?;
        looks = looks.saturating_add(1);
    }
    // SAFETY: as above.
    check("MPI_Wait", unsafe { ffi::MPI_Wait(&raw mut *request, status) })
}

/// Lets tasks run, or other processes of this node.
pub(super) fn look_again(tasks: &Tasks, looks: u32) -> Result<(), CommError> {
    if let Paused::Sleep = pause(tasks, looks)? {
        // As the library does where it waits by itself.
        std::thread::yield_now();
    }
    Ok(())
}

/// Starts a collective by `start`, which gets the buffers and a place for the request, and waits
/// for it.
///
/// The buffers are moved in, and returned when MPI has finished with them. If the wait is
/// cancelled, MPI may use them for an unknown time, so they are never freed then: they have to be
/// on the heap.
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
