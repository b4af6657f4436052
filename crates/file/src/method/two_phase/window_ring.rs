//! A ring of file windows in memory that a group of ranks shares.
//!
//! The windows of a group's file domain pass through the ring in order. For a write, every
//! *participant* puts its bytes into a window; when the last has, whoever notices first writes it and
//! frees its slot. For a read, whoever needs a window first reads it; when the last participant has
//! taken its bytes the slot is free. Nobody waits for a round to end: ranks that are ahead work up to
//! a ring's length ahead, and I/O of one window overlaps with copying into or out of others.
//!
//! All bookkeeping is a small table behind one lock, held for some loads and stores only. StreamBuffers are
//! numbered on from call to call, so nothing is reset between calls.
//!
//! # Soundness
//!
//! The memory is shared by threads or processes. The table is touched only by [`WindowRing::with`],
//! under the lock. A slot is written by [`WindowRing::slot`]'s users between *enter* and *pass* (each
//! at its own bytes) or by the one who claimed the window; it is read by the one who claimed it, or
//! after *ready*. The lock orders these.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use striate_comm::{CommError, NodeMemory, futex};

use super::waiter::Waiter;
use crate::cores::cores;

/// How long a rank sleeps before it looks whether the others are still there.
const PATIENCE: Duration = Duration::from_millis(50);

/// The same where ranks also send messages, which only get on while somebody looks.
const IMPATIENCE: Duration = Duration::from_micros(500);

/// How long a rank lets others run before it sleeps: to sleep and be woken costs more than most waits.
const LET_RUN: Duration = Duration::from_micros(200);

/// The same where each rank has a core, which then does nothing else.
const LET_RUN_APART: Duration = Duration::from_millis(2);

/// A turn of others that takes so long is not one of ranks, who have little to do here. Somebody else wants the core, and
/// who only lets him run waits for a turn of his every time; who sleeps is woken before it is over.
const LONG_TURN: Duration = Duration::from_millis(1);

/// Waits after such a turn in which a rank sleeps at once.
const WARY: u32 = 256;

/// Header bytes that a rank can show the others in one call.
pub(crate) const PROPOSAL_LEN: usize = 256;

/// Bytes that cores hand to each other at a time.
const LINE: usize = 64;

/// Numbers that a file's shared pointer needs.
pub(crate) const POINTERS: usize = 2;

/// What is wrong with a slot's window, from a participant's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingEntry {
    /// The slot still holds an earlier window.
    Occupied,
    /// Put your bytes.
    Open,
    /// Read the window from the file first, then say [`WindowRing::prepared`].
    Prepare,
    /// Somebody is reading it from the file.
    Preparing,
}

#[repr(C, align(64))]
struct RingHeader {
    /// Counts changes; sleepers wait for the next.
    changes: AtomicU32,
    sleepers: AtomicU32,
    /// 0 free, 1 held, 2 held and waited for.
    lock: AtomicU32,
    failed: AtomicU32,
    /// Whether somebody has ever changed a window with gaps.
    sieving: AtomicU32,
    /// Calls for which all ranks have shown their proposals; wraps.
    meetings: AtomicU32,
    /// Cards shown for the next.
    proposals: AtomicU32,
    /// Ranks whose proposal means something to the others, in even calls and in odd ones.
    telling: [AtomicU32; 2],
    table: RingProgress,
    /// Kept here for the file, which needs memory that all ranks share.
    pointers: [AtomicU64; POINTERS],
}

#[repr(C)]
#[derive(Debug)]
struct RingProgress {
    /// StreamBuffers below were given to someone for I/O.
    claimed: u64,
    /// Reads: windows below are out of the ring.
    retired: u64,
    /// I/O under way.
    tickets: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RingSlot {
    /// The window it is open for.
    window: u64,
    /// Writes: bytes put into it. Reads: bytes that the file had.
    bytes: u64,
    state: u64,
}

const EMPTY: u64 = 0;
const PREPARING: u64 = 1;
const READY: u64 = 2;

/// The memory a ring lives in.
pub(crate) enum RingMemory {
    /// Shared by the ranks of a node.
    Node(NodeMemory),
    /// Of one rank.
    Own(OwnMemory),
}

/// Zeroed memory at the start of a page, of any length: too much of it is an answer, not an abort.
pub(crate) struct OwnMemory {
    address: NonNull<u8>,
    layout: Layout,
}

impl OwnMemory {
    fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), 4096).ok()?;
        // SAFETY: the layout is not empty.
        let address = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { address, layout })
    }
}

impl Drop for OwnMemory {
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
    patience: Duration,
    let_run: Duration,
    /// Waits to come in which this rank sleeps at once.
    wary: AtomicU32,
    /// Keeps the memory.
    _place: RingMemory,
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
    /// Bytes of memory a ring needs.
    pub(crate) const fn len(participants: usize, slots: usize, window: usize) -> usize {
        let windows = slots.saturating_mul(window.next_multiple_of(4096));
        windows.saturating_add(Self::first_slot(participants, slots))
    }

    /// Where the proposals lie: behind the head, two numbers for each participant, and the slots' states.
    const fn proposals(participants: usize, slots: usize) -> usize {
        size_of::<RingHeader>() + 2 * participants * 8 + slots * size_of::<RingSlot>()
    }

    /// Where each participant counts its writes without a lock, in a line of its own: they are many, and nobody
    /// else looks.
    const fn unlocked(participants: usize, slots: usize) -> usize {
        (Self::proposals(participants, slots) + 2 * participants * PROPOSAL_LEN)
            .next_multiple_of(LINE)
    }

    const fn first_slot(participants: usize, slots: usize) -> usize {
        (Self::unlocked(participants, slots) + participants * LINE).next_multiple_of(4096)
    }

    /// A ring in memory that is zeroed and long enough.
    pub(crate) fn new(place: RingMemory, participants: usize, slots: usize, window: usize) -> Self {
        let (base, len) = match &place {
            RingMemory::Node(memory) => (memory.as_ptr(), memory.len()),
            RingMemory::Own(memory) => (memory.address, memory.layout.size()),
        };
        assert!(len >= Self::len(participants, slots, window), "the ring fits its memory");
        let wary = AtomicU32::new(0);
        let let_run = if participants <= cores() { LET_RUN_APART } else { LET_RUN };
        let patience = PATIENCE;
        Self { base, participants, slots, window, patience, let_run, wary, _place: place }
    }

    /// For rings whose ranks also send messages.
    pub(crate) fn impatient(self) -> Self {
        Self { patience: IMPATIENCE, ..self }
    }

    /// A ring of one rank's own; `None` if there is no memory for it.
    pub(crate) fn own(participants: usize, slots: usize, window: usize) -> Option<Self> {
        let memory = OwnMemory::new(Self::len(participants, slots, window))?;
        Some(Self::new(RingMemory::Own(memory), participants, slots, window))
    }

    fn head(&self) -> *mut RingHeader {
        self.base.cast::<RingHeader>().as_ptr()
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The atomics of the head.
    fn word(&self, of: impl Fn(*mut RingHeader) -> *mut AtomicU32) -> &AtomicU32 {
        // SAFETY: the head lies at the start of the memory; its atomics are only used as such.
        unsafe { &*of(self.head()) }
    }

    fn changes(&self) -> &AtomicU32 {
        // SAFETY: a field of the head.
        self.word(|head| unsafe { &raw mut (*head).changes })
    }

    fn sleepers(&self) -> &AtomicU32 {
        // SAFETY: a field of the head.
        self.word(|head| unsafe { &raw mut (*head).sleepers })
    }

    fn lock(&self) -> &AtomicU32 {
        // SAFETY: a field of the head.
        self.word(|head| unsafe { &raw mut (*head).lock })
    }

    fn failure(&self) -> &AtomicU32 {
        // SAFETY: a field of the head.
        self.word(|head| unsafe { &raw mut (*head).failed })
    }

    /// One of the numbers that are kept here for the file.
    pub(crate) fn pointer(&self, which: usize) -> &AtomicU64 {
        // SAFETY: a field of the head, which lies at the start of the memory and is used as atomics only.
        let pointers = unsafe { &(*self.head()).pointers };
        &pointers[which]
    }

    /// Forgets what calls on a file have left here, when no rank uses it: its pointer, and that it was sieved.
    /// Writes under way have ended, and with them their counts.
    pub(crate) fn forget_file(&self) {
        for which in 0..POINTERS {
            self.pointer(which).store(0, Ordering::SeqCst);
        }
        self.sieving().store(0, Ordering::SeqCst);
    }

    /// Runs `body` on the table, alone.
    fn with<T>(&self, body: impl FnOnce(&mut RingTable<'_>) -> T) -> T {
        futex::locked(self.lock(), || {
            let (participants, slots) = (self.participants, self.slots);
            // SAFETY: the lock is held, so nobody else touches the tables, which lie behind each other
            // in memory that is long enough.
            let mut books = unsafe {
                #[expect(
                    clippy::cast_ptr_alignment,
                    reason = "behind the head, which is aligned to 64"
                )]
                let progress = self.at(size_of::<RingHeader>()).cast::<u64>();
                let needs = progress.add(participants);
                let ring = needs.add(participants).cast::<RingSlot>();
                RingTable {
                    table: &mut (*self.head()).table,
                    progress: std::slice::from_raw_parts_mut(progress, participants),
                    needs: std::slice::from_raw_parts_mut(needs, participants),
                    slots: std::slice::from_raw_parts_mut(ring, slots),
                    changed: false,
                }
            };
            body(&mut books)
        })
    }

    /// Like `with`, and tells sleepers if the body says that something they may wait for changed.
    fn update<T>(&self, body: impl FnOnce(&mut RingTable<'_>) -> T) -> T {
        let (result, changed) = self.with(|books| {
            let result = body(books);
            (result, books.changed)
        });
        if changed {
            self.notify();
        }
        result
    }

    pub(crate) fn notify(&self) {
        self.changes().fetch_add(1, Ordering::SeqCst);
        if self.sleepers().load(Ordering::SeqCst) > 0 {
            futex::wake(self.changes());
        }
    }

    /// Calls `attempt` until it gives something, sleeping between changes.
    pub(crate) fn wait_for<T>(
        &self,
        watch: Waiter<'_>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, CommError> {
        let mut looks = 0;
        loop {
            let seen = self.changes().load(Ordering::SeqCst);
            if let Some(result) = attempt() {
                return Ok(result);
            }
            if watch.pause(looks)? {
                looks = looks.saturating_add(1);
                if let Err(error) = watch.health() {
                    return attempt().ok_or(error);
                }
                continue;
            }
            if self.let_run(seen) {
                continue;
            }
            self.sleepers().fetch_add(1, Ordering::SeqCst);
            if self.changes().load(Ordering::SeqCst) == seen {
                futex::wait(self.changes(), seen, self.patience);
            }
            self.sleepers().fetch_sub(1, Ordering::SeqCst);
            if let Err(error) = watch.health() {
                // A rank that has ended may have done its part before.
                return attempt().ok_or(error);
            }
        }
    }

    /// Lets others run for a while, since whoever is needed is often only waiting for this core. Returns whether
    /// something has changed.
    fn let_run(&self, seen: u32) -> bool {
        let wary = self.wary.load(Ordering::Relaxed);
        if wary > 0 {
            self.wary.store(wary - 1, Ordering::Relaxed);
            return false;
        }
        let start = Instant::now();
        let mut turn = start;
        loop {
            std::thread::yield_now();
            let now = Instant::now();
            if now.duration_since(turn) >= LONG_TURN {
                self.wary.store(WARY, Ordering::Relaxed);
            }
            if self.changes().load(Ordering::SeqCst) != seen {
                return true;
            }
            if now.duration_since(start) >= self.let_run {
                return false;
            }
            turn = now;
        }
    }

    /// Memory of the slot of window `g`.
    pub(crate) fn slot(&self, g: u64) -> *mut u8 {
        let index = (g % self.slots as u64) as usize;
        self.at(Self::first_slot(self.participants, self.slots)
            + index * self.window.next_multiple_of(4096))
    }

    /// Makes everyone of the group stop doing I/O.
    pub(crate) fn fail(&self) {
        self.failure().store(1, Ordering::SeqCst);
        self.notify();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure().load(Ordering::SeqCst) != 0
    }

    /// After a failed call, when all ranks have met: the next may try again.
    pub(crate) fn forget_failure(&self) {
        self.failure().store(0, Ordering::SeqCst);
    }

    // ---- writes ----

    /// Whether participant `p`, who has nothing to put before window `g`, may put into it now.
    /// `read_first` says whether the window has holes.
    pub(crate) fn enter(&self, p: usize, g: u64, read_first: bool) -> RingEntry {
        self.with(|books| {
            books.progress[p] = books.progress[p].max(g);
            let slot = books.slot(g);
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
        self.update(|books| {
            books.slot(g).state = READY;
            books.changed = true;
        });
    }

    /// A participant has put `bytes` into window `g`.
    pub(crate) fn put(&self, g: u64, bytes: u64) {
        self.with(|books| books.slot(g).bytes += bytes);
    }

    /// Participant `p` has nothing (more) to put before window `g`.
    pub(crate) fn pass_write(&self, p: usize, g: u64) {
        self.with(|books| books.progress[p] = books.progress[p].max(g));
    }

    /// A complete window to write, if there are fewer than `writers` at it. StreamBuffers of nobody are
    /// passed over.
    pub(crate) fn claim_write(&self, writers: u64, end: u64) -> Option<u64> {
        self.update(|books| {
            let complete = books.complete().min(end);
            while books.table.claimed < complete {
                let g = books.table.claimed;
                if !books.slot(g).is_open_for(g) {
                    // Everyone has passed a window whose slot is still being written from.
                    return None;
                }
                if books.slot(g).bytes > 0 {
                    if books.table.tickets >= writers {
                        return None;
                    }
                    books.table.claimed += 1;
                    books.table.tickets += 1;
                    return Some(g);
                }
                books.changed = true;
                if books.table.tickets == 0 && books.slots.iter().all(|slot| slot.bytes == 0) {
                    books.jump(complete);
                } else {
                    books.table.claimed += 1;
                    books.slot(g).free_after(g, self.slots);
                }
            }
            None
        })
    }

    /// Bytes that were put into window `g`.
    pub(crate) fn bytes_put(&self, g: u64) -> u64 {
        self.with(|books| books.slot(g).bytes)
    }

    /// Window `g` is written; its slot is free.
    pub(crate) fn written(&self, g: u64) {
        self.update(|books| {
            books.table.tickets -= 1;
            books.slot(g).free_after(g, self.slots);
            books.changed = true;
        });
    }

    /// Whether all windows below `end` are written.
    pub(crate) fn all_written(&self, end: u64) -> bool {
        self.with(|books| books.table.claimed >= end && books.table.tickets == 0)
    }

    // ---- reads ----

    /// Participant `p` is done with all windows before the one it needs next, or before `end`.
    pub(crate) fn pass_read(&self, p: usize, next: Option<u64>, end: u64) {
        self.update(|books| {
            books.progress[p] = next.unwrap_or(end);
            books.needs[p] = next.map_or(0, |next| next + 1);
            books.retire();
        });
    }

    /// How many bytes window `g` has, if it has been read.
    pub(crate) fn bytes_read(&self, g: u64) -> Option<u64> {
        self.with(|books| {
            let slot = books.slot(g);
            (slot.is_open_for(g) && slot.state == READY).then_some(slot.bytes)
        })
    }

    /// The next window to read from the file: if there is a free slot for it and someone needs it now,
    /// or the caller will.
    pub(crate) fn claim_read(
        &self,
        readers: u64,
        end: u64,
        caller_needs: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        self.update(|books| {
            let g = books.table.claimed;
            let possible = g < end && books.table.tickets < readers && books.slot(g).is_open_for(g);
            if !possible || !(books.needs.contains(&(g + 1)) || caller_needs(g)) {
                return None;
            }
            books.table.claimed += 1;
            books.table.tickets += 1;
            books.slot(g).state = PREPARING;
            Some(g)
        })
    }

    /// Window `g` has been read; the file had so many bytes of it.
    pub(crate) fn ready(&self, g: u64, bytes: u64) {
        self.update(|books| {
            books.table.tickets -= 1;
            books.slot(g).state = READY;
            books.slot(g).bytes = bytes;
            books.retire();
            books.changed = true;
        });
    }

    /// Whether everyone has taken all windows below `end`.
    pub(crate) fn all_taken(&self, end: u64) -> bool {
        self.with(|books| books.table.retired >= end && books.table.tickets == 0)
    }

    /// StreamBuffers below were dealt with when the last call ended.
    pub(crate) fn begin_reads(&self, first: u64) {
        self.with(|books| books.table.retired = books.table.retired.max(first));
    }

    // ---- plain writes beside sieved ones ----

    /// Whether participant `p` may write without a lock until it says [`WindowRing::end_unlocked`]: as long
    /// as nobody sieves.
    pub(crate) fn begin_unlocked(&self, p: usize) -> bool {
        self.writes_unlocked(p).fetch_add(1, Ordering::SeqCst);
        if self.sieving().load(Ordering::SeqCst) == 0 {
            return true;
        }
        self.end_unlocked(p);
        false
    }

    pub(crate) fn end_unlocked(&self, p: usize) {
        self.writes_unlocked(p).fetch_sub(1, Ordering::SeqCst);
        if self.sieving().load(Ordering::SeqCst) != 0 {
            self.notify();
        }
    }

    /// From now on every write takes a lock; waits for those that began without.
    pub(crate) fn begin_sieving(&self, watch: Waiter<'_>) -> Result<(), CommError> {
        self.sieving().store(1, Ordering::SeqCst);
        let is_idle = |p| self.writes_unlocked(p).load(Ordering::SeqCst) == 0;
        self.wait_for(watch, || (0..self.participants).all(is_idle).then_some(()))
    }

    fn sieving(&self) -> &AtomicU32 {
        // SAFETY: a field of the head.
        self.word(|head| unsafe { &raw mut (*head).sieving })
    }

    /// Writes of participant `p` that are under way without a lock.
    fn writes_unlocked(&self, p: usize) -> &AtomicU32 {
        assert!(p < self.participants, "participants are numbered");
        let place = self.at(Self::unlocked(self.participants, self.slots) + p * LINE);
        // SAFETY: inside of the memory, between the proposals and the slots, at a multiple of a line from the start of a page,
        // and used as an atomic only.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    // ---- meetings ----

    /// Shows `proposal` to all participants of call `call` and returns theirs; `None` if all have said that
    /// theirs tells nothing. Only for rings whose participants all share the memory.
    pub(crate) fn meet(
        &self,
        p: usize,
        call: u64,
        proposal: &[u8; PROPOSAL_LEN],
        tells: bool,
        watch: Waiter<'_>,
    ) -> Result<Option<Vec<[u8; PROPOSAL_LEN]>>, CommError> {
        let proposals = Self::proposals(self.participants, self.slots);
        // Two sets of proposals: who is one call ahead cannot be two ahead, for that needs everyone.
        let set = (call % 2) as usize;
        let place = |p: usize| {
            self.at(proposals + (set * self.participants + p) * PROPOSAL_LEN)
                .cast::<[u8; PROPOSAL_LEN]>()
        };
        // SAFETY: inside of the memory; only this rank writes its proposal, and nobody reads it before
        // the meeting below says that all are shown.
        unsafe { place(p).write(*proposal) };
        // SAFETY: fields of the head.
        let (shown, meetings, telling) = unsafe {
            (
                self.word(|head| &raw mut (*head).proposals),
                self.word(|head| &raw mut (*head).meetings),
                &(*self.head()).telling,
            )
        };
        if tells {
            telling[set].fetch_add(1, Ordering::Relaxed);
        }
        if shown.fetch_add(1, Ordering::AcqRel) + 1 == self.participants as u32 {
            shown.store(0, Ordering::Relaxed);
            // That of the last call: everyone has looked, and nobody is at the next.
            telling[1 - set].store(0, Ordering::Relaxed);
            meetings.fetch_add(1, Ordering::Release);
            self.notify();
        } else {
            // Nobody is a whole turn of the counter ahead.
            let over = || meetings.load(Ordering::Acquire) != call as u32;
            self.wait_for(watch, || over().then_some(()))?;
        }
        if telling[set].load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        // SAFETY: all proposals of this call are shown, and not replaced before everyone came on to the
        // next but one.
        Ok(Some((0..self.participants).map(|p| unsafe { place(p).read() }).collect()))
    }
}

/// The table, while the lock is held.
struct RingTable<'a> {
    table: &'a mut RingProgress,
    /// For each participant: it is done with all windows below.
    progress: &'a mut [u64],
    /// Reads: one more than the number of the window it needs next, or 0.
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

    /// StreamBuffers below are done with by everyone.
    fn complete(&self) -> u64 {
        self.progress.iter().copied().min().unwrap_or(0)
    }

    /// Goes on with window `g`; nothing is in the ring.
    fn jump(&mut self, g: u64) {
        let count = self.slots.len() as u64;
        for next in g..g + count {
            // Someone may be at work in a slot that is open for the right window already.
            if !self.slot(next).is_open_for(next) {
                *self.slot(next) = RingSlot { window: next, bytes: 0, state: EMPTY };
            }
        }
        self.table.claimed = g;
    }

    /// Reads: takes windows that everyone is done with out of the ring, and passes over those nobody
    /// needs.
    fn retire(&mut self) {
        let complete = self.complete();
        while self.table.retired < complete {
            let g = self.table.retired;
            if g >= self.table.claimed {
                // Nothing is in the ring.
                self.jump(complete);
                self.table.retired = complete;
                self.changed = true;
                return;
            }
            if self.slot(g).state == PREPARING {
                return;
            }
            let count = self.slots.len();
            self.slot(g).free_after(g, count);
            self.table.retired += 1;
            self.changed = true;
        }
    }
}
