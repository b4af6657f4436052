//! The functions that programs call instead of the C library's, by what they do.
//!
//! Variants for large files are the same on 64-bit machines; each calls the C library's function of
//! the same name. Functions with a variable number of arguments are defined with the largest
//! number: arguments that the program did not pass are not used.

pub(crate) mod aio;
pub(crate) mod close;
pub(crate) mod copy;
pub(crate) mod data;
pub(crate) mod descriptor;
pub(crate) mod directory;
pub(crate) mod namespace;
pub(crate) mod notice;
pub(crate) mod open;
pub(crate) mod print;
pub(crate) mod process;
pub(crate) mod rlimit;
pub(crate) mod signal;
pub(crate) mod size;
pub(crate) mod stat;
pub(crate) mod stdio;
pub(crate) mod syscall;
#[cfg(target_arch = "x86_64")]
pub(crate) mod trampoline;
#[cfg(target_arch = "x86_64")]
pub(crate) mod variadic;
pub(crate) mod wide;
pub(crate) mod wide_scan;

/// Finds the C library's functions.
pub(crate) fn find() {
    aio::real::find();
    close::real::find();
    copy::real::find();
    data::real::find();
    descriptor::real::find();
    directory::real::find();
    namespace::real::find();
    notice::real::find();
    open::real::find();
    print::real::find();
    process::real::find();
    rlimit::real::find();
    signal::real::find();
    size::real::find();
    stat::real::find();
    stdio::real::find();
    syscall::real::find();
    #[cfg(target_arch = "x86_64")]
    trampoline::find();
    wide::real::find();
    wide_scan::real::find();
}
