//! The pointer that all ranks share.

use crate::access::Ranks;
use crate::constants::{self as mpi, MPI_Offset};
use crate::errors::{Failure, Outcome};
use crate::open::Open;

/// Takes so many etypes at the shared pointer, which moves on: this rank alone, or all in order of rank.
pub(crate) fn take(_open: &mut Open, _ranks: Ranks, _etypes: u64) -> Outcome<u64> {
    Err(Failure::new(mpi::ERR_UNSUPPORTED_OPERATION, "shared file pointers are not there yet"))
}

/// `MPI_File_seek_shared`.
pub(crate) fn seek(_open: &mut Open, _offset: MPI_Offset, _whence: i32) -> Outcome {
    Err(Failure::new(mpi::ERR_UNSUPPORTED_OPERATION, "shared file pointers are not there yet"))
}

/// `MPI_File_get_position_shared`.
pub(crate) fn position(_open: &mut Open) -> Outcome<MPI_Offset> {
    Err(Failure::new(mpi::ERR_UNSUPPORTED_OPERATION, "shared file pointers are not there yet"))
}
