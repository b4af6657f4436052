//! [`SharedSlots`]: the windows in which writes wait, and the state of each, in memory that the
//! ranks of a node share.
//!
//! All numbers of the [`SlotsHeader`] and of the call logs are atomic; the slots are accessed by
//! [`SharedSlots::with`] only, under a lock in the same memory. The module above says how the bytes
//! of the windows are accessed.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use striate_comm::shm::{EventCount, Section, futex};

use super::call_order::{CallLog, CallLogs};
use super::filled_ranges::FilledRanges;

/// Bytes of a window, and the alignment of windows in the file.
pub(super) const WINDOW: u64 = 128 << 10;

/// With more ranks it does not pay: each has to look at what all others do.
const MOST_RANKS: usize = 64;

/// What the ranks share; zero at first, as fresh memory is. What changes with every request and
/// what hardly ever changes lie in cache lines of their own, so that reading the latter is cheap.
#[repr(C, align(64))]
pub(super) struct SlotsHeader {
    lock: AtomicU32,
    /// Slots in which something waits.
    pub(super) waiting: AtomicU32,
    /// Periods of the flush thread so far.
    pub(super) period: AtomicU64,
    /// Requests so far.
    pub(super) requests: AtomicU64,
    /// Counts the work of the flush thread; and whether it sleeps until there is more.
    pub(super) work: AtomicU32,
    thread_sleeps: AtomicU32,
    /// The ticket of the rank that writes to the file: see `write_turns.rs`.
    pub(super) writer: CacheLine<AtomicU32>,
    stable: CacheLine<StableHeader>,
}

/// The part of the header that hardly ever changes.
#[repr(C)]
pub(super) struct StableHeader {
    /// Whether nothing may wait any more.
    pub(super) disabled: AtomicU32,
    /// The system's number of an error that not all ranks know of yet.
    pub(super) failed: AtomicU32,
    /// Counts errors.
    pub(super) failures: AtomicU32,
    /// Whether a rank has a flush thread.
    pub(super) has_thread: AtomicU32,
    event: EventCount,
}

impl Deref for SlotsHeader {
    type Target = StableHeader;

    fn deref(&self) -> &StableHeader {
        &self.stable.0
    }
}

#[repr(C, align(64))]
pub(super) struct CacheLine<T>(pub(super) T);

/// The state of a slot, which holds one window.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct WindowSlot {
    pub(super) state: SlotState,
    /// Ranks that copy into it.
    pub(super) copying: u32,
    /// Which of the file's windows it holds.
    pub(super) window: u64,
    /// The request that used it last.
    pub(super) used: u64,
    /// The periods in which it was taken, and used last.
    pub(super) taken: u64,
    pub(super) touched: u64,
    pub(super) filled: FilledRanges,
}

/// A number rather than an enum, because fresh memory is zero.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotState(u32);

impl SlotState {
    pub(super) const FREE: Self = Self(0);
    pub(super) const OPEN: Self = Self(1);
    pub(super) const WRITING: Self = Self(2);
}

impl WindowSlot {
    /// Whether it can be claimed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.state == SlotState::OPEN && self.copying == 0
    }

    /// Whether all bytes of the window are there.
    pub(super) fn is_full(&self) -> bool {
        self.is_at_rest() && self.filled.cover(WINDOW as u32)
    }

    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        let start = self.window * WINDOW;
        self.state != SlotState::FREE && start < range.end && range.start < start + WINDOW
    }
}

/// The slots, while the lock is held.
pub(super) struct SlotTable<'a> {
    pub(super) slots: &'a mut [WindowSlot],
}

/// A slot that the caller writes to the file.
pub(super) struct ClaimedSlot {
    pub(super) index: usize,
    pub(super) window: u64,
    pub(super) filled: FilledRanges,
}

impl SlotTable<'_> {
    /// Claims a slot, if it can be claimed.
    pub(super) fn claim(&mut self, index: usize) -> Option<ClaimedSlot> {
        let slot = &mut self.slots[index];
        if !slot.is_at_rest() {
            return None;
        }
        slot.state = SlotState::WRITING;
        Some(ClaimedSlot { index, window: slot.window, filled: slot.filled })
    }
}

/// Slots for so many ranks, some of which are ahead of others.
const fn slot_count(ranks: usize) -> usize {
    12 + ranks
}

/// Bytes of memory that the ranks of a node must share; none for more ranks than this is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotMemory {
    /// Of the state.
    pub(crate) table: usize,
    /// Of the windows, in the spare part of the memory.
    pub(crate) windows: usize,
}

impl SlotMemory {
    pub(crate) const fn of(ranks: usize) -> Self {
        if ranks > MOST_RANKS {
            return Self { table: 0, windows: 0 };
        }
        let slots = slot_count(ranks) * size_of::<WindowSlot>();
        let table = size_of::<SlotsHeader>() + slots + ranks * size_of::<CallLog>();
        Self { table: table.next_multiple_of(4096), windows: slot_count(ranks) * WINDOW as usize }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct SharedSlots {
    section: Section,
    ranks: usize,
}

impl SharedSlots {
    /// In a section of [`SlotMemory`] that is zero, or was [reset](SharedSlots::reset).
    pub(super) fn new(section: Section, ranks: usize) -> Option<Self> {
        let SlotMemory { table, windows } = SlotMemory::of(ranks);
        if table == 0 {
            return None;
        }
        assert!(section.len() >= table, "the slots fit their memory");
        assert!(section.memory().spare() >= windows, "the windows fit their memory");
        Some(Self { section, ranks })
    }

    /// Makes the memory as it was at first. For one rank, while no other uses it.
    pub(super) fn reset(section: &Section, ranks: usize) {
        let SlotMemory { table, .. } = SlotMemory::of(ranks);
        assert!(section.len() >= table, "the slots fit their memory");
        // SAFETY: inside of the section, and by the caller's promise no other rank uses it. All
        // zeros are valid.
        unsafe { section.as_ptr().write_bytes(0, table) };
    }

    pub(super) const fn ranks(&self) -> usize {
        self.ranks
    }

    /// Where the shared memory lies in this process.
    pub(super) fn address(&self) -> usize {
        self.section.memory().as_ptr().addr().get()
    }

    /// Makes the windows usable for this rank; returns whether it worked.
    pub(super) fn populate(&self) -> bool {
        self.section.memory().populate()
    }

    fn first(&self) -> *mut SlotsHeader {
        self.section.as_ptr().as_ptr().cast()
    }

    pub(super) fn header(&self) -> &SlotsHeader {
        // SAFETY: it lies at the start of the section, which is aligned to a cache line, and all of
        // it is atomic.
        unsafe { &*self.first() }
    }

    fn first_call_log(&self) -> *mut CallLog {
        self.first().wrapping_add(1).cast()
    }

    /// What the ranks have announced.
    pub(super) fn call_logs(&self) -> CallLogs<'_> {
        // SAFETY: they lie behind the header, at a multiple of 64, in memory that is long enough;
        // all of them is atomic.
        CallLogs(unsafe { std::slice::from_raw_parts(self.first_call_log(), self.ranks) })
    }

    /// Runs `body` on the slots, under the lock.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut SlotTable<'_>) -> T) -> T {
        futex::locked(&self.header().lock, || {
            let count = slot_count(self.ranks);
            // SAFETY: the lock is held, so no other rank accesses the slots, which lie behind the
            // call logs in memory that is long enough. They are made of 8-byte numbers, or pairs of
            // smaller ones.
            let mut table = unsafe {
                let slots = self.first_call_log().add(self.ranks).cast::<WindowSlot>();
                SlotTable { slots: std::slice::from_raw_parts_mut(slots, count) }
            };
            body(&mut table)
        })
    }

    /// Claims a slot of this kind, if there is one that can be claimed.
    pub(super) fn claim(&self, which: impl Fn(&WindowSlot) -> bool) -> Option<ClaimedSlot> {
        self.with(|table| {
            let found = table.slots.iter().position(|slot| slot.is_at_rest() && which(slot));
            found.and_then(|index| table.claim(index))
        })
    }

    /// Bytes of all windows.
    pub(super) const fn windows_len(&self) -> u64 {
        slot_count(self.ranks) as u64 * WINDOW
    }

    /// The bytes of a slot's window.
    pub(super) fn bytes_of(&self, index: usize) -> *mut u8 {
        let memory = self.section.memory();
        let first = memory.as_ptr().as_ptr().wrapping_add(memory.len());
        first.wrapping_add(index * WINDOW as usize)
    }

    /// What ranks sleep on while they wait for each other.
    pub(super) fn event(&self) -> &EventCount {
        &self.header().event
    }

    /// Wakes ranks that sleep, after something has changed.
    pub(super) fn notify(&self) {
        self.event().notify_sleepers();
    }

    /// Tells the flush thread that there is something to do.
    pub(super) fn wake_thread(&self) {
        let header = self.header();
        header.work.fetch_add(1, Ordering::SeqCst);
        if header.thread_sleeps.load(Ordering::SeqCst) != 0 {
            futex::wake(&header.work);
        }
    }

    /// For the flush thread: sleeps until there is more to do than was `seen`, or the time is over.
    pub(super) fn rest(&self, seen: u32, limit: Duration) {
        let header = self.header();
        header.thread_sleeps.store(1, Ordering::SeqCst);
        if header.work.load(Ordering::SeqCst) == seen {
            futex::wait(&header.work, seen, limit);
        }
        header.thread_sleeps.store(0, Ordering::SeqCst);
    }
}
