//! Data representations that a program brings along. There is no conversion by functions of the program here;
//! who registers one learns so at once.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::constants as mpi;
use crate::entry::{self, export};
use crate::errors::{Failure, Outcome};

/// # Safety
///
/// `name` is null or a C string.
unsafe fn register(name: *const c_char) -> Outcome {
    if name.is_null() {
        return Err(Failure::new(mpi::ERR_ARG, "the name is null"));
    }
    // SAFETY: the caller's promise.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"native" | b"internal" | b"external32" => {
            Err(Failure::new(mpi::ERR_DUP_DATAREP, "the representation is there already"))
        }
        _ => Err(Failure::new(
            mpi::ERR_UNSUPPORTED_DATAREP,
            "only native, internal and external32 are supported",
        )),
    }
}

export! {
    "Register_datarep"(
        name: *const c_char,
        _read: *const c_void,
        _write: *const c_void,
        _extent: *const c_void,
        _state: *mut c_void
    ) -> c_int => entry::alone("MPI_Register_datarep", || {
        // SAFETY: what the program gave.
        unsafe { register(name) }
    });
    "Register_datarep_c"(
        name: *const c_char,
        _read: *const c_void,
        _write: *const c_void,
        _extent: *const c_void,
        _state: *mut c_void
    ) -> c_int => entry::alone("MPI_Register_datarep_c", || {
        // SAFETY: what the program gave.
        unsafe { register(name) }
    });
}
