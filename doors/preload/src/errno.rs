//! `errno`: kept where a call succeeds, set where it fails.

use std::ffi::c_int;

use rustix::io::Errno;

/// The program's `errno`.
#[inline]
pub(crate) fn get() -> c_int {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() }
}

/// Sets the program's `errno`.
#[inline]
pub(crate) fn set(value: c_int) {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() = value };
}

/// The answer of a call that failed.
#[cold]
pub(crate) fn fail(error: Errno) -> c_int {
    set(error.raw_os_error());
    -1
}

/// The `errno` of this thread as it was.
pub(crate) struct SavedErrno {
    place: *mut c_int,
    value: c_int,
}

impl SavedErrno {
    #[inline]
    pub(crate) fn new() -> Self {
        // SAFETY: every thread has one.
        unsafe {
            let place = libc::__errno_location();
            Self { place, value: *place }
        }
    }

    /// Makes it as it was. The pointer keeps this type in its thread.
    #[inline]
    pub(crate) fn restore(&self) {
        // SAFETY: it stays where it is while the thread lives.
        unsafe { *self.place = self.value };
    }
}
