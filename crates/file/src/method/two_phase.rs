//! Two-phase: ranks exchange data so that aggregators read and write large contiguous windows.
//!
//! Ranks form groups that share memory; the [`plan`] says which group owns which part of the file.
//!
//! * One group, as where all ranks are on one node: [`TwoPhaseCall`]. Its ranks share a ring of
//!   windows ([`window_ring`]) and copy their bytes straight between user memory and the ring.
//! * Several groups, as where ranks are on several nodes: [`GroupsCall`]. They exchange messages,
//!   one for each window and pair of groups ([`between_groups`]). Where the bytes of a message
//!   belong is known from descriptions, exchanged once per call ([`descriptions`]); no list of
//!   offsets ever travels.
//!
//! # Progress in a ring
//!
//! Ranks go through windows in order. A rank at the lowest window needs slots of the ring, which
//! ranks at no lower window free. So at least one rank makes progress, and in the end all do. A
//! rank that fails goes on with the protocol without moving data, and the error is agreed at the
//! end.

pub(crate) mod between_groups;
pub(crate) mod node_work;
pub(crate) mod plan;
pub(crate) mod window_ring;

mod descriptions;
mod holes;
mod io_queue;
mod leader;
mod window_schedule;

use std::ops::Range;
use std::sync::Mutex;

use striate_comm::shm::Waiter;
use striate_comm::{Comm, CommError};
use striate_layout::file_domain::Domains;
use striate_store::store::Store;

use crate::FileError;
use crate::access::{CopyBuffer, FileSide, put, take};
use crate::memory::{Memory, MemoryMut};
use crate::method::guarded;
pub(crate) use between_groups::GroupsCall;
pub(crate) use holes::Holes;
use plan::Groups;
use window_ring::{RingEntry, WindowRing};
use window_schedule::next_window;

/// One two-phase call of one rank of the only group.
pub(crate) struct TwoPhaseCall<'a> {
    pub(crate) comm: &'a dyn Comm,
    pub(crate) store: &'a dyn Store,
    pub(crate) groups: &'a Groups,
    pub(crate) domains: &'a Domains,
    pub(crate) ring: &'a WindowRing,
    /// Number in the ring of the first window of this call.
    pub(crate) first: u64,
    pub(crate) file: &'a FileSide,
    pub(crate) holes: &'a Holes,
}

/// The result of a two-phase call on one rank.
#[derive(Debug, Default)]
pub(crate) struct TwoPhaseOutcome {
    pub(crate) resent: u64,
    pub(crate) bytes: u64,
    pub(crate) error: Option<FileError>,
}

impl TwoPhaseCall<'_> {
    fn aggregator(&self) -> Option<u64> {
        self.groups.aggregator[self.groups.group_of(self.comm.rank())]
    }

    /// The window with number `g` in the ring.
    fn window(&self, g: u64) -> Range<u64> {
        let index = g - self.first;
        self.aggregator().and_then(|own| self.domains.window(own, index)).unwrap_or(0..0)
    }

    /// One past the number of the last window of this call.
    fn end(&self) -> u64 {
        self.first + self.aggregator().map_or(0, |own| self.domains.windows(own))
    }

    /// The first window from `from` on in which this rank has bytes.
    fn next(&self, from: u64) -> Option<u64> {
        self.aggregator().and_then(|own| next_window(self.domains, own, self.file, from))
    }

    fn pass_write(&self, next: Option<u64>) {
        let next = next.map_or(self.end(), |next| self.first + next);
        self.ring.pass_write(self.comm.rank(), next);
    }

    fn pass_read(&self, next: Option<u64>) {
        let next = next.map(|next| self.first + next);
        self.ring.pass_read(self.comm.rank(), next, self.end());
    }

    fn waiter(&self, helper: bool) -> Waiter<'_> {
        if helper { Waiter::HelperThread } else { Waiter::Rank(self.comm) }
    }

    /// Carries out a collective write.
    pub(crate) fn write(&self, from: &Memory<'_>) -> Result<TwoPhaseOutcome, FileError> {
        let first_error = FirstError::new(self.ring);
        let alone = !self.groups.in_memory;
        let result = std::thread::scope(|scope| {
            // A rank that works alone overlaps its I/O with the copies into the next window.
            let writer = (alone && self.end() > self.first)
                .then(|| scope.spawn(|| self.write_until_done(&first_error, true)));
            let result = self.put_windows(from, &first_error, alone);
            if result.is_err() {
                first_error.abandon();
            }
            let written = match writer {
                Some(writer) => writer.join().unwrap_or(Ok(0)),
                None => self.write_until_done(&first_error, false),
            };
            Ok::<_, CommError>(result? + written?)
        });
        let resent = result?;
        Ok(TwoPhaseOutcome { resent, bytes: self.file.len(), error: first_error.into_error() })
    }

    fn put_windows(
        &self,
        from: &Memory<'_>,
        first_error: &FirstError<'_>,
        alone: bool,
    ) -> Result<u64, CommError> {
        let mut scratch = CopyBuffer::default();
        let mut resent = 0;
        let mut next = self.next(0);
        self.pass_write(next);
        while let Some(index) = next {
            let g = self.first + index;
            let window = self.window(g);
            let (slot, len) = (self.ring.slot(g), (window.end - window.start) as usize);
            self.enter(self.comm.rank(), g, first_error, alone, &mut resent)?;
            let bytes = first_error.attempt(|| {
                // SAFETY: the slot is entered and long enough; ranks write their own bytes.
                unsafe { put(self.file, from, window.start, slot, len, &mut scratch) }
            });
            self.ring.put(g, bytes.unwrap_or(0));
            next = self.next(index + 1);
            self.pass_write(next);
            if alone {
                self.ring.notify();
            } else {
                while let Some(sent) = self.write_one(first_error) {
                    resent += sent;
                }
            }
        }
        self.ring.notify();
        Ok(resent)
    }

    /// Waits until window `g` may be copied into; meanwhile writes complete ones.
    fn enter(
        &self,
        participant: usize,
        g: u64,
        first_error: &FirstError<'_>,
        alone: bool,
        resent: &mut u64,
    ) -> Result<(), CommError> {
        let holes = self.holes.in_window(self.aggregator(), g - self.first);
        self.ring.wait_for(self.waiter(false), || {
            loop {
                match self.ring.enter(participant, g, holes) {
                    RingEntry::Open => return Some(()),
                    RingEntry::Prepare => {
                        self.read_back(g, first_error);
                        self.ring.prepared(g);
                    }
                    RingEntry::Occupied if !alone => *resent += self.write_one(first_error)?,
                    RingEntry::Occupied | RingEntry::Preparing => return None,
                }
            }
        })
    }

    /// Fills a window with what the file holds, zeros beyond its end.
    fn read_back(&self, g: u64, first_error: &FirstError<'_>) {
        let window = self.window(g);
        let len = (window.end - window.start) as usize;
        first_error.attempt(|| {
            // SAFETY: this rank alone prepares the slot; the other ranks wait until it is prepared.
            let slot = unsafe { std::slice::from_raw_parts_mut(self.ring.slot(g), len) };
            let got = self.store.read_at(window.start, slot)?;
            slot[got..].fill(0);
            Ok(())
        });
    }

    /// Writes a complete window, if there is one; returns the bytes in it that were not this
    /// rank's.
    fn write_one(&self, first_error: &FirstError<'_>) -> Option<u64> {
        let g = self.ring.claim_write(self.groups.writers, self.end())?;
        let window = self.window(g);
        let len = (window.end - window.start) as usize;
        first_error.attempt(|| {
            // SAFETY: the window is complete and claimed by this rank: no rank changes it.
            let slot = unsafe { std::slice::from_raw_parts(self.ring.slot(g), len) };
            Ok(self.store.write_at(window.start, slot)?)
        });
        let others = if self.groups.in_memory {
            let own = self.file.within(&window);
            self.ring.bytes_put(g).saturating_sub(own.end - own.start)
        } else {
            0
        };
        self.ring.written(g);
        Some(others)
    }

    fn write_until_done(
        &self,
        first_error: &FirstError<'_>,
        helper: bool,
    ) -> Result<u64, CommError> {
        let mut resent = 0;
        self.ring.wait_for(self.waiter(helper), || {
            loop {
                if let Some(sent) = self.write_one(first_error) {
                    resent += sent;
                } else if self.ring.all_written(self.end()) || first_error.is_abandoned() {
                    return Some(());
                } else {
                    return None;
                }
            }
        })?;
        Ok(resent)
    }

    /// Carries out a collective read.
    pub(crate) fn read(&self, to: &mut MemoryMut<'_>) -> Result<TwoPhaseOutcome, FileError> {
        let first_error = FirstError::new(self.ring);
        let alone = !self.groups.in_memory;
        let next = self.next(0);
        self.ring.begin_reads(self.first);
        // Before a rank reads ahead: windows that no rank needs are not read.
        self.pass_read(next);
        let result = std::thread::scope(|scope| {
            // A rank that works alone reads the next window while it copies from this one.
            let reader = (alone && self.end() > self.first)
                .then(|| scope.spawn(|| self.read_until_done(&first_error)));
            let result = self.take_windows(to, next, &first_error, alone);
            if result.is_err() {
                first_error.abandon();
            }
            if let Some(reader) = reader {
                reader.join().unwrap_or(Ok(()))?;
            }
            result
        });
        let (bytes, resent) = result?;
        Ok(TwoPhaseOutcome { resent, bytes, error: first_error.into_error() })
    }

    fn take_windows(
        &self,
        to: &mut MemoryMut<'_>,
        mut next: Option<u64>,
        first_error: &FirstError<'_>,
        alone: bool,
    ) -> Result<(u64, u64), CommError> {
        let mut scratch = CopyBuffer::default();
        let (mut total, mut resent) = (0, 0);
        // Windows that this rank has read itself and not copied from yet.
        let mut own_reads = Vec::new();
        while let Some(index) = next {
            let g = self.first + index;
            let window = self.window(g);
            let got = self.ring.wait_for(self.waiter(false), || {
                loop {
                    if let Some(got) = self.ring.bytes_read(g) {
                        return Some(got);
                    }
                    if alone {
                        return None;
                    }
                    own_reads.push(self.read_one(first_error)?);
                }
            })?;
            // SAFETY: the window has been read, and stays until the last participant has copied its
            // bytes.
            let slot =
                unsafe { std::slice::from_raw_parts(self.ring.slot(g).cast_const(), got as usize) };
            let range = self.file.within(&(window.start..window.start + got));
            first_error.attempt(|| take(self.file, to, window.start, slot, &mut scratch));
            let bytes = range.end - range.start;
            total += bytes;
            match own_reads.iter().position(|&read| read == g) {
                Some(position) => drop(own_reads.swap_remove(position)),
                None if !alone => resent += bytes,
                None => {}
            }
            next = self.next(index + 1);
            self.pass_read(next);
        }
        self.ring.notify();
        self.ring.wait_for(self.waiter(false), || self.ring.all_taken(self.end()).then_some(()))?;
        Ok((total, resent))
    }

    /// Reads the next window that a participant needs, or that this rank will need.
    fn read_one(&self, first_error: &FirstError<'_>) -> Option<u64> {
        let needed = |g| !self.file.within(&self.window(g)).is_empty();
        let g = self.ring.claim_read(u64::MAX, self.end(), needed)?;
        let window = self.window(g);
        let len = (window.end - window.start) as usize;
        let got = first_error.attempt(|| {
            // SAFETY: the window is claimed by this rank; no other rank reads it before it is
            // ready.
            let slot = unsafe { std::slice::from_raw_parts_mut(self.ring.slot(g), len) };
            Ok(self.store.read_at(window.start, slot)?)
        });
        self.ring.ready(g, got.unwrap_or(0) as u64);
        Some(g)
    }

    fn read_until_done(&self, first_error: &FirstError<'_>) -> Result<(), CommError> {
        self.ring.wait_for(self.waiter(true), || {
            loop {
                if self.read_one(first_error).is_some() {
                    continue;
                }
                let done = self.ring.all_taken(self.end()) || first_error.is_abandoned();
                return done.then_some(());
            }
        })
    }
}

/// Shared by the ranks of a group: whether one of them has failed.
pub(crate) trait FailureFlag: Sync {
    /// Makes all ranks of the group stop moving data.
    fn fail(&self);

    fn has_failed(&self) -> bool;
}

/// The first error on this rank. After an error in the group no data is moved any more, but the
/// protocol goes on, so that no rank waits for ever.
struct FirstError<'a> {
    flag: &'a dyn FailureFlag,
    error: Mutex<Option<FileError>>,
    abandoned: std::sync::atomic::AtomicBool,
}

impl<'a> FirstError<'a> {
    const fn new(flag: &'a dyn FailureFlag) -> Self {
        let abandoned = std::sync::atomic::AtomicBool::new(false);
        Self { flag, error: Mutex::new(None), abandoned }
    }

    /// Runs `work` unless a rank of the group has failed; `None` if it was not run, or failed.
    fn attempt<T>(&self, work: impl FnOnce() -> Result<T, FileError>) -> Option<T> {
        if self.flag.has_failed() {
            return None;
        }
        match guarded(work) {
            Ok(result) => Some(result),
            Err(error) => {
                self.flag.fail();
                let mut first =
                    self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                first.get_or_insert(error);
                None
            }
        }
    }

    /// The ranks cannot reach each other: the protocol ends as well.
    fn abandon(&self) {
        self.abandoned.store(true, std::sync::atomic::Ordering::SeqCst);
        self.flag.fail();
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn into_error(self) -> Option<FileError> {
        self.error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
