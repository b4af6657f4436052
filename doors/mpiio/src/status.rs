//! The status of a call: the bytes that were moved, from which MPI counts elements of any type.
//!
//! MPI has functions for it, which would take a fifth of the time of a small call. The fields of
//! the status are set directly instead, if a check at the start shows that the result is the same.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Status};
use crate::errors::{Outcome, check};

unsafe extern "C" {
    fn striate_mpiio_set_status(status: *mut MPI_Status, bytes: ffi::MPI_Count);
}

/// Fills in the status, unless the program ignores it.
///
/// # Safety
///
/// `status` is `MPI_STATUS_IGNORE` or leads to a status.
#[inline]
pub(crate) unsafe fn set(status: *mut MPI_Status, bytes: u64) -> Outcome {
    static IS_KNOWN: OnceLock<bool> = OnceLock::new();
    if status == mpi_constants::status_ignore() || status.is_null() {
        return Ok(());
    }
    let count = bytes as ffi::MPI_Count;
    if !*IS_KNOWN.get_or_init(are_alike) {
        // SAFETY: the caller's promise.
        return unsafe { set_by_mpi(status, count) };
    }
    // SAFETY: the caller's promise.
    unsafe { striate_mpiio_set_status(status, count) };
    Ok(())
}

/// # Safety
///
/// `status` leads to a status.
unsafe fn set_by_mpi(status: *mut MPI_Status, count: ffi::MPI_Count) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        check(ffi::MPI_Status_set_elements_x(status, mpi_constants::byte(), count))?;
        check(ffi::MPI_Status_set_cancelled(status, 0))
    }
}

/// Whether what the headers show is what the MPI does.
fn are_alike() -> bool {
    const LEN: usize = size_of::<MPI_Status>();
    let counts = [0, 1, 4096, i64::from(i32::MAX), (1 << 31) + 5, (1 << 40) + 3];
    counts.into_iter().all(|count| {
        // What neither of them sets stays as it was.
        [0x00, 0x5a, 0xff].into_iter().all(|was| {
            let [mut theirs, mut ours] = [const { MaybeUninit::<MPI_Status>::uninit() }; 2];
            // SAFETY: a status is made of numbers, so any bytes are one; both are filled before
            // they are read.
            unsafe {
                theirs.as_mut_ptr().write_bytes(was, 1);
                ours.as_mut_ptr().write_bytes(was, 1);
                if set_by_mpi(theirs.as_mut_ptr(), count).is_err() {
                    return false;
                }
                striate_mpiio_set_status(ours.as_mut_ptr(), count);
                let theirs = std::slice::from_raw_parts(theirs.as_ptr().cast::<u8>(), LEN);
                theirs == std::slice::from_raw_parts(ours.as_ptr().cast::<u8>(), LEN)
            }
        })
    })
}
