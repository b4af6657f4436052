//! Reading and writing, at the position and at offsets, in one part and several.

use std::ffi::{c_int, c_void};
use std::num::TryFromIntError;

use libc::{iovec, off64_t, size_t, ssize_t};
use striate_stack::{Action, Function, Kind, Memory};

use crate::path::may_be_there;
use crate::stack_entry::Call;

/// Where a call is. `Err`: the kernel has to say what is wrong with it.
#[inline(always)]
fn place(at: Option<off64_t>) -> Result<Option<u64>, TryFromIntError> {
    at.map(u64::try_from).transpose()
}

/// Whether memory is such that the kernel would take it.
#[inline(always)]
fn is_sensible(memory: *const c_void, length: size_t) -> bool {
    (may_be_there(memory) || length == 0) && isize::try_from(length).is_ok()
}

/// Reads into memory of one part. `None`: the call is the kernel's.
///
/// # Safety
/// The memory is the program's, and there while its call lasts.
#[inline(always)]
pub(crate) unsafe fn read_one(
    function: Function,
    descriptor: c_int,
    memory: *mut c_void,
    length: size_t,
    at: Option<off64_t>,
) -> Option<ssize_t> {
    let at = place(at).ok()?;
    Call::pass(descriptor, Kind::Read, function, |file| {
        is_sensible(memory, length).then(|| {
            // SAFETY: the caller's promise.
            let memory = unsafe { Memory::from_raw(memory.cast(), length) };
            Action::Read { file, memory, at, flags: 0 }
        })
    })
}

/// Writes memory of one part. `None`: the call is the kernel's.
///
/// # Safety
/// As [`read_one`].
#[inline(always)]
pub(crate) unsafe fn write_one(
    function: Function,
    descriptor: c_int,
    memory: *const c_void,
    length: size_t,
    at: Option<off64_t>,
) -> Option<ssize_t> {
    let at = place(at).ok()?;
    Call::pass(descriptor, Kind::Write, function, |file| {
        is_sensible(memory, length).then(|| {
            // SAFETY: the caller's promise; a write does not change it.
            let memory = unsafe { Memory::from_raw(memory.cast_mut().cast(), length) };
            Action::Write { file, memory, at, flags: 0 }
        })
    })
}

/// The parts of a vectored call, if the kernel would take them.
///
/// # Safety
/// `parts` are the program's, and there while its call lasts.
unsafe fn parts<'a>(parts: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    if !may_be_there(parts) || !(0..=1024).contains(&count) {
        return None;
    }
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    let mut total: usize = 0;
    for part in parts {
        total = total.checked_add(part.iov_len)?;
        if !is_sensible(part.iov_base, part.iov_len) {
            return None;
        }
    }
    isize::try_from(total).is_ok().then_some(parts)
}

/// Reads into memory of several parts. `None`: the call is the kernel's.
///
/// # Safety
/// As [`read_one`].
unsafe fn read_parts(
    function: Function,
    descriptor: c_int,
    vector: (*const iovec, c_int),
    at: Option<off64_t>,
    flags: c_int,
) -> Option<ssize_t> {
    let at = place(at).ok()?;
    Call::pass(descriptor, Kind::Read, function, |file| {
        // SAFETY: the caller's promise.
        let memory = unsafe { Memory::from_parts(parts(vector.0, vector.1)?) };
        Some(Action::Read { file, memory, at, flags })
    })
}

/// Writes memory of several parts. `None`: the call is the kernel's.
///
/// # Safety
/// As [`read_one`].
unsafe fn write_parts(
    function: Function,
    descriptor: c_int,
    vector: (*const iovec, c_int),
    at: Option<off64_t>,
    flags: c_int,
) -> Option<ssize_t> {
    let at = place(at).ok()?;
    Call::pass(descriptor, Kind::Write, function, |file| {
        // SAFETY: the caller's promise.
        let memory = unsafe { Memory::from_parts(parts(vector.0, vector.1)?) };
        Some(Action::Write { file, memory, at, flags })
    })
}

/// `preadv2` and `pwritev2` at -1 are at the position.
const fn or_position(at: off64_t) -> Option<off64_t> {
    if at == -1 { None } else { Some(at) }
}

hooks! {
    fn [read](descriptor: c_int, memory: *mut c_void, length: size_t) -> ssize_t, real {
        match read_one(Function::Read, descriptor, memory, length, None) {
            Some(count) => count,
            None => real(descriptor, memory, length),
        }
    }

    fn [write](descriptor: c_int, memory: *const c_void, length: size_t) -> ssize_t, real {
        match write_one(Function::Write, descriptor, memory, length, None) {
            Some(count) => count,
            None => real(descriptor, memory, length),
        }
    }

    fn [pread, pread64](
        descriptor: c_int,
        memory: *mut c_void,
        length: size_t,
        at: off64_t,
    ) -> ssize_t, real {
        match read_one(Function::Pread, descriptor, memory, length, Some(at)) {
            Some(count) => count,
            None => real(descriptor, memory, length, at),
        }
    }

    fn [pwrite, pwrite64](
        descriptor: c_int,
        memory: *const c_void,
        length: size_t,
        at: off64_t,
    ) -> ssize_t, real {
        match write_one(Function::Pwrite, descriptor, memory, length, Some(at)) {
            Some(count) => count,
            None => real(descriptor, memory, length, at),
        }
    }

    // Of fortified programs: `room` is how large the memory is known to be. The C library ends the
    // program when it is too small.
    fn [__read_chk](
        descriptor: c_int,
        memory: *mut c_void,
        length: size_t,
        room: size_t,
    ) -> ssize_t, real {
        if length > room {
            return real(descriptor, memory, length, room);
        }
        match read_one(Function::Read, descriptor, memory, length, None) {
            Some(count) => count,
            None => real(descriptor, memory, length, room),
        }
    }

    fn [__pread_chk, __pread64_chk](
        descriptor: c_int,
        memory: *mut c_void,
        length: size_t,
        at: off64_t,
        room: size_t,
    ) -> ssize_t, real {
        if length > room {
            return real(descriptor, memory, length, at, room);
        }
        match read_one(Function::Pread, descriptor, memory, length, Some(at)) {
            Some(count) => count,
            None => real(descriptor, memory, length, at, room),
        }
    }

    fn [readv](descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t, real {
        match read_parts(Function::Readv, descriptor, (vector, count), None, 0) {
            Some(count) => count,
            None => real(descriptor, vector, count),
        }
    }

    fn [writev](descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t, real {
        match write_parts(Function::Writev, descriptor, (vector, count), None, 0) {
            Some(count) => count,
            None => real(descriptor, vector, count),
        }
    }

    fn [preadv, preadv64](
        descriptor: c_int,
        vector: *const iovec,
        count: c_int,
        at: off64_t,
    ) -> ssize_t, real {
        match read_parts(Function::Preadv, descriptor, (vector, count), Some(at), 0) {
            Some(count) => count,
            None => real(descriptor, vector, count, at),
        }
    }

    fn [pwritev, pwritev64](
        descriptor: c_int,
        vector: *const iovec,
        count: c_int,
        at: off64_t,
    ) -> ssize_t, real {
        match write_parts(Function::Pwritev, descriptor, (vector, count), Some(at), 0) {
            Some(count) => count,
            None => real(descriptor, vector, count, at),
        }
    }

    fn [preadv2, preadv64v2](
        descriptor: c_int,
        vector: *const iovec,
        count: c_int,
        at: off64_t,
        flags: c_int,
    ) -> ssize_t, real {
        match read_parts(Function::Preadv, descriptor, (vector, count), or_position(at), flags) {
            Some(count) => count,
            None => real(descriptor, vector, count, at, flags),
        }
    }

    fn [pwritev2, pwritev64v2](
        descriptor: c_int,
        vector: *const iovec,
        count: c_int,
        at: off64_t,
        flags: c_int,
    ) -> ssize_t, real {
        match write_parts(Function::Pwritev, descriptor, (vector, count), or_position(at), flags) {
            Some(count) => count,
            None => real(descriptor, vector, count, at, flags),
        }
    }
}
