//! Functions of the Fortran libraries that do not call the C functions.
//!
//! Nearly all of them call C functions, `MPI_` or `PMPI_`, both of which the door defines. Only
//! error handlers are created differently, because a Fortran function is called with the number of
//! the file. All names that compilers give it are here, those of `mpi_f08` and of Open MPI's own
//! layers, too.

use std::ffi::c_int;

use mpi::ffi;

use crate::constants as mpi_constants;
use crate::entry;
use crate::errhandlers::{self, FortranFunction, HandlerFunction};
use crate::errors::Failure;

/// # Safety
///
/// What is given is as Fortran's interface demands; the code may be left out.
unsafe fn create(function: Option<FortranFunction>, handler: *mut c_int, code: *mut c_int) {
    let result = entry::alone("MPI_File_create_errhandler", || {
        let none = Failure::new(mpi_constants::ERR_ARG, "the function is null");
        let raw = errhandlers::create(HandlerFunction::Fortran(function.ok_or(none)?))?;
        // SAFETY: the handler was just made; the caller's promise.
        unsafe { handler.write(ffi::RSMPI_Errhandler_c2f(raw)) };
        Ok(())
    });
    if !code.is_null() {
        // SAFETY: the caller's promise.
        unsafe { code.write(result) };
    }
}

macro_rules! names {
    ($($name:literal),* $(,)?) => {$(
        const _: () = {
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn named(
                function: Option<FortranFunction>,
                handler: *mut c_int,
                code: *mut c_int,
            ) {
                // SAFETY: what the program gave.
                unsafe { create(function, handler, code) }
            }
        };
    )*};
}

names! {
    "mpi_file_create_errhandler",
    "mpi_file_create_errhandler_",
    "mpi_file_create_errhandler__",
    "MPI_FILE_CREATE_ERRHANDLER",
    "pmpi_file_create_errhandler",
    "pmpi_file_create_errhandler_",
    "pmpi_file_create_errhandler__",
    "PMPI_FILE_CREATE_ERRHANDLER",
    "mpi_file_create_errhandler_f08_",
    "pmpi_file_create_errhandler_f08_",
    "pmpir_file_create_errhandler_f08_",
    "ompi_file_create_errhandler_f",
    "MPI_File_create_errhandler_f",
    "MPI_File_create_errhandler_f08",
    "PMPI_File_create_errhandler_f",
    "PMPI_File_create_errhandler_f08",
}
