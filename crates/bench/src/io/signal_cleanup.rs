//! Cleanup before a signal ends the program: files are removed, servers are stopped.
//!
//! A signal handler may call very few functions, so it only wakes a thread, through a pipe; the
//! thread does what is left to do, the last thing first, and ends the program as the signal would
//! have.

use std::fs::File;
use std::io::Read;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

type Work = Box<dyn FnOnce() + Send>;

/// What is left to do, by number.
static LEFT: Mutex<Vec<(u64, Work)>> = Mutex::new(Vec::new());

/// The end of the pipe that the handler writes to.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// An action that is carried out if a signal ends the program while this value exists.
#[derive(Debug)]
#[must_use = "it is only done while this is there"]
pub struct SignalCleanup(u64);

impl SignalCleanup {
    /// From now on, `work` is done. What is asked for last is done first.
    pub fn new(work: impl FnOnce() + Send + 'static) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static INSTALLED: Once = Once::new();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        left().push((number, Box::new(work)));
        INSTALLED.call_once(install);
        Self(number)
    }
}

impl Drop for SignalCleanup {
    fn drop(&mut self) {
        left().retain(|(number, _)| *number != self.0);
    }
}

/// While this exists, no signal ends the program, so that files made now are known to the cleanup.
/// Not to be held while an [`SignalCleanup`] comes or goes.
pub(super) fn hold_off() -> impl Sized {
    left()
}

fn left() -> std::sync::MutexGuard<'static, Vec<(u64, Work)>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without a pipe or a thread signals do what they always do, and files stay.
fn install() {
    let Ok((wait, wake)) = std::io::pipe() else { return };
    let wait = OwnedFd::from(wait);
    if thread::Builder::new().name("signals".into()).spawn(move || watch(wait.into())).is_err() {
        return;
    }
    WAKE.store(OwnedFd::from(wake).into_raw_fd(), Ordering::Release);
    let action = SigAction::new(SigHandler::Handler(wake_up), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler calls only what may be called in one.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

extern "C" fn wake_up(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: one byte from a place that holds one, to a pipe that is never closed; write is safe
    // in a handler.
    unsafe { libc::write(WAKE.load(Ordering::Acquire), (&raw const byte).cast(), 1) };
}

fn watch(mut wait: File) {
    let mut signal = [0];
    if wait.read_exact(&mut signal).is_err() {
        return;
    }
    // Held to the end: a thread that fails because of what is removed here waits, instead of ending
    // the program.
    let mut left = left();
    while let Some((_, work)) = left.pop() {
        work();
    }
    let Ok(signal) = Signal::try_from(i32::from(signal[0])) else { return };
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action needs no handler.
    let _ = unsafe { sigaction(signal, &default) };
    let _ = raise(signal);
}
