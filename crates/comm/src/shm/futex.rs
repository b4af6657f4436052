//! Sleeping until a word of shared memory changes, and a lock in such a word.
//!
//! The futexes are not private to a process, so that ranks in different processes can wake each
//! other through [`NodeMemory`](crate::shm::NodeMemory).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// How long a waiter sleeps before it looks at a lock again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Sleeps while `word` is `expected`, at most for `timeout`; returns whether it is something else
/// now.
///
/// It may return early. Call it in a loop that asks [`Comm::health`](crate::Comm::health) whenever
/// it returns `false`: the rank that should change the word may be dead.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) -> bool {
    let limit = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    if word.load(Ordering::Acquire) == expected {
        match futex::wait(word, Flags::empty(), expected, Some(&limit)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            // Some sandboxes forbid futexes: a nap keeps the caller's loop from using a whole core.
            Err(_) => std::thread::sleep(timeout.min(Duration::from_millis(1))),
        }
    }
    word.load(Ordering::Acquire) != expected
}

/// Runs `body` under the lock that `word` is: 0 is free, 1 held, 2 held with waiters. The body is
/// short, does not panic and does not wait.
pub fn locked<T>(word: &AtomicU32, body: impl FnOnce() -> T) -> T {
    let mut tries = 0;
    while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        tries += 1;
        if tries < 40 {
            std::hint::spin_loop();
        } else if word.swap(2, Ordering::Acquire) == 0 {
            break;
        } else {
            wait(word, 2, PATIENCE);
        }
    }
    let result = body();
    if word.swap(0, Ordering::Release) == 2 {
        wake(word);
    }
    result
}

/// Wakes all waiters of `word`; to be called after the word was changed.
pub fn wake(word: &AtomicU32) {
    // The call can only fail for addresses that are not mapped, and a reference is.
    let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
}
