//! Two-phase: ranks exchange data so that aggregators read and write large contiguous windows.
//!
//! Ranks form groups that share a ring of windows ([`window_ring`]); the [`plan`] says which group
//! owns which part of the file. A rank copies its bytes of its own group's windows straight from
//! user memory into the ring, and sends those of other groups' windows, packed straight from user
//! memory, to a *delegate* in that group, which copies them for it. The delegate knows where they
//! belong from the sender's description, exchanged once per call; no list of offsets ever travels,
//! and data has no header, since both sides compute its length. Reads go the other way. What a rank
//! has under way to other ranks is bounded by its share of the windows ([`exchange`]).
//!
//! # Progress
//!
//! Ranks go through windows in order of their index in their domain, and leave an index when they
//! have sent or received all its bytes. A rank at the lowest index needs slots of the ring, which
//! ranks at no higher index free, and ranks at the same index, which send and receive at the same
//! time. So at least one rank makes progress, and in the end all do. A rank that fails goes on with
//! the protocol without moving data, and the error is agreed at the end.

pub(crate) mod plan;
pub(crate) mod window_ring;

mod exchange;
mod holes;

use std::ops::Range;
use std::sync::Mutex;

use striate_comm::shm::Waiter;
use striate_comm::{Comm, CommError};
use striate_datatype::Datatype;
use striate_layout::file_domain::Domains;
use striate_store::store::{Placement, Store};

use crate::access::{
    CopyBuffer, FileSide, gather_from, put, put_stream, scatter_to, take, take_stream,
};
use crate::memory::{Memory, MemoryMut};
use crate::method::guarded;
use crate::{ErrorKind, FileError};
use exchange::{DataExchange, Transfer};
pub(crate) use holes::Holes;
use plan::Groups;
use window_ring::{RingEntry, WindowRing};

/// One two-phase call of one rank.
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

/// A rank whose bytes this rank copies into or out of its group's windows: itself, or one that it
/// is the delegate of.
struct Participant<'a> {
    rank: usize,
    file: &'a FileSide,
    /// The next window that holds bytes of it.
    next: Option<u64>,
}

/// The part of this rank's bytes that belongs to another group's domain.
struct RemotePart {
    aggregator: u64,
    delegate: usize,
    next: Option<u64>,
}

/// The first window of the aggregator from `from` on in which `file` has bytes.
fn next_window(domains: &Domains, aggregator: u64, file: &FileSide, from: u64) -> Option<u64> {
    let mut index = from;
    loop {
        let window = domains.window(aggregator, index)?;
        let part = file.within(&window);
        if !part.is_empty() {
            return Some(index);
        }
        let next = file.offset_of(part.start).filter(|_| part.start < file.len())?;
        index = domains.window_after(aggregator, next).max(index + 1);
    }
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

    /// Sends this rank's description to its delegates in other groups; returns the ranks that this
    /// rank is the delegate of, with their descriptions. Collective.
    pub(crate) fn exchange_descriptions(&self) -> Result<Vec<(usize, FileSide)>, FileError> {
        let groups = self.groups;
        if groups.ranks.len() == 1 {
            return Ok(Vec::new());
        }
        let me = self.comm.rank();
        let own_group = groups.group_of(me);
        let mut parts = vec![Vec::new(); self.comm.size()];
        let description = encode(self.file.placement());
        for group in (0..groups.ranks.len()).filter(|&group| group != own_group) {
            if groups.aggregator[group].is_some() {
                parts[groups.delegate(group, me)].clone_from(&description);
            }
        }
        let received = self.comm.alltoall(parts)?;
        let mut participants = Vec::new();
        for (rank, bytes) in received.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            participants.push((rank, FileSide::from_placement(decode(bytes)?)?));
        }
        Ok(participants)
    }

    fn participants<'c>(&'c self, remote: &'c [(usize, FileSide)]) -> Vec<Participant<'c>> {
        let own = std::iter::once((self.comm.rank(), self.file));
        let all = own.chain(remote.iter().map(|(rank, file)| (*rank, file)));
        all.map(|(rank, file)| {
            let next = self.aggregator().and_then(|own| next_window(self.domains, own, file, 0));
            Participant { rank, file, next }
        })
        .collect()
    }

    fn remote_parts(&self) -> Vec<RemotePart> {
        let groups = self.groups;
        let me = self.comm.rank();
        let own_group = groups.group_of(me);
        (0..groups.ranks.len())
            .filter(|&group| group != own_group)
            .filter_map(|group| Some((group, groups.aggregator[group]?)))
            .map(|(group, aggregator)| RemotePart {
                aggregator,
                delegate: groups.delegate(group, me),
                next: next_window(self.domains, aggregator, self.file, 0),
            })
            .collect()
    }

    fn advance(&self, participant: &mut Participant<'_>, index: u64) {
        let own = self.aggregator();
        participant.next =
            own.and_then(|own| next_window(self.domains, own, participant.file, index + 1));
    }

    fn pass_write(&self, participant: &Participant<'_>) {
        let next = participant.next.map_or(self.end(), |next| self.first + next);
        self.ring.pass_write(participant.rank, next);
    }

    fn pass_read(&self, participant: &Participant<'_>) {
        let next = participant.next.map(|next| self.first + next);
        self.ring.pass_read(participant.rank, next, self.end());
    }

    fn waiter(&self, helper: bool) -> Waiter<'_> {
        if helper { Waiter::HelperThread } else { Waiter::Rank(self.comm) }
    }

    /// Carries out a collective write.
    pub(crate) fn write(
        &self,
        from: &Memory<'_>,
        remote: &[(usize, FileSide)],
    ) -> Result<TwoPhaseOutcome, FileError> {
        let first_error = FirstError::new(self.ring);
        let alone = !self.groups.in_memory;
        let result = std::thread::scope(|scope| {
            // An aggregator that works alone overlaps its I/O with the exchange of the next window.
            let writer = (alone && self.end() > self.first)
                .then(|| scope.spawn(|| self.write_until_done(&first_error, true)));
            let result = self.exchange_for_write(from, remote, &first_error, alone);
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

    fn exchange_for_write(
        &self,
        from: &Memory<'_>,
        remote: &[(usize, FileSide)],
        first_error: &FirstError<'_>,
        alone: bool,
    ) -> Result<u64, CommError> {
        let mut participants = self.participants(remote);
        let mut remote_parts = self.remote_parts();
        let mut exchange = DataExchange::new(self.comm, self.groups.under_way());
        let mut scratch = CopyBuffer::default();
        let mut resent = 0;
        for participant in &participants {
            self.pass_write(participant);
        }
        while let Some(index) = lowest(&participants, &remote_parts) {
            let g = self.first + index;
            let window = self.window(g);
            let (slot, len) = (self.ring.slot(g), (window.end - window.start) as usize);
            let mut incoming = Vec::new();
            let is_at_index = |participant: &Participant<'_>| participant.next == Some(index);
            for participant in participants.iter().filter(|participant| is_at_index(participant)) {
                self.enter(participant.rank, g, first_error, alone, &mut resent)?;
                if participant.rank == self.comm.rank() {
                    let bytes = first_error.attempt(|| {
                        // SAFETY: the slot is entered and long enough; ranks write their own bytes.
                        unsafe {
                            put(participant.file, from, window.start, slot, len, &mut scratch)
                        }
                    });
                    self.ring.put(g, bytes.unwrap_or(0));
                } else {
                    incoming.push(transfer(participant.rank, participant.file.within(&window)));
                }
            }
            let mut outgoing = self.transfers(&mut remote_parts, index);
            resent += outgoing
                .iter()
                .map(|transfer| transfer.range.end - transfer.range.start)
                .sum::<u64>();
            let pack = |transfer: &Transfer, piece: &mut [u8]| {
                first_error.attempt(|| gather_from(from, transfer.range.start, piece)).is_some()
            };
            exchange.run(&mut outgoing, &mut incoming, pack, |transfer, piece| {
                let bytes = first_error.attempt(|| {
                    let sender = remote.iter().find(|(rank, _)| *rank == transfer.rank);
                    let Some((_, file)) = sender.filter(|_| !piece.is_empty()) else {
                        let (rank, reason) = (transfer.rank, "it sent no data".into());
                        return Err(FileError::Rank { rank, reason, kind: ErrorKind::Io });
                    };
                    // SAFETY: as above.
                    unsafe {
                        put_stream(file, transfer.range.start, piece, window.start, slot, len)?;
                    };
                    Ok(piece.len() as u64)
                });
                self.ring.put(g, bytes.unwrap_or(0));
            })?;
            for participant in
                participants.iter_mut().filter(|participant| is_at_index(participant))
            {
                self.advance(participant, index);
                self.pass_write(participant);
            }
            if alone {
                self.ring.notify();
            } else {
                while let Some(sent) = self.write_one(first_error) {
                    resent += sent;
                }
            }
        }
        self.ring.notify();
        exchange.finish()?;
        Ok(resent)
    }

    /// The bytes of this rank in other groups' windows with this index; advances to the next ones.
    fn transfers(&self, remote_parts: &mut [RemotePart], index: u64) -> Vec<Transfer> {
        let mut transfers = Vec::new();
        for part in remote_parts.iter_mut().filter(|part| part.next == Some(index)) {
            let window = self.domains.window(part.aggregator, index).unwrap_or(0..0);
            transfers.push(transfer(part.delegate, self.file.within(&window)));
            part.next = next_window(self.domains, part.aggregator, self.file, index + 1);
        }
        transfers
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
            // Counted by the ranks that sent them.
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
    pub(crate) fn read(
        &self,
        to: &mut MemoryMut<'_>,
        remote: &[(usize, FileSide)],
    ) -> Result<TwoPhaseOutcome, FileError> {
        let first_error = FirstError::new(self.ring);
        let alone = !self.groups.in_memory;
        let mut participants = self.participants(remote);
        self.ring.begin_reads(self.first);
        // Before a rank reads ahead: windows that no rank needs are not read.
        for participant in &participants {
            self.pass_read(participant);
        }
        let result = std::thread::scope(|scope| {
            // An aggregator that works alone reads the next window while it exchanges this one.
            let reader = (alone && self.end() > self.first)
                .then(|| scope.spawn(|| self.read_until_done(remote, &first_error)));
            let result = self.exchange_for_read(to, &mut participants, &first_error, alone);
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

    fn exchange_for_read(
        &self,
        to: &mut MemoryMut<'_>,
        participants: &mut [Participant<'_>],
        first_error: &FirstError<'_>,
        alone: bool,
    ) -> Result<(u64, u64), CommError> {
        let mut remote_parts = self.remote_parts();
        let mut exchange = DataExchange::new(self.comm, self.groups.under_way());
        let mut scratch = CopyBuffer::default();
        let (mut total, mut resent) = (0, 0);
        // Windows that this rank has read itself and not copied from yet.
        let mut own_reads = Vec::new();
        while let Some(index) = lowest(participants, &remote_parts) {
            let g = self.first + index;
            let window = self.window(g);
            let is_at_index = |participant: &Participant<'_>| participant.next == Some(index);
            let mut slot: &[u8] = &[];
            if participants.iter().any(is_at_index) {
                let got = self.ring.wait_for(self.waiter(false), || {
                    loop {
                        if let Some(got) = self.ring.bytes_read(g) {
                            return Some(got);
                        }
                        if alone {
                            return None;
                        }
                        own_reads.push(self.read_one(&[(0, self.file)], first_error)?);
                    }
                })?;
                // SAFETY: the window has been read, and stays until the last participant has copied
                // its bytes.
                slot = unsafe {
                    std::slice::from_raw_parts(self.ring.slot(g).cast_const(), got as usize)
                };
            }
            let in_file = window.start..window.start + slot.len() as u64;
            let mut outgoing = Vec::new();
            for participant in participants.iter().filter(|participant| is_at_index(participant)) {
                let range = participant.file.within(&in_file);
                if participant.rank != self.comm.rank() {
                    let expected = participant.file.within(&window).end;
                    outgoing.push(Transfer { rank: participant.rank, range, expected });
                    continue;
                }
                first_error
                    .attempt(|| take(participant.file, to, window.start, slot, &mut scratch));
                let bytes = range.end - range.start;
                total += bytes;
                match own_reads.iter().position(|&read| read == g) {
                    Some(position) => drop(own_reads.swap_remove(position)),
                    None if !alone => resent += bytes,
                    None => {}
                }
            }
            let mut incoming = self.transfers(&mut remote_parts, index);
            let pack = |transfer: &Transfer, piece: &mut [u8]| {
                let receiver =
                    participants.iter().find(|participant| participant.rank == transfer.rank);
                let packed = receiver.and_then(|receiver| {
                    let position = transfer.range.start;
                    first_error
                        .attempt(|| take_stream(receiver.file, position, piece, window.start, slot))
                });
                packed.is_some()
            };
            exchange.run(&mut outgoing, &mut incoming, pack, |transfer, piece| {
                first_error.attempt(|| scatter_to(to, transfer.range.start, piece));
                total += piece.len() as u64;
                resent += piece.len() as u64;
            })?;
            for participant in
                participants.iter_mut().filter(|participant| is_at_index(participant))
            {
                self.advance(participant, index);
                self.pass_read(participant);
            }
        }
        self.ring.notify();
        exchange.finish()?;
        self.ring.wait_for(self.waiter(false), || self.ring.all_taken(self.end()).then_some(()))?;
        Ok((total, resent))
    }

    /// Reads the next window that a participant needs, or that one of `ahead_for` will need.
    fn read_one(
        &self,
        ahead_for: &[(usize, &FileSide)],
        first_error: &FirstError<'_>,
    ) -> Option<u64> {
        let needed = |g| {
            let window = self.window(g);
            ahead_for.iter().any(|(_, file)| !file.within(&window).is_empty())
        };
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

    fn read_until_done(
        &self,
        remote: &[(usize, FileSide)],
        first_error: &FirstError<'_>,
    ) -> Result<(), CommError> {
        let own = std::iter::once((self.comm.rank(), self.file));
        let all: Vec<_> = own.chain(remote.iter().map(|(rank, file)| (*rank, file))).collect();
        self.ring.wait_for(self.waiter(true), || {
            loop {
                if self.read_one(&all, first_error).is_some() {
                    continue;
                }
                let done = self.ring.all_taken(self.end()) || first_error.is_abandoned();
                return done.then_some(());
            }
        })
    }
}

const fn transfer(rank: usize, range: Range<u64>) -> Transfer {
    Transfer { rank, expected: range.end, range }
}

fn lowest(participants: &[Participant<'_>], remote_parts: &[RemotePart]) -> Option<u64> {
    let own = participants.iter().filter_map(|participant| participant.next);
    own.chain(remote_parts.iter().filter_map(|part| part.next)).min()
}

/// The first error on this rank. After an error in the group no data is moved any more, but the
/// protocol goes on, so that no rank waits for ever.
struct FirstError<'a> {
    ring: &'a WindowRing,
    error: Mutex<Option<FileError>>,
    abandoned: std::sync::atomic::AtomicBool,
}

impl<'a> FirstError<'a> {
    const fn new(ring: &'a WindowRing) -> Self {
        let abandoned = std::sync::atomic::AtomicBool::new(false);
        Self { ring, error: Mutex::new(None), abandoned }
    }

    /// Runs `work` unless a rank of the group has failed; `None` if it was not run, or failed.
    fn attempt<T>(&self, work: impl FnOnce() -> Result<T, FileError>) -> Option<T> {
        if self.ring.has_failed() {
            return None;
        }
        match guarded(work) {
            Ok(result) => Some(result),
            Err(error) => {
                self.ring.fail();
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
        self.ring.fail();
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn into_error(self) -> Option<FileError> {
        self.error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A description in its encoded form: displacement, start, length, type.
fn encode(placement: &Placement) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [placement.displacement, placement.start, placement.len] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&placement.datatype.encode());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Placement, FileError> {
    let malformed =
        || FileError::View { reason: "a description of another rank is malformed".into() };
    let (numbers, datatype) = bytes.split_at_checked(24).ok_or_else(malformed)?;
    let number = |i: usize| {
        let bytes = numbers[8 * i..8 * i + 8].try_into().map_err(|_| malformed())?;
        Ok::<_, FileError>(u64::from_le_bytes(bytes))
    };
    let datatype = Datatype::decode(datatype).map_err(|_| malformed())?;
    Ok(Placement { displacement: number(0)?, start: number(1)?, len: number(2)?, datatype })
}
