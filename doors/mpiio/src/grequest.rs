//! Generalized requests.

use std::ffi::{c_int, c_void};

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Request, MPI_Status};
use crate::errors::{Outcome, check};
use crate::status;

unsafe extern "C" fn query(state: *mut c_void, to: *mut MPI_Status) -> c_int {
    // SAFETY: MPI gives a status.
    let done = unsafe { status::set(to, state as usize as u64) };
    done.map_or_else(|failure| failure.class(), |()| mpi_constants::SUCCESS)
}

unsafe extern "C" fn free(_: *mut c_void) -> c_int {
    mpi_constants::SUCCESS
}

unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    mpi_constants::SUCCESS
}

/// A request that is complete.
///
/// # Safety
///
/// `request` leads to a place for one.
pub(crate) unsafe fn completed(bytes: u64, request: *mut MPI_Request) -> Outcome {
    // SAFETY: the functions are of the types that MPI demands.
    unsafe {
        let state = bytes as usize as *mut c_void;
        check(ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), state, request))?;
        check(ffi::MPI_Grequest_complete(*request))
    }
}
