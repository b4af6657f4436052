//! Changes of the resource limits of the process that stages must know.

use std::ffi::{c_int, c_uint};

use libc::{pid_t, rlimit64};
use striate_process::limits;

use crate::stack_entry;

/// What is held back was answered under the limit that there was until now: it goes to storage
/// under that one.
fn before(resource: c_uint, is_set: bool) -> bool {
    let concerns = resource == libc::RLIMIT_FSIZE && is_set && stack_entry::stack().is_some();
    if concerns {
        stack_entry::settle_all();
    }
    concerns
}

fn after(concerns: bool, answer: c_int) -> c_int {
    if concerns {
        limits::refresh();
    }
    answer
}

hooks! {
    fn [setrlimit, setrlimit64](resource: c_uint, wanted: *const rlimit64) -> c_int, real {
        let concerns = before(resource, true);
        after(concerns, real(resource, wanted))
    }

    fn [prlimit, prlimit64](
        process: pid_t,
        resource: c_uint,
        wanted: *const rlimit64,
        old: *mut rlimit64,
    ) -> c_int, real {
        let concerns = before(resource, !wanted.is_null());
        after(concerns, real(process, resource, wanted, old))
    }
}
