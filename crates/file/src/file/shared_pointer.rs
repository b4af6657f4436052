//! [`SharedPointer`]: a number of etypes that all ranks share and each rank can advance alone; and
//! the file pointers.
//!
//! Ranks of one node keep it in their shared memory. Ranks of several nodes keep it in a hidden
//! file next to theirs ([`SidecarPointer`]), as ROMIO does.
//!
//! There are two numbers, of which one is current. A new view puts the pointer at 0: rank 0 clears
//! the other number *before* the rendezvous of that call, and all ranks switch to it after. So no
//! rank uses the old number after the rendezvous, none advances the new one before it, and one
//! rendezvous is enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_comm::Comm;

use super::sidecar_pointer::SidecarPointer;
use crate::location::Location;
use crate::node_state::{NodeState, POINTERS};
use crate::rendezvous::{Proposal, Rendezvous, check_declined, share_error};
use crate::{Direction, File, FileError, Memory, MemoryMut};

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

impl Seek {
    /// As a proposal: the kind in `len`, the offset in `low`.
    fn encode(self) -> Proposal {
        let (len, low) = match self {
            Self::Start(offset) => (0, offset),
            Self::Current(offset) => (1, offset as u64),
            Self::End(offset) => (2, offset as u64),
        };
        Proposal { len, low, ..Proposal::default() }
    }
}

/// The file pointers of a rank.
#[derive(Debug)]
pub(super) struct Pointers {
    /// In etypes.
    pub(super) individual: u64,
    pub(super) shared: SharedPointer,
}

impl Pointers {
    /// At the start of the file.
    pub(super) fn new(comm: &dyn Comm, rendezvous: &Rendezvous) -> Self {
        Self { individual: 0, shared: SharedPointer::new(comm, rendezvous) }
    }

    /// For a file that does not use them.
    pub(super) fn none() -> Self {
        Self { individual: 0, shared: SharedPointer::private() }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct SharedPointer {
    storage: PointerStorage,
    /// Which number is current.
    current: usize,
}

#[derive(Debug)]
enum PointerStorage {
    /// There is only one rank.
    Private([AtomicU64; POINTERS]),
    /// Memory of the node.
    Node(Arc<NodeState>),
    Sidecar(SidecarPointer),
    /// The ranks share no memory, and it is not known where their file lies.
    None,
}

impl SharedPointer {
    /// In memory, if the ranks share it.
    fn new(comm: &dyn Comm, rendezvous: &Rendezvous) -> Self {
        let storage = match rendezvous.node() {
            Some(node) => PointerStorage::Node(Arc::clone(node)),
            None if comm.size() == 1 => return Self::private(),
            None => PointerStorage::None,
        };
        Self { storage, current: 0 }
    }

    fn private() -> Self {
        let numbers = std::array::from_fn(|_| AtomicU64::new(0));
        Self { storage: PointerStorage::Private(numbers), current: 0 }
    }

    /// Uses a sidecar file, if the ranks share no memory; all ranks give the same number.
    pub(super) fn use_sidecar(&mut self, location: &Location, number: u64) {
        if matches!(self.storage, PointerStorage::None) {
            self.storage = PointerStorage::Sidecar(SidecarPointer::new(location, number));
        }
    }

    fn check(&self) -> Result<(), FileError> {
        match self.storage {
            PointerStorage::None => Err(FileError::Argument {
                call: "shared pointer",
                reason: "ranks of several nodes cannot share one for a store of the caller".into(),
            }),
            _ => Ok(()),
        }
    }

    fn add_to(&self, which: usize, n: u64) -> Result<u64, FileError> {
        match &self.storage {
            PointerStorage::Private(numbers) => Ok(numbers[which].fetch_add(n, Ordering::AcqRel)),
            PointerStorage::Node(node) => {
                Ok(node.pointers.get(which).fetch_add(n, Ordering::AcqRel))
            }
            PointerStorage::Sidecar(sidecar) => sidecar.add(which, n),
            PointerStorage::None => Ok(0),
        }
    }

    /// Advances it, and returns where it was.
    pub(super) fn add(&self, etypes: u64) -> Result<u64, FileError> {
        self.check()?;
        self.add_to(self.current, etypes)
    }

    /// Sets it, while no other rank uses it.
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

    /// For one rank, before a rendezvous: clears the other number.
    pub(super) fn prepare_reset(&self) -> Result<(), FileError> {
        self.set_to(1 - self.current, 0)
    }

    /// For all ranks, after the rendezvous: switches to the other number.
    pub(super) const fn reset(&mut self) {
        self.current = 1 - self.current;
    }

    /// Removes the sidecar file, if there is one; for one rank, when no other uses it any more.
    pub(super) fn free(&mut self) {
        if let PointerStorage::Sidecar(sidecar) = std::mem::replace(self, Self::private()).storage {
            sidecar.remove();
        }
    }
}

impl File {
    /// Advances the shared pointer by so many etypes, and returns where it was. Not collective:
    /// each rank that asks gets etypes of its own.
    pub fn take_shared(&mut self, etypes: u64) -> Result<u64, FileError> {
        self.pointers.shared.add(etypes)
    }

    /// Advances the shared pointer by the etypes of all ranks, and returns where this rank's are:
    /// behind those of the ranks before it. Collective.
    pub fn take_ordered(&mut self, etypes: u64) -> Result<u64, FileError> {
        self.complete_pending();
        let comm = Arc::clone(&self.handle.comm);
        let proposal = Proposal { len: etypes, ..Proposal::default() };
        let all = self.collective.rendezvous.propose(comm.as_ref(), proposal)?;
        check_declined(comm.as_ref(), &all)?;
        let sum = |all: &[Proposal]| all.iter().fold(0u64, |sum, one| sum.wrapping_add(one.len));
        let taken = match comm.rank() {
            0 => self.pointers.shared.add(sum(&all)),
            _ => Ok(0),
        };
        let first = self.broadcast_number(taken)?;
        Ok(first.wrapping_add(sum(&all[..comm.rank()])))
    }

    /// Moves the shared pointer. Collective; all ranks give the same.
    pub fn seek_shared(&mut self, to: Seek) -> Result<(), FileError> {
        self.complete_pending();
        let comm = Arc::clone(&self.handle.comm);
        let proposal = to.encode();
        let all = self.collective.rendezvous.propose(comm.as_ref(), proposal)?;
        check_declined(comm.as_ref(), &all)?;
        if all.iter().any(|one| (one.len, one.low) != (proposal.len, proposal.low)) {
            return Err(FileError::NotSame { call: "seek_shared", what: "offsets" });
        }
        // All ranks are in this call, so none moves the pointer meanwhile.
        let moved = match comm.rank() {
            0 => self.seek_shared_alone(to),
            _ => Ok(0),
        };
        self.broadcast_number(moved).map(drop)
    }

    fn seek_shared_alone(&self, to: Seek) -> Result<u64, FileError> {
        self.pointers.shared.check()?;
        let (from, by) = match to {
            Seek::Start(offset) => (offset, 0),
            Seek::Current(by) => (self.position_shared()?, by),
            Seek::End(by) => (self.end_position()?, by),
        };
        let target = from.checked_add_signed(by).ok_or_else(|| FileError::Argument {
            call: "seek_shared",
            reason: "the position would lie before the start of the view".into(),
        })?;
        self.pointers.shared.set(target)?;
        Ok(target)
    }

    /// Gives every rank the number of rank 0, or an error. Collective.
    fn broadcast_number(&mut self, number: Result<u64, FileError>) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.handle.comm);
        let (failed, low) = (number.is_err(), *number.as_ref().unwrap_or(&0));
        let proposal = Proposal { failed, low, ..Proposal::default() };
        let all = self.collective.rendezvous.propose(comm.as_ref(), proposal)?;
        if all.iter().any(|one| one.failed) {
            share_error(comm.as_ref(), number)
        } else {
            Ok(all[0].low)
        }
    }

    /// The shared pointer, in etypes. Not collective: other ranks may advance it meanwhile.
    pub fn position_shared(&self) -> Result<u64, FileError> {
        self.pointers.shared.add(0)
    }

    /// Reads at the shared pointer, which advances by what was asked for.
    pub fn read_shared<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let to = to.into();
        self.handle.check_mode(Direction::Read, "read_shared")?;
        let etypes = self.whole_etypes("read_shared", to.len())?;
        let offset = self.take_shared(etypes)?;
        self.read_at(offset, to)
    }

    /// Writes at the shared pointer, which advances.
    pub fn write_shared<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let from = from.into();
        self.handle.check_mode(Direction::Write, "write_shared")?;
        let etypes = self.whole_etypes("write_shared", from.len())?;
        let offset = self.take_shared(etypes)?;
        self.write_at(offset, from)
    }

    /// Reads at the shared pointer, each rank behind what the ranks before it read; the pointer
    /// advances by what all asked for. Collective.
    pub fn read_ordered<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let to = to.into();
        let offset = self.offset_ordered(Direction::Read, "read_ordered", to.len())?;
        self.read_at_all(offset, to)
    }

    /// Writes at the shared pointer, each rank behind what the ranks before it write; the pointer
    /// advances. Collective.
    pub fn write_ordered<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let from = from.into();
        let offset = self.offset_ordered(Direction::Write, "write_ordered", from.len())?;
        self.write_at_all(offset, from)
    }

    fn offset_ordered(
        &mut self,
        direction: Direction,
        call: &'static str,
        bytes: u64,
    ) -> Result<u64, FileError> {
        let checked = self.handle.check_mode(direction, call);
        match checked.and_then(|()| self.whole_etypes(call, bytes)) {
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
