//! [`Real`]: the next function of a name, usually that of the C library; and the macros that define
//! the replacements.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next function of a name after ours: of another library that was loaded before the C library,
/// or of the C library. `F` is a type of functions.
#[derive(Debug)]
pub(crate) struct Real<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Real<F> {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Self { name, address: AtomicPtr::new(null_mut()), function: PhantomData }
    }

    /// The function. It is found when the library is loaded, or here by an earlier call.
    #[inline(always)]
    pub(crate) fn get(&self) -> F {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.find();
        }
        // SAFETY: `F` is the type of the function of this name.
        unsafe { transmute_copy(&address) }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name is a C string.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            address = missing as *mut c_void;
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Stands for functions that this C library does not have.
extern "C" fn missing() -> isize {
    crate::errno::set(libc::ENOSYS);
    -1
}

/// Defines functions that programs will call instead of the C library's. In each, `real` is the C
/// library's function of the same name. Several names have one body.
///
/// They may be unwound through: a thread that is cancelled leaves the C library's functions that
/// way.
macro_rules! hooks {
    ($(
        fn [$($name:ident),+] $arguments:tt -> $result:ty, $real:ident $body:block
    )*) => {
        pub(crate) mod real {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use super::*;
            use crate::real::Real;
            $($(hooks!(@static $name $arguments $result);)+)*

            /// Finds all of them.
            pub(crate) fn find() {
                $($($name.get();)+)*
            }
        }
        $($(hooks!(@function $name $arguments $result, $real $body);)+)*
    };
    (@static $name:ident ($($argument:ident: $type:ty),* $(,)?) $result:ty) => {
        #[allow(non_upper_case_globals)]
        pub(crate) static $name: Real<unsafe extern "C-unwind" fn($($type),*) -> $result> =
            Real::new(match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => c"",
            });
    };
    (@function $name:ident ($($argument:ident: $type:ty),* $(,)?)
     $result:ty, $real:ident $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::similar_names, clippy::too_many_arguments)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let $real = real::$name.get();
            // SAFETY: the program answers for its arguments, here as towards the C library.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    };
}
