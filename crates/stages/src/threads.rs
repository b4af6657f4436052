//! Threads that stages start: they receive no signals.

/// Calls a function that starts threads, so that they get none of the signals that are meant for
/// the program: its handlers expect its own threads.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are filled before they are read.
    let before = unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let result = start();
    // SAFETY: it is the set from above.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    result
}
