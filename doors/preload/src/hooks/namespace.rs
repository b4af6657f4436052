//! Names: renaming, removing, making directories.

use std::ffi::{c_char, c_int, c_uint};

use libc::mode_t;
use striate_stack::{Action, Function, Kind, Op, Target};

use crate::errno;
use crate::path::{self, PathBuffer};
use crate::stack_entry::{self, StackEntry};

/// Gives a file another name. `None`: the call is the kernel's.
///
/// # Safety
/// The names are null or C strings.
unsafe fn rename_one(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_uint,
) -> Option<c_int> {
    if !stack_entry::stack()?.wants(Kind::Rename) {
        return None;
    }
    let entered = StackEntry::by_name()?;
    let mut rooms = [PathBuffer::new(), PathBuffer::new()];
    let [old, new] = &mut rooms;
    // SAFETY: the caller's promise.
    let [from_path, to_path] = unsafe { [path::text(from.1)?, path::text(to.1)?] };
    let from_absolute = path::absolute(from.0, from_path, old)?;
    let to_absolute = path::absolute(to.0, to_path, new)?;
    let route = entered.stack.route(from_absolute).or(&entered.stack.route(to_absolute));
    if !route.wants(Kind::Rename) {
        return None;
    }
    let action = Action::Rename {
        from: Target { directory: from.0, path: from_path, absolute: from_absolute },
        to: Target { directory: to.0, path: to_path, absolute: to_absolute },
        flags,
    };
    let outcome = entered.call(&mut Op { function: Function::Rename, route: &route, action });
    Some(entered.answer(outcome) as c_int)
}

/// Removes a name. `None`: the call is the kernel's.
fn remove_one(
    function: Function,
    directory: c_int,
    name: *const c_char,
    flags: c_int,
) -> Option<c_int> {
    stack_entry::with_name(Kind::Unlink, directory, name, |entered, target, route| {
        let action = Action::Unlink { target, flags };
        let outcome = entered.call(&mut Op { function, route, action });
        entered.answer(outcome) as c_int
    })
}

/// Makes a directory. `None`: the call is the kernel's.
fn make_directory(directory: c_int, name: *const c_char, mode: mode_t) -> Option<c_int> {
    stack_entry::with_name(Kind::MakeDirectory, directory, name, |entered, target, route| {
        let action = Action::MakeDirectory { target, mode };
        let outcome = entered.call(&mut Op { function: Function::Mkdir, route, action });
        entered.answer(outcome) as c_int
    })
}

hooks! {
    fn [rename](from: *const c_char, to: *const c_char) -> c_int, real {
        match rename_one((libc::AT_FDCWD, from), (libc::AT_FDCWD, to), 0) {
            Some(answer) => answer,
            None => real(from, to),
        }
    }

    fn [renameat](old: c_int, from: *const c_char, new: c_int, to: *const c_char) -> c_int, real {
        match rename_one((old, from), (new, to), 0) {
            Some(answer) => answer,
            None => real(old, from, new, to),
        }
    }

    fn [renameat2](
        old: c_int,
        from: *const c_char,
        new: c_int,
        to: *const c_char,
        flags: c_uint,
    ) -> c_int, real {
        match rename_one((old, from), (new, to), flags) {
            Some(answer) => answer,
            None => real(old, from, new, to, flags),
        }
    }

    fn [unlink](name: *const c_char) -> c_int, real {
        match remove_one(Function::Unlink, libc::AT_FDCWD, name, 0) {
            Some(answer) => answer,
            None => real(name),
        }
    }

    fn [unlinkat](directory: c_int, name: *const c_char, flags: c_int) -> c_int, real {
        let function = if flags & libc::AT_REMOVEDIR == 0 { Function::Unlink } else { Function::Rmdir };
        match remove_one(function, directory, name, flags) {
            Some(answer) => answer,
            None => real(directory, name, flags),
        }
    }

    fn [rmdir](name: *const c_char) -> c_int, real {
        match remove_one(Function::Rmdir, libc::AT_FDCWD, name, libc::AT_REMOVEDIR) {
            Some(answer) => answer,
            None => real(name),
        }
    }

    // A file, or else a directory. Otherwise the error is that of removing a file.
    fn [remove](name: *const c_char) -> c_int, real {
        let removed = remove_one(Function::Remove, libc::AT_FDCWD, name, 0);
        let Some(answer) = removed else { return real(name) };
        let error = errno::get();
        if answer == 0 || !matches!(error, libc::EISDIR | libc::EPERM) {
            return answer;
        }
        let removed = remove_one(Function::Remove, libc::AT_FDCWD, name, libc::AT_REMOVEDIR);
        if removed == Some(-1) && errno::get() == libc::ENOTDIR {
            errno::set(error);
        }
        removed.unwrap_or(answer)
    }

    fn [mkdir](name: *const c_char, mode: mode_t) -> c_int, real {
        match make_directory(libc::AT_FDCWD, name, mode) {
            Some(answer) => answer,
            None => real(name, mode),
        }
    }

    fn [mkdirat](directory: c_int, name: *const c_char, mode: mode_t) -> c_int, real {
        match make_directory(directory, name, mode) {
            Some(answer) => answer,
            None => real(directory, name, mode),
        }
    }
}
