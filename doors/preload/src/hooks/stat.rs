//! `stat` and its variants.

use std::ffi::{c_char, c_int, c_uint};

use libc::{stat as Stat, statx as Statx};
use striate_stack::{Action, FileOrName, Function, Kind, Op, StatInto};

use crate::path::may_be_there;
use crate::stack_entry::{self, Call};

/// What is known of a name or a descriptor. `None`: the call is the kernel's.
fn ask(
    function: Function,
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    into: StatInto<'_>,
) -> Option<c_int> {
    // SAFETY: the program's text stays while its call lasts.
    let is_empty = may_be_there(name) && unsafe { *name } == 0;
    if is_empty && flags & libc::AT_EMPTY_PATH != 0 {
        return ask_file(function, directory, flags, into);
    }
    stack_entry::with_name(Kind::Stat, directory, name, |entered, target, route| {
        let action = Action::Stat { of: FileOrName::Name(target), flags, into };
        let outcome = entered.call(&mut Op { function, route, action });
        entered.answer(outcome) as c_int
    })
}

fn ask_file(
    function: Function,
    descriptor: c_int,
    flags: c_int,
    into: StatInto<'_>,
) -> Option<c_int> {
    let call = Call::of(descriptor, Kind::Stat)?;
    let action = Action::Stat { of: FileOrName::File(call.file()), flags, into };
    let outcome = call.entered().call(&mut Op { function, route: call.file().route(), action });
    Some(call.leave(outcome) as c_int)
}

/// `stat` and its kin.
///
/// # Safety
/// There is null or room for an answer.
unsafe fn ask_stat(
    function: Function,
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    into: *mut Stat,
) -> Option<c_int> {
    stack_entry::stack()?;
    // SAFETY: the caller's promise.
    let into = unsafe { StatInto::Stat(into.as_mut()?) };
    ask(function, directory, name, flags, into)
}

/// `fstat`.
///
/// # Safety
/// There is null or room for an answer.
unsafe fn ask_fstat(descriptor: c_int, into: *mut Stat) -> Option<c_int> {
    if !crate::descriptor_table::has(descriptor) {
        return None;
    }
    // SAFETY: the caller's promise.
    let into = unsafe { StatInto::Stat(into.as_mut()?) };
    ask_file(Function::Fstat, descriptor, 0, into)
}

hooks! {
    fn [stat, stat64](name: *const c_char, into: *mut Stat) -> c_int, real {
        match ask_stat(Function::Stat, libc::AT_FDCWD, name, 0, into) {
            Some(answer) => answer,
            None => real(name, into),
        }
    }

    fn [lstat, lstat64](name: *const c_char, into: *mut Stat) -> c_int, real {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        match ask_stat(Function::Lstat, libc::AT_FDCWD, name, flags, into) {
            Some(answer) => answer,
            None => real(name, into),
        }
    }

    fn [fstat, fstat64](descriptor: c_int, into: *mut Stat) -> c_int, real {
        match ask_fstat(descriptor, into) {
            Some(answer) => answer,
            None => real(descriptor, into),
        }
    }

    fn [fstatat, fstatat64](
        directory: c_int,
        name: *const c_char,
        into: *mut Stat,
        flags: c_int,
    ) -> c_int, real {
        match ask_stat(Function::Fstatat, directory, name, flags, into) {
            Some(answer) => answer,
            None => real(directory, name, into, flags),
        }
    }

    fn [statx](
        directory: c_int,
        name: *const c_char,
        flags: c_int,
        mask: c_uint,
        into: *mut Statx,
    ) -> c_int, real {
        if stack_entry::stack().is_some() && let Some(buffer) = into.as_mut() {
            let into = StatInto::Statx { mask, buffer };
            if let Some(answer) = ask(Function::Statx, directory, name, flags, into) {
                return answer;
            }
        }
        real(directory, name, flags, mask, into)
    }

    // Of programs made for older versions of the C library. The version of the structure is the
    // kernel's.
    fn [__xstat, __xstat64](version: c_int, name: *const c_char, into: *mut Stat) -> c_int, real {
        match ask_old(version, Function::Stat, libc::AT_FDCWD, name, 0, into) {
            Some(answer) => answer,
            None => real(version, name, into),
        }
    }

    fn [__lxstat, __lxstat64](version: c_int, name: *const c_char, into: *mut Stat) -> c_int, real {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        match ask_old(version, Function::Lstat, libc::AT_FDCWD, name, flags, into) {
            Some(answer) => answer,
            None => real(version, name, into),
        }
    }

    fn [__fxstat, __fxstat64](version: c_int, descriptor: c_int, into: *mut Stat) -> c_int, real {
        match matches!(version, 0 | 1).then(|| ask_fstat(descriptor, into)).flatten() {
            Some(answer) => answer,
            None => real(version, descriptor, into),
        }
    }

    fn [__fxstatat, __fxstatat64](
        version: c_int,
        directory: c_int,
        name: *const c_char,
        into: *mut Stat,
        flags: c_int,
    ) -> c_int, real {
        match ask_old(version, Function::Fstatat, directory, name, flags, into) {
            Some(answer) => answer,
            None => real(version, directory, name, into, flags),
        }
    }
}

/// As [`ask_stat`], for the versions of the structure that the kernel fills.
///
/// # Safety
/// As [`ask_stat`].
unsafe fn ask_old(
    version: c_int,
    function: Function,
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    into: *mut Stat,
) -> Option<c_int> {
    if !matches!(version, 0 | 1) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { ask_stat(function, directory, name, flags, into) }
}
