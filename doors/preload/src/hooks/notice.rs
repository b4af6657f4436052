//! Calls that stages are only notified of: before the call, so that they can write out what they
//! buffer, and afterwards, with its result.

use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{gid_t, mode_t, off64_t, size_t, ssize_t, uid_t};
use striate_stack::{Action, Detail, FileOrName, Function, Kind};

use crate::errno;
use crate::path::{self, PathBuffer, may_be_there};
use crate::stack_entry::{self, NoticePolicy, ReturnValue, StackEntry, noticed_file, noticed_name};

/// What else a call said.
type NoticeDetail<'d> = Detail<&'d Path>;

/// A call on a name relative to a directory, or on the directory's descriptor if the name is empty.
fn noticed_at<R: ReturnValue>(
    function: Function,
    (directory, name): (c_int, *const c_char),
    detail: NoticeDetail<'_>,
    real: impl FnOnce() -> R,
) -> R {
    // SAFETY: the program's text stays while its call lasts.
    if !may_be_there(name) || unsafe { *name } == 0 {
        return noticed_open(function, directory, detail, real);
    }
    noticed_name((function, NoticePolicy::Needed), (directory, name), real, |_| detail)
}

/// A call on a descriptor.
fn noticed_open<R: ReturnValue>(
    function: Function,
    descriptor: c_int,
    detail: NoticeDetail<'_>,
    real: impl FnOnce() -> R,
) -> R {
    noticed_file(
        (function, NoticePolicy::Needed),
        (descriptor, Kind::Notice),
        |file| Action::Notice { of: FileOrName::File(file) },
        |_| {},
        real,
        |_| detail,
    )
}

/// Where a symbolic link leads, as a call has written it to the program's memory.
///
/// # Safety
/// As many bytes as the call returned are there.
unsafe fn led_to<'d>(memory: *const c_char, length: isize, room: size_t) -> NoticeDetail<'d> {
    let detail = Detail::numbers(&[room as u64]);
    match usize::try_from(length) {
        Ok(length) if length > 0 && !memory.is_null() => {
            // SAFETY: the caller's promise; the record is made before the program has its memory
            // back.
            let text = unsafe { std::slice::from_raw_parts(memory.cast::<u8>(), length) };
            detail.with_text(Some(Path::new(OsStr::from_bytes(text))))
        }
        _ => detail,
    }
}

/// A text of the program's, as a second one of a call.
///
/// # Safety
/// It is null or a C string, and stays while the call lasts.
unsafe fn text<'d>(text: *const c_char) -> Option<&'d Path> {
    // SAFETY: the caller's promise.
    let text = unsafe { path::text(text)? };
    Some(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// `link` and `linkat`: stages are notified of both names.
///
/// # Safety
/// The names are null or C strings.
unsafe fn link_one(
    (directory, name): (c_int, *const c_char),
    (to, new): (c_int, *const c_char),
    flags: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let (mut room, mut second) = (PathBuffer::new(), None);
    if stack_entry::stack().is_some_and(|stack| stack.wants(Kind::Notice))
        && let Some(_entered) = StackEntry::by_name()
    {
        // SAFETY: the caller's promise.
        let text = unsafe { path::text(new) };
        second = text.and_then(|text| path::absolute(to, text, &mut room));
    }
    let detail = Detail::default().with_flags(flags).with_text(second);
    noticed_at(Function::Link, (directory, name), detail, || {
        match stack_entry::announced_name(Function::Link, to, new) {
            Ok(()) => real(),
            Err(error) => errno::fail(error),
        }
    })
}

/// What a file is mapped for.
fn map(
    (descriptor, length): (c_int, size_t),
    (protection, flags): (c_int, c_int),
    offset: off64_t,
    real: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let writable =
        protection & libc::PROT_WRITE != 0 && flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let (offset, length) = (u64::try_from(offset).unwrap_or(0), length as u64);
    noticed_file(
        (Function::Mmap, NoticePolicy::Implied),
        (descriptor, Kind::Map),
        |file| Action::Map { file, offset, length, writable },
        // From then on its bytes are looked at without calls.
        |call| {
            let _ = call.entered().share(call.file());
        },
        real,
        |_| Detail::default(),
    )
}

const AT: c_int = libc::AT_FDCWD;
const NOFOLLOW: c_int = libc::AT_SYMLINK_NOFOLLOW;

/// What is done with an extended attribute.
const GET: u64 = 0;
const SET: u64 = 1;
const LIST: u64 = 2;
const REMOVE: u64 = 3;

/// The mode of `access`, `chmod` and the like.
fn mode<'d>(mode: impl Into<i64>) -> NoticeDetail<'d> {
    Detail::numbers(&[mode.into() as u64])
}

fn owners<'d>(owner: uid_t, group: gid_t) -> NoticeDetail<'d> {
    Detail::numbers(&[owner.into(), group.into()])
}

/// # Safety
/// The key is null or a C string.
unsafe fn attribute<'d>(what: u64, key: *const c_char, length: size_t) -> NoticeDetail<'d> {
    // SAFETY: the caller's promise.
    Detail::numbers(&[what, length as u64]).with_text(unsafe { text(key) })
}

hooks! {
    fn [mmap, mmap64](
        place: *mut c_void,
        length: size_t,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: off64_t,
    ) -> *mut c_void, real {
        if crate::descriptor_table::has(descriptor) && flags & libc::MAP_ANONYMOUS == 0 {
            return map((descriptor, length), (protection, flags), offset, || {
                real(place, length, protection, flags, descriptor, offset)
            });
        }
        real(place, length, protection, flags, descriptor, offset)
    }

    fn [sync_file_range](
        descriptor: c_int,
        offset: off64_t,
        length: off64_t,
        flags: c_uint,
    ) -> c_int, real {
        if !crate::descriptor_table::has(descriptor) {
            return real(descriptor, offset, length, flags);
        }
        let detail = Detail::numbers(&[offset as u64, length as u64]).with_flags(flags as c_int);
        noticed_file(
            (Function::SyncFileRange, NoticePolicy::Implied),
            (descriptor, Kind::Notice),
            |file| Action::Notice { of: FileOrName::File(file) },
            |call| {
                let _ = stack_entry::guarded(|| call.entered().stack.settle(call.file()));
            },
            || real(descriptor, offset, length, flags),
            |_| detail,
        )
    }

    fn [access](name: *const c_char, wanted: c_int) -> c_int, real {
        noticed_at(Function::Access, (AT, name), mode(wanted), || real(name, wanted))
    }

    fn [euidaccess, eaccess](name: *const c_char, wanted: c_int) -> c_int, real {
        let detail = mode(wanted).with_flags(libc::AT_EACCESS);
        noticed_at(Function::Access, (AT, name), detail, || real(name, wanted))
    }

    fn [faccessat](
        directory: c_int,
        name: *const c_char,
        wanted: c_int,
        flags: c_int,
    ) -> c_int, real {
        let detail = mode(wanted).with_flags(flags);
        noticed_at(Function::Access, (directory, name), detail, || real(directory, name, wanted, flags))
    }

    fn [chmod](name: *const c_char, bits: mode_t) -> c_int, real {
        noticed_at(Function::Chmod, (AT, name), mode(bits), || real(name, bits))
    }

    fn [lchmod](name: *const c_char, bits: mode_t) -> c_int, real {
        let detail = mode(bits).with_flags(NOFOLLOW);
        noticed_at(Function::Chmod, (AT, name), detail, || real(name, bits))
    }

    fn [fchmod](descriptor: c_int, bits: mode_t) -> c_int, real {
        noticed_open(Function::Chmod, descriptor, mode(bits), || real(descriptor, bits))
    }

    fn [fchmodat](
        directory: c_int,
        name: *const c_char,
        bits: mode_t,
        flags: c_int,
    ) -> c_int, real {
        let detail = mode(bits).with_flags(flags);
        noticed_at(Function::Chmod, (directory, name), detail, || real(directory, name, bits, flags))
    }

    fn [chown](name: *const c_char, owner: uid_t, group: gid_t) -> c_int, real {
        noticed_at(Function::Chown, (AT, name), owners(owner, group), || real(name, owner, group))
    }

    fn [lchown](name: *const c_char, owner: uid_t, group: gid_t) -> c_int, real {
        let detail = owners(owner, group).with_flags(NOFOLLOW);
        noticed_at(Function::Chown, (AT, name), detail, || real(name, owner, group))
    }

    fn [fchown](descriptor: c_int, owner: uid_t, group: gid_t) -> c_int, real {
        let detail = owners(owner, group);
        noticed_open(Function::Chown, descriptor, detail, || real(descriptor, owner, group))
    }

    fn [fchownat](
        directory: c_int,
        name: *const c_char,
        owner: uid_t,
        group: gid_t,
        flags: c_int,
    ) -> c_int, real {
        let detail = owners(owner, group).with_flags(flags);
        noticed_at(Function::Chown, (directory, name), detail, || {
            real(directory, name, owner, group, flags)
        })
    }

    fn [utime, utimes](name: *const c_char, times: *const c_void) -> c_int, real {
        noticed_at(Function::Utimens, (AT, name), Detail::default(), || real(name, times))
    }

    fn [lutimes](name: *const c_char, times: *const c_void) -> c_int, real {
        let detail = Detail::default().with_flags(NOFOLLOW);
        noticed_at(Function::Utimens, (AT, name), detail, || real(name, times))
    }

    fn [futimes, futimens](descriptor: c_int, times: *const c_void) -> c_int, real {
        noticed_open(Function::Utimens, descriptor, Detail::default(), || real(descriptor, times))
    }

    fn [futimesat](directory: c_int, name: *const c_char, times: *const c_void) -> c_int, real {
        noticed_at(Function::Utimens, (directory, name), Detail::default(), || {
            real(directory, name, times)
        })
    }

    fn [utimensat](
        directory: c_int,
        name: *const c_char,
        times: *const c_void,
        flags: c_int,
    ) -> c_int, real {
        let detail = Detail::default().with_flags(flags);
        noticed_at(Function::Utimens, (directory, name), detail, || real(directory, name, times, flags))
    }

    fn [link](name: *const c_char, new: *const c_char) -> c_int, real {
        link_one((AT, name), (AT, new), 0, || real(name, new))
    }

    fn [linkat](
        directory: c_int,
        name: *const c_char,
        to: c_int,
        new: *const c_char,
        flags: c_int,
    ) -> c_int, real {
        link_one((directory, name), (to, new), flags, || real(directory, name, to, new, flags))
    }

    fn [symlink](target: *const c_char, name: *const c_char) -> c_int, real {
        let detail = Detail::default().with_text(text(target));
        noticed_at(Function::Symlink, (AT, name), detail, || real(target, name))
    }

    fn [symlinkat](target: *const c_char, directory: c_int, name: *const c_char) -> c_int, real {
        let detail = Detail::default().with_text(text(target));
        noticed_at(Function::Symlink, (directory, name), detail, || real(target, directory, name))
    }

    fn [readlink](name: *const c_char, memory: *mut c_char, length: size_t) -> ssize_t, real {
        let how = (Function::Readlink, NoticePolicy::Needed);
        noticed_name(how, (AT, name), || real(name, memory, length), |answer| {
            led_to(memory, answer, length)
        })
    }

    fn [readlinkat](
        directory: c_int,
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> ssize_t, real {
        if may_be_there(name) && *name == 0 {
            return noticed_open(Function::Readlink, directory, Detail::default(), || {
                real(directory, name, memory, length)
            });
        }
        let how = (Function::Readlink, NoticePolicy::Needed);
        noticed_name(how, (directory, name), || real(directory, name, memory, length), |answer| {
            led_to(memory, answer, length)
        })
    }

    // These look up many names; what they return is a place in memory.
    fn [realpath](name: *const c_char, memory: *mut c_char) -> *mut c_char, real {
        noticed_at(Function::Realpath, (AT, name), Detail::default(), || real(name, memory))
    }

    fn [__realpath_chk](
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> *mut c_char, real {
        noticed_at(Function::Realpath, (AT, name), Detail::default(), || real(name, memory, length))
    }

    fn [canonicalize_file_name](name: *const c_char) -> *mut c_char, real {
        noticed_at(Function::Realpath, (AT, name), Detail::default(), || real(name))
    }

    fn [pathconf](name: *const c_char, which: c_int) -> std::ffi::c_long, real {
        noticed_at(Function::Other, (AT, name), Detail::default(), || real(name, which))
    }

    fn [statfs, statfs64, statvfs, statvfs64](
        name: *const c_char,
        into: *mut c_void,
    ) -> c_int, real {
        noticed_at(Function::Statfs, (AT, name), Detail::default(), || real(name, into))
    }

    fn [mkfifo](name: *const c_char, bits: mode_t) -> c_int, real {
        let detail = mode(bits & !libc::S_IFMT | libc::S_IFIFO);
        noticed_at(Function::Mknod, (AT, name), detail, || real(name, bits))
    }

    fn [mknod](name: *const c_char, bits: mode_t, device: libc::dev_t) -> c_int, real {
        noticed_at(Function::Mknod, (AT, name), mode(bits), || real(name, bits, device))
    }

    fn [getxattr](
        name: *const c_char,
        key: *const c_char,
        value: *mut c_void,
        length: size_t,
    ) -> ssize_t, real {
        let detail = attribute(GET, key, length);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, key, value, length))
    }

    fn [lgetxattr](
        name: *const c_char,
        key: *const c_char,
        value: *mut c_void,
        length: size_t,
    ) -> ssize_t, real {
        let detail = attribute(GET, key, length).with_flags(NOFOLLOW);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, key, value, length))
    }

    fn [fgetxattr](
        descriptor: c_int,
        key: *const c_char,
        value: *mut c_void,
        length: size_t,
    ) -> ssize_t, real {
        let detail = attribute(GET, key, length);
        noticed_open(Function::Xattr, descriptor, detail, || real(descriptor, key, value, length))
    }

    fn [setxattr](
        name: *const c_char,
        key: *const c_char,
        value: *const c_void,
        length: size_t,
        flags: c_int,
    ) -> c_int, real {
        let detail = attribute(SET, key, length);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, key, value, length, flags))
    }

    fn [lsetxattr](
        name: *const c_char,
        key: *const c_char,
        value: *const c_void,
        length: size_t,
        flags: c_int,
    ) -> c_int, real {
        let detail = attribute(SET, key, length).with_flags(NOFOLLOW);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, key, value, length, flags))
    }

    fn [fsetxattr](
        descriptor: c_int,
        key: *const c_char,
        value: *const c_void,
        length: size_t,
        flags: c_int,
    ) -> c_int, real {
        let detail = attribute(SET, key, length);
        noticed_open(Function::Xattr, descriptor, detail, || real(descriptor, key, value, length, flags))
    }

    fn [listxattr](
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> ssize_t, real {
        let detail = Detail::numbers(&[LIST, length as u64]);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, memory, length))
    }

    fn [llistxattr](
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> ssize_t, real {
        let detail = Detail::numbers(&[LIST, length as u64]).with_flags(NOFOLLOW);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, memory, length))
    }

    fn [flistxattr](descriptor: c_int, memory: *mut c_char, length: size_t) -> ssize_t, real {
        let detail = Detail::numbers(&[LIST, length as u64]);
        noticed_open(Function::Xattr, descriptor, detail, || real(descriptor, memory, length))
    }

    fn [removexattr](name: *const c_char, key: *const c_char) -> c_int, real {
        noticed_at(Function::Xattr, (AT, name), attribute(REMOVE, key, 0), || real(name, key))
    }

    fn [lremovexattr](name: *const c_char, key: *const c_char) -> c_int, real {
        let detail = attribute(REMOVE, key, 0).with_flags(NOFOLLOW);
        noticed_at(Function::Xattr, (AT, name), detail, || real(name, key))
    }

    fn [fremovexattr](descriptor: c_int, key: *const c_char) -> c_int, real {
        noticed_open(Function::Xattr, descriptor, attribute(REMOVE, key, 0), || real(descriptor, key))
    }
}
