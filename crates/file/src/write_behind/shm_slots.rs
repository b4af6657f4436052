//! [`SharedSlots`]: the books of what waits, and the windows themselves, in memory that the ranks share.
//!
//! All numbers of the [`SlotsHeader`] and of the call_logs are atomic; slots are touched by [`SharedSlots::with`] only, under a lock in the
//! same memory. See the module above for the bytes of the windows.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use striate_comm::{NodeMemory, futex};

use super::call_order::{CallLog, CallLogs};
use super::filled_ranges::FilledRanges;

/// Bytes of a window, and where windows begin in the file.
pub(super) const WINDOW: u64 = 128 << 10;

/// Ranks that are worth it: each has to look at what the others do.
const MOST_RANKS: usize = 64;

/// What the ranks know in common; zero at first, as fresh memory is. What changes with every request and what hardly ever
/// does lie in lines of their own, so that to look at the latter costs nothing.
#[repr(C, align(64))]
pub(super) struct SlotsHeader {
    lock: AtomicU32,
    /// Slots that hold something.
    pub(super) waiting: AtomicU32,
    /// Periods so far.
    pub(super) period: AtomicU64,
    /// Requests so far.
    pub(super) requests: AtomicU64,
    /// Counts what there was to do for the thread that writes; and whether it sleeps until there is more.
    pub(super) work: AtomicU32,
    rests: AtomicU32,
    /// Who writes to the file: see `one_by_one.rs`.
    pub(super) writer: CacheLine<AtomicU32>,
    rarely: CacheLine<Rarely>,
}

/// What hardly ever changes.
#[repr(C)]
pub(super) struct Rarely {
    /// Whether nothing may wait any more.
    pub(super) retired: AtomicU32,
    /// The number of an error that not all ranks were told of yet.
    pub(super) failed: AtomicU32,
    /// Counts errors.
    pub(super) failures: AtomicU32,
    /// Whether a rank has a thread that writes.
    pub(super) served: AtomicU32,
    /// Counts changes while there are sleepers, who wait for the next.
    pub(super) changes: AtomicU32,
    pub(super) sleepers: AtomicU32,
}

impl Deref for SlotsHeader {
    type Target = Rarely;

    fn deref(&self) -> &Rarely {
        &self.rarely.0
    }
}

#[repr(C, align(64))]
pub(super) struct CacheLine<T>(pub(super) T);

/// A place for a window.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct WindowSlot {
    pub(super) state: State,
    /// Ranks that copy into it.
    pub(super) copying: u32,
    /// Which of the file's windows it holds.
    pub(super) window: u64,
    /// The request that used it last.
    pub(super) used: u64,
    /// The periods in which it was taken, and used last.
    pub(super) taken: u64,
    pub(super) touched: u64,
    pub(super) spans: FilledRanges,
}

/// A number, because fresh memory is zero.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u32);

impl State {
    pub(super) const FREE: Self = Self(0);
    pub(super) const OPEN: Self = Self(1);
    pub(super) const WRITING: Self = Self(2);
}

impl WindowSlot {
    /// Whether it can be claimed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.state == State::OPEN && self.copying == 0
    }

    pub(super) fn is_whole(&self) -> bool {
        self.is_at_rest() && self.spans.are_whole(WINDOW as u32)
    }

    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        let start = self.window * WINDOW;
        self.state != State::FREE && start < range.end && range.start < start + WINDOW
    }
}

/// What the lock is for, while it is held.
pub(super) struct SlotTable<'a> {
    pub(super) slots: &'a mut [WindowSlot],
}

/// A slot that is this one's to write.
pub(super) struct Claimed {
    pub(super) index: usize,
    pub(super) window: u64,
    pub(super) spans: FilledRanges,
}

impl SlotTable<'_> {
    /// Claims a slot, if it can be.
    pub(super) fn claim(&mut self, index: usize) -> Option<Claimed> {
        let slot = &mut self.slots[index];
        if !slot.is_at_rest() {
            return None;
        }
        slot.state = State::WRITING;
        Some(Claimed { index, window: slot.window, spans: slot.spans })
    }
}

/// StreamBuffers for so many ranks, some of which are ahead of others.
const fn slots(ranks: usize) -> usize {
    12 + ranks
}

/// Bytes of memory that the ranks must have in common, and spare ones behind, for windows. None for more ranks than this
/// is made for.
pub(crate) const fn memory_for(ranks: usize) -> (usize, usize) {
    if ranks > MOST_RANKS {
        return (0, 0);
    }
    let books = size_of::<SlotsHeader>()
        + slots(ranks) * size_of::<WindowSlot>()
        + ranks * size_of::<CallLog>();
    (books.next_multiple_of(4096), slots(ranks) * WINDOW as usize)
}

/// See the module.
#[derive(Debug)]
pub(super) struct SharedSlots {
    pub(super) memory: NodeMemory,
    /// Where the books begin in the memory; the windows are its spare part.
    books: usize,
    pub(super) ranks: usize,
}

impl SharedSlots {
    /// In memory of `memory_for` from `books` on, which is zero, or was [reset](SharedSlots::reset).
    pub(super) fn new(memory: NodeMemory, books: usize, ranks: usize) -> Option<Self> {
        let (len, spare) = memory_for(ranks);
        if len == 0 {
            return None;
        }
        assert!(books.is_multiple_of(64) && memory.len() >= books + len, "the books fit");
        assert!(memory.spare() >= spare, "the windows fit");
        Some(Self { memory, books, ranks })
    }

    /// Makes the books as they were at first. For one rank, while no other uses them.
    pub(super) fn reset(memory: &NodeMemory, books: usize, ranks: usize) {
        let (len, _) = memory_for(ranks);
        assert!(memory.len() >= books + len, "the books fit");
        // SAFETY: inside of the memory, and by the caller's word nobody else uses it. All zeros are valid books.
        unsafe { memory.as_ptr().as_ptr().add(books).write_bytes(0, len) };
    }

    fn first(&self) -> *mut SlotsHeader {
        // At a multiple of 64 from the start of a page.
        self.memory.as_ptr().as_ptr().wrapping_add(self.books).cast()
    }

    pub(super) fn head(&self) -> &SlotsHeader {
        // SAFETY: it lies inside of the memory, and all of it is atomic.
        unsafe { &*self.first() }
    }

    fn first_call_log(&self) -> *mut CallLog {
        self.first().wrapping_add(1).cast()
    }

    /// What the ranks have announced.
    pub(super) fn call_logs(&self) -> CallLogs<'_> {
        // SAFETY: they lie behind the head, at a multiple of 64, in memory that is long enough; all of them is atomic.
        CallLogs(unsafe { std::slice::from_raw_parts(self.first_call_log(), self.ranks) })
    }

    /// Runs `body` on the books, alone.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut SlotTable<'_>) -> T) -> T {
        futex::locked(&self.head().lock, || {
            let count = slots(self.ranks);
            // SAFETY: the lock is held, so nobody else touches the slots, which lie behind the call_logs in memory that is
            // long enough. They are made of 8-byte numbers, or pairs of smaller ones.
            let mut books = unsafe {
                let slots = self.first_call_log().add(self.ranks).cast::<WindowSlot>();
                SlotTable { slots: std::slice::from_raw_parts_mut(slots, count) }
            };
            body(&mut books)
        })
    }

    /// Claims a slot that can be, if there is one of this kind.
    pub(super) fn claim(&self, which: impl Fn(&WindowSlot) -> bool) -> Option<Claimed> {
        self.with(|books| {
            let found = books.slots.iter().position(|slot| slot.is_at_rest() && which(slot));
            found.and_then(|index| books.claim(index))
        })
    }

    /// Bytes of all windows.
    pub(super) const fn windows_len(&self) -> u64 {
        slots(self.ranks) as u64 * WINDOW
    }

    /// The bytes of a slot.
    pub(super) fn bytes_of(&self, index: usize) -> *mut u8 {
        let first = self.memory.as_ptr().as_ptr().wrapping_add(self.memory.len());
        first.wrapping_add(index * WINDOW as usize)
    }

    /// Tells those who sleep that something has changed, after it has.
    pub(super) fn notify(&self) {
        let head = self.head();
        fence(Ordering::SeqCst);
        if head.sleepers.load(Ordering::Relaxed) > 0 {
            head.changes.fetch_add(1, Ordering::SeqCst);
            futex::wake(&head.changes);
        }
    }

    /// Sleeps until something changes after `seen`, or the time is over. For one of the sleepers.
    pub(super) fn sleep(&self, seen: u32, limit: Duration) {
        futex::wait(&self.head().changes, seen, limit);
    }

    /// Tells the thread that there is something to do.
    pub(super) fn call_thread(&self) {
        let head = self.head();
        head.work.fetch_add(1, Ordering::SeqCst);
        if head.rests.load(Ordering::SeqCst) != 0 {
            futex::wake(&head.work);
        }
    }

    /// For the thread: rests until there is more to do than was `seen`, or the time is over.
    pub(super) fn rest(&self, seen: u32, limit: Duration) {
        let head = self.head();
        head.rests.store(1, Ordering::SeqCst);
        if head.work.load(Ordering::SeqCst) == seen {
            futex::wait(&head.work, seen, limit);
        }
        head.rests.store(0, Ordering::SeqCst);
    }
}
