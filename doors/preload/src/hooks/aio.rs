//! POSIX asynchronous I/O: threads of the C library carry it out, past the stages, so files are
//! shared first.

use std::ffi::{c_int, c_void};

use libc::aiocb;
use striate_stack::Function;

use crate::stack_entry::{self, Announcements};

/// A request is handed over.
///
/// # Safety
/// The request is null or the program's.
unsafe fn shared(request: *const aiocb, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { request.as_ref() } {
        Some(request) => {
            let detail = |_| striate_stack::Detail::default();
            stack_entry::shared(Function::Other, request.aio_fildes, real, detail)
        }
        None => real(),
    }
}

hooks! {
    fn [aio_read, aio_read64, aio_write, aio_write64](request: *mut aiocb) -> c_int, real {
        shared(request, || real(request))
    }

    fn [aio_fsync, aio_fsync64](operation: c_int, request: *mut aiocb) -> c_int, real {
        shared(request, || real(operation, request))
    }

    fn [lio_listio, lio_listio64](
        mode: c_int,
        requests: *const *mut aiocb,
        count: c_int,
        event: *mut c_void,
    ) -> c_int, real {
        let mut announcements = Announcements::new(Function::Other);
        if !requests.is_null() {
            for number in 0..usize::try_from(count).unwrap_or(0) {
                if let Some(request) = (*requests.add(number)).as_ref() {
                    announcements.share(request.aio_fildes);
                }
            }
        }
        announcements.make(|| real(mode, requests, count, event))
    }
}
