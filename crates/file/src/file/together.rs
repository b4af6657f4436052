//! How ranks carry out an access together: meet, decide alike, carry out, end alike.

use std::sync::Arc;
use std::time::Instant;

use striate_comm::task::in_task;
use striate_datatype::{Boundary, Point};
use striate_layout::characteristics::Method;
use striate_store::AlignedBuffer;
use striate_store::store::Store;

use super::independent::{Way, read_independently, write_independently};
use crate::access::FileSide;
use crate::auto::{Setting, candidates, choose};
use crate::collective::{Card, disagree};
use crate::experience::Size;
use crate::hints::Exchange;
use crate::memory::Shape;
use crate::method::two_phase::plan::Groups;
use crate::method::two_phase::staging::{Place, Staging};
use crate::method::two_phase::{Call, Holes, Outcome, guarded};
use crate::{File, FileError, Memory, MemoryMut};

/// The ring of this rank's group, and how far it has turned.
#[derive(Debug)]
pub(super) struct Ring {
    groups: Groups,
    staging: Staging,
    first: u64,
}

/// What a collective call hands to the direction that knows the memory.
pub(super) enum Work<'a> {
    Alone {
        store: &'a dyn Store,
        side: &'a FileSide,
        way: &'a Way,
        buffer: &'a mut Option<AlignedBuffer>,
    },
    TwoPhase {
        call: &'a Call<'a>,
        remote: &'a [(usize, FileSide)],
    },
}

/// How a meeting went.
enum Meet {
    /// This rank cannot take part.
    Failed(FileError),
    /// Another cannot, or has failed early.
    SomeoneFailed,
    Agreed(Agreed),
}

struct Agreed {
    /// What is left for this rank to do.
    side: FileSide,
    cards: Vec<Card>,
    /// The point at which this call's boundary sums are taken.
    seed: u64,
}

impl File {
    pub(super) fn read_together(
        &mut self,
        offset: u64,
        mut to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        const CALL: &str = "read_at_all";
        let checked =
            self.check_mode(false, CALL).and_then(|()| self.overlap(CALL, offset, &to.shape));
        match checked {
            Ok(None) => {
                let side = self.side(CALL, offset, &to.shape);
                self.read_side_together(side, to)
            }
            Ok(Some((overlap, mut room))) => {
                let side = Ok(overlap.side().clone());
                let read = self.read_side_together(side, (&mut room).into())?;
                overlap.hand_on(&room[..read as usize], &mut to)
            }
            Err(error) => self.read_side_together(Err(error), to),
        }
    }

    pub(super) fn read_side_together(
        &mut self,
        side: Result<FileSide, FileError>,
        mut to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let shape = to.shape.clone();
        self.together(false, side, &shape, &mut |work| match work {
            Work::Alone { store, side, way, buffer } => {
                let bytes = read_independently(store, side, &mut to, way, buffer)?;
                Ok(Outcome { bytes, ..Outcome::default() })
            }
            Work::TwoPhase { call, remote } => call.read(&mut to, remote),
        })
    }

    pub(super) fn write_together(
        &mut self,
        offset: u64,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let side = self
            .check_mode(true, "write_at_all")
            .and_then(|()| self.side("write_at_all", offset, &from.shape));
        self.write_side_together(side, from)
    }

    pub(super) fn write_side_together(
        &mut self,
        side: Result<FileSide, FileError>,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        self.together(true, side, &from.shape, &mut |work| match work {
            Work::Alone { store, side, way, buffer } => {
                write_independently(store, side, from, way, buffer)?;
                Ok(Outcome { bytes: side.len(), ..Outcome::default() })
            }
            Work::TwoPhase { call, remote } => call.write(from, remote),
        })
    }

    /// A collective call, and how long it took, if that is measured.
    fn together(
        &mut self,
        write: bool,
        side: Result<FileSide, FileError>,
        shape: &Shape,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        // What is begun takes as long as the program lets it.
        let clock = self.clock.clone().filter(|_| !in_task());
        let Some(clock) = clock else { return self.carry_out_together(write, side, shape, work) };
        let (start, before) = (Instant::now(), clock.elapsed());
        let done = self.carry_out_together(write, side, shape, work);
        let io = clock.elapsed().saturating_sub(before);
        self.usage.exchange += start.elapsed().saturating_sub(io);
        done
    }

    /// A collective call: do what needs nobody, meet, decide, carry out the rest, conclude.
    fn carry_out_together(
        &mut self,
        write: bool,
        side: Result<FileSide, FileError>,
        shape: &Shape,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        if write {
            // What is read back must not be under way from this rank; the others do the same.
            self.join_background();
        }
        let alone = side.as_ref().is_ok_and(|side| self.needs_nobody(write, side, shape));
        let early = match &side {
            Ok(side) if alone => {
                let method = self.best_alone(write, side, shape);
                Some(self.carry_out_alone(write, side, method, work))
            }
            _ => None,
        };
        let Agreed { side, cards, seed } = match self.meet(write, side, shape, early.as_ref())? {
            Meet::Failed(error) => {
                return disagree(comm.as_ref(), early.unwrap_or(Ok(0)).and(Err(error)));
            }
            Meet::SomeoneFailed => return disagree(comm.as_ref(), early.unwrap_or(Ok(0))),
            Meet::Agreed(agreed) => agreed,
        };
        let mut taking_part = cards.iter().filter(|card| card.len > 0);
        let Some(first) = taking_part.next() else { return early.unwrap_or(Ok(0)) };
        let range = taking_part
            .fold(first.low..first.high, |all, one| all.start.min(one.low)..all.end.max(one.high));
        // Only a write needs to know about holes.
        let point = write.then(|| Point::new(seed));
        let whole = point.as_ref().map(|p| p.interval(range.start as i64..range.end as i64));
        let tiled = whole == Some(cards.iter().map(|card| card.boundary).sum::<Boundary>());

        let mut setting = self.setting_together(write);
        setting.tiled = tiled;
        let reads_back = cards.iter().all(|card| card.reads_back);
        let methods = candidates(&self.hints, &setting, !self.atomic, reads_back);
        // The costs of rank 0 count, so that all decide alike.
        let (method, estimate) = choose(&methods, &cards, &cards[0].costs, &setting);
        let start = Instant::now();
        let done = if method == Method::TwoPhase {
            self.two_phase(&side, range, point.as_ref().map(|point| (point, tiled)), work)
        } else {
            let local = self.carry_out_alone(write, &side, method, work);
            self.meeting.conclude(comm.as_ref(), local)
        };
        // What goes on beside the program takes as long as the program lets it.
        if methods.len() > 1 && done.is_ok() && !in_task() {
            let took = start.elapsed().as_secs_f64();
            // Rank 0's experience counts: it is kept by the size of its own pieces.
            let size = Size::of(cards[0].len, cards[0].pieces);
            self.model.learn(write, size, method, estimate, took);
        }
        match early {
            Some(early) => done.and(early),
            None => done,
        }
    }

    /// Whether nothing is gained by waiting for the others: they are asked for nothing, or the access
    /// costs less than to meet.
    fn needs_nobody(&self, write: bool, side: &FileSide, shape: &Shape) -> bool {
        let setting = Setting { tiled: true, ..self.setting_together(write) };
        let methods = candidates(&self.hints, &setting, !self.atomic, self.reads_back);
        if !methods.contains(&Method::TwoPhase) {
            return true;
        }
        if methods.len() == 1 {
            return false;
        }
        let costs = self.costs.costs(write, Size::of(side.len(), 1));
        let op = if write { costs.contended_op } else { costs.read_op };
        // What is one request stays one; only the system call counts, the bytes have to move anyway.
        if side.regions() == 1 && shape.runs() == 1 {
            return op < costs.meet;
        }
        self.estimate_alone(write, side, shape).1 < costs.meet
    }

    fn setting_together(&self, write: bool) -> Setting {
        let (ranks, nodes) = (self.comm.size(), self.nodes());
        let shares_memory = self.hints.exchange == Exchange::Auto && nodes < ranks;
        let ring = self.exchange.as_ref();
        Setting {
            in_memory: ring.map_or(shares_memory, |ring| ring.groups.in_memory),
            ..self.setting(write, ranks, nodes)
        }
    }

    fn nodes(&self) -> usize {
        self.comm.nodes().iter().max().map_or(1, |max| max + 1)
    }

    /// Shows the others what is left to do, and learns the same of them.
    fn meet(
        &mut self,
        write: bool,
        side: Result<FileSide, FileError>,
        shape: &Shape,
        early: Option<&Result<u64, FileError>>,
    ) -> Result<Meet, FileError> {
        let comm = Arc::clone(&self.comm);
        self.calls += 1;
        let seed = self.seed.wrapping_add(self.calls);
        let left = side.and_then(|side| {
            let side = if early.is_some() { side.emptied()? } else { side };
            let boundary = match side.range() {
                Some(range) if write => side.boundary(&range, &Point::new(seed))?,
                _ => Boundary::default(),
            };
            Ok((boundary, side))
        });
        let card = match &left {
            Ok((boundary, side)) => Card {
                boundary: *boundary,
                failed: early.is_some_and(Result::is_err),
                ..self.card(side, shape, write)
            },
            Err(_) => Card { failed: true, ..Card::default() },
        };
        let cards = self.meeting.show(comm.as_ref(), card)?;
        let failed = cards.iter().any(|card| card.failed);
        self.note = cards.iter().fold(0, |all, card| all | card.note);
        Ok(match left {
            Err(error) => Meet::Failed(error),
            Ok(_) if failed => Meet::SomeoneFailed,
            Ok((_, side)) => Meet::Agreed(Agreed { side, cards, seed }),
        })
    }

    /// This rank's part, by a method that needs nobody else.
    fn carry_out_alone(
        &mut self,
        write: bool,
        side: &FileSide,
        method: Method,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let before = self.store.counts();
        let way = self.way_of(method, write, side);
        let local = self.with_buffer(write, side, method, |file, buffer| {
            let store: &dyn Store = file.store.as_ref();
            guarded(|| work(Work::Alone { store, side, way: &way, buffer }))
        });
        self.account(write, side, method, before, None, 0);
        local.map(|outcome| outcome.bytes)
    }

    /// The rest of a call, in two phases. A write comes with the point at which holes are looked for,
    /// and whether it is known that there are none.
    pub(super) fn two_phase(
        &mut self,
        side: &FileSide,
        range: std::ops::Range<u64>,
        write: Option<(&Point, bool)>,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        let before = self.store.counts();
        let mut ring = match self.exchange.take() {
            Some(ring) => ring,
            None => disagree(comm.as_ref(), self.make_ring())?,
        };
        let domains = ring.groups.domains(range);
        let holes = match write {
            Some((point, tiled)) => Holes::find(comm.as_ref(), &domains, side, point, tiled)?,
            None => Holes::None,
        };
        let store = Arc::clone(&self.store);
        let call = Call {
            comm: comm.as_ref(),
            store: store.as_ref(),
            groups: &ring.groups,
            domains: &domains,
            staging: &ring.staging,
            first: ring.first,
            file: side,
            holes: &holes,
        };
        let remote = call.descriptions()?;
        let outcome = work(Work::TwoPhase { call: &call, remote: &remote })?;
        let own = ring.groups.aggregator[ring.groups.group_of(comm.rank())];
        ring.first += own.map_or(0, |own| domains.windows(own));

        let local = match outcome.error {
            Some(error) => Err(error),
            None => Ok(outcome.bytes),
        };
        let done = if ring.groups.ranks.len() == 1 && comm.size() > 1 {
            // Everyone has waited for the last window: all see the same.
            if ring.staging.has_failed() { disagree(comm.as_ref(), local) } else { local }
        } else {
            self.meeting.conclude(comm.as_ref(), local)
        };
        if done.is_err() {
            ring.staging.forget_failure();
        }
        let report = (ring.groups.kind.name(), ring.groups.in_memory);
        self.account(write.is_some(), side, Method::TwoPhase, before, Some(report), outcome.resent);
        self.exchange = Some(ring);
        done
    }

    /// Decides how data travels, and makes the ring; collective.
    pub(super) fn make_ring(&self) -> Result<Ring, FileError> {
        let comm = self.comm.as_ref();
        let capabilities = self.store.capabilities();
        let ranks = comm.size();
        let shared_by_some = comm.nodes().iter().max().is_some_and(|max| max + 1 < ranks);
        if self.hints.exchange == Exchange::Auto && shared_by_some {
            let groups = Groups::new(comm.nodes(), true, &self.hints, &capabilities);
            let window = groups.window.get() as usize;
            let len = Staging::len(ranks, groups.slots, window);
            if let Some(memory) = comm.node_memory(len)? {
                let staging = Staging::new(Place::Node(memory), ranks, groups.slots, window);
                let mixed = groups.ranks.len() > 1;
                let staging = if mixed { staging.impatient() } else { staging };
                return Ok(Ring { groups, staging, first: 0 });
            }
        }
        let groups = Groups::new(comm.nodes(), false, &self.hints, &capabilities);
        let window = groups.window.get() as usize;
        // A rank that does not aggregate needs the table only.
        let window = if groups.aggregator[comm.rank()].is_some() { window } else { 0 };
        let staging = Staging::own(ranks, groups.slots, window);
        let staging = staging.ok_or_else(|| FileError::NoMemory {
            call: "collective buffering",
            what: format!(
                "{} buffers of {window} bytes; cb_buffer_size may be smaller",
                groups.slots
            ),
        })?;
        Ok(Ring { groups, staging, first: 0 })
    }
}
