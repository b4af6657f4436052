//! Functions with a variable number of arguments, defined by the forms that take a list of them
//! (`va_list`).
//!
//! Rust cannot define such functions. The macro [`variadic!`] stores the registers that hold
//! arguments in the order of the System V ABI, makes a `va_list` of them and calls the other form.
//! It has unwind information: a thread that is cancelled in the C library leaves through it.

/// Defines `$name` by `$form`, which takes the same arguments and a `va_list` after the named ones.
macro_rules! variadic {
    ($name:ident, named 2, $form:ident) => {
        variadic!(@define $name, "16", "rdx", $form);
    };
    ($name:ident, named 3, $form:ident) => {
        variadic!(@define $name, "24", "rcx", $form);
    };
    (@define $name:ident, $named_bytes:literal, $list:literal, $form:ident) => {
        /// The variadic form.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 208",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "movups [rsp + 48], xmm0",
                "movups [rsp + 64], xmm1",
                "movups [rsp + 80], xmm2",
                "movups [rsp + 96], xmm3",
                "movups [rsp + 112], xmm4",
                "movups [rsp + 128], xmm5",
                "movups [rsp + 144], xmm6",
                "movups [rsp + 160], xmm7",
                concat!("mov dword ptr [rsp + 176], ", $named_bytes),
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rbp + 16]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                concat!("lea ", $list, ", [rsp + 176]"),
                "call {form}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                form = sym $form,
            )
        }
    };
}

pub(super) use variadic;
