//! [`Group`]: processes of a communicator, in their order.

use std::ffi::c_int;

use mpi::ffi;

use crate::constants::{self as mpi_constants, MPI_Comm, MPI_Group};
use crate::errors::{Outcome, check};

/// A group of processes that is ours.
#[derive(Debug)]
pub(crate) struct Group(MPI_Group);

// SAFETY: a handle names a group from any thread.
unsafe impl Send for Group {}

impl Group {
    /// That of a communicator.
    pub(crate) fn of(comm: MPI_Comm) -> Outcome<Self> {
        let mut group = mpi_constants::group_null();
        // SAFETY: the communicator exists, as a file is opened with it, or as MPI is initialised.
        check(unsafe { ffi::MPI_Comm_group(comm, &raw mut group) })?;
        Ok(Self(group))
    }

    /// Its ranks as they are in another group.
    pub(crate) fn translated(&self, other: &Self) -> Outcome<Box<[c_int]>> {
        let mut size = 0;
        // SAFETY: the group is ours.
        check(unsafe { ffi::MPI_Group_size(self.0, &raw mut size) })?;
        let ranks: Vec<c_int> = (0..size).collect();
        let mut theirs = vec![0; ranks.len()];
        let (from, to) = (ranks.as_ptr(), theirs.as_mut_ptr());
        // SAFETY: both groups are owned here, and both arrays have as many numbers as given.
        check(unsafe { ffi::MPI_Group_translate_ranks(self.0, size, from, other.0, to) })?;
        Ok(theirs.into())
    }

    /// A copy that the program frees.
    pub(crate) fn copy(&self) -> Outcome<MPI_Group> {
        let mut copy = mpi_constants::group_null();
        // SAFETY: the group is ours, and no rank is left out.
        check(unsafe { ffi::MPI_Group_excl(self.0, 0, std::ptr::null(), &raw mut copy) })?;
        Ok(copy)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group is ours, and this is its end.
        let _ = unsafe { ffi::MPI_Group_free(&raw mut self.0) };
    }
}
