//! Functions that cannot be defined in Rust: they return twice, or take arguments that only the C
//! library can read. They do their work first, and then jump to the function of the C library.

use std::arch::naked_asm;
use std::ffi::{c_int, c_long};

use crate::fork;
use crate::real::Real;

type Function = unsafe extern "C-unwind" fn();

/// Defines functions that call one of ours with their first three arguments, and then are the C
/// library's.
macro_rules! trampolines {
    ($($name:ident $static:ident $first:ident;)*) => {
        $(
            static $static: Real<Function> = Real::new(match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => c"",
            });

            /// Keeps all registers that may hold arguments; `al` says whether some are vectors.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C-unwind" fn $name() {
                naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "sub rsp, 128",
                    "movups [rsp], xmm0",
                    "movups [rsp + 16], xmm1",
                    "movups [rsp + 32], xmm2",
                    "movups [rsp + 48], xmm3",
                    "movups [rsp + 64], xmm4",
                    "movups [rsp + 80], xmm5",
                    "movups [rsp + 96], xmm6",
                    "movups [rsp + 112], xmm7",
                    "call {first}",
                    "lea rdi, [rip + {real}]",
                    "call {find}",
                    "mov r11, rax",
                    "movups xmm0, [rsp]",
                    "movups xmm1, [rsp + 16]",
                    "movups xmm2, [rsp + 32]",
                    "movups xmm3, [rsp + 48]",
                    "movups xmm4, [rsp + 64]",
                    "movups xmm5, [rsp + 80]",
                    "movups xmm6, [rsp + 96]",
                    "movups xmm7, [rsp + 112]",
                    "add rsp, 128",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    first = sym $first,
                    real = sym $static,
                    find = sym address,
                )
            }
        )*

        /// Finds the C library's functions.
        pub(crate) fn find() {
            $($static.get();)*
        }
    };
}

/// Where the C library's function is.
extern "C" fn address(real: &Real<Function>) -> Function {
    real.get()
}

extern "C" fn before_lending() {
    fork::before_lending();
}

/// `clone(function, stack, flags, …)`: threads are not new processes.
extern "C" fn before_clone(_function: c_long, _stack: c_long, flags: c_int) {
    if flags & libc::CLONE_THREAD == 0 {
        fork::before_lending();
    }
}

extern "C" fn before_exec() {
    fork::before_exec();
}

trampolines! {
    vfork VFORK before_lending;
    _Fork UNDERSCORE_FORK before_lending;
    clone CLONE before_clone;
    execl EXECL before_exec;
    execlp EXECLP before_exec;
    execle EXECLE before_exec;
}
