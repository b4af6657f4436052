//! [`WriteBehind`]: collective writes of ranks that do not wait for each other, and small ones that wait for more of them.
//!
//! Ranks of a node that write one request each, call after call, spend most of the time in waiting for each other, and
//! make requests far smaller than what file systems are good at. So they stop to meet for collective calls (`order.rs`
//! keeps the order of calls), and small requests are kept: they are at about the same place of the file, so that they soon
//! fill a *window*. Each rank copies its block into the window; when the last byte is there, a thread of one of the ranks
//! writes it, while the ranks go on. Requests of one rank alone are kept, too, if there are many: what a rank writes
//! between the blocks of others, as most programs do, fills windows only together with theirs.
//!
//! MPI lets data wait until it is synchronised or the file is closed. We let it wait less:
//!
//! * Every other request of a rank passes through here, and what waits of the bytes it touches is written before. So
//!   the ranks see each other's bytes as if nothing waited.
//! * Few windows wait, and not for long: who waits for [`PERIOD`] without more coming is written.
//! * Where another opening of the same file is in one of the ranks' processes, nothing waits: see `presence.rs`.
//! * Nothing waits where a write may well fail: on a nearly full disk, or with a limit to the size of files. An error
//!   is told by the next write of each rank that may wait, and by the synchronisation or the close.
//!
//! # Soundness
//!
//! The books are touched by `SharedSlots::with` only, under a lock in the same memory. The bytes of a slot are written
//! between *enter* and *leave* by those who copy into it, and read by the one who has claimed it, which nobody can while
//! somebody copies. The lock orders these. Two ranks that put the same bytes at the same time leave any of both there,
//! as they would in the file; no reference to the bytes is ever made, but for the claimer's.

mod announced_call;
pub(crate) mod barrier_elision;
mod call_order;
mod excluding_store;
mod filled_ranges;
mod open_files;
mod shm_slots;
mod small_writes;
mod store;
#[cfg(test)]
mod tests;
mod write_turns;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use striate_comm::{Comm, CommError, NodeMemory};
use striate_store::store::Store;
use striate_store::{Cause, Operation, PosixFile, StoreError};

use crate::Stats;
use crate::usage::Clock;
pub(crate) use excluding_store::ExcludingStore;
use filled_ranges::FilledRanges;
pub(crate) use open_files::OpenFileEntry;
pub use open_files::flush_all_files;
pub(crate) use shm_slots::memory_for;
use shm_slots::{Claimed, SharedSlots, State, WINDOW, WindowSlot};
pub(crate) use small_writes::SmallWrites;

/// Larger requests gain nothing by waiting.
const SMALL: u64 = 16 << 10;

/// What waits is written when nothing has been added to it for so long, or it has waited for five times as long.
const PERIOD: Duration = Duration::from_millis(20);
const PERIODS: u64 = 5;

/// How long the thread sleeps while nothing waits.
const IDLE: Duration = Duration::from_secs(1);

/// Space that must be left where something may wait.
const SPACE: u64 = 256 << 20;

/// How long somebody lets others run before he sleeps.
const LET_RUN: Duration = Duration::from_micros(200);

/// How long somebody who is ahead waits for ranks that will come to his windows.
const LATE: Duration = Duration::from_millis(100);

/// How often somebody lets others run between two looks, at most, as a power of two.
const MOST_LOOKS: u32 = 4;

/// How long somebody sleeps, at most, before he looks again.
const NAP: Duration = Duration::from_millis(1);

/// How long somebody waits for another who copies or writes, at most: as for a lock.
const LIMIT: Duration = Duration::from_secs(600);

/// StreamBuffers that may be written before they are whole without more whole ones, before it is given up for a while.
const MISSES: u32 = 8;

/// Requests that are not kept then: at first, and at most, if it happens again and again.
const PENALTY: Range<u32> = 512..1 << 16;

/// What a request finds.
enum SlotEntry {
    /// Copy into this slot, then leave; whether it is the first that something waits in.
    Copy(usize, bool),
    /// This slot has to be written first.
    Write(Claimed),
    /// Somebody is at work, or may come and make a window whole.
    Busy,
    Retired,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    file: Arc<PosixFile>,
    shared: SharedSlots,
    rank: usize,
    /// Whether the file system lets one writer in at a time.
    is_serial: bool,
    /// Writes so far that took turns, and those to come that do not.
    writes: AtomicU32,
    hurry: AtomicU32,
    /// The slot that this rank has put something into last, which is likely to be the next one, too.
    last: AtomicUsize,
    /// A call that all other ranks have done with, as far as this one has looked.
    others_done: AtomicU64,
    /// Whether this rank may keep something: it has the memory, and no limit to the size of files.
    usable: OnceLock<bool>,
    /// The last window for which there was space.
    spacious: AtomicU64,
    /// StreamBuffers of this rank that were written before they were whole, less those that were whole.
    misses: AtomicU32,
    /// Requests that are not kept because of that: those to come, and those of the next time.
    penalty: AtomicU32,
    next_penalty: AtomicU32,
    /// What this process has written.
    operations: AtomicU64,
    bytes: AtomicU64,
    regions: AtomicU64,
    /// What writing took, if that is measured.
    clock: OnceLock<Arc<Clock>>,
    /// Failures that this rank's writes were told of.
    told: AtomicU32,
    thread: Mutex<Option<JoinHandle<()>>>,
    ended: AtomicBool,
}

impl WriteBehind {
    /// For a rank of a file. The memory is that of `memory_for`, from `books` on, and zero, or was [reset](WriteBehind::reset);
    /// all ranks that have it must see the file through this. `None` for more ranks than it is made for.
    pub(crate) fn new(
        file: Arc<PosixFile>,
        memory: NodeMemory,
        books: usize,
        rank: usize,
        ranks: usize,
    ) -> Option<Self> {
        Some(Self {
            is_serial: file.capabilities().serial_writes,
            file,
            shared: SharedSlots::new(memory, books, ranks)?,
            rank,
            writes: AtomicU32::new(0),
            hurry: AtomicU32::new(0),
            last: AtomicUsize::new(0),
            others_done: AtomicU64::new(0),
            usable: OnceLock::new(),
            spacious: AtomicU64::new(u64::MAX),
            misses: AtomicU32::new(0),
            penalty: AtomicU32::new(0),
            next_penalty: AtomicU32::new(PENALTY.start),
            operations: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            regions: AtomicU64::new(0),
            clock: OnceLock::new(),
            told: AtomicU32::new(0),
            thread: Mutex::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// Makes the memory as it was at first. For one rank, while no other uses it.
    pub(crate) fn reset(memory: &NodeMemory, books: usize, ranks: usize) {
        SharedSlots::reset(memory, books, ranks);
    }

    /// Waits for what others do.
    fn wait_until(&self, is_so: impl Fn() -> bool) -> Result<(), StoreError> {
        let mut wait = Wait::new(self);
        while !is_so() {
            wait.for_change()?;
        }
        Ok(())
    }

    /// Waits for ranks to come: as long as they are there.
    fn wait_for_ranks(&self, comm: &dyn Comm, is_so: impl Fn() -> bool) -> Result<(), CommError> {
        let mut wait = Wait::new(self);
        while !is_so() {
            wait.let_run();
            if wait.is_long() {
                comm.health()?;
            }
        }
        Ok(())
    }

    /// Whether it is made for requests of so many bytes.
    pub(crate) const fn is_for(len: u64) -> bool {
        len > 0 && len <= SMALL
    }

    /// Whether a request may wait here.
    pub(crate) fn is_ready(&self) -> bool {
        if self.shared.head().retired.load(Ordering::Acquire) != 0 {
            return false;
        }
        let penalty = self.penalty.load(Ordering::Relaxed);
        if penalty > 0 {
            self.penalty.store(penalty - 1, Ordering::Relaxed);
            return false;
        }
        *self.usable.get_or_init(|| {
            getrlimit(Resource::Fsize).current.is_none() && self.shared.memory.populate()
        })
    }

    /// Keeps a request; `false` if it cannot wait, and has to be made. Only when it [is ready](WriteBehind::is_ready), and for requests that it is made for.
    pub(crate) fn put(self: &Arc<Self>, offset: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        self.tell_failure()?;
        let end = offset + bytes.len() as u64;
        if !self.has_space(end / WINDOW) {
            return Ok(false);
        }
        let cut = (WINDOW - offset % WINDOW).min(bytes.len() as u64) as usize;
        let (here, next) = bytes.split_at(cut);
        if !self.put_into_one(offset, here)? {
            return Ok(false);
        }
        if !next.is_empty() && !self.put_into_one(end - next.len() as u64, next)? {
            self.write_at(end - next.len() as u64, next)?;
        }
        self.see_that_it_is_served();
        Ok(true)
    }

    /// Keeps bytes of one window.
    fn put_into_one(&self, offset: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        let (window, from) = (offset / WINDOW, (offset % WINDOW) as u32);
        let range = from..from + bytes.len() as u32;
        let mut wait = Wait::new(self);
        let index = loop {
            let has_waited = wait.has_slept && (wait.is_over(LATE) || self.nobody_is_late());
            match self.enter(window, range.clone(), has_waited) {
                SlotEntry::Copy(index, is_first) => {
                    if is_first {
                        // The thread has slept as long as nothing waited.
                        self.shared.call_thread();
                    }
                    break index;
                }
                SlotEntry::Write(claimed) => self.write_out(&claimed),
                SlotEntry::Busy => wait.for_change()?,
                SlotEntry::Retired => return Ok(false),
            }
        };
        // SAFETY: the range lies inside of the slot, which is not claimed before `leave`; the bytes are another's.
        unsafe {
            let to = self.shared.bytes_of(index).add(from as usize);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.leave(index);
        Ok(true)
    }

    /// Finds a place for some bytes of a window; for somebody who has waited for long, at the cost of another.
    fn enter(&self, window: u64, range: Range<u32>, has_waited: bool) -> SlotEntry {
        let period = self.shared.head().period.load(Ordering::Relaxed);
        self.shared.with(|books| {
            if self.shared.head().retired.load(Ordering::Relaxed) != 0 {
                return SlotEntry::Retired;
            }
            let used = self.shared.head().requests.fetch_add(1, Ordering::Relaxed);
            let is_it = |slot: &WindowSlot| slot.state != State::FREE && slot.window == window;
            let last = self.last.load(Ordering::Relaxed);
            let found = is_it(&books.slots[last]).then_some(last);
            if let Some(index) = found.or_else(|| books.slots.iter().position(is_it)) {
                self.last.store(index, Ordering::Relaxed);
                let slot = &mut books.slots[index];
                if slot.state == State::WRITING {
                    return SlotEntry::Busy;
                }
                if !slot.spans.add(range) {
                    return books.claim(index).map_or(SlotEntry::Busy, SlotEntry::Write);
                }
                slot.copying += 1;
                (slot.used, slot.touched) = (used, period);
                return SlotEntry::Copy(index, false);
            }
            if let Some(index) = books.slots.iter().position(|slot| slot.state == State::FREE) {
                let mut spans = FilledRanges::default();
                spans.add(range);
                let (state, taken, touched) = (State::OPEN, period, period);
                books.slots[index] =
                    WindowSlot { state, copying: 1, window, used, taken, touched, spans };
                let is_first = self.shared.head().waiting.fetch_add(1, Ordering::AcqRel) == 0;
                return SlotEntry::Copy(index, is_first);
            }
            // A whole one, else the one that was not used for the longest time. But others may only be late, and
            // wait for this core: who is ahead of them lets them run first.
            let slots = books.slots.iter().enumerate();
            let next = slots
                .filter(|(_, slot)| slot.is_whole() || has_waited && slot.is_at_rest())
                .min_by_key(|(_, slot)| (!slot.is_whole(), slot.used));
            let next = next.map(|(index, _)| index);
            next.and_then(|index| books.claim(index)).map_or(SlotEntry::Busy, SlotEntry::Write)
        })
    }

    fn leave(&self, index: usize) {
        let is_whole = self.shared.with(|books| {
            let slot = &mut books.slots[index];
            slot.copying -= 1;
            slot.is_whole()
        });
        if is_whole {
            self.count_whole();
            if self.shared.head().served.load(Ordering::Acquire) != 0 {
                self.shared.call_thread();
            } else if let Some(claimed) = self.shared.claim(WindowSlot::is_whole) {
                self.write_out(&claimed);
            }
        }
    }

    /// Writes a slot, and frees it. What fails is kept for who can tell it.
    fn write_out(&self, claimed: &Claimed) {
        let Claimed { index, window, spans } = claimed;
        if !spans.are_whole(WINDOW as u32) {
            self.count_missed();
        }
        for span in spans.iter() {
            let (offset, len) = (window * WINDOW + span.start as u64, span.len());
            // SAFETY: inside of the slot, which is claimed: nobody writes to it.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.shared.bytes_of(*index).add(span.start), span.len())
            };
            self.operations.fetch_add(1, Ordering::Relaxed);
            self.regions.fetch_add(1, Ordering::Relaxed);
            let write = || self.one_by_one(bytes.len(), || self.file.write_at(offset, bytes));
            match self.clock.get().map_or_else(write, |clock| clock.time(write)) {
                Ok(()) => {
                    self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                }
                Err(error) => self.fail(&error),
            }
        }
        self.shared.with(|books| {
            books.slots[*index].state = State::FREE;
            self.shared.head().waiting.fetch_sub(1, Ordering::AcqRel);
        });
        self.shared.notify();
    }

    fn count_whole(&self) {
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

    /// Writes what waits of these bytes of the file.
    fn settle(&self, range: &Range<u64>) {
        let mut wait = Wait::new(self);
        while self.shared.head().waiting.load(Ordering::Acquire) > 0 {
            if let Some(claimed) = self.shared.claim(|slot| slot.overlaps(range)) {
                self.write_out(&claimed);
                continue;
            }
            let is_left =
                self.shared.with(|books| books.slots.iter().any(|slot| slot.overlaps(range)));
            if !is_left {
                return;
            }
            if let Err(error) = wait.for_change() {
                self.fail(&error);
                return;
            }
        }
    }

    /// Writes what waits.
    pub(crate) fn settle_all(&self) {
        self.settle(&(0..u64::MAX));
    }

    /// From now on nothing waits.
    pub(crate) fn retire(&self) {
        self.shared.head().retired.store(1, Ordering::SeqCst);
        self.settle_all();
    }

    /// Keeps an error for who can tell it.
    fn fail(&self, error: &StoreError) {
        self.shared.head().failed.store(number_of(error), Ordering::SeqCst);
        self.shared.head().failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Has one write of each rank fail for what failed behind it. The rank may try again then.
    fn tell_failure(&self) -> Result<(), StoreError> {
        let failures = self.shared.head().failures.load(Ordering::Acquire);
        if self.told.load(Ordering::Relaxed) == failures {
            return Ok(());
        }
        self.told.store(failures, Ordering::Relaxed);
        self.check()
    }

    /// The error of a write that not all ranks were told of.
    fn check(&self) -> Result<(), StoreError> {
        match self.shared.head().failed.load(Ordering::Acquire) {
            0 => Ok(()),
            number => {
                let source = io::Error::from_raw_os_error(number as i32);
                Err(StoreError::system(Operation::Write, self.file.name(), source))
            }
        }
    }

    /// All ranks have been told of the error, if there was one.
    pub(crate) fn forget_failure(&self) {
        self.shared.head().failed.store(0, Ordering::Release);
    }

    /// Whether the disk has space for more than what can wait. Asked once a window.
    fn has_space(&self, window: u64) -> bool {
        if self.spacious.load(Ordering::Relaxed) == window {
            return true;
        }
        let is_there = self.file.space_left().is_some_and(|left| left >= SPACE);
        if is_there {
            self.spacious.store(window, Ordering::Relaxed);
        }
        is_there
    }

    /// Makes a thread that writes what is whole, and what has waited, unless a rank has one.
    fn see_that_it_is_served(self: &Arc<Self>) {
        if self.shared.head().served.load(Ordering::Relaxed) != 0
            || self.shared.head().served.swap(1, Ordering::AcqRel) != 0
        {
            return;
        }
        let this = Arc::clone(self);
        let made = std::thread::Builder::new().name("striate-behind".into());
        match made.spawn(move || this.serve()) {
            Ok(thread) => {
                *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            }
            // Nothing may wait for a thread that is not there.
            Err(_) => self.retire(),
        }
    }

    fn serve(&self) {
        let mut start = Instant::now();
        while !self.ended.load(Ordering::Acquire) {
            let seen = self.shared.head().work.load(Ordering::SeqCst);
            if let Some(claimed) = self.shared.claim(WindowSlot::is_whole) {
                self.write_out(&claimed);
                continue;
            }
            if self.shared.head().waiting.load(Ordering::Acquire) == 0 {
                self.shared.rest(seen, IDLE);
                start = Instant::now();
                continue;
            }
            if let Some(left) = PERIOD.checked_sub(start.elapsed()) {
                self.shared.rest(seen, left);
                continue;
            }
            start = Instant::now();
            let now = self.shared.head().period.fetch_add(1, Ordering::Relaxed);
            let is_due = |slot: &WindowSlot| slot.touched < now || slot.taken + PERIODS < now;
            while let Some(claimed) = self.shared.claim(is_due) {
                self.write_out(&claimed);
            }
        }
    }

    /// Writes what waits, and lets nobody keep anything here who belongs to this rank. Returns an error that nobody was
    /// told of.
    pub(crate) fn end(&self) -> Result<(), StoreError> {
        self.settle_all();
        self.ended.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.shared.call_thread();
            // It does not panic; if it did, what waits is written already.
            let _ = thread.join();
            // Others, if there are any left, may make their own.
            self.shared.head().served.store(0, Ordering::Release);
        }
        self.check()
    }

    /// Adds to this clock what writing takes from now on.
    pub(crate) fn measure_time(&self, clock: &Arc<Clock>) {
        // Another one would be the same file's.
        let _ = self.clock.set(Arc::clone(clock));
    }

    /// What this process has written so far of what has waited.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            operations: self.operations.load(Ordering::Relaxed),
            accessed: self.bytes.load(Ordering::Relaxed),
            regions: self.regions.load(Ordering::Relaxed),
            ..Stats::default()
        }
    }
}

/// What the system calls an error.
fn number_of(error: &StoreError) -> u32 {
    let number = match error.cause() {
        Cause::System(source) => source.raw_os_error(),
        _ => None,
    };
    number.unwrap_or(rustix::io::Errno::IO.raw_os_error()) as u32
}

/// Waiting for others, with an end.
///
/// Who waits looks, and calls it if what he waits for is not so. That lets others run, who are often done in a moment
/// then; after a while it sleeps until something changes.
struct Wait<'a> {
    behind: &'a WriteBehind,
    since: Option<Instant>,
    looks: u32,
    /// Whether he has slept: then others had all the time that they needed.
    has_slept: bool,
    /// The changes that were counted when he looked last, if he is one of the sleepers: they are told of changes, so he
    /// has to be one before he looks for the last time.
    seen: Option<u32>,
}

impl<'a> Wait<'a> {
    const fn new(behind: &'a WriteBehind) -> Self {
        Self { behind, since: None, looks: 0, has_slept: false, seen: None }
    }

    /// Whether he waits for longer than that.
    fn is_over(&self, time: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() > time)
    }

    /// Whether others had time to run.
    fn is_long(&self) -> bool {
        self.is_over(LET_RUN)
    }

    fn for_change(&mut self) -> Result<(), StoreError> {
        if self.is_over(LIMIT) {
            let cause = Cause::TimedOut(LIMIT);
            return Err(StoreError::new(Operation::Write, self.behind.file.name(), cause));
        }
        self.let_run();
        Ok(())
    }

    fn let_run(&mut self) {
        let shared = &self.behind.shared;
        self.since.get_or_insert_with(Instant::now);
        match self.seen {
            None => {
                // Who looks all the time takes the words that he looks at from those who change them.
                (0..1 << self.looks).for_each(|_| std::thread::yield_now());
                self.looks = (self.looks + 1).min(MOST_LOOKS);
            }
            Some(seen) => {
                shared.sleep(seen, NAP);
                self.has_slept = true;
            }
        }
        if self.is_long() {
            if self.seen.is_none() {
                shared.head().sleepers.fetch_add(1, Ordering::SeqCst);
            }
            self.seen = Some(shared.head().changes.load(Ordering::SeqCst));
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.seen.is_some() {
            self.behind.shared.head().sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
