//! What ranks tell each other at the start and at the end of a collective call.
//!
//! At the start every rank shows a [`Proposal`]: a few numbers about its access. From the proposals alone each
//! rank comes to the same decisions. At the end all learn whether one has failed. Ranks of one node
//! meet in shared memory; others by the communicator.

use std::ops::RangeInclusive;
use std::sync::Arc;

use striate_comm::{Comm, CommError, NodeMemory, first_of};
use striate_datatype::Boundary;
use striate_store::PosixFile;

use crate::cost::Costs;
use crate::method::two_phase::waiter::Waiter;
use crate::method::two_phase::window_ring::{PROPOSAL_LEN, RingMemory, WindowRing};
use crate::write_behind::barrier_elision::{self, BarrierElision};
use crate::write_behind::{self, WriteBehind};
use crate::{ErrorKind, FileError};

/// What a rank shows the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Proposal {
    /// The rank cannot take part.
    pub(crate) failed: bool,
    /// The rank's store can read what it writes.
    pub(crate) reads_back: bool,
    /// What the caller wants the others to know.
    pub(crate) note: u8,
    /// Bytes of the access.
    pub(crate) len: u64,
    /// From the first to the last of them.
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) boundary: Boundary,
    /// Contiguous regions in the file.
    pub(crate) regions: u64,
    /// Pieces that are contiguous on both sides, about.
    pub(crate) pieces: u64,
    /// What things cost, as this rank has measured.
    pub(crate) costs: Costs,
}

impl Proposal {
    fn to_bytes(self) -> [u8; PROPOSAL_LEN] {
        let flags =
            u64::from(self.failed) | u64::from(self.reads_back) << 1 | u64::from(self.note) << 8;
        let [a, b] = self.boundary.to_words();
        let numbers = [flags, self.len, self.low, self.high, a, b, self.regions, self.pieces];
        let costs = self.costs.to_array().map(f64::to_bits);
        let mut bytes = [0; PROPOSAL_LEN];
        for (place, word) in bytes.chunks_exact_mut(8).zip(numbers.into_iter().chain(costs)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|word| {
            // Of 8 bytes each.
            u64::from_le_bytes(word.try_into().unwrap_or_default())
        });
        let mut next = || words.next().unwrap_or_default();
        let flags = next();
        let [len, low, high, a, b, regions, pieces] = std::array::from_fn(|_| next());
        let costs = Costs::from_array(std::array::from_fn(|_| f64::from_bits(next())));
        Self {
            failed: flags & 1 != 0,
            reads_back: flags & 2 != 0,
            note: (flags >> 8) as u8,
            len,
            low,
            high,
            boundary: Boundary::from_words([a, b]),
            regions,
            pieces,
            costs,
        }
    }
}

/// A proposal as it is shown, made once for many calls.
#[derive(Clone, Debug)]
pub(crate) struct EncodedProposal([u8; PROPOSAL_LEN]);

impl From<Proposal> for EncodedProposal {
    fn from(proposal: Proposal) -> Self {
        Self(proposal.to_bytes())
    }
}

/// Where ranks meet.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    room: Option<Arc<WindowRing>>,
    /// The memory that it is in; behind it, what small writes can wait in.
    memory: Option<NodeMemory>,
    /// Meetings so far.
    pub(crate) held: u64,
    /// Collective calls of one kind, one after the other, to whose meetings nobody brought anything.
    idle: u32,
    /// How they come together again, if they have memory in common.
    apart: Option<BarrierElision>,
    /// Calls of this kind to come for which nobody meets, and how many that will be the next time.
    spared: u32,
    next_spared: u32,
    /// The kind: whether they are writes.
    writes: bool,
    /// Whether there were such since the last meeting.
    is_apart: bool,
    /// Writes so far for which nobody met.
    unmet: u64,
    /// Whether one of them was not as it should be: a rank came with an error, or did not come. All ranks know the
    /// same, as long as they can reach each other.
    pub(crate) failed: bool,
}

/// Calls to whose meetings nobody brought anything before meetings are spared.
const IDLE: u32 = 4;

/// Calls in a row for which nobody meets, unless somebody asks to: at first, and at most, if nobody brings anything to the
/// meetings between. Where nobody can ask, it stays at the first.
const SPARED: RangeInclusive<u32> = 64..=4096;

impl Rendezvous {
    /// Finds the place; collective.
    pub(crate) fn new(comm: &dyn Comm) -> Result<Self, CommError> {
        let ranks = comm.size();
        let one_node = comm.nodes().iter().all(|&node| node == 0);
        let mut memory = None;
        if one_node && ranks > 1 {
            let (books, spare) = write_behind::memory_for(ranks);
            memory = comm.node_memory_with_spare(Self::books_at(ranks) + books, spare)?;
        }
        let apart = memory.clone().map(|memory| {
            BarrierElision::new(memory, WindowRing::len(ranks, 1, 0), comm.rank(), ranks)
        });
        let room = memory
            .clone()
            .map(|memory| Arc::new(WindowRing::new(RingMemory::Node(memory), ranks, 1, 0)));
        Ok(Self {
            room,
            memory,
            held: 0,
            idle: 0,
            apart,
            spared: 0,
            next_spared: *SPARED.start(),
            writes: false,
            is_apart: false,
            unmet: 0,
            failed: false,
        })
    }

    /// The same for a call that goes on while others do.
    pub(crate) fn apart(&mut self) -> Self {
        // All ranks begin such calls alike.
        self.spared = 0;
        Self { idle: 0, ..self.clone() }
    }

    /// Keeps that the last meeting was one for a write, or a read, to which nobody brought anything; or that it was
    /// another. All ranks know the same.
    pub(crate) fn was_idle(&mut self, write: Option<bool>) {
        self.idle = match write {
            None => 0,
            Some(write) if write == self.writes => self.idle.saturating_add(1),
            Some(_) => 1,
        };
        self.writes = write.unwrap_or(self.writes);
        if self.idle < IDLE {
            self.next_spared = *SPARED.start();
        } else {
            self.spared = self.next_spared;
            if self.apart.is_some() {
                self.next_spared = (2 * self.spared).min(*SPARED.end());
            }
        }
    }

    /// Makes sure that no rank is at a call before, where such a call and this one must not change places. Collective.
    pub(crate) fn catch_up(&mut self, comm: &dyn Comm, write: bool) -> Result<(), FileError> {
        if !self.is_apart || !(write || self.writes) {
            return Ok(());
        }
        let proposals = self.meet(comm, &Proposal::default().to_bytes(), false)?;
        someone_declined(comm, &proposals.unwrap_or_default())
    }

    /// The last write for which nobody met, if ranks may still be at it.
    pub(crate) fn last_unmet(&self) -> Option<u64> {
        (self.is_apart && self.writes).then_some(self.unmet)
    }

    /// Whether this collective call is spared the meeting. All ranks know the same.
    pub(crate) fn spare(&mut self, comm: &dyn Comm, write: bool) -> Result<bool, CommError> {
        if self.spared == 0 || self.writes != write {
            return Ok(false);
        }
        if let Some(apart) = &mut self.apart
            && !apart.stays(comm)?
        {
            self.spared = 0;
            return Ok(false);
        }
        self.spared -= 1;
        self.unmet += u64::from(write);
        self.is_apart = true;
        Ok(true)
    }

    /// For a rank that would rather have met for this call: the next ones are not spared.
    pub(crate) fn ask(&self) {
        if let Some(apart) = &self.apart {
            apart.ask();
        }
    }

    /// Where the books of what waits begin in the memory: behind those of meetings, and of ranks that do not meet.
    const fn books_at(ranks: usize) -> usize {
        WindowRing::len(ranks, 1, 0) + barrier_elision::memory_for(ranks)
    }

    /// Where small writes to `file` can wait, if the ranks have memory in common.
    pub(crate) fn behind(
        &self,
        file: &Arc<PosixFile>,
        comm: &dyn Comm,
    ) -> Option<Arc<WriteBehind>> {
        let (memory, ranks) = (self.memory.clone()?, comm.size());
        let books = Self::books_at(ranks);
        WriteBehind::new(Arc::clone(file), memory, books, comm.rank(), ranks).map(Arc::new)
    }

    /// Makes the place as it was when it was found, for another file. All ranks do so before they meet for it.
    ///
    /// Nobody can still be looking: what is cleared here is used by calls on an open file, and this rank has met the
    /// others after the last of them. Nobody can be looking already: that needs the next meeting.
    pub(crate) fn begin_anew(&mut self, comm: &dyn Comm) {
        (self.failed, self.is_apart, self.unmet) = (false, false, 0);
        (self.idle, self.spared, self.next_spared) = (0, 0, *SPARED.start());
        if let (0, Some(room), Some(memory)) = (comm.rank(), &self.room, &self.memory) {
            room.forget_file();
            WriteBehind::reset(memory, Self::books_at(comm.size()), comm.size());
        }
        if let Some(apart) = &mut self.apart {
            apart.begin_anew();
        }
    }

    /// Where the ranks meet, if it is memory.
    pub(crate) fn room(&self) -> Option<&Arc<WindowRing>> {
        self.room.as_ref()
    }

    /// Shows a proposal and returns those of all ranks. Collective.
    pub(crate) fn show(
        &mut self,
        comm: &dyn Comm,
        proposal: Proposal,
    ) -> Result<Vec<Proposal>, CommError> {
        let proposals = self.meet(comm, &proposal.to_bytes(), true)?;
        Ok(proposals.unwrap_or_default())
    }

    /// Comes with a proposal that asks the others for nothing, for those who need it. Returns the proposals of
    /// all ranks, or `None` if nobody asks for anything, which is cheap. Collective.
    pub(crate) fn attend(
        &mut self,
        comm: &dyn Comm,
        proposal: &EncodedProposal,
    ) -> Result<Option<Vec<Proposal>>, CommError> {
        self.meet(comm, &proposal.0, false)
    }

    fn meet(
        &mut self,
        comm: &dyn Comm,
        bytes: &[u8; PROPOSAL_LEN],
        tells: bool,
    ) -> Result<Option<Vec<Proposal>>, CommError> {
        let number = self.held;
        self.held += 1;
        (self.spared, self.is_apart) = (0, false);
        if comm.size() == 1 {
            return Ok(tells.then(|| vec![Proposal::from_bytes(bytes)]));
        }
        // Until all have come.
        let failed = std::mem::replace(&mut self.failed, true);
        let proposals: Option<Vec<Proposal>> = match &self.room {
            None => Some(
                comm.allgather(bytes)?
                    .iter()
                    .map(|proposal| Proposal::from_bytes(proposal))
                    .collect(),
            ),
            Some(room) => {
                let all = room.meet(comm.rank(), number, bytes, tells, Waiter::Rank(comm))?;
                all.map(|all| all.iter().map(|proposal| Proposal::from_bytes(proposal)).collect())
            }
        };
        if let Some(apart) = &mut self.apart {
            apart.have_met();
        }
        self.failed = failed || proposals.iter().flatten().any(|proposal| proposal.failed);
        Ok(proposals)
    }

    /// Shows a proposal, or that there is an error in place of what it tells, with which all ranks end then. Collective.
    pub(crate) fn agree<T>(
        &mut self,
        comm: &dyn Comm,
        local: Result<T, FileError>,
        proposal: Proposal,
    ) -> Result<(T, Vec<Proposal>), FileError> {
        let proposals = self.show(comm, Proposal { failed: local.is_err(), ..proposal })?;
        if proposals.iter().any(|proposal| proposal.failed) {
            return Err(declined(disagree(comm, local)));
        }
        Ok((local?, proposals))
    }

    /// Ends a call alike on all ranks: with an error if one has one. Collective.
    pub(crate) fn conclude<T>(
        &mut self,
        comm: &dyn Comm,
        local: Result<T, FileError>,
    ) -> Result<T, FileError> {
        let failed = local.is_err();
        let all =
            self.meet(comm, &Proposal { failed, ..Proposal::default() }.to_bytes(), failed)?;
        match all {
            Some(all) if all.iter().any(|proposal| proposal.failed) => disagree(comm, local),
            _ => local,
        }
    }
}

/// The error of a call in which one rank has failed.
pub(crate) fn declined<T>(done: Result<T, FileError>) -> FileError {
    done.err().unwrap_or_else(|| FileError::caller("a call that was declined went well"))
}

/// After a meeting: if a rank has brought an error in place of a proposal, all learn it. Collective then.
pub(crate) fn someone_declined(comm: &dyn Comm, proposals: &[Proposal]) -> Result<(), FileError> {
    if proposals.iter().any(|proposal| proposal.failed) { disagree(comm, Ok(())) } else { Ok(()) }
}

/// Makes an error of one rank an error of all; each that has one of its own keeps it. Collective.
pub(crate) fn disagree<T>(comm: &dyn Comm, local: Result<T, FileError>) -> Result<T, FileError> {
    // An error that only says that another rank has failed is not the cause.
    let mine = match &local {
        Err(FileError::Rank { .. }) | Ok(_) => None,
        Err(error) => Some(message(error)),
    };
    let others = match first_of(comm, mine) {
        Ok(None) => return local,
        Ok(Some((rank, bytes))) => rank_failed(rank, &bytes),
        Err(CommError::RankFailed { rank, reason }) => {
            FileError::Rank { rank, reason, kind: ErrorKind::Comm }
        }
        Err(error) => error.into(),
    };
    match local {
        Err(FileError::Rank { .. }) | Ok(_) => Err(others),
        Err(own) => Err(own),
    }
}

/// An error as it travels: the code of its kind, and its words.
fn message(error: &FileError) -> Vec<u8> {
    let mut bytes = error.kind().to_code().to_le_bytes().to_vec();
    bytes.extend_from_slice(error.full().as_bytes());
    bytes
}

fn rank_failed(rank: usize, bytes: &[u8]) -> FileError {
    let (code, text) = bytes.split_first_chunk().unwrap_or((&[0; 8], bytes));
    let kind = ErrorKind::from_code(u64::from_le_bytes(*code));
    FileError::Rank { rank, reason: String::from_utf8_lossy(text).into_owned(), kind }
}

#[cfg(test)]
mod tests {
    use striate_comm::Threads;

    use super::*;

    #[test]
    fn meetings_become_rarer_until_somebody_asks_for_one() {
        let all = Threads::new(3).try_run(|comm| {
            let mut meeting = Rendezvous::new(comm.as_ref())?;
            // Calls without a meeting after so many meetings to which nobody brings anything, asking in one of them.
            let mut spared_after = |meetings: usize, ask: Option<u32>| {
                for _ in 0..meetings {
                    meeting.conclude(comm.as_ref(), Ok(()))?;
                    meeting.was_idle(Some(false));
                }
                let mut calls = 0;
                while meeting.spare(comm.as_ref(), false)? {
                    calls += 1;
                    if ask == Some(calls) && comm.rank() == 1 {
                        meeting.ask();
                    }
                }
                Ok::<_, FileError>(calls)
            };
            assert_eq!(spared_after(3, None)?, 0);
            assert_eq!(spared_after(1, None)?, 64);
            assert_eq!(spared_after(1, None)?, 128);
            assert_eq!(spared_after(1, None)?, 256);
            let asked = spared_after(1, Some(20))?;
            assert!((20..=276).contains(&asked), "{asked} calls: nobody is more than 256 ahead");
            meeting.conclude(comm.as_ref(), Ok(()))?;
            meeting.was_idle(None);
            Ok::<_, FileError>(asked)
        });
        let all = all.unwrap();
        assert!(all.iter().all(|calls| *calls == all[0]), "{all:?}");
    }
}
