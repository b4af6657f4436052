//! [`Native`]: a function of the MPI library's own MPI-IO, for files that are left to it.
//!
//! It is looked up in the libraries after this one, under the `PMPI_` name, so that a call on such
//! a file passes through this library once.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of type `F` that is looked up when it is needed.
#[derive(Debug)]
pub(crate) struct Native<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

// SAFETY: it holds the address of a function, which every thread may call.
unsafe impl<F> Sync for Native<F> {}

impl<F: Copy> Native<F> {
    /// The function `name`, a C string with its end.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to that function.
    pub(crate) const unsafe fn new(name: &'static str) -> Self {
        let name = match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Self { name, address: AtomicPtr::new(ptr::null_mut()), signature: PhantomData }
    }

    /// The function; `None` if the MPI has none of this name.
    pub(crate) fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            // SAFETY: the name is a C string.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: not null, and of this type, as `new` demands; both are of the size of a pointer.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}
