//! Descriptors: duplicates, flags, locks.

use std::ffi::{c_int, c_ulong, c_void};
use std::path::Path;
use std::sync::Arc;

use libc::off64_t;
use rustix::io::Errno;
use striate_stack::{Action, Detail, Function, Kind, descriptors};

use super::close::replace;
use crate::stack_entry::{self, Announcements, Call};
use crate::{descriptor_table, errno};

/// Notes that a descriptor has been made of another.
fn duplicated(function: Function, from: c_int, to: c_int) {
    if to < 0 {
        return;
    }
    descriptors::forget(to);
    let Some(call) = Call::on(from) else { return };
    let file = Arc::clone(call.file());
    file.add_descriptor(to);
    // The C library uses the standard streams without us. Stages have to know of the descriptor by
    // then.
    if to <= 2 {
        let _ = call.entered().share(&file);
    }
    if let Err(file) = descriptor_table::put(call.entered().stack, to, file) {
        // There is no place for it: from now on it is used without us.
        let _ = call.entered().share(&file);
        file.remove_descriptor(to);
        return;
    }
    if call.file().route().wants(Kind::Duplicate) {
        let _ = call.perform(function, |file| Action::Duplicate { file, descriptor: to });
    }
}

/// Whether a descriptor is open.
fn is_open(descriptor: c_int) -> bool {
    let errno = errno::get();
    // SAFETY: it may be asked of any number.
    let flags = unsafe { real::fcntl.get()(descriptor, libc::F_GETFD, 0) };
    errno::set(errno);
    flags >= 0
}

/// `dup2` and `dup3`.
fn duplicate_onto(from: c_int, to: c_int, act: impl Fn() -> c_int) -> c_int {
    if !descriptors::may_close(to) {
        // As for a number that the process may not have: what is there cannot give way.
        return errno::fail(Errno::BADF);
    }
    if from == to || !descriptor_table::has(from) && !descriptor_table::has(to) || !is_open(from) {
        return act();
    }
    match replace(to, act) {
        Ok(result) => {
            duplicated(Function::Dup2, from, result);
            result
        }
        Err(error) => errno::fail(error),
    }
}

/// `fcntl`. `None`: it is the kernel's.
fn control(
    descriptor: c_int,
    command: c_int,
    argument: c_ulong,
    act: impl Fn() -> c_int,
) -> Option<c_int> {
    let call = Call::on(descriptor)?;
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            drop(call);
            let made = act();
            duplicated(Function::Fcntl, descriptor, made);
            Some(made)
        }
        libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_GETLK
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW
        | libc::F_OFD_GETLK
        | libc::F_SETLEASE => {
            // Other processes want to see the data.
            drop(call);
            let detail = lock(command, argument);
            Some(stack_entry::shared(Function::Fcntl, descriptor, act, |_| detail))
        }
        libc::F_SETFL => {
            // What was written before is written as it was meant.
            let _ = stack_entry::guarded(|| call.entered().stack.settle(call.file()));
            let outcome = call.perform(Function::Fcntl, |file| Action::Control {
                file,
                descriptor,
                command,
                argument,
            });
            if outcome.is_ok() {
                let changed = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;
                let file = call.file();
                file.set_flags(file.flags() & !changed | argument as c_int & changed);
            }
            Some(call.leave(outcome) as c_int)
        }
        _ if call.file().route().wants(Kind::Control) => {
            let outcome = call.perform(Function::Fcntl, |file| Action::Control {
                file,
                descriptor,
                command,
                argument,
            });
            Some(call.leave(outcome) as c_int)
        }
        _ => None,
    }
}

/// What a lock is for: the command, how and from where, the start and the length.
fn lock<'d>(command: c_int, argument: c_ulong) -> Detail<&'d Path> {
    let mut numbers = [command as u64, argument, 0, 0];
    if command != libc::F_SETLEASE {
        // SAFETY: null, or the structure that these commands take.
        let wanted = unsafe { (argument as *const libc::flock).as_ref() };
        if let Some(wanted) = wanted {
            let bits = |number: i16| u64::from(number.cast_unsigned());
            numbers[1] = bits(wanted.l_type) | bits(wanted.l_whence) << 16;
            (numbers[2], numbers[3]) = (wanted.l_start as u64, wanted.l_len as u64);
        }
    }
    Detail::numbers(&numbers)
}

const FICLONE: c_ulong = 0x4004_9409;
const FICLONERANGE: c_ulong = 0x4020_940d;
const FIDEDUPERANGE: c_ulong = 0xc018_9436;

/// `ioctl` on a file of a stage: what is held back of it, and of the other file of a clone, is
/// there first. Returns the other file's descriptor.
///
/// # Safety
/// The argument is what the request takes.
unsafe fn before_request(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let other = match request {
        FICLONE => argument as c_int,
        // SAFETY: the structure starts with the descriptor.
        FICLONERANGE if !argument.is_null() => unsafe { *argument.cast::<i64>() as c_int },
        _ => -1,
    };
    for one in [descriptor, other] {
        if let Some(call) = Call::on(one) {
            let _ = stack_entry::guarded(|| call.entered().stack.settle(call.file()));
        }
    }
    other
}

hooks! {
    fn [dup](descriptor: c_int) -> c_int, real {
        let made = real(descriptor);
        if descriptor_table::has(descriptor) {
            duplicated(Function::Dup, descriptor, made);
        }
        made
    }

    fn [dup2](from: c_int, to: c_int) -> c_int, real {
        duplicate_onto(from, to, || real(from, to))
    }

    fn [dup3](from: c_int, to: c_int, flags: c_int) -> c_int, real {
        if flags & !libc::O_CLOEXEC != 0 {
            return real(from, to, flags);
        }
        duplicate_onto(from, to, || real(from, to, flags))
    }

    fn [fcntl, fcntl64](descriptor: c_int, command: c_int, argument: c_ulong) -> c_int, real {
        if descriptor_table::has(descriptor) {
            let done = control(descriptor, command, argument, || real(descriptor, command, argument));
            if let Some(answer) = done {
                return answer;
            }
        }
        real(descriptor, command, argument)
    }

    fn [ioctl](descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int, real {
        // A clone may be of a file that a stage wants into one that none does.
        let clones = matches!(request, FICLONE | FICLONERANGE | FIDEDUPERANGE);
        if !descriptor_table::has(descriptor) && !clones {
            return real(descriptor, request, argument);
        }
        let other = before_request(descriptor, request, argument);
        if !clones {
            return real(descriptor, request, argument);
        }
        // Stages act on a clone only if it is made: most file systems have none, and programs then
        // copy.
        let mut announcements = Announcements::new(Function::Other);
        announcements.list(descriptor);
        announcements.list(other);
        announcements.make(|| {
            let answer = real(descriptor, request, argument);
            if answer == 0 {
                // The file is not what stages think it is.
                stack_entry::share(Function::Other, descriptor);
                stack_entry::share(Function::Other, other);
            }
            answer
        })
    }

    fn [flock](descriptor: c_int, operation: c_int) -> c_int, real {
        let detail = Detail::numbers(&[operation as u64]);
        stack_entry::shared(Function::Flock, descriptor, || real(descriptor, operation), |_| detail)
    }

    fn [lockf, lockf64](descriptor: c_int, command: c_int, length: off64_t) -> c_int, real {
        // From the position on, and never for reading only.
        let (lock, how) = match command {
            libc::F_ULOCK => (libc::F_SETLK, libc::F_UNLCK),
            libc::F_LOCK => (libc::F_SETLKW, libc::F_WRLCK),
            libc::F_TEST => (libc::F_GETLK, libc::F_WRLCK),
            _ => (libc::F_SETLK, libc::F_WRLCK),
        };
        let how = how as u64 | (libc::SEEK_CUR as u64) << 16;
        let detail = Detail::numbers(&[lock as u64, how, 0, length as u64]);
        stack_entry::shared(Function::Fcntl, descriptor, || real(descriptor, command, length), |_| detail)
    }

    fn [lseek, lseek64](descriptor: c_int, offset: off64_t, whence: c_int) -> off64_t, real {
        match seek(Function::Lseek, descriptor, offset, whence) {
            Some(position) => position,
            None => real(descriptor, offset, whence),
        }
    }

    fn [fsync](descriptor: c_int) -> c_int, real {
        match Call::of(descriptor, Kind::Sync) {
            Some(call) => {
                call.answer(Function::Fsync, |file| Action::Sync { file, data_only: false }) as c_int
            }
            None => real(descriptor),
        }
    }

    fn [fdatasync](descriptor: c_int) -> c_int, real {
        match Call::of(descriptor, Kind::Sync) {
            Some(call) => {
                call.answer(Function::Fdatasync, |file| Action::Sync { file, data_only: true }) as c_int
            }
            None => real(descriptor),
        }
    }

    fn [syncfs](descriptor: c_int) -> c_int, real {
        stack_entry::settle_all();
        real(descriptor)
    }

    fn [sync]() -> (), real {
        stack_entry::settle_all();
        real();
    }
}

/// Moves the position. `None`: the call is the kernel's.
#[inline]
pub(crate) fn seek(
    function: Function,
    descriptor: c_int,
    offset: off64_t,
    whence: c_int,
) -> Option<off64_t> {
    // The kernel returns the error for any other value.
    if !(0..=libc::SEEK_HOLE).contains(&whence) {
        return None;
    }
    Call::pass(descriptor, Kind::Seek, function, |file| Some(Action::Seek { file, offset, whence }))
        .map(|position| position as off64_t)
}
