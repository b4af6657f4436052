//! Signal dispositions, as the program sees them.

use std::ffi::c_int;

use libc::{sigaction as Disposition, sighandler_t};

use crate::signals;

/// Sets the default by `sigaction`, where it is ours. Returns the handler before.
unsafe fn set_default(signal: c_int, flags: c_int) -> sighandler_t {
    // SAFETY: dispositions are structures of numbers.
    unsafe {
        let (mut wanted, mut before): (Disposition, Disposition) =
            (std::mem::zeroed(), std::mem::zeroed());
        wanted.sa_flags = flags;
        if sigaction(signal, &raw const wanted, &raw mut before) == 0 {
            before.sa_sigaction
        } else {
            libc::SIG_ERR
        }
    }
}

hooks! {
    fn [sigaction, __sigaction](
        signal: c_int,
        wanted: *const Disposition,
        before: *mut Disposition,
    ) -> c_int, real {
        let thought = signals::thought(signal);
        let ours = wanted.as_ref().and_then(|wanted| signals::asked(signal, wanted));
        let answer = match &ours {
            Some(ours) => real(signal, ours, before),
            None => real(signal, wanted, before),
        };
        if answer == 0 && let Some(before) = before.as_mut() {
            signals::told(before, thought);
        }
        answer
    }

    fn [signal, bsd_signal, ssignal](signal: c_int, wanted: sighandler_t) -> sighandler_t, real {
        if signals::is_ours(signal, wanted) {
            return set_default(signal, libc::SA_RESTART);
        }
        signals::known_handler(real(signal, wanted))
    }

    fn [sysv_signal, __sysv_signal](signal: c_int, wanted: sighandler_t) -> sighandler_t, real {
        if signals::is_ours(signal, wanted) {
            return set_default(signal, libc::SA_RESETHAND | libc::SA_NODEFER);
        }
        signals::known_handler(real(signal, wanted))
    }

    fn [sigset](signal: c_int, wanted: sighandler_t) -> sighandler_t, real {
        signals::known_handler(real(signal, wanted))
    }
}
