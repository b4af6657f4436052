//! Two-phase: ranks exchange data so that aggregators read and write large contiguous windows.
//!
//! Ranks form groups that share a ring of windows ([`staging`]); who owns which part of the file is
//! the [`plan`]'s. A rank puts its bytes of its own group's windows straight from user memory into
//! the ring, and sends those of other groups' windows, packed straight from user memory, to a
//! *delegate* in that group, who puts them for it. The delegate knows where they belong from the
//! sender's description, exchanged once per call; no list of offsets ever travels, and no header
//! comes with the data, since both sides compute its length. Reads go the other way. What a rank has
//! under way to others is bounded by its share of the windows ([`exchange`]).
//!
//! # Why nobody waits for ever
//!
//! Ranks work through windows in order of their index in their domain, and leave an index when they
//! have handed over or taken all its bytes. A rank at the lowest index needs the ring's slots, which
//! ranks at no higher index free, and ranks at the same index, who send and receive at the same time.
//! So some rank gets on, and so all do. A rank that fails goes on with the protocol without moving data, and the error
//! is agreed at the end.

pub(crate) mod plan;
pub(crate) mod staging;

mod exchange;
mod holes;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use striate_comm::{Comm, CommError};
use striate_datatype::Datatype;
use striate_layout::file_domain::Domains;
use striate_store::store::{Placement, Store};

use crate::access::{
    FileSide, Scratch, gather_from, put, put_stream, scatter_to, take, take_stream,
};
use crate::memory::{Memory, MemoryMut};
use crate::{ErrorKind, FileError};
use exchange::{Exchange, Leg};
pub(crate) use holes::Holes;
use plan::Groups;
use staging::{Entry, Staging, Watch};

/// One two-phase call of one rank.
pub(crate) struct Call<'a> {
    pub(crate) comm: &'a dyn Comm,
    pub(crate) store: &'a dyn Store,
    pub(crate) groups: &'a Groups,
    pub(crate) domains: &'a Domains,
    pub(crate) staging: &'a Staging,
    /// Number in the ring of the first window of this call.
    pub(crate) first: u64,
    pub(crate) file: &'a FileSide,
    pub(crate) holes: &'a Holes,
}

/// Bytes that travelled, and what went wrong on this rank.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) resent: u64,
    pub(crate) bytes: u64,
    pub(crate) error: Option<FileError>,
}

/// Someone whose bytes this rank puts into or takes from its group's windows.
struct Customer<'a> {
    rank: usize,
    file: &'a FileSide,
    /// The next window that holds bytes of it.
    next: Option<u64>,
}

/// A part of this rank's bytes that belongs to another group.
struct Elsewhere {
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

/// Runs `work`, whose panic is an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(FileError::Panicked(text.unwrap_or_else(|| "no reason given".into())))
    })
}

impl Call<'_> {
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

    /// The ranks of other groups that this rank is the delegate of, with their descriptions. The
    /// ranks send them to each other here: collective.
    pub(crate) fn descriptions(&self) -> Result<Vec<(usize, FileSide)>, FileError> {
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
        let mut customers = Vec::new();
        for (rank, bytes) in received.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            customers.push((rank, FileSide::from_placement(decode(bytes)?)?));
        }
        Ok(customers)
    }

    fn customers<'c>(&'c self, remote: &'c [(usize, FileSide)]) -> Vec<Customer<'c>> {
        let own = std::iter::once((self.comm.rank(), self.file));
        let all = own.chain(remote.iter().map(|(rank, file)| (*rank, file)));
        all.map(|(rank, file)| {
            let next = self.aggregator().and_then(|own| next_window(self.domains, own, file, 0));
            Customer { rank, file, next }
        })
        .collect()
    }

    fn elsewhere(&self) -> Vec<Elsewhere> {
        let groups = self.groups;
        let me = self.comm.rank();
        let own_group = groups.group_of(me);
        (0..groups.ranks.len())
            .filter(|&group| group != own_group)
            .filter_map(|group| Some((group, groups.aggregator[group]?)))
            .map(|(group, aggregator)| Elsewhere {
                aggregator,
                delegate: groups.delegate(group, me),
                next: next_window(self.domains, aggregator, self.file, 0),
            })
            .collect()
    }

    fn advance(&self, customer: &mut Customer<'_>, index: u64) {
        let own = self.aggregator();
        customer.next =
            own.and_then(|own| next_window(self.domains, own, customer.file, index + 1));
    }

    fn pass_write(&self, customer: &Customer<'_>) {
        let next = customer.next.map_or(self.end(), |next| self.first + next);
        self.staging.pass_write(customer.rank, next);
    }

    fn pass_read(&self, customer: &Customer<'_>) {
        let next = customer.next.map(|next| self.first + next);
        self.staging.pass_read(customer.rank, next, self.end());
    }

    fn watch(&self, helper: bool) -> Watch<'_> {
        if helper { Watch::Helper } else { Watch::Rank(self.comm) }
    }

    /// Carries out a collective write.
    pub(crate) fn write(
        &self,
        from: &Memory<'_>,
        remote: &[(usize, FileSide)],
    ) -> Result<Outcome, FileError> {
        let trouble = Trouble::new(self.staging);
        let alone = !self.groups.in_memory;
        let result = std::thread::scope(|scope| {
            // An aggregator that works alone overlaps its I/O with the exchange of the next window.
            let writer = (alone && self.end() > self.first)
                .then(|| scope.spawn(|| self.write_until_done(&trouble, true)));
            let result = self.exchange_for_write(from, remote, &trouble, alone);
            if result.is_err() {
                trouble.abandon();
            }
            let written = match writer {
                Some(writer) => writer.join().unwrap_or(Ok(0)),
                None => self.write_until_done(&trouble, false),
            };
            Ok::<_, CommError>(result? + written?)
        });
        let resent = result?;
        Ok(Outcome { resent, bytes: self.file.len(), error: trouble.into_error() })
    }

    fn exchange_for_write(
        &self,
        from: &Memory<'_>,
        remote: &[(usize, FileSide)],
        trouble: &Trouble<'_>,
        alone: bool,
    ) -> Result<u64, CommError> {
        let mut customers = self.customers(remote);
        let mut elsewhere = self.elsewhere();
        let mut exchange = Exchange::new(self.comm, self.groups.under_way());
        let mut scratch = Scratch::default();
        let mut resent = 0;
        for customer in &customers {
            self.pass_write(customer);
        }
        while let Some(index) = lowest(&customers, &elsewhere) {
            let g = self.first + index;
            let window = self.window(g);
            let (slot, len) = (self.staging.slot(g), (window.end - window.start) as usize);
            let mut incoming = Vec::new();
            let here = |customer: &Customer<'_>| customer.next == Some(index);
            for customer in customers.iter().filter(|customer| here(customer)) {
                self.enter(customer.rank, g, trouble, alone, &mut resent)?;
                if customer.rank == self.comm.rank() {
                    let bytes = trouble.attempt(|| {
                        // SAFETY: the slot is entered and long enough; ranks put at their own bytes.
                        unsafe { put(customer.file, from, window.start, slot, len, &mut scratch) }
                    });
                    self.staging.put(g, bytes.unwrap_or(0));
                } else {
                    incoming.push(leg(customer.rank, customer.file.within(&window)));
                }
            }
            let mut outgoing = self.legs(&mut elsewhere, index);
            resent += outgoing.iter().map(|leg| leg.range.end - leg.range.start).sum::<u64>();
            let pack = |leg: &Leg, piece: &mut [u8]| {
                trouble.attempt(|| gather_from(from, leg.range.start, piece)).is_some()
            };
            exchange.run(&mut outgoing, &mut incoming, pack, |leg, piece| {
                let bytes = trouble.attempt(|| {
                    let sender = remote.iter().find(|(rank, _)| *rank == leg.rank);
                    let Some((_, file)) = sender.filter(|_| !piece.is_empty()) else {
                        let (rank, reason) = (leg.rank, "it sent no data".into());
                        return Err(FileError::Rank { rank, reason, kind: ErrorKind::Io });
                    };
                    // SAFETY: as above.
                    unsafe {
                        put_stream(file, leg.range.start, piece, window.start, slot, len)?;
                    };
                    Ok(piece.len() as u64)
                });
                self.staging.put(g, bytes.unwrap_or(0));
            })?;
            for customer in customers.iter_mut().filter(|customer| here(customer)) {
                self.advance(customer, index);
                self.pass_write(customer);
            }
            if alone {
                self.staging.notify();
            } else {
                while let Some(sent) = self.write_one(trouble) {
                    resent += sent;
                }
            }
        }
        self.staging.notify();
        exchange.finish()?;
        Ok(resent)
    }

    /// The bytes of this rank that other groups' windows with this index hold; moves on to the next.
    fn legs(&self, elsewhere: &mut [Elsewhere], index: u64) -> Vec<Leg> {
        let mut legs = Vec::new();
        for part in elsewhere.iter_mut().filter(|part| part.next == Some(index)) {
            let window = self.domains.window(part.aggregator, index).unwrap_or(0..0);
            legs.push(leg(part.delegate, self.file.within(&window)));
            part.next = next_window(self.domains, part.aggregator, self.file, index + 1);
        }
        legs
    }

    /// Waits until window `g` may be put into; meanwhile writes complete ones.
    fn enter(
        &self,
        participant: usize,
        g: u64,
        trouble: &Trouble<'_>,
        alone: bool,
        resent: &mut u64,
    ) -> Result<(), CommError> {
        let holes = self.holes.in_window(self.aggregator(), g - self.first);
        self.staging.wait_for(self.watch(false), || {
            loop {
                match self.staging.enter(participant, g, holes) {
                    Entry::Open => return Some(()),
                    Entry::Prepare => {
                        self.read_back(g, trouble);
                        self.staging.prepared(g);
                    }
                    Entry::Occupied if !alone => *resent += self.write_one(trouble)?,
                    Entry::Occupied | Entry::Preparing => return None,
                }
            }
        })
    }

    /// Fills a window with what the file holds, zeros beyond its end.
    fn read_back(&self, g: u64, trouble: &Trouble<'_>) {
        let window = self.window(g);
        let len = (window.end - window.start) as usize;
        trouble.attempt(|| {
            // SAFETY: this rank alone prepares the slot; others wait until it is prepared.
            let slot = unsafe { std::slice::from_raw_parts_mut(self.staging.slot(g), len) };
            let got = self.store.read_at(window.start, slot)?;
            slot[got..].fill(0);
            Ok(())
        });
    }

    /// Writes a complete window, if there is one; returns the bytes in it that were not this rank's.
    fn write_one(&self, trouble: &Trouble<'_>) -> Option<u64> {
        let g = self.staging.claim_write(self.groups.writers, self.end())?;
        let window = self.window(g);
        let len = (window.end - window.start) as usize;
        trouble.attempt(|| {
            // SAFETY: the window is complete and claimed by this rank: nobody changes it.
            let slot = unsafe { std::slice::from_raw_parts(self.staging.slot(g), len) };
            Ok(self.store.write_at(window.start, slot)?)
        });
        let others = if self.groups.in_memory {
            let own = self.file.within(&window);
            self.staging.bytes_put(g).saturating_sub(own.end - own.start)
        } else {
            // Counted by those who sent them.
            0
        };
        self.staging.written(g);
        Some(others)
    }

    fn write_until_done(&self, trouble: &Trouble<'_>, helper: bool) -> Result<u64, CommError> {
        let mut resent = 0;
        self.staging.wait_for(self.watch(helper), || {
            loop {
                if let Some(sent) = self.write_one(trouble) {
                    resent += sent;
                } else if self.staging.all_written(self.end()) || trouble.is_abandoned() {
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
    ) -> Result<Outcome, FileError> {
        let trouble = Trouble::new(self.staging);
        let alone = !self.groups.in_memory;
        let mut customers = self.customers(remote);
        self.staging.begin_reads(self.first);
        // Before anyone reads ahead: what nobody needs is not read.
        for customer in &customers {
            self.pass_read(customer);
        }
        let result = std::thread::scope(|scope| {
            // An aggregator that works alone reads the next window while it exchanges this one.
            let reader = (alone && self.end() > self.first)
                .then(|| scope.spawn(|| self.read_until_done(remote, &trouble)));
            let result = self.exchange_for_read(to, &mut customers, &trouble, alone);
            if result.is_err() {
                trouble.abandon();
            }
            if let Some(reader) = reader {
                reader.join().unwrap_or(Ok(()))?;
            }
            result
        });
        let (bytes, resent) = result?;
        Ok(Outcome { resent, bytes, error: trouble.into_error() })
    }

    fn exchange_for_read(
        &self,
        to: &mut MemoryMut<'_>,
        customers: &mut [Customer<'_>],
        trouble: &Trouble<'_>,
        alone: bool,
    ) -> Result<(u64, u64), CommError> {
        let mut elsewhere = self.elsewhere();
        let mut exchange = Exchange::new(self.comm, self.groups.under_way());
        let mut scratch = Scratch::default();
        let (mut total, mut resent) = (0, 0);
        // Windows that this rank read itself and has not taken from yet.
        let mut read_here = Vec::new();
        while let Some(index) = lowest(customers, &elsewhere) {
            let g = self.first + index;
            let window = self.window(g);
            let here = |customer: &Customer<'_>| customer.next == Some(index);
            let mut slot: &[u8] = &[];
            if customers.iter().any(here) {
                let got = self.staging.wait_for(self.watch(false), || {
                    loop {
                        if let Some(got) = self.staging.bytes_read(g) {
                            return Some(got);
                        }
                        if alone {
                            return None;
                        }
                        read_here.push(self.read_one(&[(0, self.file)], trouble)?);
                    }
                })?;
                // SAFETY: the window has been read, and stays until the last customer has taken.
                slot = unsafe {
                    std::slice::from_raw_parts(self.staging.slot(g).cast_const(), got as usize)
                };
            }
            let in_file = window.start..window.start + slot.len() as u64;
            let mut outgoing = Vec::new();
            for customer in customers.iter().filter(|customer| here(customer)) {
                let range = customer.file.within(&in_file);
                if customer.rank != self.comm.rank() {
                    let expected = customer.file.within(&window).end;
                    outgoing.push(Leg { rank: customer.rank, range, expected });
                    continue;
                }
                trouble.attempt(|| take(customer.file, to, window.start, slot, &mut scratch));
                let bytes = range.end - range.start;
                total += bytes;
                match read_here.iter().position(|&read| read == g) {
                    Some(position) => drop(read_here.swap_remove(position)),
                    None if !alone => resent += bytes,
                    None => {}
                }
            }
            let mut incoming = self.legs(&mut elsewhere, index);
            let pack = |leg: &Leg, piece: &mut [u8]| {
                let receiver = customers.iter().find(|customer| customer.rank == leg.rank);
                let packed = receiver.and_then(|receiver| {
                    let position = leg.range.start;
                    trouble
                        .attempt(|| take_stream(receiver.file, position, piece, window.start, slot))
                });
                packed.is_some()
            };
            exchange.run(&mut outgoing, &mut incoming, pack, |leg, piece| {
                trouble.attempt(|| scatter_to(to, leg.range.start, piece));
                total += piece.len() as u64;
                resent += piece.len() as u64;
            })?;
            for customer in customers.iter_mut().filter(|customer| here(customer)) {
                self.advance(customer, index);
                self.pass_read(customer);
            }
        }
        self.staging.notify();
        exchange.finish()?;
        self.staging
            .wait_for(self.watch(false), || self.staging.all_taken(self.end()).then_some(()))?;
        Ok((total, resent))
    }

    /// Reads the next window that somebody needs, or that one of `ahead_for` will.
    fn read_one(&self, ahead_for: &[(usize, &FileSide)], trouble: &Trouble<'_>) -> Option<u64> {
        let needed = |g| {
            let window = self.window(g);
            ahead_for.iter().any(|(_, file)| !file.within(&window).is_empty())
        };
        let g = self.staging.claim_read(u64::MAX, self.end(), needed)?;
        let window = self.window(g);
        let len = (window.end - window.start) as usize;
        let got = trouble.attempt(|| {
            // SAFETY: the window is claimed by this rank; nobody looks at it before it is ready.
            let slot = unsafe { std::slice::from_raw_parts_mut(self.staging.slot(g), len) };
            Ok(self.store.read_at(window.start, slot)?)
        });
        self.staging.ready(g, got.unwrap_or(0) as u64);
        Some(g)
    }

    fn read_until_done(
        &self,
        remote: &[(usize, FileSide)],
        trouble: &Trouble<'_>,
    ) -> Result<(), CommError> {
        let own = std::iter::once((self.comm.rank(), self.file));
        let all: Vec<_> = own.chain(remote.iter().map(|(rank, file)| (*rank, file))).collect();
        self.staging.wait_for(self.watch(true), || {
            loop {
                if self.read_one(&all, trouble).is_some() {
                    continue;
                }
                let done = self.staging.all_taken(self.end()) || trouble.is_abandoned();
                return done.then_some(());
            }
        })
    }
}

const fn leg(rank: usize, range: Range<u64>) -> Leg {
    Leg { rank, expected: range.end, range }
}

fn lowest(customers: &[Customer<'_>], elsewhere: &[Elsewhere]) -> Option<u64> {
    let here = customers.iter().filter_map(|customer| customer.next);
    here.chain(elsewhere.iter().filter_map(|part| part.next)).min()
}

/// What went wrong on this rank. After the first error nothing is attempted any more, but the
/// protocol goes on, so that nobody waits.
struct Trouble<'a> {
    staging: &'a Staging,
    error: Mutex<Option<FileError>>,
    abandoned: std::sync::atomic::AtomicBool,
}

impl<'a> Trouble<'a> {
    const fn new(staging: &'a Staging) -> Self {
        let abandoned = std::sync::atomic::AtomicBool::new(false);
        Self { staging, error: Mutex::new(None), abandoned }
    }

    /// Does `work` unless somebody in the group has failed; `None` if it was not done.
    fn attempt<T>(&self, work: impl FnOnce() -> Result<T, FileError>) -> Option<T> {
        if self.staging.has_failed() {
            return None;
        }
        match guarded(work) {
            Ok(result) => Some(result),
            Err(error) => {
                self.staging.fail();
                let mut first =
                    self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                first.get_or_insert(error);
                None
            }
        }
    }

    /// The ranks cannot reach each other: even the protocol ends.
    fn abandon(&self) {
        self.abandoned.store(true, std::sync::atomic::Ordering::SeqCst);
        self.staging.fail();
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn into_error(self) -> Option<FileError> {
        self.error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A description as it travels: displacement, start, length, type.
fn encode(placement: &Placement) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [placement.displacement, placement.start, placement.len] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&placement.datatype.encode());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Placement, FileError> {
    let malformed = || FileError::View { reason: "a description arrived garbled".into() };
    let (numbers, datatype) = bytes.split_at_checked(24).ok_or_else(malformed)?;
    let number = |i: usize| {
        let bytes = numbers[8 * i..8 * i + 8].try_into().map_err(|_| malformed())?;
        Ok::<_, FileError>(u64::from_le_bytes(bytes))
    };
    let datatype = Datatype::decode(datatype).map_err(|_| malformed())?;
    Ok(Placement { displacement: number(0)?, start: number(1)?, len: number(2)?, datatype })
}
