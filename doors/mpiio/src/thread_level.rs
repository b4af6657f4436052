//! [`BelowThreadMultiple`]: whether the program has promised not to call MPI from several threads
//! at a time, so that the lock of a file costs nearly nothing.
//!
//! A program promises that when it initialises MPI with any level below `MPI_THREAD_MULTIPLE`; MPI
//! relies on it, too. Where the system call of a small read takes a quarter of a microsecond, the
//! two atomic exchanges of a mutex are a considerable part of the door's overhead.

use std::sync::OnceLock;

use mpi::ffi;
use striate_process::lock::Uncontended;

use crate::constants as mpi_constants;

/// See the module.
#[derive(Debug)]
pub(crate) struct BelowThreadMultiple;

// SAFETY: the program's promise, which is for as long as MPI lasts. Nothing but calls of the
// program takes these locks.
unsafe impl Uncontended for BelowThreadMultiple {
    #[inline]
    fn is_uncontended() -> bool {
        static PROMISED: OnceLock<bool> = OnceLock::new();
        *PROMISED.get_or_init(|| {
            let (mut is_initialised, mut level) = (0, mpi_constants::THREAD_MULTIPLE);
            // SAFETY: both addresses are those of numbers, and the second function is called where
            // it may be.
            let known = unsafe {
                ffi::MPI_Initialized(&raw mut is_initialised) == mpi_constants::SUCCESS
                    && is_initialised != 0
                    && ffi::MPI_Query_thread(&raw mut level) == mpi_constants::SUCCESS
            };
            // Sessions have levels of their own, of which nothing is known here.
            known && level < mpi_constants::THREAD_MULTIPLE
        })
    }
}
