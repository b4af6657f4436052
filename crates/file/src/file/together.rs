//! How ranks carry out an access together: meet, decide alike, carry out, end alike.

use std::sync::Arc;
use std::time::Instant;

use striate_datatype::{Boundary, Point};
use striate_layout::characteristics::Method;
use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counts};

use super::independent::{Way, read_independently, write_independently};
use crate::access::FileSide;
use crate::auto::{candidates, choose};
use crate::collective::{Card, disagree};
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

impl File {
    pub(super) fn read_together(
        &mut self,
        offset: u64,
        mut to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let side = self
            .check_mode(false, "read_at_all")
            .and_then(|()| self.side("read_at_all", offset, &to.shape));
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
        self.together(true, side, &from.shape, &mut |work| match work {
            Work::Alone { store, side, way, buffer } => {
                write_independently(store, side, from, way, buffer)?;
                Ok(Outcome { bytes: side.len(), ..Outcome::default() })
            }
            Work::TwoPhase { call, remote } => call.write(from, remote),
        })
    }

    /// A collective call: meet, decide, carry out, conclude.
    pub(super) fn together(
        &mut self,
        write: bool,
        side: Result<FileSide, FileError>,
        shape: &Shape,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        self.calls += 1;
        let point = Point::new(self.seed.wrapping_add(self.calls));
        if write {
            // What is read back must not be under way from this rank; the others do the same.
            self.join_threads();
        }
        let boundary = side.and_then(|side| {
            // Only a write needs to know about holes.
            let range = if write { side.range().unwrap_or(0..0) } else { 0..0 };
            Ok((side.boundary(&range, &point)?, side))
        });
        let card = match &boundary {
            Ok((boundary, side)) => Card { boundary: *boundary, ..self.card(side, shape, write) },
            Err(_) => Card { failed: true, ..Card::default() },
        };
        let cards = self.meeting.show(comm.as_ref(), card)?;
        if cards.iter().any(|card| card.failed) {
            return disagree(comm.as_ref(), boundary.map(|_| 0));
        }
        let (_, side) = boundary?;
        let mut taking_part = cards.iter().filter(|card| card.len > 0);
        let Some(first) = taking_part.next() else { return Ok(0) };
        let range = taking_part
            .fold(first.low..first.high, |all, one| all.start.min(one.low)..all.end.max(one.high));
        let whole = point.interval(range.start as i64..range.end as i64);
        let tiled = write && cards.iter().map(|card| card.boundary).sum::<Boundary>() == whole;

        let nodes = comm.nodes().iter().max().map_or(1, |max| max + 1);
        let mut setting = self.setting(write, comm.size(), nodes);
        setting.tiled = tiled;
        setting.in_memory = self
            .exchange
            .as_ref()
            .map_or(self.hints.exchange == Exchange::Auto && nodes < comm.size(), |ring| {
                ring.groups.in_memory
            });
        let reads_back = cards.iter().all(|card| card.reads_back);
        let together = !self.atomic;
        let methods = candidates(&self.hints, &setting, together, reads_back);
        // The costs of rank 0 count, so that all decide alike.
        let (method, estimate) = choose(&methods, &cards, &cards[0].costs, &setting);
        let before = self.store.counts();
        let start = Instant::now();
        let done = if method == Method::TwoPhase {
            self.two_phase(write, &side, range, tiled, &point, before, work)
        } else {
            let way = self.way_of(method, write, &side);
            let local = self.with_buffer(write, &side, method, |file, buffer| {
                let store: &dyn Store = file.store.as_ref();
                guarded(|| work(Work::Alone { store, side: &side, way: &way, buffer }))
            });
            let local = local.map(|outcome| outcome.bytes);
            let done = self.meeting.conclude(comm.as_ref(), local);
            self.account(write, &side, method, before, None, 0);
            done
        };
        if methods.len() > 1 && done.is_ok() {
            let took = start.elapsed().as_secs_f64();
            self.costs().learn(write, method, estimate, took);
        }
        done
    }

    #[expect(clippy::too_many_arguments, reason = "all that `together` has found out")]
    pub(super) fn two_phase(
        &mut self,
        write: bool,
        side: &FileSide,
        range: std::ops::Range<u64>,
        tiled: bool,
        point: &Point,
        before: Counts,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        let mut ring = match self.exchange.take() {
            Some(ring) => ring,
            None => disagree(comm.as_ref(), self.make_ring())?,
        };
        let domains = ring.groups.domains(range);
        let holes = if write {
            Holes::find(comm.as_ref(), &domains, side, point, tiled)?
        } else {
            Holes::None
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
        self.account(write, side, Method::TwoPhase, before, Some(report), outcome.resent);
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
        let staging = staging.ok_or_else(|| FileError::Argument {
            call: "collective buffering",
            reason: format!(
                "no memory for {} buffers of {window} bytes; cb_buffer_size may be smaller",
                groups.slots
            ),
        })?;
        Ok(Ring { groups, staging, first: 0 })
    }
}
