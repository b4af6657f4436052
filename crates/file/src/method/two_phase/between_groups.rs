//! [`GroupsCall`]: a two-phase call of several groups of ranks, which exchange messages.
//!
//! The leader of a group exchanges the messages of all its ranks: one for each window and pair of
//! groups, however many ranks these have. An aggregator decides when which bytes travel:
//!
//! * **Write.** It opens a window and *requests* the bytes of each group in it. The leader of that
//!   group has its ranks pack them into a staging buffer, one behind the other, and sends the
//!   result. The aggregator knows from the descriptions where they belong. A window to which all
//!   bytes have come is written by an I/O thread.
//! * **Read.** It reads a window and sends each group its bytes in it, after a header with the
//!   number of the window. The receiver acknowledges the message when its ranks have them.
//!
//! Several windows are open at a time, in an order that keeps all groups busy ([`WindowSchedule`]),
//! so that a link is not idle between two windows, and the bytes under way to or from an aggregator
//! are limited: they are enough to fill a link, and no more, since what waits in the queue of a
//! link delays requests, too.
//!
//! # Progress
//!
//! A leader never waits for one thing: it looks for messages, windows and steps in turn. A request
//! is always answered: ranks carry out steps at once, and need nothing but a staging buffer, which
//! is free when the message is sent. So every window is complete at some time. A rank that fails
//! goes on with the protocol without moving data, and the error is agreed at the end.

use std::collections::VecDeque;
use std::ops::Range;

use striate_comm::shm::Waiter;
use striate_comm::task::{in_task, pause};
use striate_comm::{Comm, CommError};
use striate_layout::file_domain::Domains;
use striate_store::store::Store;

use super::descriptions::{Descriptions, tell_leader};
use super::io_queue::IoQueue;
use super::leader::Leader;
use super::node_work::{AS_IN_FILE, NodeWork, RankStep};
use super::plan::Groups;
use super::{FailureFlag, FirstError, TwoPhaseOutcome};
use crate::access::{CopyBuffer, FileSide, gather_from, put, scatter_to, take};
use crate::memory::{Memory, MemoryMut};
use crate::method_selection::HoleCheck;
use crate::{Direction, FileError};

/// One two-phase call of one rank, where there are several groups.
pub(crate) struct GroupsCall<'a> {
    pub(crate) comm: &'a dyn Comm,
    pub(crate) store: &'a dyn Store,
    pub(crate) groups: &'a Groups,
    pub(crate) domains: &'a Domains,
    pub(crate) work: &'a NodeWork,
    pub(crate) file: &'a FileSide,
    /// Only a write has one.
    pub(crate) hole_check: Option<&'a HoleCheck>,
}

/// What this rank has moved.
#[derive(Default)]
struct Moved {
    bytes: u64,
    resent: u64,
}

impl GroupsCall<'_> {
    /// This rank's group, and its place in it.
    fn place(&self) -> (usize, usize) {
        let group = self.groups.group_of(self.comm.rank());
        let place = self.groups.ranks[group].iter().position(|&rank| rank == self.comm.rank());
        (group, place.unwrap_or(0))
    }

    /// The window of this group's own domain, or of another one.
    pub(super) fn window(&self, aggregator: Option<u64>, window: u64) -> Range<u64> {
        let found = aggregator.and_then(|number| self.domains.window(number, window));
        found.unwrap_or(0..0)
    }

    /// Carries out a collective write.
    pub(crate) fn write(&self, from: &Memory<'_>) -> Result<TwoPhaseOutcome, FileError> {
        let first_error = FirstError::new(self.work);
        let (group, place) = self.place();
        let mut scratch = CopyBuffer::default();
        let mut resent = 0;
        self.run(Direction::Write, &first_error, &mut |step, offset| match step {
            RankStep::Put { slot, window } => {
                let window = self.window(self.groups.aggregator[group], window);
                let (slot, len) = (self.work.slot(slot), (window.end - window.start) as usize);
                let put = first_error.attempt(|| {
                    // SAFETY: the slot is this window's while the step runs, and long enough; ranks
                    // write their own bytes.
                    unsafe { put(self.file, from, window.start, slot, len, &mut scratch) }
                });
                resent += if place > 0 { put.unwrap_or(0) } else { 0 };
            }
            RankStep::Pack { aggregator, window, staging } => {
                let window = self.window(Some(aggregator), window);
                let part = self.file.within(&window);
                let len = (part.end - part.start) as usize;
                resent += len as u64;
                first_error.attempt(|| {
                    if len == 0 {
                        return Ok(());
                    }
                    if offset == AS_IN_FILE {
                        let buffer = self.work.staging(staging);
                        let len = (window.end - window.start) as usize;
                        // SAFETY: as above, with the buffer in place of a slot.
                        unsafe { put(self.file, from, window.start, buffer, len, &mut scratch)? };
                        return Ok(());
                    }
                    // SAFETY: this rank's part of the buffer while the step runs; the leader has
                    // computed its offset from the same descriptions.
                    let bytes = unsafe {
                        let start = self.work.staging(staging).wrapping_add(offset as usize);
                        std::slice::from_raw_parts_mut(start, len)
                    };
                    gather_from(from, part.start, bytes)
                });
            }
            RankStep::Take { .. } | RankStep::Unpack { .. } | RankStep::End => {}
        })?;
        Ok(TwoPhaseOutcome { resent, bytes: self.file.len(), error: first_error.into_error() })
    }

    /// Carries out a collective read.
    pub(crate) fn read(&self, to: &mut MemoryMut<'_>) -> Result<TwoPhaseOutcome, FileError> {
        let first_error = FirstError::new(self.work);
        let (group, place) = self.place();
        let mut scratch = CopyBuffer::default();
        let mut moved = Moved::default();
        self.run(Direction::Read, &first_error, &mut |step, offset| match step {
            RankStep::Take { slot, window, got } => {
                let window = self.window(self.groups.aggregator[group], window);
                // SAFETY: the window was read into the slot, and stays while the step runs.
                let bytes = unsafe {
                    std::slice::from_raw_parts(self.work.slot(slot).cast_const(), got as usize)
                };
                let taken =
                    first_error.attempt(|| take(self.file, to, window.start, bytes, &mut scratch));
                moved.bytes += taken.unwrap_or(0);
                moved.resent += if place > 0 { taken.unwrap_or(0) } else { 0 };
            }
            RankStep::Unpack { aggregator, window, got, staging } => {
                let start = self.window(Some(aggregator), window).start;
                let part = self.file.within(&(start..start + got));
                let len = (part.end - part.start) as usize;
                moved.bytes += len as u64;
                moved.resent += len as u64;
                first_error.attempt(|| {
                    if len == 0 {
                        return Ok(());
                    }
                    if offset == AS_IN_FILE {
                        let buffer = self.work.staging(staging).cast_const();
                        // SAFETY: the leader has filled the buffer before the step.
                        let bytes = unsafe { std::slice::from_raw_parts(buffer, got as usize) };
                        take(self.file, to, start, bytes, &mut scratch)?;
                        return Ok(());
                    }
                    // SAFETY: as for packing; the leader has filled the buffer before the step.
                    let bytes = unsafe {
                        let start = self.work.staging(staging).wrapping_add(offset as usize);
                        std::slice::from_raw_parts(start.cast_const(), len)
                    };
                    scatter_to(to, part.start, bytes)
                });
            }
            RankStep::Put { .. } | RankStep::Pack { .. } | RankStep::End => {}
        })?;
        let Moved { bytes, resent } = moved;
        Ok(TwoPhaseOutcome { resent, bytes, error: first_error.into_error() })
    }

    /// Carries out the call with what each step does to this rank's memory.
    fn run(
        &self,
        direction: Direction,
        first_error: &FirstError<'_>,
        step: &mut dyn FnMut(RankStep, u64),
    ) -> Result<(), FileError> {
        let (group, place) = self.place();
        if place > 0 {
            tell_leader(self.comm, self.groups, self.file)?;
            return Ok(self.follow(place, self.groups.leader(group), step)?);
        }
        let done = self.lead(group, direction, first_error, step);
        if done.is_err() {
            self.work.abandon();
        }
        done
    }

    /// Carries out the steps that the leader publishes.
    fn follow(
        &self,
        place: usize,
        leader: usize,
        do_step: &mut dyn FnMut(RankStep, u64),
    ) -> Result<(), CommError> {
        loop {
            let next =
                self.work.wait_for(Waiter::Rank(self.comm), || match self.work.next(place) {
                    None if self.work.is_abandoned() => Some(None),
                    next => next.map(Some),
                })?;
            let Some((step, offset)) = next else {
                let reason = "it cannot reach other ranks".into();
                return Err(CommError::RankFailed { rank: leader, reason });
            };
            do_step(step, offset);
            self.work.finish(place);
            if step == RankStep::End {
                return Ok(());
            }
        }
    }

    /// Leads the ranks of a group.
    fn lead(
        &self,
        group: usize,
        direction: Direction,
        first_error: &FirstError<'_>,
        do_step: &mut dyn FnMut(RankStep, u64),
    ) -> Result<(), FileError> {
        let descriptions = Descriptions::exchange(self.comm, self.groups, self.domains, self.file)?;
        let windows = self.groups.aggregator[group].map_or(0, |own| self.domains.windows(own));
        let threads = self.groups.io_threads().min(windows);
        let io = IoQueue::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| io.serve(self.store, self.work, first_error));
            }
            let mut leader = Leader::new(self, group, direction, &descriptions, &io);
            let done = self.progress_until_done(&mut leader, first_error, do_step);
            io.close();
            Ok(done?)
        })
    }

    fn progress_until_done(
        &self,
        leader: &mut Leader<'_>,
        first_error: &FirstError<'_>,
        do_step: &mut dyn FnMut(RankStep, u64),
    ) -> Result<(), CommError> {
        leader.begin()?;
        let mut looks = 0;
        let mut wait = None;
        let mut ended = false;
        loop {
            let mut moved = leader.progress(first_error)?;
            while let Some((step, offset)) = self.work.next(0) {
                do_step(step, offset);
                self.work.finish(0);
                if step == RankStep::End {
                    return Ok(());
                }
                moved = true;
            }
            if moved {
                (wait, looks) = (None, 0);
                continue;
            }
            if !ended && leader.is_done() {
                ended = leader.end();
                continue;
            }
            let tasks = self.comm.tasks();
            if in_task() || !tasks.is_empty() {
                pause(tasks, looks)?;
                looks = looks.saturating_add(1);
                self.comm.health()?;
                continue;
            }
            let wait =
                wait.get_or_insert_with(|| self.work.backoff().begin(Some(self.work.event())));
            wait.step();
            if wait.is_long() {
                self.comm.health()?;
            }
        }
    }

    /// Whether ranks of the group have failed, so that no data is moved.
    pub(super) fn has_failed(&self) -> bool {
        self.work.has_failed()
    }
}

/// First in, first out; the items that satisfy a condition one after the other.
pub(super) fn pop_while<T>(
    queue: &mut VecDeque<T>,
    mut condition: impl FnMut(&T) -> bool,
) -> Option<T> {
    if queue.front().is_some_and(&mut condition) { queue.pop_front() } else { None }
}
