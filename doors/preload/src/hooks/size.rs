//! Sizes and space of files.

use std::ffi::{c_char, c_int};

use libc::off64_t;
use rustix::io::Errno;
use striate_stack::{Action, Detail, Function, Kind, Outcome};

use super::{close, open};
use crate::errno;
use crate::stack_entry::{self, Call, NoticePolicy, ReturnValue};

/// What functions return that do not set `errno`: 0, or the error.
#[derive(Clone, Copy)]
struct ErrorNumber(c_int);

impl ReturnValue for ErrorNumber {
    const FAILED: Self = Self(libc::EIO);

    fn outcome(self) -> Outcome {
        if self.0 == 0 { Ok(0) } else { Err(Errno::from_raw_os_error(self.0)) }
    }
}

hooks! {
    fn [ftruncate, ftruncate64](descriptor: c_int, length: off64_t) -> c_int, real {
        match (Call::of(descriptor, Kind::Truncate), u64::try_from(length)) {
            (Some(call), Ok(length)) => {
                call.answer(Function::Ftruncate, |file| Action::Truncate { file, length }) as c_int
            }
            (call, _) => {
                drop(call);
                real(descriptor, length)
            }
        }
    }

    fn [truncate, truncate64](name: *const c_char, length: off64_t) -> c_int, real {
        match truncate_name(name, length, || real(name, length)) {
            Ok(answer) => answer,
            Err(Ok(_)) => 0,
            Err(Err(error)) => errno::fail(error),
        }
    }

    fn [fallocate, fallocate64](
        descriptor: c_int,
        mode: c_int,
        offset: off64_t,
        length: off64_t,
    ) -> c_int, real {
        match allocate(Function::Fallocate, descriptor, mode, offset, length) {
            Some(Ok(())) => 0,
            Some(Err(error)) => errno::fail(error),
            None => real(descriptor, mode, offset, length),
        }
    }

    // Returns its error, and makes do where the file system cannot reserve: then it is the C
    // library's.
    fn [posix_fallocate, posix_fallocate64](
        descriptor: c_int,
        offset: off64_t,
        length: off64_t,
    ) -> c_int, real {
        match allocate(Function::PosixFallocate, descriptor, 0, offset, length) {
            Some(Ok(())) => 0,
            Some(Err(error)) if error != Errno::OPNOTSUPP => error.raw_os_error(),
            Some(Err(_)) => {
                let write_out = || ErrorNumber(real(descriptor, offset, length));
                let function = Function::PosixFallocate;
                stack_entry::shared(function, descriptor, write_out, |_| Detail::default()).0
            }
            None => real(descriptor, offset, length),
        }
    }
}

/// Changes the size of a file by its name. `Err`: its bytes are not where the name leads, and it
/// was opened for that.
fn truncate_name(
    name: *const c_char,
    length: off64_t,
    real: impl FnOnce() -> c_int,
) -> Result<c_int, Outcome> {
    let elsewhere = stack_entry::is_elsewhere(Function::Truncate, name).map_err(Err)?;
    if !elsewhere {
        let detail = Detail::numbers(&[length as u64]);
        let how = (Function::Truncate, NoticePolicy::Needed);
        return Ok(stack_entry::noticed_name(how, (libc::AT_FDCWD, name), real, |_| detail));
    }
    let (Ok(length), flags) = (u64::try_from(length), libc::O_WRONLY | libc::O_CLOEXEC) else {
        return Ok(real());
    };
    let opened = open::open_name(Function::Truncate, libc::AT_FDCWD, name, flags, 0);
    let descriptor = match opened {
        Some(opened) => opened.map_err(Err)?,
        None => return Ok(real()),
    };
    let done = Call::on(descriptor)
        .map(|call| call.perform(Function::Truncate, |file| Action::Truncate { file, length }));
    close::close_one(Function::Truncate, descriptor);
    Err(done.unwrap_or(Err(Errno::BADF)))
}

fn allocate(
    function: Function,
    descriptor: c_int,
    mode: c_int,
    offset: off64_t,
    length: off64_t,
) -> Option<Result<(), Errno>> {
    let call = Call::of(descriptor, Kind::Allocate)?;
    let offset = u64::try_from(offset).ok()?;
    let length = u64::try_from(length).ok().filter(|length| *length > 0)?;
    let done = call.perform(function, |file| Action::Allocate { file, mode, offset, length });
    Some(done.map(|_| ()))
}
