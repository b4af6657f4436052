//! Counters of an MPI job: atomics in the memory of the node if there is only one, else a window of rank 0.
//!
//! The window is open for everybody from birth to end (`MPI_Win_lock_all`), and each addition is one
//! `MPI_Fetch_and_op` that is flushed at once.

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
    // Nobody adds before the numbers are zero.
    comm.barrier()?;
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
        let bytes = if is_home { count * size_of::<u64>() } else { 0 };
        let mut base: *mut u64 = std::ptr::null_mut();
        // SAFETY: a handle is plain data.
        let mut raw = unsafe { ffi::RSMPI_WIN_NULL };
        // SAFETY: the communicator exists; MPI stores the address of its memory and the handle in the
        // places given.
        check("MPI_Win_allocate", unsafe {
            let unit = size_of::<u64>() as c_int;
            let (info, base) = (ffi::RSMPI_INFO_NULL, (&raw mut base).cast::<c_void>());
            ffi::MPI_Win_allocate(
                bytes as ffi::MPI_Aint,
                unit,
                info,
                comm.raw(),
                base,
                &raw mut raw,
            )
        })?;
        let window = Self { raw, count };
        // SAFETY: the window was just made.
        check("MPI_Win_set_errhandler", unsafe {
            ffi::MPI_Win_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN)
        })?;
        // SAFETY: as above.
        check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(0, raw) })?;
        if is_home && count > 0 {
            // SAFETY: MPI gave this rank memory for so many numbers, and nobody else uses it before the
            // barrier that the caller makes.
            unsafe { std::slice::from_raw_parts_mut(base, count) }.fill(0);
            // SAFETY: the window is open.
            check("MPI_Win_sync", unsafe { ffi::MPI_Win_sync(raw) })?;
        }
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
