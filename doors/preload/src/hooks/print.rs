//! `dprintf` and its variants. The C library writes their output itself, so the file is shared
//! first.

use std::ffi::{c_char, c_int, c_void};

use striate_stack::Detail;
use striate_stack::Function;

use crate::stack_entry;

hooks! {
    fn [vdprintf](
        descriptor: c_int,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int, real {
        let print = || real(descriptor, format, arguments);
        stack_entry::shared(Function::Other, descriptor, print, |_| Detail::default())
    }

    fn [__vdprintf_chk](
        descriptor: c_int,
        flag: c_int,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int, real {
        let print = || real(descriptor, flag, format, arguments);
        stack_entry::shared(Function::Other, descriptor, print, |_| Detail::default())
    }
}

#[cfg(target_arch = "x86_64")]
mod with_arguments {
    use super::super::variadic::variadic;
    use super::{__vdprintf_chk, vdprintf};

    variadic!(dprintf, named 2, vdprintf);
    variadic!(__dprintf_chk, named 3, __vdprintf_chk);
}
