//! Calls that stages do not take part in, but hear of before: what they hold back has to be there.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{gid_t, mode_t, off64_t, size_t, ssize_t, uid_t};
use rustix::io::Errno;
use striate_stack::{Action, Function, Kind, Op};

use crate::door::{self, Call, notice_file, notice_name};
use crate::errno;
use crate::path::may_be_there;

/// Tells stages about a name relative to a directory, or about the directory's descriptor if the name is empty.
fn notice_at(function: Function, directory: c_int, name: *const c_char) -> Result<(), Errno> {
    // SAFETY: the program's text stays while its call lasts.
    if !may_be_there(name) || unsafe { *name } == 0 {
        return notice_file(function, directory);
    }
    notice_name(function, directory, name)
}

/// Tells stages that a file is about to be mapped; from then on its bytes are looked at without calls.
fn map(descriptor: c_int, length: size_t, protection: c_int, flags: c_int, offset: off64_t) {
    let Some(call) = Call::on(descriptor) else { return };
    if call.file().route().wants(Kind::Map) {
        let writable =
            protection & libc::PROT_WRITE != 0 && flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let offset = u64::try_from(offset).unwrap_or(0);
        let action = Action::Map { file: call.file(), offset, length: length as u64, writable };
        let route = call.file().route();
        let _ = call.entered().call(&mut Op { function: Function::Mmap, route, action });
    }
    let _ = call.entered().share(call.file());
}

const AT: c_int = libc::AT_FDCWD;

/// Passes a call on after stages have heard of it.
macro_rules! after {
    ($told:expr, $failed:expr, $call:expr) => {
        match $told {
            Ok(()) => $call,
            Err(error) => {
                errno::fail(error);
                $failed
            }
        }
    };
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
        if crate::table::has(descriptor) && flags & libc::MAP_ANONYMOUS == 0 {
            map(descriptor, length, protection, flags, offset);
        }
        real(place, length, protection, flags, descriptor, offset)
    }

    fn [sync_file_range](
        descriptor: c_int,
        offset: off64_t,
        length: off64_t,
        flags: c_uint,
    ) -> c_int, real {
        if let Some(call) = Call::on(descriptor) {
            let _ = call.notice(Function::SyncFileRange);
            let _ = door::guarded(|| call.entered().stack.settle(call.file()));
        }
        real(descriptor, offset, length, flags)
    }

    fn [access, euidaccess, eaccess](name: *const c_char, mode: c_int) -> c_int, real {
        after!(notice_name(Function::Access, AT, name), -1, real(name, mode))
    }

    fn [faccessat](
        directory: c_int,
        name: *const c_char,
        mode: c_int,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_at(Function::Access, directory, name), -1, real(directory, name, mode, flags))
    }

    fn [chmod, lchmod](name: *const c_char, mode: mode_t) -> c_int, real {
        after!(notice_name(Function::Chmod, AT, name), -1, real(name, mode))
    }

    fn [fchmod](descriptor: c_int, mode: mode_t) -> c_int, real {
        after!(notice_file(Function::Chmod, descriptor), -1, real(descriptor, mode))
    }

    fn [fchmodat](
        directory: c_int,
        name: *const c_char,
        mode: mode_t,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_at(Function::Chmod, directory, name), -1, real(directory, name, mode, flags))
    }

    fn [chown, lchown](name: *const c_char, owner: uid_t, group: gid_t) -> c_int, real {
        after!(notice_name(Function::Chown, AT, name), -1, real(name, owner, group))
    }

    fn [fchown](descriptor: c_int, owner: uid_t, group: gid_t) -> c_int, real {
        after!(notice_file(Function::Chown, descriptor), -1, real(descriptor, owner, group))
    }

    fn [fchownat](
        directory: c_int,
        name: *const c_char,
        owner: uid_t,
        group: gid_t,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_at(Function::Chown, directory, name), -1, real(directory, name, owner, group, flags))
    }

    fn [utime, utimes, lutimes](name: *const c_char, times: *const c_void) -> c_int, real {
        after!(notice_name(Function::Utimens, AT, name), -1, real(name, times))
    }

    fn [futimes, futimens](descriptor: c_int, times: *const c_void) -> c_int, real {
        after!(notice_file(Function::Utimens, descriptor), -1, real(descriptor, times))
    }

    fn [futimesat](directory: c_int, name: *const c_char, times: *const c_void) -> c_int, real {
        after!(notice_at(Function::Utimens, directory, name), -1, real(directory, name, times))
    }

    fn [utimensat](
        directory: c_int,
        name: *const c_char,
        times: *const c_void,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_at(Function::Utimens, directory, name), -1, real(directory, name, times, flags))
    }

    fn [link](name: *const c_char, new: *const c_char) -> c_int, real {
        after!(notice_name(Function::Link, AT, name).and_then(|()| notice_name(Function::Link, AT, new)), -1, real(name, new))
    }

    fn [linkat](
        directory: c_int,
        name: *const c_char,
        to: c_int,
        new: *const c_char,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_at(Function::Link, directory, name).and_then(|()| notice_name(Function::Link, to, new)), -1, real(directory, name, to, new, flags))
    }

    fn [symlink](text: *const c_char, name: *const c_char) -> c_int, real {
        after!(notice_name(Function::Symlink, AT, name), -1, real(text, name))
    }

    fn [symlinkat](text: *const c_char, directory: c_int, name: *const c_char) -> c_int, real {
        after!(notice_at(Function::Symlink, directory, name), -1, real(text, directory, name))
    }

    fn [readlink](name: *const c_char, memory: *mut c_char, length: size_t) -> ssize_t, real {
        after!(notice_name(Function::Readlink, AT, name), -1, real(name, memory, length))
    }

    fn [readlinkat](
        directory: c_int,
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> ssize_t, real {
        after!(notice_at(Function::Readlink, directory, name), -1, real(directory, name, memory, length))
    }

    fn [realpath](name: *const c_char, memory: *mut c_char) -> *mut c_char, real {
        after!(notice_name(Function::Readlink, AT, name), std::ptr::null_mut(), real(name, memory))
    }

    fn [__realpath_chk](
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> *mut c_char, real {
        after!(notice_name(Function::Readlink, AT, name), std::ptr::null_mut(), real(name, memory, length))
    }

    fn [canonicalize_file_name](name: *const c_char) -> *mut c_char, real {
        after!(notice_name(Function::Readlink, AT, name), std::ptr::null_mut(), real(name))
    }

    fn [pathconf](name: *const c_char, which: c_int) -> std::ffi::c_long, real {
        after!(notice_name(Function::Other, AT, name), -1, real(name, which))
    }

    fn [statfs, statfs64, statvfs, statvfs64](
        name: *const c_char,
        into: *mut c_void,
    ) -> c_int, real {
        after!(notice_name(Function::Other, AT, name), -1, real(name, into))
    }

    fn [mkfifo](name: *const c_char, mode: mode_t) -> c_int, real {
        after!(notice_name(Function::Other, AT, name), -1, real(name, mode))
    }

    fn [mknod](name: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int, real {
        after!(notice_name(Function::Other, AT, name), -1, real(name, mode, device))
    }

    fn [getxattr, lgetxattr](
        name: *const c_char,
        key: *const c_char,
        value: *mut c_void,
        length: size_t,
    ) -> ssize_t, real {
        after!(notice_name(Function::Xattr, AT, name), -1, real(name, key, value, length))
    }

    fn [fgetxattr](
        descriptor: c_int,
        key: *const c_char,
        value: *mut c_void,
        length: size_t,
    ) -> ssize_t, real {
        after!(notice_file(Function::Xattr, descriptor), -1, real(descriptor, key, value, length))
    }

    fn [setxattr, lsetxattr](
        name: *const c_char,
        key: *const c_char,
        value: *const c_void,
        length: size_t,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_name(Function::Xattr, AT, name), -1, real(name, key, value, length, flags))
    }

    fn [fsetxattr](
        descriptor: c_int,
        key: *const c_char,
        value: *const c_void,
        length: size_t,
        flags: c_int,
    ) -> c_int, real {
        after!(notice_file(Function::Xattr, descriptor), -1, real(descriptor, key, value, length, flags))
    }

    fn [listxattr, llistxattr](
        name: *const c_char,
        memory: *mut c_char,
        length: size_t,
    ) -> ssize_t, real {
        after!(notice_name(Function::Xattr, AT, name), -1, real(name, memory, length))
    }

    fn [flistxattr](descriptor: c_int, memory: *mut c_char, length: size_t) -> ssize_t, real {
        after!(notice_file(Function::Xattr, descriptor), -1, real(descriptor, memory, length))
    }

    fn [removexattr, lremovexattr](name: *const c_char, key: *const c_char) -> c_int, real {
        after!(notice_name(Function::Xattr, AT, name), -1, real(name, key))
    }

    fn [fremovexattr](descriptor: c_int, key: *const c_char) -> c_int, real {
        after!(notice_file(Function::Xattr, descriptor), -1, real(descriptor, key))
    }
}
