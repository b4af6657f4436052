//! Thread slots: a small number for each running thread, so that threads enter, count and record
//! without contention.
//!
//! A thread takes a free slot at its first use and releases it when it ends. When all are taken,
//! further threads share slot 0 ([`SHARED_SLOT`]).

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::thread_state::{self, ThreadState};

/// How many numbers there are, with the one that is shared: a bit of a word for each.
pub const SLOTS: usize = 64;
/// The slot of all threads that have none of their own.
pub const SHARED_SLOT: usize = 0;
/// The same as threads note it.
const NOTED_SHARED: u32 = SLOTS as u32;

/// The numbers that are taken, as bits. The one that is shared is never free.
static TAKEN: AtomicU64 = AtomicU64::new(ONLY_SHARED);
const ONLY_SHARED: u64 = 1 << SHARED_SLOT;

/// The process whose threads have taken them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// By which the C library reports the end of a thread. Unlike what `thread_local!` does for it, to
/// ask for that allocates nothing, so it can be done in the middle of anything. `None` where there
/// is no such key: a slot could not be released, so no thread gets one.
static THREAD_END_KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

/// Has to be called before slots are asked for: until then no thread gets one.
pub(crate) fn prepare() {
    THREAD_END_KEY.get_or_init(|| {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        let mut key = 0;
        // SAFETY: the function stays as long as the program.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
        (made == 0).then_some(key)
    });
}

/// The thread ends. Calls that it makes even later have no number of its own.
unsafe extern "C" fn leave(_: *mut c_void) {
    thread_state::with(|thread_state| {
        let own = own(thread_state.slot.replace(NOTED_SHARED));
        TAKEN.fetch_and(!own, Ordering::Release);
    });
}

/// The number that a thread has noted, as a bit, if it is its own.
fn own(noted: u32) -> u64 {
    match noted {
        0 | NOTED_SHARED => 0,
        slot => 1 << slot,
    }
}

/// The number of this thread, below [`SLOTS`]. The caller is within the stack, so that no signal
/// comes in between.
#[inline]
pub fn slot() -> usize {
    thread_state::with(slot_of)
}

/// The same for a thread that knows itself.
#[inline]
pub(crate) fn slot_of(thread_state: &ThreadState) -> usize {
    match thread_state.slot.get() {
        0 => take(thread_state),
        slot => slot as usize % SLOTS,
    }
}

/// The same, and the thread's number in the kernel.
#[inline]
pub fn slot_and_thread() -> (usize, u32) {
    thread_state::with(|thread_state| {
        let thread = thread_state.thread.get();
        (slot_of(thread_state), if thread == 0 { ask_thread(thread_state) } else { thread })
    })
}

#[cold]
fn ask_thread(thread_state: &ThreadState) -> u32 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    thread_state.thread.set(thread);
    thread
}

#[cold]
fn take(thread_state: &ThreadState) -> usize {
    let Some(Some(key)) = THREAD_END_KEY.get() else { return SHARED_SLOT };
    let free = |taken: u64| (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones());
    let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free);
    let mut slot = taken.map_or(NOTED_SHARED, u64::trailing_ones);
    // A thread whose leaving cannot be noted would keep it for ever.
    // SAFETY: the key was made; the value only has to be something.
    if unsafe { libc::pthread_setspecific(*key, (&raw const TAKEN).cast()) } != 0 {
        TAKEN.fetch_and(!own(slot), Ordering::Release);
        slot = NOTED_SHARED;
    }
    thread_state.slot.set(slot);
    slot as usize % SLOTS
}

/// This process may be a copy that has none of the other threads. Returns whether it is.
pub(crate) fn start_anew() -> bool {
    let process = std::process::id();
    if THREAD_END_KEY.get().is_none() || PROCESS.swap(process, Ordering::Relaxed) == process {
        return false;
    }
    thread_state::with(|thread_state| {
        thread_state.thread.set(0);
        TAKEN.store(ONLY_SHARED | own(thread_state.slot.get()), Ordering::Release);
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
            let all_here = Barrier::new(SLOTS / 2);
            seen.lock().unwrap().clear();
            std::thread::scope(|scope| {
                for _ in 0..SLOTS / 2 {
                    scope.spawn(|| {
                        let (mine, thread) = slot_and_thread();
                        assert_eq!((mine, thread), slot_and_thread());
                        assert_eq!(mine, slot());
                        assert!(
                            mine == SHARED_SLOT || seen.lock().unwrap().insert(mine),
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
        for _ in 0..3 * SLOTS {
            assert!(std::thread::spawn(slot).join().unwrap() < SLOTS);
        }
        let all_here = Barrier::new(2 * SLOTS);
        let slots: Vec<usize> = std::thread::scope(|scope| {
            let taking = || {
                let mine = slot();
                all_here.wait();
                mine
            };
            let threads: Vec<_> = (0..2 * SLOTS).map(|_| scope.spawn(taking)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let own: Vec<usize> = slots.iter().copied().filter(|slot| *slot != SHARED_SLOT).collect();
        assert_eq!(own.len(), own.iter().collect::<HashSet<_>>().len());
        assert!(own.len() < slots.len());
    }
}
