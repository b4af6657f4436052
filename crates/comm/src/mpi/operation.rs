//! [`Operation`]: one nonblocking send or receive of MPI, which owns its buffer.
//!
//! The buffer is on the heap and is not touched until MPI has finished with it, whatever happens to
//! the operation; the safety of this file rests on that.
//!
//! The receiver always knows how many bytes may arrive. Open MPI 4.1 crashes in its own wait when a
//! long message between processes of a node does not fit, so MPI never gets such a message.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use ::mpi::environment::is_finalized;
use ::mpi::ffi;

use super::bytes::{Bytes, empty_buffer};
use super::collective::{complete, look_again};
use super::session::{RawComm, Session, check, tasks};
use super::watch;
use crate::error::CommError;
use crate::task::in_task;

/// A send or receive under way.
#[derive(Debug)]
pub(super) struct Operation {
    raw: ffi::MPI_Request,
    /// Not to be touched, not even freed, before the operation is complete.
    buffer: ManuallyDrop<Vec<u8>>,
    is_receive: bool,
    /// MPI goes on as long.
    _session: Arc<Session>,
}

// SAFETY: a handle may be used from any thread, by one at a time, and the buffer belongs to this
// value alone. For which threads may call MPI at all, see the module `mpi`.
unsafe impl Send for Operation {}

impl Operation {
    /// Starts to send.
    pub(super) fn send(
        comm: &RawComm,
        to: usize,
        tag: c_int,
        message: Vec<u8>,
    ) -> Result<Self, CommError> {
        let bytes = Bytes::new(message.len())?;
        let mut request = Self::new(comm, message, false);
        // SAFETY: the buffer has as many bytes as described, and stays as it is until MPI is done.
        check("MPI_Isend", unsafe {
            let address = request.buffer.as_ptr().cast();
            let (count, datatype) = (bytes.count, bytes.datatype);
            let raw = &raw mut request.raw;
            ffi::MPI_Isend(address, count, datatype, to as c_int, tag, comm.raw(), raw)
        })?;
        Ok(request)
    }

    /// Starts to receive a message of at most `capacity` bytes; the sender makes sure that it fits.
    pub(super) fn receive(
        comm: &RawComm,
        from: usize,
        tag: c_int,
        capacity: usize,
    ) -> Result<Self, CommError> {
        let bytes = Bytes::new(capacity)?;
        let mut request = Self::new(comm, empty_buffer(capacity)?, true);
        // SAFETY: the buffer has space for as many bytes as described, and no other code reads it
        // until MPI is done.
        check("MPI_Irecv", unsafe {
            let address = request.buffer.as_mut_ptr().cast();
            let (count, datatype) = (bytes.count, bytes.datatype);
            let raw = &raw mut request.raw;
            ffi::MPI_Irecv(address, count, datatype, from as c_int, tag, comm.raw(), raw)
        })?;
        Ok(request)
    }

    fn new(comm: &RawComm, buffer: Vec<u8>, is_receive: bool) -> Self {
        // SAFETY: a handle is plain data.
        let raw = unsafe { ffi::RSMPI_REQUEST_NULL };
        let buffer = ManuallyDrop::new(buffer);
        Self { raw, buffer, is_receive, _session: Arc::clone(comm.session()) }
    }

    /// Waits for completion, and takes the buffer.
    pub(super) fn wait(&mut self) -> Result<Vec<u8>, CommError> {
        let mut status = no_status();
        complete(&mut self.raw, &raw mut status)?;
        self.finish(&status)
    }

    /// Waits until one is complete, and takes its buffer.
    pub(super) fn wait_any(operations: &mut [&mut Self]) -> Result<(usize, Vec<u8>), CommError> {
        let mut raw: Vec<ffi::MPI_Request> = operations.iter().map(|each| each.raw).collect();
        let mut status = no_status();
        // SAFETY: a number is plain data.
        let undefined = unsafe { ffi::RSMPI_UNDEFINED };
        let mut index = undefined;
        let mut done: c_int = 0;
        let count = raw.len() as c_int;
        if operations.is_empty() {
            return Err(CommError::NoRequests);
        }
        let tasks = tasks();
        let mut looks = 0;
        let mut code = ffi::MPI_SUCCESS as c_int;
        let looks_after = || in_task() || !tasks.is_empty() || watch::is_watching();
        while done == 0 && code == ffi::MPI_SUCCESS as c_int && looks_after() {
            // SAFETY: the list has as many entries as passed, all started; the other places outlive
            // the call.
            code = unsafe {
                let (requests, index) = (raw.as_mut_ptr(), &raw mut index);
                ffi::MPI_Testany(count, requests, index, &raw mut done, &raw mut status)
            };
            if done == 0 && code == ffi::MPI_SUCCESS as c_int {
                watch::check()?;
                look_again(tasks, looks)?;
                looks = looks.saturating_add(1);
            }
        }
        if done == 0 && code == ffi::MPI_SUCCESS as c_int {
            // SAFETY: as above.
            code = unsafe {
                ffi::MPI_Waitany(count, raw.as_mut_ptr(), &raw mut index, &raw mut status)
            };
        }
        if index != undefined {
            operations[index as usize].raw = raw[index as usize];
        }
        check("MPI_Waitany", code)?;
        if index == undefined {
            return Err(CommError::NoRequests);
        }
        Ok((index as usize, operations[index as usize].finish(&status)?))
    }

    /// The buffer of one that is complete, if there is one.
    pub(super) fn test_any(
        operations: &mut [&mut Self],
    ) -> Result<Option<(usize, Vec<u8>)>, CommError> {
        let mut raw: Vec<ffi::MPI_Request> = operations.iter().map(|each| each.raw).collect();
        let mut status = no_status();
        // SAFETY: a number is plain data.
        let undefined = unsafe { ffi::RSMPI_UNDEFINED };
        let (mut index, mut done): (c_int, c_int) = (undefined, 0);
        // SAFETY: the list has as many entries as passed, all started; the other places outlive the
        // call.
        let code = unsafe {
            let (requests, index) = (raw.as_mut_ptr(), &raw mut index);
            let count = raw.len() as c_int;
            ffi::MPI_Testany(count, requests, index, &raw mut done, &raw mut status)
        };
        if index != undefined {
            operations[index as usize].raw = raw[index as usize];
        }
        check("MPI_Testany", code)?;
        if done == 0 || index == undefined {
            return Ok(None);
        }
        Ok(Some((index as usize, operations[index as usize].finish(&status)?)))
    }

    /// Cancels a receive; returns its message if that has arrived before.
    pub(super) fn cancel(&mut self) -> Option<Vec<u8>> {
        if !self.is_active() {
            return None;
        }
        let mut status = no_status();
        let mut cancelled: c_int = 0;
        // SAFETY: the request is under way, and a receive: the wait ends at once, with the message
        // if it has begun to arrive, without it otherwise. The places outlive the calls.
        unsafe {
            ffi::MPI_Cancel(&raw mut self.raw);
            ffi::MPI_Wait(&raw mut self.raw, &raw mut status);
            ffi::MPI_Test_cancelled(&raw const status, &raw mut cancelled);
        }
        if cancelled == 0 { self.finish(&status).ok() } else { None }
    }

    /// Takes the buffer of a completed operation.
    fn finish(&mut self, status: &ffi::MPI_Status) -> Result<Vec<u8>, CommError> {
        if self.is_receive {
            let len = len_of(status)?.min(self.buffer.capacity());
            // SAFETY: MPI wrote that many bytes, and the buffer has space for them.
            unsafe { self.buffer.set_len(len) };
        }
        Ok(std::mem::take(&mut *self.buffer))
    }

    /// Whether MPI still uses the buffer.
    fn is_active(&self) -> bool {
        // SAFETY: a handle is plain data.
        self.raw != unsafe { ffi::RSMPI_REQUEST_NULL } && !is_finalized()
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.is_receive {
            self.cancel();
        } else if self.is_active() {
            let mut done: c_int = 0;
            // SAFETY: the request is under way; the place for the answer outlives the call.
            unsafe { ffi::MPI_Test(&raw mut self.raw, &raw mut done, ffi::RSMPI_STATUS_IGNORE) };
        }
        if self.is_active() {
            // A send that goes on: MPI reads the buffer for an unknown time, so it is never freed.
            // SAFETY: the request is under way, and is not used again.
            unsafe { ffi::MPI_Request_free(&raw mut self.raw) };
        } else {
            // SAFETY: MPI is done with the buffer, and this is its last use.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}

fn no_status() -> ffi::MPI_Status {
    // SAFETY: a status is a C structure of integers, for which zeroes are values.
    unsafe { std::mem::zeroed() }
}

/// Length of a message.
fn len_of(status: &ffi::MPI_Status) -> Result<usize, CommError> {
    let mut len: ffi::MPI_Count = 0;
    // SAFETY: the status was filled by MPI; the place for the number outlives the call.
    check("MPI_Get_elements_x", unsafe {
        ffi::MPI_Get_elements_x(&raw const *status, ffi::RSMPI_UINT8_T, &raw mut len)
    })?;
    Ok(len.max(0) as usize)
}
