//! What a call leaves in the status: the bytes that were moved, from which MPI counts elements of any type.

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Status};
use crate::errors::{Outcome, check};

/// Fills in the status, unless the program ignores it.
///
/// # Safety
///
/// `status` is `MPI_STATUS_IGNORE` or leads to a status.
#[inline]
pub(crate) unsafe fn set(status: *mut MPI_Status, bytes: u64) -> Outcome {
    if status == mpi_constants::status_ignore() || status.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe {
        let count = bytes as ffi::MPI_Count;
        check(ffi::MPI_Status_set_elements_x(status, mpi_constants::byte(), count))?;
        check(ffi::MPI_Status_set_cancelled(status, 0))
    }
}
