//! `fwscanf` and its variants on streams of this library.
//!
//! How much they read is only known after scanning. So the C library scans, on a second stream on
//! the same file, and the first stream continues where that one has stopped. Nothing of the file is
//! buffered from then on, because the second stream bypasses the stages.

use std::ffi::{c_int, c_void};

use libc::{FILE, off64_t, wchar_t};
use rustix::io::Errno;
use striate_stack::Detail;
use striate_stack::{Function, Outcome, mark_within};

use super::wide::Locked;
use super::{open, stdio};
use crate::errno;
use crate::stack_entry::{self, ReturnValue};

/// What is returned when nothing could be read.
const END: c_int = -1;

/// Scans a stream of ours by `scan`, which the C library does with its own.
fn scan_ours(stream: &Locked, scan: impl FnOnce(*mut FILE) -> c_int) -> c_int {
    let stream = stream.0;
    let Some(descriptor) = stdio::descriptor_of(stream) else { return END };
    if !stdio::may_read(stream) {
        // As the C library, which does not note the error then.
        return errno::fail(Errno::BADF);
    }
    // SAFETY: it is a stream, which this thread has locked. What was written goes to the file.
    let position = unsafe {
        libc::fflush(stream);
        libc::ftello(stream)
    };
    let scan = || scan_other(stream, descriptor, position, scan);
    stack_entry::shared(Function::Fread, descriptor, scan, |_| Detail::default()).result
}

/// The result of a scan.
#[derive(Clone, Copy)]
struct Scanned {
    /// As the C library returns it: how many values were read, or [`END`].
    result: c_int,
    /// How many bytes of the file were used up, or the error.
    bytes: Outcome,
}

impl ReturnValue for Scanned {
    const FAILED: Self = Self { result: END, bytes: Err(Errno::IO) };

    fn outcome(self) -> Outcome {
        self.bytes
    }
}

/// Scans the file by a second stream, and moves ours to where that one has stopped.
fn scan_other(
    stream: *mut FILE,
    descriptor: c_int,
    position: off64_t,
    scan: impl FnOnce(*mut FILE) -> c_int,
) -> Scanned {
    let Some(other) = reopened(descriptor) else {
        stdio::set_error(stream);
        let error = Errno::from_raw_os_error(errno::get());
        return Scanned { result: END, bytes: Err(error) };
    };
    // SAFETY: both are streams; the other is closed once.
    unsafe {
        libc::fseeko(other, position, libc::SEEK_SET);
        let result = scan(other);
        let kept = errno::get();
        let end = libc::ftello(other);
        if end >= 0 {
            libc::fseeko(stream, end, libc::SEEK_SET);
        }
        if libc::feof(other) != 0 {
            stdio::set_end(stream);
        }
        let mut bytes = Ok(u64::try_from(end.saturating_sub(position)).unwrap_or(0));
        if libc::ferror(other) != 0 {
            stdio::set_error(stream);
            bytes = Err(Errno::from_raw_os_error(kept));
        }
        let marked = mark_within();
        libc::fclose(other);
        drop(marked);
        errno::set(kept);
        Scanned { result, bytes }
    }
}

/// A stream of the C library's on the file of a descriptor, with a position of its own.
fn reopened(descriptor: c_int) -> Option<*mut FILE> {
    let _marked = mark_within();
    let name = std::ffi::CString::new(format!("/proc/self/fd/{descriptor}")).ok()?;
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the texts are C strings; the descriptor is the stream's, if there is one.
    unsafe {
        let again = open::real::open64.get()(name.as_ptr(), flags, 0);
        if again < 0 {
            return None;
        }
        let stream = stdio::real::fdopen.get()(again, c"r".as_ptr());
        if stream.is_null() {
            super::close::real::close.get()(again);
            return None;
        }
        Some(stream)
    }
}

hooks! {
    fn [vfwscanf, __isoc99_vfwscanf, __isoc23_vfwscanf](
        stream: *mut FILE,
        format: *const wchar_t,
        arguments: *mut c_void,
    ) -> c_int, real {
        match Locked::new(stream) {
            Some(stream) => scan_ours(&stream, |other| real(other, format, arguments)),
            None => real(stream, format, arguments),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod with_arguments {
    use super::super::variadic::variadic;
    use super::{__isoc23_vfwscanf, __isoc99_vfwscanf, vfwscanf};

    variadic!(fwscanf, named 2, vfwscanf);
    variadic!(__isoc99_fwscanf, named 2, __isoc99_vfwscanf);
    variadic!(__isoc23_fwscanf, named 2, __isoc23_vfwscanf);
}
