//! Listing directories: stages are notified before.

use std::ffi::{CStr, c_char, c_int, c_void};

use striate_stack::{Action, Detail, Function, Kind, Op, Target};

use crate::path::{self, PathBuffer};
use crate::stack_entry::{self, NoticePolicy, ReturnValue, StackEntry, noticed_name};

/// Lists a directory, after stages were notified.
fn list<R: ReturnValue>(directory: c_int, name: *const c_char, real: impl FnOnce() -> R) -> R {
    let how = (Function::Opendir, NoticePolicy::Implied);
    noticed_name(how, (directory, name), real, |_| Detail::default())
}

/// Lists the directory of a descriptor, after stages were notified.
fn list_descriptor<R: ReturnValue>(descriptor: c_int, real: impl FnOnce() -> R) -> R {
    let wanted = stack_entry::stack().is_some_and(|stack| stack.wants(Kind::ReadDirectory));
    let Some(entered) = wanted.then(StackEntry::by_name).flatten() else { return real() };
    let mut room = PathBuffer::new();
    let Some(absolute) = path::absolute(descriptor, c".", &mut room) else {
        drop(entered);
        return real();
    };
    let route = entered.stack.route(absolute);
    let target = Target { directory: descriptor, path: c".", absolute };
    let action = Action::ReadDirectory { target };
    let mut op = Op { function: Function::Opendir, route: &route, action };
    let announced = entered.announce(&mut op);
    drop(entered);
    stack_entry::make_and_tell(&op, announced, NoticePolicy::Implied, real, |_| Detail::default())
}

/// Whether an entry is a log of this process: it was made since the directory was opened, and is
/// not the program's.
fn is_log(entry: &libc::dirent64) -> bool {
    if entry.d_name[0] as u8 != b'.' || stack_entry::stack().is_none() {
        return false;
    }
    // SAFETY: a name ends with a zero.
    let name = unsafe { CStr::from_ptr(entry.d_name.as_ptr()) };
    striate_stages::is_own_log(name)
}

/// A whole tree is about to be walked, or names are about to be looked for.
fn walk() {
    if stack_entry::stack().is_some_and(|stack| stack.wants(Kind::ReadDirectory)) {
        stack_entry::settle_all();
    }
}

hooks! {
    fn [opendir](name: *const c_char) -> *mut c_void, real {
        list(libc::AT_FDCWD, name, || real(name))
    }

    // It starts again with what is there then.
    fn [rewinddir](directory: *mut c_void) -> (), real {
        if directory.is_null() {
            return real(directory);
        }
        let _: c_int = list_descriptor(libc::dirfd(directory.cast()), || {
            real(directory);
            0
        });
    }

    fn [readdir, readdir64](directory: *mut c_void) -> *mut libc::dirent64, real {
        loop {
            let entry = real(directory);
            if entry.as_ref().is_none_or(|entry| !is_log(entry)) {
                return entry;
            }
        }
    }

    fn [fdopendir](descriptor: c_int) -> *mut c_void, real {
        list_descriptor(descriptor, || real(descriptor))
    }

    fn [scandir, scandir64](
        name: *const c_char,
        found: *mut c_void,
        choose: *mut c_void,
        compare: *mut c_void,
    ) -> c_int, real {
        list(libc::AT_FDCWD, name, || real(name, found, choose, compare))
    }

    fn [scandirat, scandirat64](
        directory: c_int,
        name: *const c_char,
        found: *mut c_void,
        choose: *mut c_void,
        compare: *mut c_void,
    ) -> c_int, real {
        list(directory, name, || real(directory, name, found, choose, compare))
    }

    fn [ftw, ftw64](name: *const c_char, visit: *mut c_void, most: c_int) -> c_int, real {
        walk();
        real(name, visit, most)
    }

    fn [nftw, nftw64](
        name: *const c_char,
        visit: *mut c_void,
        most: c_int,
        flags: c_int,
    ) -> c_int, real {
        walk();
        real(name, visit, most, flags)
    }

    fn [fts_open, fts64_open](
        names: *const *mut c_char,
        options: c_int,
        compare: *mut c_void,
    ) -> *mut c_void, real {
        walk();
        real(names, options, compare)
    }

    fn [glob, glob64](
        pattern: *const c_char,
        flags: c_int,
        failed: *mut c_void,
        found: *mut c_void,
    ) -> c_int, real {
        walk();
        real(pattern, flags, failed, found)
    }
}
