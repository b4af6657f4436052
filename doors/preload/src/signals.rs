//! Signals that end the program: buffered data is written out first.
//!
//! Where such a signal has its default disposition, a handler of this library writes out buffered
//! data, and then triggers the default action. The program does not see that: [`asked`] and
//! [`told`] translate its arguments and results. A signal that arrives while its thread is within
//! the stack is delivered when the thread leaves it.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use libc::{sigaction as Disposition, siginfo_t};
use striate_stack::{Stack, is_within};

use crate::hooks::signal::real;
use crate::{errno, stack_entry};

/// Signals whose default is the end.
const FATAL: [c_int; 18] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
];

static WATCHING: AtomicBool = AtomicBool::new(false);

/// A signal that waits until a thread leaves the stack.
static LATE: AtomicI32 = AtomicI32::new(0);

/// What the program thinks of a default that ours is in the place of: its flags and signals it
/// blocks. Without a lock: handlers of the program may set dispositions too.
struct ProgramDisposition {
    flags: AtomicI32,
    mask: AtomicU64,
}

static PROGRAM_DISPOSITIONS: [ProgramDisposition; 32] =
    [const { ProgramDisposition { flags: AtomicI32::new(0), mask: AtomicU64::new(0) } }; 32];

impl ProgramDisposition {
    fn note(signal: c_int, disposition: &Disposition) {
        if let Some(thought) = PROGRAM_DISPOSITIONS.get(signal as usize) {
            thought.flags.store(disposition.sa_flags, Ordering::Relaxed);
            // SAFETY: a set of signals starts with those that the kernel knows.
            let mask = unsafe { *(&raw const disposition.sa_mask).cast::<u64>() };
            thought.mask.store(mask, Ordering::Relaxed);
        }
    }
}

fn is_fatal(signal: c_int) -> bool {
    FATAL.contains(&signal)
}

fn handler() -> usize {
    take as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize
}

fn ours() -> Disposition {
    // SAFETY: a disposition is a structure of numbers.
    let mut ours: Disposition = unsafe { zeroed() };
    ours.sa_sigaction = handler();
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: it is filled in place.
    unsafe { libc::sigfillset(&raw mut ours.sa_mask) };
    ours
}

/// Takes the place of defaults, if any stage might need it.
pub(crate) fn watch(_stack: &Stack) {
    WATCHING.store(true, Ordering::Release);
    for signal in FATAL {
        // SAFETY: a disposition is a structure of numbers; it is asked for and set.
        unsafe {
            let mut now: Disposition = zeroed();
            let asked = real::sigaction.get()(signal, null(), &raw mut now);
            if asked == 0 && now.sa_sigaction == libc::SIG_DFL {
                ProgramDisposition::note(signal, &now);
                let ours = ours();
                real::sigaction.get()(signal, &raw const ours, null_mut());
            }
        }
    }
}

/// What to set when the program asks for a disposition: ours where it wants the default.
pub(crate) fn asked(signal: c_int, wanted: &Disposition) -> Option<Disposition> {
    let default = wanted.sa_sigaction == libc::SIG_DFL;
    if !default || !is_fatal(signal) || !WATCHING.load(Ordering::Acquire) {
        return None;
    }
    ProgramDisposition::note(signal, wanted);
    Some(ours())
}

/// What the program thinks a disposition is, if it is ours.
pub(crate) fn thought(signal: c_int) -> Option<Disposition> {
    let thought = PROGRAM_DISPOSITIONS.get(usize::try_from(signal).ok()?)?;
    // SAFETY: a disposition is a structure of numbers; zero is the default. A set of signals starts
    // with those that the kernel knows.
    unsafe {
        let mut disposition: Disposition = zeroed();
        disposition.sa_flags = thought.flags.load(Ordering::Relaxed);
        *(&raw mut disposition.sa_mask).cast::<u64>() = thought.mask.load(Ordering::Relaxed);
        Some(disposition)
    }
}

/// Translates a disposition from the kernel to the one that the program has set.
pub(crate) fn told(known: &mut Disposition, thought: Option<Disposition>) {
    if known.sa_sigaction == handler() {
        *known = thought.unwrap_or_else(default);
    }
}

fn default() -> Disposition {
    // SAFETY: a disposition is a structure of numbers; zero is the default.
    unsafe { zeroed() }
}

/// The handler that the program knows for one that the C library has returned.
pub(crate) fn known_handler(returned: usize) -> usize {
    if returned == handler() { libc::SIG_DFL } else { returned }
}

/// Whether the program asks for the default of a signal that is ours.
pub(crate) fn is_ours(signal: c_int, wanted: usize) -> bool {
    wanted == libc::SIG_DFL && is_fatal(signal) && WATCHING.load(Ordering::Acquire)
}

/// The handler.
extern "C" fn take(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    let before = errno::get();
    // SAFETY: the kernel passes it.
    let code = unsafe { info.as_ref().map_or(0, |info| info.si_code) };
    // An instruction of this thread did it: it would do so again.
    let by_instruction = code > 0
        && matches!(
            signal,
            libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP
        );
    let entered = stack_entry::StackEntry::new();
    if let Some(entered) = entered {
        drop(entered);
        stack_entry::end();
        set_default(signal);
        if !by_instruction {
            raise(signal);
        }
    } else if by_instruction || !is_within() {
        set_default(signal);
        if !by_instruction {
            raise(signal);
        }
    } else {
        LATE.store(signal, Ordering::Release);
    }
    errno::set(before);
}

fn set_default(signal: c_int) {
    let default = default();
    // SAFETY: it is a disposition.
    unsafe { real::sigaction.get()(signal, &raw const default, null_mut()) };
}

/// Sends a signal to this thread. From within a handler it comes when the handler has returned.
fn raise(signal: c_int) {
    // SAFETY: numbers are passed.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
    }
}

/// A thread has left the stack: a signal that has waited for that comes now.
#[inline(always)]
pub(crate) fn deliver_late() {
    if LATE.load(Ordering::Relaxed) != 0 {
        deliver();
    }
}

#[cold]
fn deliver() {
    if is_within() {
        return;
    }
    let signal = LATE.swap(0, Ordering::AcqRel);
    if signal != 0 {
        raise(signal);
    }
}
