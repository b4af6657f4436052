//! Loading and unloading of the library: a process with another MPI is ended with a message, and at
//! the end of the program files are flushed.
//!
//! Handles, constants and structures of two MPIs have nothing in common, so a door that was built
//! for one must not be used with the other. A program without MPI (a launcher, a shell) is not
//! affected; the MPI that this library itself is linked with is not the program's.

use std::ffi::{CStr, CString};

use crate::constants::built_for;

/// A function that only this MPI has.
const OPEN_MPI: &CStr = c"ompi_mpi_init";
/// As above.
const MPICH: &CStr = c"MPIR_Err_create_code";

/// What the process ends with where the door does not fit.
const REFUSED: i32 = 127;

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

/// A program that ends without closing its files loses no data.
#[used]
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;

extern "C" fn on_unload() {
    striate_file::flush_all_files();
}

extern "C" fn on_load() {
    let ours = built_for();
    let (other, sign) = if ours == "MPICH" { ("Open MPI", OPEN_MPI) } else { ("MPICH", MPICH) };
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, sign.as_ptr()) };
    if found.is_null() {
        return;
    }
    let text = format!(
        "striate-mpiio: this libstriate_mpiio.so is built for {ours}, but the program uses {other}; \
         preload the one that was built with the program's mpicc (MPICC=...)\n"
    );
    let text = CString::new(text).unwrap_or_default();
    // The program's own start has not come yet, so only system calls are certain to work. SAFETY:
    // the text has the given length; the process ends.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.as_bytes().len());
        libc::_exit(REFUSED);
    }
}
