//! `syscall`: system calls by number.

use std::ffi::{c_int, c_long, c_uint, c_ulong};

use super::{close, copy, data, descriptor, namespace, open, rlimit, size, stat};
use crate::stack_entry::Shared;
use crate::{fork, stack_entry};

/// Arguments above this, and those of unknown calls, are not descriptors.
const fn number(argument: c_ulong) -> c_int {
    argument as c_int
}

hooks! {
    fn [syscall](
        call: c_long,
        a: c_ulong,
        b: c_ulong,
        c: c_ulong,
        d: c_ulong,
        e: c_ulong,
        f: c_ulong,
    ) -> c_long, real {
        if stack_entry::stack().is_none() {
            return real(call, a, b, c, d, e, f);
        }
        match call {
            libc::SYS_read => data::read(number(a), b as _, c as _) as _,
            libc::SYS_write => data::write(number(a), b as _, c as _) as _,
            libc::SYS_pread64 => data::pread64(number(a), b as _, c as _, d as _) as _,
            libc::SYS_pwrite64 => data::pwrite64(number(a), b as _, c as _, d as _) as _,
            libc::SYS_readv => data::readv(number(a), b as _, number(c)) as _,
            libc::SYS_writev => data::writev(number(a), b as _, number(c)) as _,
            libc::SYS_preadv => data::preadv64(number(a), b as _, number(c), d as _) as _,
            libc::SYS_pwritev => data::pwritev64(number(a), b as _, number(c), d as _) as _,
            libc::SYS_lseek => descriptor::lseek64(number(a), b as _, number(c)) as _,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => open::open64(a as _, number(b), c as _).into(),
            libc::SYS_openat => open::openat64(number(a), b as _, number(c), d as _).into(),
            libc::SYS_close => close::close(number(a)).into(),
            libc::SYS_close_range => close::close_range(a as c_uint, b as c_uint, number(c)).into(),
            libc::SYS_dup => descriptor::dup(number(a)).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => descriptor::dup2(number(a), number(b)).into(),
            libc::SYS_dup3 => descriptor::dup3(number(a), number(b), number(c)).into(),
            libc::SYS_fcntl => descriptor::fcntl64(number(a), number(b), c).into(),
            libc::SYS_fsync => descriptor::fsync(number(a)).into(),
            libc::SYS_fdatasync => descriptor::fdatasync(number(a)).into(),
            libc::SYS_ftruncate => size::ftruncate64(number(a), b as _).into(),
            libc::SYS_fallocate => size::fallocate64(number(a), number(b), c as _, d as _).into(),
            libc::SYS_fstat => stat::fstat64(number(a), b as _).into(),
            libc::SYS_newfstatat => stat::fstatat64(number(a), b as _, c as _, number(d)).into(),
            libc::SYS_statx => stat::statx(number(a), b as _, number(c), d as _, e as _).into(),
            libc::SYS_renameat2 => {
                namespace::renameat2(number(a), b as _, number(c), d as _, e as _).into()
            }
            libc::SYS_unlinkat => namespace::unlinkat(number(a), b as _, number(c)).into(),
            libc::SYS_copy_file_range => {
                copy::copy_file_range(number(a), b as _, number(c), d as _, e as _, f as _) as _
            }
            libc::SYS_sendfile => copy::sendfile64(number(a), number(b), c as _, d as _) as _,
            libc::SYS_exit_group => real(call, stack_entry::end_with(number(a)) as _, b, c, d, e, f),
            libc::SYS_setrlimit => rlimit::setrlimit64(a as _, b as _).into(),
            libc::SYS_prlimit64 => rlimit::prlimit64(number(a), b as _, c as _, d as _).into(),
            _ => {
                before(call, a);
                real(call, a, b, c, d, e, f)
            }
        }
    }
}

/// Preparation for calls that are not handled by stages.
fn before(call: c_long, first: c_ulong) {
    match call {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork | libc::SYS_vfork => fork::before_lending(),
        libc::SYS_clone if number(first) & libc::CLONE_THREAD == 0 => fork::before_lending(),
        libc::SYS_execve | libc::SYS_execveat => fork::before_exec(),
        // The kernel reads and writes for the program.
        libc::SYS_io_submit | libc::SYS_io_uring_enter | libc::SYS_io_uring_register => {
            stack_entry::share_all(Shared::All);
        }
        libc::SYS_openat2
        | libc::SYS_splice
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_pidfd_getfd => stack_entry::share_all(Shared::All),
        _ => {}
    }
}
