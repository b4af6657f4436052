//! Reductions of numbers, and the exchange of lengths for other collectives.

use std::ffi::{c_int, c_void};
use std::mem::size_of_val;

use ::mpi::ffi;

use super::collective::collective;
use super::session::RawComm;
use crate::comm::{Reduction, truth};
use crate::error::CommError;

/// Numbers that go through MPI in one call.
const CHUNK: usize = 1 << 27;

/// A number type of MPI.
///
/// # Safety
///
/// `datatype` is MPI's name for exactly this type.
pub(super) unsafe trait MpiNumber: Copy {
    fn datatype() -> ffi::MPI_Datatype;
}

// SAFETY: 64 bits, unsigned.
unsafe impl MpiNumber for u64 {
    fn datatype() -> ffi::MPI_Datatype {
        // SAFETY: a handle is plain data.
        unsafe { ffi::RSMPI_UINT64_T }
    }
}

// SAFETY: 64 bits, signed.
unsafe impl MpiNumber for i64 {
    fn datatype() -> ffi::MPI_Datatype {
        // SAFETY: a handle is plain data.
        unsafe { ffi::RSMPI_INT64_T }
    }
}

// SAFETY: a C double.
unsafe impl MpiNumber for f64 {
    fn datatype() -> ffi::MPI_Datatype {
        // SAFETY: a handle is plain data.
        unsafe { ffi::RSMPI_DOUBLE }
    }
}

/// Combines numbers of all ranks, element by element, as MPI does it.
fn allreduce<N: MpiNumber>(
    comm: &RawComm,
    with: Reduction,
    values: &mut [N],
) -> Result<(), CommError> {
    // SAFETY: handles are plain data.
    let operation = unsafe {
        match with {
            Reduction::Min => ffi::RSMPI_MIN,
            Reduction::Max => ffi::RSMPI_MAX,
            Reduction::Sum => ffi::RSMPI_SUM,
            Reduction::And => ffi::RSMPI_BAND,
        }
    };
    for chunk in values.chunks_mut(CHUNK) {
        debug_assert_eq!(size_of_val(chunk), chunk.len() * 8);
        let buffers = (chunk.to_vec(), chunk.to_vec());
        let (_, all) = collective(comm, "MPI_Iallreduce", buffers, |(mine, all), request| {
            let (from, to) = (mine.as_ptr().cast::<c_void>(), all.as_mut_ptr().cast());
            let (count, raw) = (mine.len() as c_int, comm.raw());
            // SAFETY: both buffers have as many numbers of the datatype as passed, and do not
            // overlap.
            unsafe { ffi::MPI_Iallreduce(from, to, count, N::datatype(), operation, raw, request) }
        })?;
        chunk.copy_from_slice(&all);
    }
    Ok(())
}

/// Combines unsigned integers of all ranks, element by element.
///
/// MPICH 4.0 compares them as if they were signed. So they are mapped to signed ones in the same
/// order.
pub(super) fn allreduce_u64(
    comm: &RawComm,
    with: Reduction,
    values: &mut [u64],
) -> Result<(), CommError> {
    const SIGN: u64 = 1 << 63;
    if matches!(with, Reduction::Sum | Reduction::And) {
        return allreduce(comm, with, values);
    }
    let mut signed: Vec<i64> = values.iter().map(|value| (value ^ SIGN) as i64).collect();
    allreduce(comm, with, &mut signed)?;
    for (value, signed) in values.iter_mut().zip(signed) {
        *value = signed as u64 ^ SIGN;
    }
    Ok(())
}

/// Combines signed integers of all ranks, element by element.
pub(super) fn allreduce_i64(
    comm: &RawComm,
    with: Reduction,
    values: &mut [i64],
) -> Result<(), CommError> {
    allreduce(comm, with, values)
}

/// Combines floating-point numbers of all ranks; MPI has no bitwise operations on them.
pub(super) fn allreduce_f64(
    comm: &RawComm,
    with: Reduction,
    values: &mut [f64],
) -> Result<(), CommError> {
    if with != Reduction::And {
        return allreduce(comm, with, values);
    }
    for value in &mut *values {
        *value = truth(*value);
    }
    allreduce(comm, Reduction::Min, values)
}

/// Gives `root` the numbers of all ranks, and the other ranks an empty list.
pub(super) fn gather(
    comm: &RawComm,
    root: usize,
    is_root: bool,
    size: usize,
    number: u64,
) -> Result<Vec<u64>, CommError> {
    let buffers = (vec![number], vec![0u64; if is_root { size } else { 0 }]);
    let datatype = u64::datatype();
    let (_, all) = collective(comm, "MPI_Igather", buffers, |(mine, all), request| {
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        let (root, raw) = (root as c_int, comm.raw());
        // SAFETY: one number is sent, and there is room for one of each rank where they are
        // received.
        unsafe { ffi::MPI_Igather(from, 1, datatype, to, 1, datatype, root, raw, request) }
    })?;
    Ok(all)
}

/// Sends `numbers[i]` to rank `i`, and returns what each rank sent to this one.
pub(super) fn alltoall(comm: &RawComm, numbers: &[u64]) -> Result<Vec<u64>, CommError> {
    let buffers = (numbers.to_vec(), vec![0u64; numbers.len()]);
    let datatype = u64::datatype();
    let (_, all) = collective(comm, "MPI_Ialltoall", buffers, |(mine, all), request| {
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: both lists have one number for each rank, as the caller sees to.
        unsafe { ffi::MPI_Ialltoall(from, 1, datatype, to, 1, datatype, comm.raw(), request) }
    })?;
    Ok(all)
}
