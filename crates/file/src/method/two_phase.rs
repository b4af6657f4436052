//! Two-phase: ranks exchange data so that aggregators read and write large contiguous windows.
//!
//! Ranks form groups that share a ring of windows ([`staging`]); who owns which part of the file is
//! the [`plan`]'s. A rank puts its bytes of its own group's windows straight from user memory into
//! the ring, and sends those of other groups' windows, packed straight from user memory, to a
//! *delegate* in that group, who puts them for it. The delegate knows where they belong from the
//! sender's description, exchanged once per call; no list of offsets ever travels, and no header
//! comes with the data, since both sides compute its length. Reads go the other way.
//!
//! # Why nobody waits for ever
//!
//! Ranks work through windows in order of their index in their domain. At each index a write sends
//! to other groups first, then serves its own; a read serves its own first, then receives. The rank
//! with the lowest index waits for nothing but ranks that have already passed that point, so it gets
//! on, and so all do. A rank that fails goes on with the protocol without moving data, and the error
//! is agreed at the end.

pub(crate) mod plan;
pub(crate) mod staging;

mod holes;

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use striate_comm::{Comm, CommError, Request};
use striate_datatype::Datatype;
use striate_layout::file_domain::Domains;
use striate_store::store::{Placement, Store};

use crate::FileError;
use crate::access::{
    FileSide, Scratch, gather_from, put, put_stream, scatter_to, take, take_stream,
};
use crate::memory::{Memory, MemoryMut};
pub(crate) use holes::Holes;
use plan::Groups;
use staging::{Entry, Staging};

/// Messages of the data exchange.
const DATA: u32 = 1;

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

    /// What a waiting loop asks from time to time. Helper threads ask nothing: the communicator is
    /// the rank's own, and its error makes the rank abandon the call.
    fn health(&self, helper: bool) -> impl Fn() -> Result<(), CommError> {
        move || if helper { Ok(()) } else { self.comm.health() }
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
        let mut sends = Sends::new(self.comm, 2 * elsewhere.len());
        let mut scratch = Scratch::default();
        let mut resent = 0;
        for customer in &customers {
            self.pass_write(customer);
        }
        while let Some(index) = lowest(&customers, &elsewhere) {
            for part in elsewhere.iter_mut().filter(|part| part.next == Some(index)) {
                let window = self.domains.window(part.aggregator, index).unwrap_or(0..0);
                let range = self.file.within(&window);
                let mut message = vec![0; (range.end - range.start) as usize];
                resent += message.len() as u64;
                if trouble.attempt(|| gather_from(from, range.start, &mut message)).is_none() {
                    // Shorter than it must be: the receiver knows that this rank failed.
                    message.clear();
                }
                sends.push(part.delegate, message)?;
                part.next = next_window(self.domains, part.aggregator, self.file, index + 1);
            }
            let g = self.first + index;
            for customer in customers.iter_mut().filter(|customer| customer.next == Some(index)) {
                let window = self.window(g);
                let part = customer.file.within(&window);
                let message = if customer.rank == self.comm.rank() {
                    None
                } else {
                    let capacity = (part.end - part.start) as usize;
                    let request = self.comm.receive(customer.rank, DATA, capacity)?;
                    Some(self.comm.wait(request)?)
                };
                self.enter(customer.rank, g, trouble, alone, &mut resent)?;
                let slot = self.staging.slot(g);
                let len = (window.end - window.start) as usize;
                let bytes = trouble.attempt(|| {
                    let Some(message) = &message else {
                        // SAFETY: the slot is entered and long enough; ranks put at their own bytes.
                        return unsafe {
                            put(customer.file, from, window.start, slot, len, &mut scratch)
                        };
                    };
                    if message.len() as u64 != part.end - part.start {
                        return Err(FileError::Rank {
                            rank: customer.rank,
                            reason: "it sent no data".into(),
                        });
                    }
                    // SAFETY: as above.
                    unsafe {
                        put_stream(customer.file, part.start, message, window.start, slot, len)?;
                    };
                    Ok(message.len() as u64)
                });
                self.staging.arrive(customer.rank, g, bytes.unwrap_or(0));
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
        sends.finish()?;
        Ok(resent)
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
        self.staging.wait_for(&self.health(false), || {
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
        self.staging.wait_for(&self.health(helper), || {
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
        let mut sends = Sends::new(self.comm, 2 * customers.len());
        let mut scratch = Scratch::default();
        let (mut total, mut resent) = (0, 0);
        // Windows that this rank read itself and has not taken from yet.
        let mut read_here = Vec::new();
        while let Some(index) = lowest(customers, &elsewhere) {
            let g = self.first + index;
            for customer in customers.iter_mut().filter(|customer| customer.next == Some(index)) {
                let window = self.window(g);
                let got = self.staging.wait_for(&self.health(false), || {
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
                let in_file = window.start..window.start + got;
                let part = customer.file.within(&in_file);
                let bytes = part.end - part.start;
                // SAFETY: the window has been read, and stays until this customer has taken.
                let slot = unsafe {
                    std::slice::from_raw_parts(self.staging.slot(g).cast_const(), got as usize)
                };
                if customer.rank == self.comm.rank() {
                    trouble.attempt(|| take(customer.file, to, window.start, slot, &mut scratch));
                    total += bytes;
                    let position = read_here.iter().position(|&read| read == g);
                    match position {
                        Some(position) => drop(read_here.swap_remove(position)),
                        None if !alone => resent += bytes,
                        None => {}
                    }
                } else {
                    let mut message = vec![0; bytes as usize];
                    trouble.attempt(|| {
                        take_stream(customer.file, part.start, &mut message, window.start, slot)
                    });
                    sends.push(customer.rank, message)?;
                }
                self.advance(customer, index);
                self.pass_read(customer);
            }
            for part in elsewhere.iter_mut().filter(|part| part.next == Some(index)) {
                let window = self.domains.window(part.aggregator, index).unwrap_or(0..0);
                let range = self.file.within(&window);
                let capacity = (range.end - range.start) as usize;
                let request = self.comm.receive(part.delegate, DATA, capacity)?;
                let message = self.comm.wait(request)?;
                trouble.attempt(|| scatter_to(to, range.start, &message));
                total += message.len() as u64;
                resent += message.len() as u64;
                part.next = next_window(self.domains, part.aggregator, self.file, index + 1);
            }
        }
        self.staging.notify();
        sends.finish()?;
        self.staging
            .wait_for(&self.health(false), || self.staging.all_taken(self.end()).then_some(()))?;
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
        self.staging.wait_for(&self.health(true), || {
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

/// Sends under way; the oldest is waited for when there are too many.
struct Sends<'a> {
    comm: &'a dyn Comm,
    under_way: VecDeque<Request>,
    limit: usize,
}

impl<'a> Sends<'a> {
    const fn new(comm: &'a dyn Comm, limit: usize) -> Self {
        Self { comm, under_way: VecDeque::new(), limit }
    }

    fn push(&mut self, to: usize, message: Vec<u8>) -> Result<(), CommError> {
        // Those of two indices ago have been received, or will be without our help.
        while self.under_way.len() > self.limit {
            if let Some(request) = self.under_way.pop_front() {
                self.comm.wait(request)?;
            }
        }
        self.under_way.push_back(self.comm.send(to, DATA, message)?);
        Ok(())
    }

    fn finish(self) -> Result<(), CommError> {
        self.under_way.into_iter().try_for_each(|request| self.comm.wait(request).map(drop))
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
