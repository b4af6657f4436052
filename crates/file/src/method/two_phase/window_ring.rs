//! [`WindowRing`]: the collective buffers of a group of ranks, as a ring of file windows in memory
//! that they share.
//!
//! The windows of a group's file domain pass through the ring in order. For a write, every
//! *participant* copies its bytes into a window; once the last one has, the first rank that notices
//! writes the window and frees its slot. For a read, the first rank that needs a window reads it;
//! when the last participant has copied its bytes out, the slot is free. There is no barrier
//! between rounds: a rank may be a ring's length ahead, and the I/O of one window overlaps with
//! copies into or out of the others.
//!
//! The state of the ring is a small table behind one lock, which is held for some loads and stores
//! only. Windows are numbered on from call to call, so nothing is reset between calls.
//!
//! # Soundness
//!
//! The memory is shared by threads or processes. The table is accessed by [`WindowRing::with`]
//! only, under the lock. A slot is written by users of [`WindowRing::slot`] between *enter* and
//! *pass* (each at its own bytes), or by the rank that has claimed the window; it is read by the
//! rank that has claimed it, or after *ready*. The lock orders these.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use striate_comm::shm::{Backoff, BackoffPolicy, EventCount, Waiter, futex};
use striate_comm::{CommError, NodeMemory};

const PAGE: usize = 4096;

/// What a participant finds when it wants to copy into a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingEntry {
    /// The slot still holds an earlier window.
    Occupied,
    /// The participant may copy its bytes.
    Open,
    /// The participant has to read the window from the file first, and then call
    /// [`WindowRing::prepared`].
    Prepare,
    /// Another rank is reading it from the file.
    Preparing,
}

#[repr(C, align(64))]
struct RingHeader {
    event: EventCount,
    lock: AtomicU32,
    failed: AtomicU32,
    progress: RingProgress,
}

#[repr(C)]
#[derive(Debug)]
struct RingProgress {
    /// Windows below were claimed by a rank for I/O.
    claimed: u64,
    /// Reads: windows below have left the ring.
    retired: u64,
    /// Windows whose I/O is under way.
    in_flight: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RingSlot {
    /// The window it is open for.
    window: u64,
    /// Writes: bytes copied into it. Reads: bytes that the file had.
    bytes: u64,
    state: u64,
}

const EMPTY: u64 = 0;
const PREPARING: u64 = 1;
const READY: u64 = 2;

/// The memory a ring lies in.
pub(super) enum RingMemory {
    /// Shared by the ranks of a node.
    Node(NodeMemory),
    /// Of one rank.
    Private(PrivateMemory),
}

/// Zeroed memory of one rank at the start of a page. An allocation that fails is an answer, not an
/// abort.
pub(super) struct PrivateMemory {
    address: NonNull<u8>,
    layout: Layout,
}

impl PrivateMemory {
    pub(super) fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), PAGE).ok()?;
        // SAFETY: the layout is not empty.
        let address = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { address, layout })
    }
}

impl RingMemory {
    /// Its first byte, and how many there are.
    pub(super) fn extent(&self) -> (NonNull<u8>, usize) {
        match self {
            Self::Node(memory) => (memory.as_ptr(), memory.len()),
            Self::Private(memory) => (memory.address, memory.layout.size()),
        }
    }
}

impl Drop for PrivateMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not used after.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

/// See the module.
pub(crate) struct WindowRing {
    base: NonNull<u8>,
    participants: usize,
    slots: usize,
    window: usize,
    backoff: Backoff,
    /// Keeps the memory alive.
    _memory: RingMemory,
}

// SAFETY: the memory is shared by design; the module's soundness section says how.
unsafe impl Send for WindowRing {}
// SAFETY: as above.
unsafe impl Sync for WindowRing {}

impl std::fmt::Debug for WindowRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { participants, slots, window, .. } = self;
        write!(f, "WindowRing({slots} slots of {window} bytes for {participants})")
    }
}

impl WindowRing {
    /// Bytes of memory that a ring needs.
    pub(crate) const fn len(participants: usize, slots: usize, window: usize) -> usize {
        let windows = slots.saturating_mul(window.next_multiple_of(PAGE));
        windows.saturating_add(Self::first_window(participants, slots))
    }

    /// Where the windows begin: behind the header, two numbers for each participant, and the states
    /// of the slots.
    const fn first_window(participants: usize, slots: usize) -> usize {
        let table = 2 * participants * size_of::<u64>() + slots * size_of::<RingSlot>();
        (size_of::<RingHeader>() + table).next_multiple_of(PAGE)
    }

    fn new(
        memory: RingMemory,
        participants: usize,
        slots: usize,
        window: usize,
        policy: BackoffPolicy,
    ) -> Self {
        let (base, len) = memory.extent();
        assert!(len >= Self::len(participants, slots, window), "the ring fits its memory");
        let backoff = Backoff::new(policy);
        Self { base, participants, slots, window, backoff, _memory: memory }
    }

    /// A ring in zeroed memory of [`WindowRing::len`] that the ranks of a node share.
    pub(crate) fn shared(
        memory: NodeMemory,
        participants: usize,
        slots: usize,
        window: usize,
    ) -> Self {
        let policy = BackoffPolicy::of_ranks(participants);
        Self::new(RingMemory::Node(memory), participants, slots, window, policy)
    }

    /// A ring of one rank; `None` if there is not enough memory.
    pub(crate) fn private(participants: usize, slots: usize, window: usize) -> Option<Self> {
        let memory = PrivateMemory::new(Self::len(participants, slots, window))?;
        let policy = BackoffPolicy::of_ranks(participants);
        Some(Self::new(RingMemory::Private(memory), participants, slots, window, policy))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    fn header(&self) -> *mut RingHeader {
        self.base.cast::<RingHeader>().as_ptr()
    }

    fn event(&self) -> &EventCount {
        // SAFETY: a field of the header at the start of the memory, which is made of atomics.
        unsafe { &(*self.header()).event }
    }

    fn lock(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.header()).lock }
    }

    fn failure(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.header()).failed }
    }

    /// Runs `body` on the table, under the lock.
    fn with<T>(&self, body: impl FnOnce(&mut RingTable<'_>) -> T) -> T {
        futex::locked(self.lock(), || {
            let (participants, slots) = (self.participants, self.slots);
            // SAFETY: the lock is held, so no other rank accesses the tables, which lie one behind
            // the other in memory that is long enough.
            let mut table = unsafe {
                #[expect(
                    clippy::cast_ptr_alignment,
                    reason = "behind the header, which is aligned to 64"
                )]
                let done = self.at(size_of::<RingHeader>()).cast::<u64>();
                let needs = done.add(participants);
                let ring = needs.add(participants).cast::<RingSlot>();
                RingTable {
                    progress: &mut (*self.header()).progress,
                    done: std::slice::from_raw_parts_mut(done, participants),
                    needs: std::slice::from_raw_parts_mut(needs, participants),
                    slots: std::slice::from_raw_parts_mut(ring, slots),
                    changed: false,
                }
            };
            body(&mut table)
        })
    }

    /// Like `with`, and wakes waiting ranks if the body says that something they may wait for has
    /// changed.
    fn update<T>(&self, body: impl FnOnce(&mut RingTable<'_>) -> T) -> T {
        let (result, changed) = self.with(|table| {
            let result = body(table);
            (result, table.changed)
        });
        if changed {
            self.notify();
        }
        result
    }

    /// Makes waiting ranks look again.
    pub(crate) fn notify(&self) {
        self.event().notify();
    }

    /// Calls `attempt` until it returns something.
    pub(crate) fn wait_for<T>(
        &self,
        waiter: Waiter<'_>,
        attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, CommError> {
        self.backoff.wait_for(self.event(), waiter, attempt)
    }

    /// Memory of the slot of window `g`.
    pub(crate) fn slot(&self, g: u64) -> *mut u8 {
        let index = (g % self.slots as u64) as usize;
        self.at(Self::first_window(self.participants, self.slots)
            + index * self.window.next_multiple_of(PAGE))
    }

    /// After a failed call, when all ranks know of it: the next call may try again.
    pub(crate) fn clear_failure(&self) {
        self.failure().store(0, Ordering::SeqCst);
    }

    // ---- writes ----

    /// Whether participant `p`, which has nothing to copy before window `g`, may copy into it now.
    /// `read_first` says whether the window has holes.
    pub(crate) fn enter(&self, p: usize, g: u64, read_first: bool) -> RingEntry {
        self.with(|table| {
            table.done[p] = table.done[p].max(g);
            let slot = table.slot(g);
            if !slot.is_open_for(g) {
                return RingEntry::Occupied;
            }
            match slot.state {
                EMPTY if read_first => {
                    slot.state = PREPARING;
                    RingEntry::Prepare
                }
                PREPARING => RingEntry::Preparing,
                _ => RingEntry::Open,
            }
        })
    }

    /// Window `g` holds what the file holds.
    pub(crate) fn prepared(&self, g: u64) {
        self.update(|table| {
            table.slot(g).state = READY;
            table.changed = true;
        });
    }

    /// A participant has copied `bytes` into window `g`.
    pub(crate) fn put(&self, g: u64, bytes: u64) {
        self.with(|table| table.slot(g).bytes += bytes);
    }

    /// Participant `p` has nothing (more) to copy before window `g`.
    pub(crate) fn pass_write(&self, p: usize, g: u64) {
        self.with(|table| table.done[p] = table.done[p].max(g));
    }

    /// Claims a complete window to write, if fewer than `writers` ranks are writing. Windows
    /// without bytes are skipped.
    pub(crate) fn claim_write(&self, writers: u64, end: u64) -> Option<u64> {
        self.update(|table| {
            let complete = table.complete().min(end);
            while table.progress.claimed < complete {
                let g = table.progress.claimed;
                if !table.slot(g).is_open_for(g) {
                    // All participants have passed a window whose slot is still being written from.
                    return None;
                }
                if table.slot(g).bytes > 0 {
                    if table.progress.in_flight >= writers {
                        return None;
                    }
                    table.progress.claimed += 1;
                    table.progress.in_flight += 1;
                    return Some(g);
                }
                table.changed = true;
                if table.progress.in_flight == 0 && table.slots.iter().all(|slot| slot.bytes == 0) {
                    table.jump(complete);
                } else {
                    table.progress.claimed += 1;
                    table.slot(g).free_after(g, self.slots);
                }
            }
            None
        })
    }

    /// Bytes that were copied into window `g`.
    pub(crate) fn bytes_put(&self, g: u64) -> u64 {
        self.with(|table| table.slot(g).bytes)
    }

    /// Window `g` is written; its slot is free.
    pub(crate) fn written(&self, g: u64) {
        self.update(|table| {
            table.progress.in_flight -= 1;
            table.slot(g).free_after(g, self.slots);
            table.changed = true;
        });
    }

    /// Whether all windows below `end` are written.
    pub(crate) fn all_written(&self, end: u64) -> bool {
        self.with(|table| table.progress.claimed >= end && table.progress.in_flight == 0)
    }

    // ---- reads ----

    /// Participant `p` is done with all windows before the one it needs next, or before `end`.
    pub(crate) fn pass_read(&self, p: usize, next: Option<u64>, end: u64) {
        self.update(|table| {
            table.done[p] = next.unwrap_or(end);
            table.needs[p] = next.map_or(0, |next| next + 1);
            table.retire();
        });
    }

    /// How many bytes window `g` has, if it has been read.
    pub(crate) fn bytes_read(&self, g: u64) -> Option<u64> {
        self.with(|table| {
            let slot = table.slot(g);
            (slot.is_open_for(g) && slot.state == READY).then_some(slot.bytes)
        })
    }

    /// Claims the next window to read from the file, if there is a free slot for it and a
    /// participant needs it now, or the caller will.
    pub(crate) fn claim_read(
        &self,
        readers: u64,
        end: u64,
        caller_needs: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        self.update(|table| {
            let g = table.progress.claimed;
            let possible =
                g < end && table.progress.in_flight < readers && table.slot(g).is_open_for(g);
            if !possible || !(table.needs.contains(&(g + 1)) || caller_needs(g)) {
                return None;
            }
            table.progress.claimed += 1;
            table.progress.in_flight += 1;
            table.slot(g).state = PREPARING;
            Some(g)
        })
    }

    /// Window `g` has been read; the file had so many bytes of it.
    pub(crate) fn ready(&self, g: u64, bytes: u64) {
        self.update(|table| {
            table.progress.in_flight -= 1;
            table.slot(g).state = READY;
            table.slot(g).bytes = bytes;
            table.retire();
            table.changed = true;
        });
    }

    /// Whether all participants have copied their bytes out of all windows below `end`.
    pub(crate) fn all_taken(&self, end: u64) -> bool {
        self.with(|table| table.progress.retired >= end && table.progress.in_flight == 0)
    }

    /// Begins a read whose first window is `first`: those below were finished by the calls before.
    pub(crate) fn begin_reads(&self, first: u64) {
        self.with(|table| table.progress.retired = table.progress.retired.max(first));
    }
}

impl super::FailureFlag for WindowRing {
    fn fail(&self) {
        self.failure().store(1, Ordering::SeqCst);
        self.notify();
    }

    fn has_failed(&self) -> bool {
        self.failure().load(Ordering::SeqCst) != 0
    }
}

/// The table, while the lock is held.
struct RingTable<'a> {
    progress: &'a mut RingProgress,
    /// For each participant: it is done with all windows below.
    done: &'a mut [u64],
    /// Reads: for each participant one more than the number of the window it needs next, or 0.
    needs: &'a mut [u64],
    slots: &'a mut [RingSlot],
    changed: bool,
}

impl RingSlot {
    const fn is_open_for(&self, g: u64) -> bool {
        self.window == g
    }

    /// Frees the slot of window `g` for the one that comes next in it.
    const fn free_after(&mut self, g: u64, slots: usize) {
        *self = Self { window: g + slots as u64, bytes: 0, state: EMPTY };
    }
}

impl RingTable<'_> {
    fn slot(&mut self, g: u64) -> &mut RingSlot {
        let index = (g % self.slots.len() as u64) as usize;
        let slot = &mut self.slots[index];
        // Fresh memory is zero: slot i begins with window i.
        if slot.window == 0 {
            slot.window = index as u64;
        }
        slot
    }

    /// All participants are done with the windows below.
    fn complete(&self) -> u64 {
        self.done.iter().copied().min().unwrap_or(0)
    }

    /// Goes on with window `g`, while nothing is in the ring.
    fn jump(&mut self, g: u64) {
        let count = self.slots.len() as u64;
        for next in g..g + count {
            // A rank may already be at work in a slot that is open for the right window.
            if !self.slot(next).is_open_for(next) {
                *self.slot(next) = RingSlot { window: next, bytes: 0, state: EMPTY };
            }
        }
        self.progress.claimed = g;
    }

    /// Reads: takes windows that all participants are done with out of the ring, and skips those
    /// that none needs.
    fn retire(&mut self) {
        let complete = self.complete();
        while self.progress.retired < complete {
            let g = self.progress.retired;
            if g >= self.progress.claimed {
                // Nothing is in the ring.
                self.jump(complete);
                self.progress.retired = complete;
                self.changed = true;
                return;
            }
            if self.slot(g).state == PREPARING {
                return;
            }
            let count = self.slots.len();
            self.slot(g).free_after(g, count);
            self.progress.retired += 1;
            self.changed = true;
        }
    }
}
