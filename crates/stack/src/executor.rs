//! The end of the stack: operations as system calls.
//!
//! They are made directly, not through functions of the C library, which may be intercepted.

use std::ffi::c_long;
use std::os::fd::{AsRawFd, RawFd};

use rustix::io::Errno;

use crate::descriptors;
use crate::memory::Memory;
use crate::op::{Action, CopyEndpoint, FileOrName, Op, Outcome, StatInto, Target};
use crate::open_file::OpenFile;

/// Bytes that a call can take at most: Linux takes no more either.
const MOST: usize = 0x7fff_f000;

/// Carries out an operation.
#[inline]
pub fn perform(op: &mut Op<'_>) -> Outcome {
    // Nearly all are transfers of one part, at an offset or where no stage has taken the position.
    // They have a way of their own, since all others together need many registers.
    let (numbers, file, memory, at) = match &op.action {
        Action::Read { file, memory, at, flags: 0 } => {
            ([libc::SYS_read, libc::SYS_pread64], file, memory, *at)
        }
        Action::Write { file, memory, at, flags: 0 } => {
            ([libc::SYS_write, libc::SYS_pwrite64], file, memory, *at)
        }
        Action::Seek { file, offset, whence } if !file.is_position_taken() => {
            let descriptor = arg(file.raw_descriptor());
            return call(libc::SYS_lseek, [descriptor, *offset, arg(*whence), 0, 0, 0]);
        }
        _ => return perform_any(op),
    };
    match (memory.one(), at) {
        (Some(part), None) if !file.is_position_taken() => plain(numbers[0], file, part, 0),
        (Some(part), Some(at)) if i64::try_from(at).is_ok() => plain(numbers[1], file, part, at),
        _ => perform_any(op),
    }
}

/// A transfer of one part.
#[inline]
fn plain(number: c_long, file: &OpenFile, part: &libc::iovec, at: u64) -> Outcome {
    let length = part.iov_len.min(MOST) as c_long;
    // The kernel knows what is wrong with a descriptor of -1.
    let descriptor = arg(file.raw_descriptor());
    call(number, [descriptor, part.iov_base as c_long, length, at as c_long, 0, 0])
}

fn perform_any(op: &mut Op<'_>) -> Outcome {
    match &mut op.action {
        Action::Open { target, flags, mode, .. } => open(*target, *flags, *mode),
        Action::Close { descriptor, .. } => {
            descriptors::forget(*descriptor);
            call(libc::SYS_close, [arg(*descriptor), 0, 0, 0, 0, 0])
        }
        Action::Read { file, memory, at, flags } => {
            if at.is_none() {
                file.give_free_position_back()?;
            }
            transfer(
                [libc::SYS_read, libc::SYS_pread64, libc::SYS_preadv2],
                file.descriptor()?.as_raw_fd(),
                memory,
                *at,
                *flags,
            )
        }
        Action::Write { file, memory, at, flags } => {
            if at.is_none() {
                file.give_free_position_back()?;
            }
            transfer(
                [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_pwritev2],
                file.descriptor()?.as_raw_fd(),
                memory,
                *at,
                *flags,
            )
        }
        Action::Seek { file, offset, whence } => {
            file.give_free_position_back()?;
            call(
                libc::SYS_lseek,
                [arg(file.descriptor()?.as_raw_fd()), *offset, arg(*whence), 0, 0, 0],
            )
        }
        Action::Sync { file, data_only } => {
            let number = if *data_only { libc::SYS_fdatasync } else { libc::SYS_fsync };
            call(number, [arg(file.descriptor()?.as_raw_fd()), 0, 0, 0, 0, 0])
        }
        Action::Truncate { file, length } => call(
            libc::SYS_ftruncate,
            [arg(file.descriptor()?.as_raw_fd()), *length as c_long, 0, 0, 0, 0],
        ),
        Action::Allocate { file, mode, offset, length } => {
            let place = [*offset as c_long, *length as c_long];
            call(
                libc::SYS_fallocate,
                [arg(file.descriptor()?.as_raw_fd()), arg(*mode), place[0], place[1], 0, 0],
            )
        }
        Action::Stat { of, flags, into } => stat(*of, *flags, into),
        Action::Rename { from, to, flags } => {
            let [old, new] = [*from, *to].map(|name| name.path.as_ptr() as c_long);
            call(
                libc::SYS_renameat2,
                [arg(from.directory), old, arg(to.directory), new, c_long::from(*flags), 0],
            )
        }
        Action::Unlink { target, flags } => call(
            libc::SYS_unlinkat,
            [arg(target.directory), target.path.as_ptr() as c_long, arg(*flags), 0, 0, 0],
        ),
        Action::MakeDirectory { target, mode } => {
            let path = target.path.as_ptr() as c_long;
            call(libc::SYS_mkdirat, [arg(target.directory), path, c_long::from(*mode), 0, 0, 0])
        }
        Action::Control { descriptor, command, argument, .. } => {
            call(libc::SYS_fcntl, [arg(*descriptor), arg(*command), *argument as c_long, 0, 0, 0])
        }
        Action::CopyRange { from, to, length } => {
            position_to_kernel(from)?;
            position_to_kernel(to)?;
            copy_range(*from, *to, *length)
        }
        Action::SendFile { from, to, length } => {
            position_to_kernel(from)?;
            position_to_kernel(to)?;
            send_file(*from, *to, *length)
        }
        Action::ReadDirectory { .. }
        | Action::Duplicate { .. }
        | Action::Map { .. }
        | Action::Notice { .. } => Ok(0),
    }
}

const fn arg(value: i32) -> c_long {
    value as c_long
}

/// A system call.
#[inline]
fn call(number: c_long, args: [c_long; 6]) -> Outcome {
    let [a, b, c, d, e, f] = args;
    let result: c_long;
    // SAFETY: the operation that asks for it is the program's, which answers for what it points to.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    match result {
        -4095..0 => Err(Errno::from_raw_os_error(-result as i32)),
        _ => Ok(result as u64),
    }
}

fn open(target: Target<'_>, flags: i32, mode: u32) -> Outcome {
    let path = target.path.as_ptr() as c_long;
    call(libc::SYS_openat, [arg(target.directory), path, arg(flags), c_long::from(mode), 0, 0])
}

/// Reads or writes: `numbers` are the calls at the position, at an offset, and with several parts.
fn transfer(
    numbers: [c_long; 3],
    descriptor: RawFd,
    memory: &Memory<'_>,
    at: Option<u64>,
    flags: i32,
) -> Outcome {
    let [plain, placed, vectored] = numbers;
    if at.is_some_and(|at| at > i64::MAX as u64) {
        // To the call with several parts -1 would mean the position.
        return Err(Errno::INVAL);
    }
    match (memory.parts(), at, flags) {
        ([part], None, 0) => call(
            plain,
            [arg(descriptor), part.iov_base as c_long, part.iov_len.min(MOST) as c_long, 0, 0, 0],
        ),
        ([part], Some(at), 0) => {
            let length = part.iov_len.min(MOST) as c_long;
            call(placed, [arg(descriptor), part.iov_base as c_long, length, at as c_long, 0, 0])
        }
        (parts, at, flags) => {
            let at = at.map_or(-1, |at| at as c_long);
            call(
                vectored,
                [
                    arg(descriptor),
                    parts.as_ptr() as c_long,
                    parts.len() as c_long,
                    at,
                    0,
                    arg(flags),
                ],
            )
        }
    }
}

fn stat(of: FileOrName<'_>, flags: i32, into: &mut StatInto<'_>) -> Outcome {
    let (directory, path, flags) = match of {
        FileOrName::File(file) => (file.raw_descriptor(), c"", flags | libc::AT_EMPTY_PATH),
        FileOrName::Name(target) => (target.directory, target.path, flags),
    };
    let [directory, flags] = [directory, flags].map(arg);
    let path = path.as_ptr() as c_long;
    match into {
        StatInto::Stat(buffer) => {
            let buffer: *mut libc::stat = *buffer;
            call(libc::SYS_newfstatat, [directory, path, buffer as c_long, flags, 0, 0])
        }
        StatInto::Statx { mask, buffer } => {
            let buffer: *mut libc::statx = *buffer;
            call(
                libc::SYS_statx,
                [directory, path, flags, c_long::from(*mask), buffer as c_long, 0],
            )
        }
    }
}

/// The kernel has the position of an end that is used at its position.
fn position_to_kernel(end: &CopyEndpoint<'_>) -> Result<(), Errno> {
    match end {
        CopyEndpoint { file: Some(file), at: None, .. } => file.give_free_position_back(),
        _ => Ok(()),
    }
}

fn pointer(at: &mut Option<i64>) -> c_long {
    at.as_mut().map_or(0, |at| std::ptr::from_mut(at) as c_long)
}

fn copy_range(from: CopyEndpoint<'_>, to: CopyEndpoint<'_>, length: usize) -> Outcome {
    let mut at = [from, to].map(|end| end.at.map(|at| at as i64));
    let [source, sink] = &mut at;
    let args = [
        arg(from.descriptor),
        pointer(source),
        arg(to.descriptor),
        pointer(sink),
        length as c_long,
        0,
    ];
    call(libc::SYS_copy_file_range, args)
}

fn send_file(from: CopyEndpoint<'_>, to: CopyEndpoint<'_>, length: usize) -> Outcome {
    let mut at = from.at.map(|at| at as i64);
    call(
        libc::SYS_sendfile,
        [arg(to.descriptor), arg(from.descriptor), pointer(&mut at), length as c_long, 0, 0],
    )
}
