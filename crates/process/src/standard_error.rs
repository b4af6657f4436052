//! [`say`]: a message on standard error that cannot end the program.
//!
//! A write to a pipe without a reader raises `SIGPIPE`, which ends a program that does not handle
//! it, and [`eprintln!`] panics where the signal is ignored. A message must cause neither, so the
//! signal is blocked in this thread and consumed before the thread continues. System calls are made
//! directly: the C library's functions may be the program's or a door's.

use std::ffi::c_long;
use std::fmt;

use libc::{
    SIG_BLOCK, SIG_SETMASK, SIGPIPE, STDERR_FILENO, SYS_rt_sigpending, SYS_rt_sigprocmask,
    SYS_rt_sigtimedwait, SYS_write, syscall, timespec,
};

/// Signals as the kernel keeps them, one bit each.
type Signals = u64;

const PIPE: Signals = 1 << (SIGPIPE - 1);

/// Writes a message to standard error, in one piece where the system takes it so. A failure to
/// write is ignored.
pub fn say(message: fmt::Arguments<'_>) {
    write_without_signal(message.to_string().as_bytes());
}

/// As [`say`].
pub(crate) fn write_without_signal(mut text: &[u8]) {
    let errno = std::io::Error::last_os_error().raw_os_error();
    let (mut before, mut pending): (Signals, Signals) = (0, 0);
    let size = size_of::<Signals>();
    // SAFETY: the buffers have the given size, and outlive the calls.
    unsafe {
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &raw const PIPE_SET, &raw mut before, size);
        syscall(SYS_rt_sigpending, &raw mut pending, size);
    }
    let mut broken = false;
    while !text.is_empty() {
        // SAFETY: the text is memory of ours.
        let written = unsafe { syscall(SYS_write, STDERR_FILENO, text.as_ptr(), text.len()) };
        match usize::try_from(written) {
            Ok(0) => break,
            Ok(count) => text = &text[count.min(text.len())..],
            Err(_) => match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                error => {
                    broken = error == Some(libc::EPIPE);
                    break;
                }
            },
        }
    }
    // One that was pending before is the program's own.
    if broken && pending & PIPE == 0 {
        let at_once = timespec { tv_sec: 0, tv_nsec: 0 };
        let nothing = std::ptr::null::<libc::siginfo_t>();
        let call: c_long = SYS_rt_sigtimedwait;
        // SAFETY: as above; no information is asked for.
        unsafe { syscall(call, &raw const PIPE_SET, nothing, &raw const at_once, size) };
    }
    // SAFETY: as above.
    unsafe {
        let nowhere = std::ptr::null_mut::<Signals>();
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &raw const before, nowhere, size);
        if let Some(errno) = errno {
            *libc::__errno_location() = errno;
        }
    }
}

static PIPE_SET: Signals = PIPE;
