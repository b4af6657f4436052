//! A small number for each thread, so that threads count and record without meeting.
//!
//! A thread takes a free one when it first asks and gives it back when it ends. When all are taken, further
//! threads have none and share what is kept for those.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many threads have a number of their own at a time.
pub(crate) const SEATS: usize = 64;

const NOT_ASKED: u8 = u8::MAX;
const NONE: u8 = SEATS as u8;

/// The numbers that are taken, as bits.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Gives the number back when the thread ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        // Calls of the thread that come even later have none.
        let seat = HERE.with(|here| here.seat.replace(NONE));
        if seat < NONE {
            TAKEN.fetch_and(!(1 << seat), Ordering::Release);
        }
    }
}

/// What a thread knows of itself.
struct Here {
    seat: Cell<u8>,
    /// Its number in the kernel, or 0 if that was not asked for.
    thread: Cell<u32>,
}

thread_local! {
    static HERE: Here = const { Here { seat: Cell::new(NOT_ASKED), thread: Cell::new(0) } };
    static LEAVING: Leaving = const { Leaving };
}

/// The number of this thread, below [`SEATS`]; [`SEATS`] itself if it has none of its own.
#[inline]
pub(crate) fn seat() -> usize {
    let seat = HERE.with(|here| here.seat.get());
    if seat == NOT_ASKED { take() } else { usize::from(seat) }
}

/// The same, and the thread's number in the kernel.
#[inline]
pub(crate) fn seat_and_thread() -> (usize, u32) {
    let (seat, thread) = HERE.with(|here| (here.seat.get(), here.thread.get()));
    if seat == NOT_ASKED || thread == 0 {
        return (self::seat(), ask_thread());
    }
    (usize::from(seat), thread)
}

#[cold]
fn ask_thread() -> u32 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    HERE.with(|here| here.thread.set(thread));
    thread
}

#[cold]
fn take() -> usize {
    let mut seat = NONE;
    // A thread whose leaving cannot be noted would keep it for ever.
    if LEAVING.try_with(|_| ()).is_ok() {
        let free = |taken: u64| (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones());
        if let Ok(before) = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            seat = before.trailing_ones() as u8;
        }
    }
    HERE.with(|here| here.seat.set(seat));
    usize::from(seat)
}

/// This process is a copy that has none of the other threads.
pub(crate) fn start_anew() {
    let seat = HERE.with(|here| {
        here.thread.set(0);
        here.seat.get()
    });
    TAKEN.store(if seat < NONE { 1 << seat } else { 0 }, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn threads_at_a_time_have_numbers_of_their_own() {
        let seen = Mutex::new(HashSet::new());
        for _ in 0..3 {
            let all_here = Barrier::new(SEATS / 2);
            seen.lock().unwrap().clear();
            std::thread::scope(|scope| {
                for _ in 0..SEATS / 2 {
                    scope.spawn(|| {
                        let mine = seat();
                        assert_eq!(mine, seat());
                        assert!(mine >= SEATS || seen.lock().unwrap().insert(mine), "{mine} twice");
                        all_here.wait();
                    });
                }
            });
        }
    }
}
