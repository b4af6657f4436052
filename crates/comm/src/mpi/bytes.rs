//! Any number of bytes in one MPI message.
//!
//! Counts of MPI have 31 bits. Longer messages are one element of a datatype made for the length:
//! pieces of 1 GiB and the rest. The bytes still match a receive that counts them otherwise, so
//! sender and receiver need not agree on more than the order of messages.

use std::ffi::c_int;

use ::mpi::ffi;

use super::session::check;
use crate::error::CommError;

/// Bytes in a piece.
const PIECE: usize = 1 << 30;

/// A number of bytes as MPI's count and datatype.
pub(super) struct Bytes {
    pub(super) count: c_int,
    pub(super) datatype: ffi::MPI_Datatype,
    /// Whether the datatype was made for this.
    made: bool,
}

impl Bytes {
    pub(super) fn new(len: usize) -> Result<Self, CommError> {
        // SAFETY: a handle is plain data.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        if len <= PIECE {
            return Ok(Self { count: len as c_int, datatype: byte, made: false });
        }
        let lengths: Vec<c_int> =
            (0..len).step_by(PIECE).map(|start| (len - start).min(PIECE) as c_int).collect();
        let starts: Vec<ffi::MPI_Aint> =
            (0..len).step_by(PIECE).map(|start| start as ffi::MPI_Aint).collect();
        let mut datatype = byte;
        // SAFETY: both lists have as many entries as passed; the place for the handle outlives the
        // call.
        check("MPI_Type_create_hindexed", unsafe {
            let count = lengths.len() as c_int;
            let (lengths, starts) = (lengths.as_ptr(), starts.as_ptr());
            ffi::MPI_Type_create_hindexed(count, lengths, starts, byte, &raw mut datatype)
        })?;
        let bytes = Self { count: 1, datatype, made: true };
        // SAFETY: the datatype was just made.
        check("MPI_Type_commit", unsafe { ffi::MPI_Type_commit(&raw mut datatype) })?;
        Ok(bytes)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.made {
            // SAFETY: it was made here and is not used again. Operations under way keep it alive.
            let _ = unsafe { ffi::MPI_Type_free(&raw mut self.datatype) };
        }
    }
}

/// An empty buffer with space for `len` bytes.
pub(super) fn empty_buffer(len: usize) -> Result<Vec<u8>, CommError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).map_err(|_| CommError::Memory { len })?;
    Ok(buffer)
}
