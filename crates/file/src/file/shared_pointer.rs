//! The pointer that all ranks share: a number of etypes that each rank can move on alone.
//!
//! It lies where the ranks have memory in common anyway, if they have. Ranks of several nodes keep it in a file beside
//! theirs ([`SidecarPointer`]), as ROMIO does.
//!
//! There are two numbers, of which one counts. A new view puts the pointer at 0: rank 0 clears the other
//! number *before* the ranks meet, and all change over to it when they have met. So nobody sees the old
//! number behind the meeting, nobody adds to the new one before it, and one meeting is enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_comm::Comm;

use super::sidecar_pointer::SidecarPointer;
use crate::location::Location;
use crate::method::two_phase::window_ring::{POINTERS, WindowRing};
use crate::rendezvous::{Proposal, Rendezvous, disagree, someone_declined};
use crate::{File, FileError, Memory, MemoryMut};

/// Where to put the shared pointer; offsets are in etypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// At an offset.
    Start(u64),
    /// So far from where it is.
    Current(i64),
    /// So far from the first etype of the view that lies wholly beyond the end of the file.
    End(i64),
}

/// See the module.
#[derive(Debug)]
pub(super) struct SharedPointer {
    storage: PointerStorage,
    /// Which number counts.
    current: usize,
}

#[derive(Debug)]
enum PointerStorage {
    /// There is only one rank.
    Here([AtomicU64; POINTERS]),
    Room(Arc<WindowRing>),
    SidecarPointer(SidecarPointer),
    /// Ranks have no memory in common, and nobody knows where their file lies.
    Nowhere,
}

impl SharedPointer {
    /// Finds a place for it, if there is one already.
    pub(super) fn new(comm: &dyn Comm, meeting: &Rendezvous) -> Self {
        let storage = match meeting.room() {
            Some(room) => PointerStorage::Room(Arc::clone(room)),
            None if comm.size() == 1 => {
                PointerStorage::Here(std::array::from_fn(|_| AtomicU64::new(0)))
            }
            None => PointerStorage::Nowhere,
        };
        Self { storage, current: 0 }
    }

    /// Keeps it beside the file, if there is no better place; all ranks give the same number.
    pub(super) fn keep_beside(&mut self, place: &Location, number: u64) {
        if matches!(self.storage, PointerStorage::Nowhere) {
            self.storage = PointerStorage::SidecarPointer(SidecarPointer::new(place, number));
        }
    }

    fn check(&self) -> Result<(), FileError> {
        match self.storage {
            PointerStorage::Nowhere => Err(FileError::Argument {
                call: "shared pointer",
                reason: "there is no place for one that ranks of several nodes share".into(),
            }),
            _ => Ok(()),
        }
    }

    /// For a file that has no use for it.
    pub(super) fn none() -> Self {
        Self {
            storage: PointerStorage::Here(std::array::from_fn(|_| AtomicU64::new(0))),
            current: 0,
        }
    }

    fn add_to(&self, which: usize, n: u64) -> Result<u64, FileError> {
        match &self.storage {
            PointerStorage::Here(numbers) => Ok(numbers[which].fetch_add(n, Ordering::AcqRel)),
            PointerStorage::Room(room) => Ok(room.pointer(which).fetch_add(n, Ordering::AcqRel)),
            PointerStorage::SidecarPointer(beside) => beside.add(which, n),
            PointerStorage::Nowhere => Ok(0),
        }
    }

    /// Moves it on, and returns where it was.
    pub(super) fn add(&self, etypes: u64) -> Result<u64, FileError> {
        self.check()?;
        self.add_to(self.current, etypes)
    }

    /// Sets it; nobody else uses it now.
    pub(super) fn set(&self, etypes: u64) -> Result<(), FileError> {
        self.set_to(self.current, etypes)
    }

    fn set_to(&self, which: usize, etypes: u64) -> Result<(), FileError> {
        let now = self.add_to(which, 0)?;
        if now != etypes {
            self.add_to(which, etypes.wrapping_sub(now))?;
        }
        Ok(())
    }

    /// For one rank, before all meet: makes the other number 0.
    pub(super) fn prepare_reset(&self) -> Result<(), FileError> {
        self.set_to(1 - self.current, 0)
    }

    /// For all, when they have met.
    pub(super) const fn reset(&mut self) {
        self.current = 1 - self.current;
    }

    /// Gives up the place; for one rank, when no other uses it any more.
    pub(super) fn free(&mut self) {
        if let PointerStorage::SidecarPointer(beside) =
            std::mem::replace(self, Self::none()).storage
        {
            beside.remove();
        }
    }
}

impl File {
    /// Moves the shared pointer on by so many etypes, and returns where it was. Not collective: each rank
    /// that asks gets etypes of its own.
    pub fn take_shared(&mut self, etypes: u64) -> Result<u64, FileError> {
        self.shared.add(etypes)
    }

    /// Moves the shared pointer on by the etypes of all ranks, and returns where this rank's are: behind
    /// those of the ranks before it. Collective.
    pub fn take_ordered(&mut self, etypes: u64) -> Result<u64, FileError> {
        self.carry_out_pending();
        let comm = Arc::clone(&self.comm);
        let proposals =
            self.meeting.show(comm.as_ref(), Proposal { len: etypes, ..Proposal::default() })?;
        someone_declined(comm.as_ref(), &proposals)?;
        let sum = |proposals: &[Proposal]| {
            proposals.iter().fold(0u64, |sum, proposal| sum.wrapping_add(proposal.len))
        };
        let taken = match comm.rank() {
            0 => self.shared.add(sum(&proposals)),
            _ => Ok(0),
        };
        let first = self.tell(taken)?;
        Ok(first.wrapping_add(sum(&proposals[..comm.rank()])))
    }

    /// Moves the shared pointer. Collective; all ranks give the same.
    pub fn seek_shared(&mut self, to: Seek) -> Result<(), FileError> {
        self.carry_out_pending();
        let comm = Arc::clone(&self.comm);
        let (len, low) = match to {
            Seek::Start(offset) => (0, offset),
            Seek::Current(offset) => (1, offset as u64),
            Seek::End(offset) => (2, offset as u64),
        };
        let proposals =
            self.meeting.show(comm.as_ref(), Proposal { len, low, ..Proposal::default() })?;
        someone_declined(comm.as_ref(), &proposals)?;
        if proposals.iter().any(|proposal| (proposal.len, proposal.low) != (len, low)) {
            return Err(FileError::NotSame { call: "seek_shared", what: "offsets" });
        }
        // All are here, so nobody moves the pointer meanwhile.
        let moved = match comm.rank() {
            0 => self.seek_shared_alone(to),
            _ => Ok(0),
        };
        self.tell(moved).map(drop)
    }

    fn seek_shared_alone(&self, to: Seek) -> Result<u64, FileError> {
        self.shared.check()?;
        let (from, by) = match to {
            Seek::Start(offset) => (offset, 0),
            Seek::Current(by) => (self.position_shared()?, by),
            Seek::End(by) => (self.end_position()?, by),
        };
        let target = from.checked_add_signed(by).ok_or_else(|| FileError::Argument {
            call: "seek_shared",
            reason: "the position would lie before the start of the view".into(),
        })?;
        self.shared.set(target)?;
        Ok(target)
    }

    /// Gives every rank what rank 0 brings. Collective.
    fn tell(&mut self, number: Result<u64, FileError>) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        let (failed, low) = (number.is_err(), *number.as_ref().unwrap_or(&0));
        let proposals =
            self.meeting.show(comm.as_ref(), Proposal { failed, low, ..Proposal::default() })?;
        if proposals.iter().any(|proposal| proposal.failed) {
            disagree(comm.as_ref(), number)
        } else {
            Ok(proposals[0].low)
        }
    }

    /// The shared pointer, in etypes. Not collective: other ranks may move it on meanwhile.
    pub fn position_shared(&self) -> Result<u64, FileError> {
        self.shared.add(0)
    }

    /// Reads at the shared pointer, which moves on by what was asked for.
    pub fn read_shared<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let to = to.into();
        self.check_mode(false, "read_shared")?;
        let etypes = self.whole_etypes("read_shared", to.len())?;
        let offset = self.take_shared(etypes)?;
        self.read_at(offset, to)
    }

    /// Writes at the shared pointer, which moves on.
    pub fn write_shared<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let from = from.into();
        self.check_mode(true, "write_shared")?;
        let etypes = self.whole_etypes("write_shared", from.len())?;
        let offset = self.take_shared(etypes)?;
        self.write_at(offset, from)
    }

    /// Reads at the shared pointer, each rank behind what the ranks before it read; the pointer moves
    /// on by what all asked for. Collective.
    pub fn read_ordered<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let to = to.into();
        let offset = self.offset_ordered(false, "read_ordered", to.len())?;
        self.read_at_all(offset, to)
    }

    /// Writes at the shared pointer, each rank behind what the ranks before it write; the pointer moves
    /// on. Collective.
    pub fn write_ordered<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let from = from.into();
        let offset = self.offset_ordered(true, "write_ordered", from.len())?;
        self.write_at_all(offset, from)
    }

    fn offset_ordered(
        &mut self,
        write: bool,
        call: &'static str,
        bytes: u64,
    ) -> Result<u64, FileError> {
        let etypes = self.check_mode(write, call).and_then(|()| self.whole_etypes(call, bytes));
        match etypes {
            Ok(etypes) => self.take_ordered(etypes),
            Err(error) => Err(self.decline(error)),
        }
    }

    fn whole_etypes(&self, call: &'static str, bytes: u64) -> Result<u64, FileError> {
        let etype = self.view.etype().size();
        if bytes.is_multiple_of(etype) {
            return Ok(bytes / etype);
        }
        let reason = format!("{bytes} bytes are not whole etypes of {etype} bytes");
        Err(FileError::Argument { call, reason })
    }
}
