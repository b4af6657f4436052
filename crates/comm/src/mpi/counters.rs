//! Counters of an MPI job: atomics in the memory of the node if there is only one, else a window of rank 0.
//!
//! The window is open for everybody from birth to end (`MPI_Win_lock_all`), and each addition is one
//! `MPI_Fetch_and_op` that is flushed at once. To free a window is collective, so one that is only dropped stays until
//! MPI ends; MPICH 4.0 fails an assertion of UCX then.

use std::ffi::{c_int, c_void};

use ::mpi::environment::is_finalized;
use ::mpi::ffi;

use super::comm::MpiComm;
use super::session::{RawComm, check};
use crate::comm::Comm;
use crate::counters::{Counters, OnNode, check_counter};
use crate::error::CommError;

/// The rank that has the numbers.
const HOME: usize = 0;

/// Counters of all ranks. Collective.
pub(super) fn counters(
    comm: &MpiComm,
    raw: &RawComm,
    count: usize,
) -> Result<Box<dyn Counters>, CommError> {
    if comm.nodes().iter().all(|node| *node == 0)
        && let Some(memory) = comm.node_memory(count * size_of::<u64>())?
    {
        return Ok(Box::new(OnNode { memory }));
    }
    let window = Window::new(raw, comm.rank() == HOME, count)?;
    Ok(Box::new(window))
}

/// Counters in the memory of one rank.
#[derive(Debug)]
struct Window {
    raw: ffi::MPI_Win,
    count: usize,
}

// SAFETY: a handle names a window from any thread. For which threads may call MPI, see the module `mpi`.
unsafe impl Send for Window {}
// SAFETY: as above; MPI orders operations of several threads where it allows them.
unsafe impl Sync for Window {}

impl Window {
    fn new(comm: &RawComm, is_home: bool, count: usize) -> Result<Self, CommError> {
        // In memory that MPI allocates, windows of communicators that exist at the same time can get in each
        // other's way: Open MPI 4.1 names it by numbers that are unique within a communicator only.
        let numbers = vec![0u64; if is_home { count } else { 0 }].into_boxed_slice();
        // Other ranks reach it for as long as the window lives, which may be until MPI ends.
        let numbers = Box::leak(numbers);
        // SAFETY: a handle is plain data.
        let mut raw = unsafe { ffi::RSMPI_WIN_NULL };
        // SAFETY: the communicator exists, the memory is never freed while the window is there, and MPI stores
        // the handle in the place given.
        check("MPI_Win_create", unsafe {
            let (base, bytes) = (numbers.as_mut_ptr().cast::<c_void>(), size_of_val(numbers));
            let (unit, info) = (size_of::<u64>() as c_int, ffi::RSMPI_INFO_NULL);
            let bytes = bytes as ffi::MPI_Aint;
            ffi::MPI_Win_create(base, bytes, unit, info, comm.raw(), &raw mut raw)
        })?;
        let window = Self { raw, count };
        // SAFETY: the window was just made.
        check("MPI_Win_set_errhandler", unsafe {
            ffi::MPI_Win_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN)
        })?;
        // SAFETY: as above.
        check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(0, raw) })?;
        Ok(window)
    }
}

impl Counters for Window {
    fn add(&self, counter: usize, n: u64) -> Result<u64, CommError> {
        check_counter(counter, self.count)?;
        let mut before = 0u64;
        // SAFETY: one number goes there and one comes back, to places that outlive the flush, which
        // completes both; the counter exists at its home.
        check("MPI_Fetch_and_op", unsafe {
            let (given, got) = ((&raw const n).cast(), (&raw mut before).cast());
            let (at, unit) = (counter as ffi::MPI_Aint, ffi::RSMPI_UINT64_T);
            ffi::MPI_Fetch_and_op(given, got, unit, HOME as c_int, at, ffi::RSMPI_SUM, self.raw)
        })?;
        // SAFETY: the window is open.
        check("MPI_Win_flush", unsafe { ffi::MPI_Win_flush(HOME as c_int, self.raw) })?;
        Ok(before)
    }

    fn free(mut self: Box<Self>) -> Result<(), CommError> {
        if is_finalized() {
            return Ok(());
        }
        // SAFETY: the window was opened when it was made.
        check("MPI_Win_unlock_all", unsafe { ffi::MPI_Win_unlock_all(self.raw) })?;
        // SAFETY: all ranks are here, and this is its last use. Without this call it is left to MPI,
        // because to free it is collective, and to drop it is not.
        check("MPI_Win_free", unsafe { ffi::MPI_Win_free(&raw mut self.raw) })
    }
}
