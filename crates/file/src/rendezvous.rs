//! [`Rendezvous`]: the exchange between ranks at the start and at the end of a collective call.
//!
//! At the start every rank makes a [`Proposal`]: a few numbers about its access. From the proposals
//! of all ranks each rank comes to the same decision. At the end all ranks learn whether one has
//! failed. Ranks of one node exchange proposals in shared memory ([`NodeState`]), others by the
//! communicator.
//!
//! Every collective call of a file starts with such an exchange, so a rank that cannot take part
//! ([`crate::File::decline`]) need not know which call the others make: its proposal says that it
//! failed, and all ranks end with its error.

use std::sync::Arc;

use striate_comm::shm::Waiter;
use striate_comm::{Comm, CommError, first_of};
use striate_datatype::Boundary;
use striate_store::PosixFile;

use crate::cost::Costs;
use crate::node_state::NodeState;
use crate::write_behind::{BarrierElision, WriteBehind};
use crate::{Direction, ErrorKind, FileError};

/// Bytes of an encoded proposal.
pub(crate) const PROPOSAL_LEN: usize = 256;

/// The description of a rank's part of a collective call, for the other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Proposal {
    /// The rank cannot take part.
    pub(crate) failed: bool,
    /// The rank's store can read what it writes.
    pub(crate) reads_back: bool,
    /// A note of the caller to all ranks.
    pub(crate) note: u8,
    /// Bytes of the access.
    pub(crate) len: u64,
    /// From the first to the last of them.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Boundary sum of the access; see `holes.rs`.
    pub(crate) boundary: Boundary,
    /// Contiguous regions in the file.
    pub(crate) regions: u64,
    /// Pieces that are contiguous in the file and in memory, about.
    pub(crate) pieces: u64,
    /// The costs that this rank has measured.
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

/// A proposal in its encoded form, made once for many calls.
#[derive(Clone, Debug)]
pub(crate) struct EncodedProposal([u8; PROPOSAL_LEN]);

impl From<Proposal> for EncodedProposal {
    fn from(proposal: Proposal) -> Self {
        Self(proposal.to_bytes())
    }
}

/// Where the ranks that opened a file exchange proposals; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    node: Option<Arc<NodeState>>,
    /// Exchanges so far.
    pub(crate) count: u64,
    /// Which calls skip the exchange.
    pub(crate) elision: BarrierElision,
    /// Whether a rank came to an exchange with an error, or did not come. All ranks know the same,
    /// as long as they can reach each other.
    pub(crate) failed: bool,
}

impl Rendezvous {
    /// For the ranks of a communicator; collective.
    pub(crate) fn new(comm: &dyn Comm) -> Result<Self, CommError> {
        let node = NodeState::new(comm)?.map(Arc::new);
        let section = node.as_ref().map(|node| node.barrier_elision());
        let elision = BarrierElision::new(section, comm.rank(), comm.size());
        Ok(Self { node, count: 0, elision, failed: false })
    }

    /// The same for a nonblocking call, which goes on beside others.
    pub(crate) fn for_task(&mut self) -> Self {
        let elision = self.elision.for_task();
        Self { elision, ..self.clone() }
    }

    /// Makes it as it was at first, for another file. All ranks do so before their first exchange
    /// for it.
    ///
    /// No rank uses what is cleared here: it belongs to calls on an open file; this rank has met
    /// the others after the last of these, and none comes to the next before this rank's next
    /// exchange.
    pub(crate) fn reset_for_next_file(&mut self, comm: &dyn Comm) {
        self.failed = false;
        if let (0, Some(node)) = (comm.rank(), &self.node) {
            node.reset();
        }
        self.elision.reset();
    }

    /// What the ranks share, if they are on one node.
    pub(crate) fn node(&self) -> Option<&Arc<NodeState>> {
        self.node.as_ref()
    }

    /// Write-behind for `file`, if the ranks share memory.
    pub(crate) fn write_behind(
        &self,
        file: &Arc<PosixFile>,
        comm: &dyn Comm,
    ) -> Option<Arc<WriteBehind>> {
        let section = self.node.as_ref()?.write_behind();
        WriteBehind::new(Arc::clone(file), section, comm.rank(), comm.size()).map(Arc::new)
    }

    /// Makes a proposal and returns those of all ranks. Collective.
    pub(crate) fn propose(
        &mut self,
        comm: &dyn Comm,
        proposal: Proposal,
    ) -> Result<Vec<Proposal>, CommError> {
        let all = self.exchange(comm, &proposal.to_bytes(), true)?;
        Ok(all.unwrap_or_default())
    }

    /// Takes part with a proposal that asks for nothing. Returns the proposals of all ranks, or
    /// `None` if no rank asks for anything, which is cheap. Collective.
    pub(crate) fn propose_nothing(
        &mut self,
        comm: &dyn Comm,
        proposal: &EncodedProposal,
    ) -> Result<Option<Vec<Proposal>>, CommError> {
        self.exchange(comm, &proposal.0, false)
    }

    fn exchange(
        &mut self,
        comm: &dyn Comm,
        bytes: &[u8; PROPOSAL_LEN],
        carries: bool,
    ) -> Result<Option<Vec<Proposal>>, CommError> {
        let number = self.count;
        self.count += 1;
        self.elision.begin_rendezvous();
        if comm.size() == 1 {
            return Ok(carries.then(|| vec![Proposal::from_bytes(bytes)]));
        }
        // Until all have come.
        let failed = std::mem::replace(&mut self.failed, true);
        let all: Option<Vec<Proposal>> = match &self.node {
            None => Some(comm.allgather(bytes)?.iter().map(|b| Proposal::from_bytes(b)).collect()),
            Some(node) => {
                let (rank, waiter) = (comm.rank(), Waiter::Rank(comm));
                let all = node.rendezvous.exchange(rank, number, bytes, carries, waiter)?;
                all.map(|all| all.iter().map(|bytes| Proposal::from_bytes(bytes)).collect())
            }
        };
        self.elision.end_rendezvous();
        self.failed = failed || all.iter().flatten().any(|proposal| proposal.failed);
        Ok(all)
    }

    /// Waits until no rank is at a call that must come before one of this direction, if there may
    /// be such. Collective.
    pub(crate) fn catch_up(
        &mut self,
        comm: &dyn Comm,
        direction: Direction,
    ) -> Result<(), FileError> {
        if !self.elision.must_catch_up(direction) {
            return Ok(());
        }
        let all = self.exchange(comm, &Proposal::default().to_bytes(), false)?;
        check_declined(comm, &all.unwrap_or_default())
    }

    /// Makes a proposal, or says that there is an error in its place, with which all ranks end
    /// then. Collective.
    pub(crate) fn agree<T>(
        &mut self,
        comm: &dyn Comm,
        local: Result<T, FileError>,
        proposal: Proposal,
    ) -> Result<(T, Vec<Proposal>), FileError> {
        let all = self.propose(comm, Proposal { failed: local.is_err(), ..proposal })?;
        if all.iter().any(|proposal| proposal.failed) {
            return Err(error_of(share_error(comm, local)));
        }
        Ok((local?, all))
    }

    /// Ends a call alike on all ranks: with an error if one of them has one. Collective.
    pub(crate) fn conclude<T>(
        &mut self,
        comm: &dyn Comm,
        local: Result<T, FileError>,
    ) -> Result<T, FileError> {
        let failed = local.is_err();
        let proposal = Proposal { failed, ..Proposal::default() };
        match self.exchange(comm, &proposal.to_bytes(), failed)? {
            Some(all) if all.iter().any(|proposal| proposal.failed) => share_error(comm, local),
            _ => local,
        }
    }
}

/// The error of a call in which a rank has failed.
pub(crate) fn error_of<T>(done: Result<T, FileError>) -> FileError {
    done.err().unwrap_or_else(|| FileError::caller("a call that a rank declined succeeded"))
}

/// After an exchange: if a rank has declined, all ranks learn its error. Collective then.
pub(crate) fn check_declined(comm: &dyn Comm, proposals: &[Proposal]) -> Result<(), FileError> {
    if proposals.iter().any(|proposal| proposal.failed) {
        share_error(comm, Ok(()))
    } else {
        Ok(())
    }
}

/// Makes an error of one rank an error of all; a rank that has one of its own returns that.
/// Collective.
pub(crate) fn share_error<T>(comm: &dyn Comm, local: Result<T, FileError>) -> Result<T, FileError> {
    // An error that only says that another rank has failed is not the cause.
    let mine = match &local {
        Err(FileError::Rank { .. }) | Ok(_) => None,
        Err(error) => Some(message(error)),
    };
    let other = match first_of(comm, mine) {
        Ok(None) => return local,
        Ok(Some((rank, bytes))) => rank_failed(rank, &bytes),
        Err(CommError::RankFailed { rank, reason }) => {
            FileError::Rank { rank, reason, kind: ErrorKind::Comm }
        }
        Err(error) => error.into(),
    };
    match local {
        Err(FileError::Rank { .. }) | Ok(_) => Err(other),
        Err(own) => Err(own),
    }
}

/// An error in its encoded form: the code of its kind, and its text.
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
    fn calls_skip_the_rendezvous_more_often_until_a_rank_requests_one() {
        let all = Threads::new(3).try_run(|comm| {
            let mut rendezvous = Rendezvous::new(comm.as_ref())?;
            // Calls that skip the rendezvous after so many at which no rank proposes anything; a
            // rank requests one in one of them.
            let mut elided_after = |idle: usize, request: Option<u32>| {
                for _ in 0..idle {
                    rendezvous.conclude(comm.as_ref(), Ok(()))?;
                    rendezvous.elision.record_call(Some(Direction::Read));
                }
                let mut calls = 0;
                while rendezvous.elision.elides(comm.as_ref(), Direction::Read)? {
                    calls += 1;
                    if request == Some(calls) && comm.rank() == 1 {
                        rendezvous.elision.request_rendezvous();
                    }
                }
                Ok::<_, FileError>(calls)
            };
            assert_eq!(elided_after(3, None)?, 0);
            assert_eq!(elided_after(1, None)?, 64);
            assert_eq!(elided_after(1, None)?, 128);
            assert_eq!(elided_after(1, None)?, 256);
            let calls = elided_after(1, Some(20))?;
            assert!((20..=276).contains(&calls), "{calls} calls: no rank is more than 256 ahead");
            rendezvous.conclude(comm.as_ref(), Ok(()))?;
            rendezvous.elision.record_call(None);
            Ok::<_, FileError>(calls)
        });
        let all = all.unwrap();
        assert!(all.iter().all(|calls| *calls == all[0]), "{all:?}");
    }
}
