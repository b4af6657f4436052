//! A small number for each thread, so that threads enter, count and record without meeting.
//!
//! A thread takes a free one when it first asks and gives it back when it ends. When all are taken, further
//! threads share number 0.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::here::{self, Here};

/// How many numbers there are, with the one that is shared: a bit of a word for each.
pub const SEATS: usize = 64;
/// The number of all who have none of their own.
pub const SHARED: usize = 0;
/// The same as threads note it.
const NOTED_SHARED: u32 = SEATS as u32;

/// The numbers that are taken, as bits. The one that is shared is never free.
static TAKEN: AtomicU64 = AtomicU64::new(NOBODY);
const NOBODY: u64 = 1 << SHARED;

/// The process whose threads have taken them.
static HOME: AtomicU32 = AtomicU32::new(0);

/// By which the C library tells that a thread ends. Unlike what `thread_local!` does for it, to ask for
/// that allocates nothing, so it can be done in the middle of anything.
/// `None` where there is no such thing: nobody could give a number back, so nobody gets one.
static LEAVING: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

/// Has to be called before numbers are asked for: until then nobody gets one.
pub(crate) fn prepare() {
    LEAVING.get_or_init(|| {
        HOME.store(std::process::id(), Ordering::Relaxed);
        let mut key = 0;
        // SAFETY: the function stays as long as the program.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
        (made == 0).then_some(key)
    });
}

/// The thread ends. Calls that it makes even later have no number of its own.
unsafe extern "C" fn leave(_: *mut c_void) {
    here::with(|here| {
        let own = own(here.seat.replace(NOTED_SHARED));
        TAKEN.fetch_and(!own, Ordering::Release);
    });
}

/// The number that a thread has noted, as a bit, if it is its own.
fn own(noted: u32) -> u64 {
    match noted {
        0 | NOTED_SHARED => 0,
        seat => 1 << seat,
    }
}

/// The number of this thread, below [`SEATS`]. The caller is within the stack, so that no signal comes in
/// between.
#[inline]
pub fn seat() -> usize {
    here::with(seat_of)
}

/// The same for a thread that knows itself.
#[inline]
pub(crate) fn seat_of(here: &Here) -> usize {
    match here.seat.get() {
        0 => take(here),
        seat => seat as usize % SEATS,
    }
}

/// The same, and the thread's number in the kernel.
#[inline]
pub fn seat_and_thread() -> (usize, u32) {
    here::with(|here| {
        let thread = here.thread.get();
        (seat_of(here), if thread == 0 { ask_thread(here) } else { thread })
    })
}

#[cold]
fn ask_thread(here: &Here) -> u32 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    here.thread.set(thread);
    thread
}

#[cold]
fn take(here: &Here) -> usize {
    let Some(Some(key)) = LEAVING.get() else { return SHARED };
    let free = |taken: u64| (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones());
    let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free);
    let mut seat = taken.map_or(NOTED_SHARED, u64::trailing_ones);
    // A thread whose leaving cannot be noted would keep it for ever.
    // SAFETY: the key was made; the value only has to be something.
    if unsafe { libc::pthread_setspecific(*key, (&raw const TAKEN).cast()) } != 0 {
        TAKEN.fetch_and(!own(seat), Ordering::Release);
        seat = NOTED_SHARED;
    }
    here.seat.set(seat);
    seat as usize % SEATS
}

/// This process may be a copy that has none of the other threads. Returns whether it is.
pub(crate) fn start_anew() -> bool {
    let process = std::process::id();
    if LEAVING.get().is_none() || HOME.swap(process, Ordering::Relaxed) == process {
        return false;
    }
    here::with(|here| {
        here.thread.set(0);
        TAKEN.store(NOBODY | own(here.seat.get()), Ordering::Release);
    });
    true
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn threads_at_a_time_have_numbers_of_their_own() {
        prepare();
        let seen = Mutex::new(HashSet::new());
        // Other tests may have all numbers for a while.
        for _ in 0..1000 {
            let all_here = Barrier::new(SEATS / 2);
            seen.lock().unwrap().clear();
            std::thread::scope(|scope| {
                for _ in 0..SEATS / 2 {
                    scope.spawn(|| {
                        let (mine, thread) = seat_and_thread();
                        assert_eq!((mine, thread), seat_and_thread());
                        assert_eq!(mine, seat());
                        assert!(
                            mine == SHARED || seen.lock().unwrap().insert(mine),
                            "{mine} twice"
                        );
                        all_here.wait();
                    });
                }
            });
            if !seen.lock().unwrap().is_empty() {
                break;
            }
        }
        assert!(!seen.lock().unwrap().is_empty());
    }

    #[test]
    fn threads_that_end_make_room_and_too_many_share() {
        prepare();
        // More threads than there are numbers, one after the other: each finds one.
        for _ in 0..3 * SEATS {
            assert!(std::thread::spawn(seat).join().unwrap() < SEATS);
        }
        let all_here = Barrier::new(2 * SEATS);
        let seats: Vec<usize> = std::thread::scope(|scope| {
            let taking = || {
                let mine = seat();
                all_here.wait();
                mine
            };
            let threads: Vec<_> = (0..2 * SEATS).map(|_| scope.spawn(taking)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let own: Vec<usize> = seats.iter().copied().filter(|seat| *seat != SHARED).collect();
        assert_eq!(own.len(), own.iter().collect::<HashSet<_>>().len());
        assert!(own.len() < seats.len());
    }
}
