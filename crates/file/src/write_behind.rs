//! [`WriteBehind`]: a store in which small writes of the ranks of a node wait in shared memory
//! until they fill a window, and collective calls of these ranks need no barrier.
//!
//! Ranks that write one small request each, call after call, spend most of the time in waiting for
//! each other, and make requests far smaller than file systems handle well. So such ranks skip the
//! rendezvous of collective calls ([`BarrierElision`]; `call_order.rs` keeps the order of their
//! calls), and their small requests are buffered: they lie close to each other in the file, so that
//! they soon fill a *window*. Each rank copies its block into the window; when the last byte is
//! there, a thread of one of the ranks writes it, while the ranks go on. Requests of one rank alone
//! are buffered, too, if there are many: what a rank writes between the blocks of other ranks fills
//! windows only together with theirs.
//!
//! # Contract
//!
//! It wraps a local file and is a [`Store`] itself. All ranks that have opened the file together
//! access it through this store, or none of them.
//!
//! * **What may wait.** Contiguous writes of at most 16 KiB (`SMALL`) that are part of a stream:
//!   more than 32 writes of which none comes 12 ms or more after the one before
//!   (`small_writes.rs`). With the hint `striate_write_behind=enable` the first ones may wait as
//!   well. Nothing waits in atomic mode, in a file that is sieved, with less than 256 MiB of free
//!   space, or with a limit to the size of files; nor for a while after windows were written that
//!   were not full.
//! * **For how long.** A window is written when it is full, when nothing was added to it for 20 to
//!   40 ms, and at the latest 0.14 s after its first byte, plus the time that the thread waits for
//!   a core: less than 0.2 s on a machine that is not overloaded (`flush_thread.rs`).
//! * **What is seen.** Every other request of these ranks passes through this store, and what waits
//!   of the bytes that it touches is written before. So the ranks read each other's bytes as if
//!   nothing waited. When the file is opened once more in one of their processes, everything is
//!   written and nothing waits from then on (`open_files.rs`). Other processes see the bytes after
//!   `sync` or `close`.
//! * **Order.** A collective call without a rendezvous never overwrites what a later collective
//!   call has written.
//! * **Errors.** If a window cannot be written, the next write of each rank that may wait returns
//!   the error, and so does the next `sync` or `close` on all ranks, which is the latest, unless a
//!   collective write with a rendezvous has returned it to all ranks before. The bytes of that
//!   window are lost; the rank may write them again. An error of an argument in a call without a
//!   rendezvous is returned by the rank that has it, and by no other.
//! * **Crashes.** If all processes are killed, what has waited since the last `sync` is lost:
//!   writes of at most 0.2 s.
//! * **What turns it off.** The hint `striate_write_behind=disable` when the file is opened, a
//!   fixed `striate_method`, `striate_direct=enable`, a single rank, ranks on several nodes, more
//!   than 64 ranks, or a file on servers. Without it, collective writes always begin with a
//!   rendezvous; reads may still skip it.
//!
//! # Soundness
//!
//! The slots are accessed by [`SharedSlots::with`] only, under a lock in the same memory. The bytes
//! of a slot are written between *enter* and *leave* by the ranks that copy into it, and read by
//! the one that has claimed it, which is not possible while a rank copies. The lock orders these.
//! Two ranks that write the same bytes at the same time leave those of either there, as they would
//! in the file; no reference to the bytes is ever made, except by the rank that claimed the slot.

mod announced_call;
mod barrier_elision;
mod call_order;
mod excluding_store;
mod filled_ranges;
mod flush_thread;
mod open_files;
mod shm_slots;
mod small_writes;
mod store;
#[cfg(test)]
mod tests;
mod write_turns;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use striate_comm::shm::{Backoff, BackoffPolicy, Section, Wait};
use striate_comm::{Comm, CommError};
use striate_store::store::Store;
use striate_store::{Cause, Operation, PosixFile, StoreError};

use crate::Stats;
use crate::usage::Clock;
pub(crate) use barrier_elision::BarrierElision;
pub(crate) use excluding_store::ExcludingStore;
use filled_ranges::FilledRanges;
use flush_thread::FlushThread;
pub(crate) use open_files::OpenFileEntry;
pub use open_files::flush_all_files;
pub(crate) use shm_slots::SlotMemory;
use shm_slots::{ClaimedSlot, SharedSlots, SlotState, WINDOW, WindowSlot};
pub(crate) use small_writes::SmallWrites;

/// Larger requests gain nothing by waiting.
const SMALL: u64 = 16 << 10;

/// Free space below which nothing waits.
const SPACE: u64 = 256 << 20;

/// How long a rank that is ahead waits for ranks that have yet to copy into the windows it needs.
const LATE: Duration = Duration::from_millis(100);

/// How long a rank waits for another one that copies or writes, at most: as for a lock.
const LIMIT: Duration = Duration::from_secs(600);

/// How ranks wait for each other.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    yield_for: Duration::from_micros(200),
    burst: 4,
    sleep: Duration::from_millis(1),
};

/// Windows that may be written before they are full without more full ones, until no request waits
/// for a while.
const MISSES: u32 = 8;

/// Requests that do not wait then: at first, and at most, if it happens again and again.
const PENALTY: Range<u32> = 512..1 << 16;

/// What a request finds when it looks for a slot.
enum SlotEntry {
    /// The rank may copy into this slot, and then leaves it; whether it is the first slot in which
    /// something waits.
    Copy { index: usize, is_first: bool },
    /// This slot has to be written first.
    Write(ClaimedSlot),
    /// Another rank is at work there, or may still fill a window.
    Busy,
    /// Nothing waits any more.
    Disabled,
}

/// How often a rank's windows were not full when they were written, and what follows from it.
#[derive(Debug)]
struct FillHistory {
    /// Windows that were written before they were full, less those that were full.
    misses: AtomicU32,
    /// Requests to come that do not wait, and how many that will be the next time.
    penalty: AtomicU32,
    next_penalty: AtomicU32,
}

impl FillHistory {
    const fn new() -> Self {
        Self {
            misses: AtomicU32::new(0),
            penalty: AtomicU32::new(0),
            next_penalty: AtomicU32::new(PENALTY.start),
        }
    }

    /// Whether the next request may wait.
    fn allows_next(&self) -> bool {
        let penalty = self.penalty.load(Ordering::Relaxed);
        if penalty > 0 {
            self.penalty.store(penalty - 1, Ordering::Relaxed);
        }
        penalty == 0
    }

    fn count_full(&self) {
        let misses = self.misses.load(Ordering::Relaxed);
        self.misses.store(misses.saturating_sub(1), Ordering::Relaxed);
        self.next_penalty.store(PENALTY.start, Ordering::Relaxed);
    }

    fn count_missed(&self) {
        let misses = self.misses.load(Ordering::Relaxed) + 1;
        if misses < MISSES {
            self.misses.store(misses, Ordering::Relaxed);
        } else {
            self.misses.store(0, Ordering::Relaxed);
            let penalty = self.next_penalty.load(Ordering::Relaxed);
            self.penalty.store(penalty, Ordering::Relaxed);
            self.next_penalty.store((2 * penalty).min(PENALTY.end), Ordering::Relaxed);
        }
    }
}

/// What this process has written of what has waited.
#[derive(Debug, Default)]
struct FlushCounts {
    operations: AtomicU64,
    bytes: AtomicU64,
    regions: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    file: Arc<PosixFile>,
    shared: SharedSlots,
    rank: usize,
    backoff: Backoff,
    turns: write_turns::WriteTurns,
    /// The slot that this rank has copied into last, which is likely to be the next one, too.
    last_slot: AtomicUsize,
    /// A call that all other ranks have finished, as far as this one has looked.
    finished_by_others: AtomicU64,
    /// Whether requests of this rank may wait: it can use the windows, and has no limit to the
    /// size of files.
    usable: OnceLock<bool>,
    /// The last window for which there was free space.
    checked_window: AtomicU64,
    history: FillHistory,
    flushed: FlushCounts,
    /// What writing took, if that is measured.
    clock: OnceLock<Arc<Clock>>,
    /// Failures that this rank's writes have returned.
    reported: AtomicU32,
    thread: FlushThread,
}

impl WriteBehind {
    /// For a rank of a file, in a section of [`SlotMemory`] that is zero, or was
    /// [reset](WriteBehind::reset). `None` for more ranks than it is made for.
    pub(crate) fn new(
        file: Arc<PosixFile>,
        section: Section,
        rank: usize,
        ranks: usize,
    ) -> Option<Self> {
        Some(Self {
            turns: write_turns::WriteTurns::new(file.capabilities().serial_writes, rank),
            file,
            shared: SharedSlots::new(section, ranks)?,
            rank,
            backoff: Backoff::new(BACKOFF),
            last_slot: AtomicUsize::new(0),
            finished_by_others: AtomicU64::new(0),
            usable: OnceLock::new(),
            checked_window: AtomicU64::new(u64::MAX),
            history: FillHistory::new(),
            flushed: FlushCounts::default(),
            clock: OnceLock::new(),
            reported: AtomicU32::new(0),
            thread: FlushThread::default(),
        })
    }

    /// Makes the memory as it was at first. For one rank, while no other uses it.
    pub(crate) fn reset(section: &Section, ranks: usize) {
        SharedSlots::reset(section, ranks);
    }

    /// Whether a request of so many bytes may wait at all.
    pub(crate) const fn accepts(len: u64) -> bool {
        len > 0 && len <= SMALL
    }

    /// Whether a request may wait now.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.header().disabled.load(Ordering::Acquire) == 0
            && self.history.allows_next()
            && *self.usable.get_or_init(|| {
                getrlimit(Resource::Fsize).current.is_none() && self.shared.populate()
            })
    }

    /// Buffers a write; `false` if it cannot wait, and has to be made by the caller. Only for
    /// requests that are [accepted](WriteBehind::accepts), while it [is
    /// ready](WriteBehind::is_ready).
    pub(crate) fn buffer(self: &Arc<Self>, offset: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        self.report_failure()?;
        let end = offset + bytes.len() as u64;
        if !self.has_space(end / WINDOW) {
            return Ok(false);
        }
        let cut = (WINDOW - offset % WINDOW).min(bytes.len() as u64) as usize;
        let (first, second) = bytes.split_at(cut);
        if !self.buffer_in_window(offset, first)? {
            return Ok(false);
        }
        let rest = end - second.len() as u64;
        if !second.is_empty() && !self.buffer_in_window(rest, second)? {
            self.write_at(rest, second)?;
        }
        self.start_thread();
        Ok(true)
    }

    /// Buffers bytes of one window.
    fn buffer_in_window(&self, offset: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        let (window, from) = (offset / WINDOW, (offset % WINDOW) as u32);
        let range = from..from + bytes.len() as u32;
        let mut wait = self.begin_wait();
        let index = loop {
            let has_waited = wait.has_slept() && (wait.is_over(LATE) || self.no_rank_is_late());
            match self.enter(window, range.clone(), has_waited) {
                SlotEntry::Copy { index, is_first } => {
                    if is_first {
                        // The thread sleeps as long as nothing waits.
                        self.shared.wake_thread();
                    }
                    break index;
                }
                SlotEntry::Write(claimed) => self.write_slot(&claimed),
                SlotEntry::Busy => self.step(&mut wait)?,
                SlotEntry::Disabled => return Ok(false),
            }
        };
        // SAFETY: the range lies inside of the slot, which is not claimed before `leave`; the bytes
        // are memory of the caller.
        unsafe {
            let to = self.shared.bytes_of(index).add(from as usize);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.leave(index);
        Ok(true)
    }

    /// Finds a slot for some bytes of a window. A request that `has_waited` may have the slot of
    /// another window.
    fn enter(&self, window: u64, range: Range<u32>, has_waited: bool) -> SlotEntry {
        let header = self.shared.header();
        let period = header.period.load(Ordering::Relaxed);
        self.shared.with(|table| {
            if header.disabled.load(Ordering::Relaxed) != 0 {
                return SlotEntry::Disabled;
            }
            let used = header.requests.fetch_add(1, Ordering::Relaxed);
            let holds_it =
                |slot: &WindowSlot| slot.state != SlotState::FREE && slot.window == window;
            let last = self.last_slot.load(Ordering::Relaxed);
            let found = holds_it(&table.slots[last]).then_some(last);
            if let Some(index) = found.or_else(|| table.slots.iter().position(holds_it)) {
                self.last_slot.store(index, Ordering::Relaxed);
                let slot = &mut table.slots[index];
                if slot.state == SlotState::WRITING {
                    return SlotEntry::Busy;
                }
                if !slot.filled.add(range) {
                    return table.claim(index).map_or(SlotEntry::Busy, SlotEntry::Write);
                }
                slot.copying += 1;
                (slot.used, slot.touched) = (used, period);
                return SlotEntry::Copy { index, is_first: false };
            }
            let free = table.slots.iter().position(|slot| slot.state == SlotState::FREE);
            if let Some(index) = free {
                let mut filled = FilledRanges::default();
                filled.add(range);
                let (state, taken, touched) = (SlotState::OPEN, period, period);
                table.slots[index] =
                    WindowSlot { state, copying: 1, window, used, taken, touched, filled };
                let is_first = header.waiting.fetch_add(1, Ordering::AcqRel) == 0;
                return SlotEntry::Copy { index, is_first };
            }
            // A full one, else the one that was not used for the longest time. But other ranks may
            // only be late, and wait for this core: a rank that is ahead of them lets them run
            // first.
            let slots = table.slots.iter().enumerate();
            let next = slots
                .filter(|(_, slot)| slot.is_full() || has_waited && slot.is_at_rest())
                .min_by_key(|(_, slot)| (!slot.is_full(), slot.used));
            let next = next.map(|(index, _)| index);
            next.and_then(|index| table.claim(index)).map_or(SlotEntry::Busy, SlotEntry::Write)
        })
    }

    fn leave(&self, index: usize) {
        let is_full = self.shared.with(|table| {
            let slot = &mut table.slots[index];
            slot.copying -= 1;
            slot.is_full()
        });
        if is_full {
            self.history.count_full();
            if self.shared.header().has_thread.load(Ordering::Acquire) != 0 {
                self.shared.wake_thread();
            } else if let Some(claimed) = self.shared.claim(WindowSlot::is_full) {
                self.write_slot(&claimed);
            }
        }
    }

    /// Writes a slot, and frees it. A failure is kept until it is reported.
    fn write_slot(&self, claimed: &ClaimedSlot) {
        let ClaimedSlot { index, window, filled } = claimed;
        if !filled.cover(WINDOW as u32) {
            self.history.count_missed();
        }
        for range in filled.iter() {
            let (offset, len) = (window * WINDOW + range.start as u64, range.len());
            // SAFETY: inside of the slot, which is claimed: no rank writes to it.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.shared.bytes_of(*index).add(range.start), len)
            };
            self.flushed.operations.fetch_add(1, Ordering::Relaxed);
            self.flushed.regions.fetch_add(1, Ordering::Relaxed);
            let write = || self.write_in_turn(len, || self.file.write_at(offset, bytes));
            match self.clock.get().map_or_else(write, |clock| clock.time(write)) {
                Ok(()) => {
                    self.flushed.bytes.fetch_add(len as u64, Ordering::Relaxed);
                }
                Err(error) => self.record_failure(&error),
            }
        }
        self.shared.with(|table| {
            table.slots[*index].state = SlotState::FREE;
            self.shared.header().waiting.fetch_sub(1, Ordering::AcqRel);
        });
        self.shared.notify();
    }

    /// Writes what waits of these bytes of the file.
    fn flush_range(&self, range: &Range<u64>) {
        let mut wait = self.begin_wait();
        while self.shared.header().waiting.load(Ordering::Acquire) > 0 {
            if let Some(claimed) = self.shared.claim(|slot| slot.overlaps(range)) {
                self.write_slot(&claimed);
                continue;
            }
            let is_left =
                self.shared.with(|table| table.slots.iter().any(|slot| slot.overlaps(range)));
            if !is_left {
                return;
            }
            if let Err(error) = self.step(&mut wait) {
                self.record_failure(&error);
                return;
            }
        }
    }

    /// Writes everything that waits.
    pub(crate) fn flush(&self) {
        self.flush_range(&(0..u64::MAX));
    }

    /// Writes everything that waits; from now on nothing does, on all ranks.
    pub(crate) fn disable(&self) {
        self.shared.header().disabled.store(1, Ordering::SeqCst);
        self.flush();
    }

    /// Keeps an error until it is reported.
    fn record_failure(&self, error: &StoreError) {
        self.shared.header().failed.store(errno_of(error), Ordering::SeqCst);
        self.shared.header().failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Has one write of each rank fail for a window that could not be written. The rank may try
    /// again then.
    fn report_failure(&self) -> Result<(), StoreError> {
        let failures = self.shared.header().failures.load(Ordering::Acquire);
        if self.reported.load(Ordering::Relaxed) == failures {
            return Ok(());
        }
        self.reported.store(failures, Ordering::Relaxed);
        self.check_failure()
    }

    /// The error of a window that not all ranks know of.
    pub(crate) fn check_failure(&self) -> Result<(), StoreError> {
        match self.shared.header().failed.load(Ordering::Acquire) {
            0 => Ok(()),
            number => {
                let source = io::Error::from_raw_os_error(number as i32);
                Err(StoreError::system(Operation::Write, self.file.name(), source))
            }
        }
    }

    /// All ranks know of the error, if there was one.
    pub(crate) fn clear_failure(&self) {
        self.shared.header().failed.store(0, Ordering::Release);
    }

    /// Whether the file system has space for more than what can wait. Asked once per window.
    fn has_space(&self, window: u64) -> bool {
        if self.checked_window.load(Ordering::Relaxed) == window {
            return true;
        }
        let is_there = self.file.space_left().is_some_and(|left| left >= SPACE);
        if is_there {
            self.checked_window.store(window, Ordering::Relaxed);
        }
        is_there
    }

    fn begin_wait(&self) -> Wait<'_> {
        self.backoff.begin(Some(self.shared.event()))
    }

    /// One step of a wait for another rank of the node, with an end.
    fn step(&self, wait: &mut Wait<'_>) -> Result<(), StoreError> {
        if wait.is_over(LIMIT) {
            let cause = Cause::TimedOut(LIMIT);
            return Err(StoreError::new(Operation::Write, self.file.name(), cause));
        }
        wait.step();
        Ok(())
    }

    /// Waits for what other ranks do here.
    fn wait_until(&self, is_so: impl Fn() -> bool) -> Result<(), StoreError> {
        let mut wait = self.begin_wait();
        while !is_so() {
            self.step(&mut wait)?;
        }
        Ok(())
    }

    /// Waits for ranks that make calls of their own, as long as they are alive.
    fn wait_for_ranks(&self, comm: &dyn Comm, is_so: impl Fn() -> bool) -> Result<(), CommError> {
        let mut wait = self.begin_wait();
        while !is_so() {
            wait.step();
            if wait.is_long() {
                comm.health()?;
            }
        }
        Ok(())
    }

    /// Adds to this clock what writing takes from now on.
    pub(crate) fn measure_time(&self, clock: &Arc<Clock>) {
        // Another one would be the same file's.
        let _ = self.clock.set(Arc::clone(clock));
    }

    /// What this process has written so far of what has waited.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            operations: self.flushed.operations.load(Ordering::Relaxed),
            accessed: self.flushed.bytes.load(Ordering::Relaxed),
            regions: self.flushed.regions.load(Ordering::Relaxed),
            ..Stats::default()
        }
    }
}

/// The system's number of an error.
fn errno_of(error: &StoreError) -> u32 {
    let number = match error.cause() {
        Cause::System(source) => source.raw_os_error(),
        _ => None,
    };
    number.unwrap_or(rustix::io::Errno::IO.raw_os_error()) as u32
}
