//! Calls that go on while the program does, as generalized requests.

use crate::access::{Access, carry_out};
use crate::constants::MPI_Request;
use crate::errors::Outcome;
use crate::memory::Buffer;
use crate::open::Open;

/// Begins a call.
///
/// # Safety
///
/// What is given is as the function of MPI demands.
pub(crate) unsafe fn start(
    open: &mut Open,
    access: Access,
    buffer: Buffer,
    request: *mut MPI_Request,
) -> Outcome {
    let bytes = carry_out(open, access, buffer);
    // SAFETY: the caller's promise.
    unsafe { crate::grequest::completed(bytes?, request) }
}
