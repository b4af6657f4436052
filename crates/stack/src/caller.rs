//! The thread on whose behalf this thread works: [`for_caller`].
//!
//! A process that carries out calls of many processes (the mount) names the calling thread for each
//! request, so that a stage that records calls writes them to the trace of the process that made
//! them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process works for others at all: other processes do not pay for the thread-local.
static SERVES: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CALLER: Cell<u32> = const { Cell::new(0) };
}

/// Does something for a thread of another process, by its number in the kernel; 0 if that is not
/// known.
pub fn for_caller<T>(thread: u32, act: impl FnOnce() -> T) -> T {
    /// Also if it panics.
    struct Restored(u32);
    impl Drop for Restored {
        fn drop(&mut self) {
            CALLER.set(self.0);
        }
    }
    SERVES.store(true, Ordering::Relaxed);
    let _restored = Restored(CALLER.replace(thread));
    act()
}

/// The thread that is served, if this is not the program itself.
#[inline]
pub fn caller() -> Option<u32> {
    if SERVES.load(Ordering::Relaxed) {
        Some(CALLER.get()).filter(|thread| *thread != 0)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_served_is_known_until_that_is_over() {
        assert_eq!(for_caller(7, || for_caller(8, caller)), Some(8));
        assert_eq!(for_caller(7, || (for_caller(8, || ()), caller()).1), Some(7));
        let died = std::panic::catch_unwind(|| for_caller(9, || panic!("on purpose")));
        assert!(died.is_err());
        assert_eq!((caller(), for_caller(0, caller)), (None, None));
    }
}
