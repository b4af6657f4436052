//! Whether the process has one thread, as the C library knows it (`__libc_single_threaded`).

use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the C library says that there is one thread, if it does.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Asks the C library where it says so. Until then [`is_single_threaded`] says no.
pub fn prepare() {
    // SAFETY: the name is a C string. Versions that do not have it return null.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE_THREADED.store(found.cast(), Ordering::Relaxed);
}

/// Whether this is the only thread there ever was.
#[inline]
pub fn is_single_threaded() -> bool {
    let said = SINGLE_THREADED.load(Ordering::Relaxed);
    // SAFETY: it is a variable of the C library, which is there as long as the program.
    !said.is_null() && unsafe { said.read_volatile() } != 0
}
