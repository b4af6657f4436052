//! How ranks carry out an access together: meet, decide alike, carry out, end alike.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use striate_comm::task::in_task;
use striate_datatype::{Boundary, Point};
use striate_layout::characteristics::Method;
use striate_store::AlignedBuffer;
use striate_store::store::Store;

use super::independent::{
    ContiguousRequest, Guard, IndependentPlan, read_independently, write_independently,
};
use crate::access::FileSide;
use crate::cost_model::PieceSize;
use crate::hints::{Exchange, Switch};
use crate::memory::Shape;
use crate::method::two_phase::plan::Groups;
use crate::method::two_phase::window_ring::{RingMemory, WindowRing};
use crate::method::two_phase::{Holes, Outcome, TwoPhaseCall, guarded};
use crate::method_selection::{Setting, candidates, choose};
use crate::rendezvous::{EncodedProposal, Proposal, declined, disagree};
use crate::write_behind::{ExcludingStore, WriteBehind};
use crate::{CallReport, File, FileError, Memory, MemoryMut, Stats};

/// The ring of this rank's group, and how far it has turned.
#[derive(Debug)]
pub(super) struct Ring {
    groups: Groups,
    ring: WindowRing,
    first: u64,
}

/// Whether the ranks meet in a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synchronisation {
    Rendezvous,
    /// Each does its part, and goes on.
    Elided,
}

/// What a rank wants of a collective call.
pub(super) enum RankAccess {
    /// One request, for which it waits for nobody.
    ContiguousRequest(ContiguousRequest),
    /// These bytes of the file, or an error in place of them.
    Side(Result<FileSide, FileError>),
}

/// What a collective call hands to the direction that knows the memory.
pub(super) enum Step<'a> {
    ContiguousRequest {
        store: &'a dyn Store,
        plain: &'a ContiguousRequest,
        /// Where a write may wait.
        behind: Option<&'a Arc<WriteBehind>>,
    },
    Alone {
        store: &'a dyn Store,
        side: &'a FileSide,
        way: &'a IndependentPlan,
        buffer: &'a mut Option<AlignedBuffer>,
    },
    TwoPhase {
        call: &'a TwoPhaseCall<'a>,
        remote: &'a [(usize, FileSide)],
    },
}

/// How a meeting went.
enum Agreement {
    /// This rank cannot take part.
    Failed(FileError),
    /// Another cannot, or has failed early.
    SomeoneFailed,
    /// All have done their parts.
    Over,
    Agreed(Agreed),
}

struct Agreed {
    /// What is left for this rank to do.
    side: FileSide,
    proposals: Vec<Proposal>,
    /// The point at which this call's boundary sums are taken.
    seed: u64,
}

/// Writes one request, or has it wait.
fn write_plain(
    store: &dyn Store,
    plain: &ContiguousRequest,
    behind: Option<&Arc<WriteBehind>>,
    from: &Memory<'_>,
) -> Result<Outcome, FileError> {
    let bytes = &from.bytes()[plain.memory.clone()];
    let waits = match behind {
        Some(behind) => behind.put(plain.offset, bytes)?,
        None => false,
    };
    if !waits {
        store.write_at(plain.offset, bytes)?;
    }
    let resent = if waits { from.len() } else { 0 };
    Ok(Outcome { bytes: from.len(), resent, ..Outcome::default() })
}

impl File {
    /// Writes one request of this rank alone.
    pub(super) fn write_plain_alone(
        &mut self,
        plain: &ContiguousRequest,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let len = plain.memory.len() as u64;
        let may_wait = self.may_wait(len);
        if !may_wait && !self.needs_guard() {
            // Most writes of most programs are this, and no more.
            self.store.inner().write_at(plain.offset, &from.bytes()[plain.memory.clone()])?;
            self.account_plain(plain, len);
            return Ok(len);
        }
        self.carry_out_plain(true, may_wait, plain, &[], &mut |work| match work {
            Step::ContiguousRequest { store, plain, behind } => {
                write_plain(store, plain, behind, from)
            }
            Step::Alone { .. } | Step::TwoPhase { .. } => {
                Err(FileError::caller("one request became something else"))
            }
        })
    }

    pub(super) fn read_together(
        &mut self,
        offset: u64,
        mut to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        const CALL: &str = "read_at_all";
        if self.ranks(false)? == Synchronisation::Elided {
            if self.plain(offset, &to.shape).is_none()
                && let Ok(side) = self.side(CALL, offset, &to.shape)
            {
                self.ask_to_meet(false, &side, &to.shape);
            }
            return self.read_at(offset, to);
        }
        let checked =
            self.check_mode(false, CALL).and_then(|()| self.overlap(CALL, offset, &to.shape));
        match checked {
            Ok(None) => {
                let part = self.part(false, Synchronisation::Rendezvous, CALL, offset, &to.shape);
                self.read_part(part, to)
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
        to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        self.read_part(RankAccess::Side(side), to)
    }

    fn read_part(&mut self, part: RankAccess, mut to: MemoryMut<'_>) -> Result<u64, FileError> {
        let shape = to.shape.clone();
        self.together(false, part, &shape, &mut |work| match work {
            Step::ContiguousRequest { store, plain, .. } => {
                let bytes = store.read_at(plain.offset, &mut to.bytes()[plain.memory.clone()])?;
                Ok(Outcome { bytes: bytes as u64, ..Outcome::default() })
            }
            Step::Alone { store, side, way, buffer } => {
                let bytes = read_independently(store, side, &mut to, way, buffer)?;
                Ok(Outcome { bytes, ..Outcome::default() })
            }
            Step::TwoPhase { call, remote } => call.read(&mut to, remote),
        })
    }

    pub(super) fn write_together(
        &mut self,
        offset: u64,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let ranks = self.ranks(true)?;
        let part = self.part(true, ranks, "write_at_all", offset, &from.shape);
        self.write_part(ranks, part, from)
    }

    /// Whether the ranks meet in this call at a view. All ranks know the same.
    fn ranks(&mut self, write: bool) -> Result<Synchronisation, FileError> {
        let is_spared = self.meeting.spare(self.comm.as_ref(), write)?;
        Ok(if is_spared { Synchronisation::Elided } else { Synchronisation::Rendezvous })
    }

    /// Has the ranks meet for the next calls, if it would have been better for this one.
    fn ask_to_meet(&self, write: bool, side: &FileSide, shape: &Shape) {
        if side.len() > 0 && !self.needs_nobody(write, side, shape) {
            self.meeting.ask();
        }
    }

    pub(super) fn write_side_together(
        &mut self,
        side: Result<FileSide, FileError>,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        self.write_part(Synchronisation::Rendezvous, RankAccess::Side(side), from)
    }

    fn write_part(
        &mut self,
        ranks: Synchronisation,
        part: RankAccess,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let mut work = |work: Step<'_>| match work {
            Step::ContiguousRequest { store, plain, behind } => {
                write_plain(store, plain, behind, from)
            }
            Step::Alone { store, side, way, buffer } => {
                write_independently(store, side, from, way, buffer)?;
                Ok(Outcome { bytes: side.len(), ..Outcome::default() })
            }
            Step::TwoPhase { call, remote } => call.write(from, remote),
        };
        match ranks {
            Synchronisation::Rendezvous => {
                let done = self.together(true, part, &from.shape, &mut work);
                if let (Err(_), Some(behind)) = (&done, &self.behind) {
                    // Everyone has an error now.
                    behind.forget_failure();
                }
                done
            }
            Synchronisation::Elided => self.write_apart(part, &from.shape, &mut work),
        }
    }

    /// Writes this rank's part of a collective call for which nobody meets.
    fn write_apart(
        &mut self,
        part: RankAccess,
        shape: &Shape,
        work: &mut dyn FnMut(Step<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        self.join_background();
        let unmet = self.meeting.last_unmet();
        let (Some(behind), Some(call)) = (self.behind.clone(), unmet) else {
            return Err(FileError::caller("ranks that have no memory in common did not meet"));
        };
        match part {
            RankAccess::ContiguousRequest(plain) => {
                let range = plain.offset..plain.offset + plain.memory.len() as u64;
                let turn = behind.announce(self.comm.as_ref(), call, range)?;
                let may_wait = self.may_wait(plain.memory.len() as u64);
                self.carry_out_plain(true, may_wait, &plain, &turn.taken, work)
            }
            RankAccess::Side(Ok(side)) => {
                let range = side.range().unwrap_or(0..0);
                self.ask_to_meet(true, &side, shape);
                let turn = behind.announce_roughly(self.comm.as_ref(), call, range)?;
                let method = self.best_alone(true, &side, shape);
                self.carry_out_alone(true, &side, method, &turn.taken, work)
            }
            RankAccess::Side(Err(error)) => {
                drop(behind.announce(self.comm.as_ref(), call, 0..0)?);
                Err(error)
            }
        }
    }

    /// [`File::decline`] where the other ranks write, or read, at their views: if they do not meet for it, they need not
    /// know.
    pub fn decline_access(&mut self, write: bool, error: FileError) -> FileError {
        self.carry_out_pending();
        match self.ranks(write) {
            Err(error) => error,
            Ok(Synchronisation::Rendezvous) => self.decline(error),
            Ok(Synchronisation::Elided) if write => {
                let nothing = RankAccess::Side(Err(error));
                declined(self.write_apart(nothing, &Memory::from(&[]).shape, &mut |_| {
                    Ok(Outcome::default())
                }))
            }
            Ok(Synchronisation::Elided) => error,
        }
    }

    fn part(
        &self,
        write: bool,
        ranks: Synchronisation,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> RankAccess {
        if let Err(error) = self.check_mode(write, call) {
            return RankAccess::Side(Err(error));
        }
        match self.plain(offset, shape) {
            Some(plain)
                if ranks == Synchronisation::Elided
                    || self.request_needs_nobody(write, shape.len()) =>
            {
                RankAccess::ContiguousRequest(plain)
            }
            _ => RankAccess::Side(self.side(call, offset, shape)),
        }
    }

    /// A collective call, and how long it took, if that is measured.
    fn together(
        &mut self,
        write: bool,
        part: RankAccess,
        shape: &Shape,
        work: &mut dyn FnMut(Step<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        // What is begun takes as long as the program lets it.
        let clock = self.clock.clone().filter(|_| !in_task());
        let Some(clock) = clock else { return self.carry_out_together(write, part, shape, work) };
        let (start, before) = (Instant::now(), clock.elapsed());
        let done = self.carry_out_together(write, part, shape, work);
        let io = clock.elapsed().saturating_sub(before);
        self.usage.exchange += start.elapsed().saturating_sub(io);
        done
    }

    /// A collective call: do what needs nobody, meet, decide, carry out the rest, conclude.
    fn carry_out_together(
        &mut self,
        write: bool,
        part: RankAccess,
        shape: &Shape,
        work: &mut dyn FnMut(Step<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        if write {
            // What is read back must not be under way from this rank; the others do the same.
            self.join_background();
        }
        self.meeting.catch_up(comm.as_ref(), write)?;
        let early = match &part {
            RankAccess::ContiguousRequest(plain) => {
                let may_wait = write && self.may_wait(plain.memory.len() as u64);
                Some(self.carry_out_plain(write, may_wait, plain, &[], work))
            }
            RankAccess::Side(Ok(side)) if self.needs_nobody(write, side, shape) => {
                let method = self.best_alone(write, side, shape);
                Some(self.carry_out_alone(write, side, method, &[], work))
            }
            RankAccess::Side(_) => None,
        };
        let Agreed { side, proposals, seed } =
            match self.meet(write, part, shape, early.as_ref())? {
                Agreement::Over => {
                    let may_be_spared = !write || self.behind.is_some();
                    self.meeting.was_idle(may_be_spared.then_some(write));
                    return early.unwrap_or(Ok(0));
                }
                Agreement::Failed(error) => {
                    return disagree(comm.as_ref(), early.unwrap_or(Ok(0)).and(Err(error)));
                }
                Agreement::SomeoneFailed => return disagree(comm.as_ref(), early.unwrap_or(Ok(0))),
                Agreement::Agreed(agreed) => agreed,
            };
        self.meeting.was_idle(None);
        let mut taking_part = proposals.iter().filter(|proposal| proposal.len > 0);
        let Some(first) = taking_part.next() else { return early.unwrap_or(Ok(0)) };
        let range = taking_part
            .fold(first.low..first.high, |all, one| all.start.min(one.low)..all.end.max(one.high));
        // Only a write needs to know about holes.
        let point = write.then(|| Point::new(seed));
        let whole = point.as_ref().map(|p| p.interval(range.start as i64..range.end as i64));
        let tiled =
            whole == Some(proposals.iter().map(|proposal| proposal.boundary).sum::<Boundary>());

        let mut setting = self.setting_together(write);
        setting.tiled = tiled;
        let reads_back = proposals.iter().all(|proposal| proposal.reads_back);
        let mut methods = candidates(&self.hints, &setting, !self.atomic, reads_back);
        if methods.len() > 1 && proposals.iter().all(|proposal| proposal.pieces <= 1) {
            // One request is one request, unless it can be made together with those of others.
            methods.retain(|method| matches!(method, Method::Posix | Method::TwoPhase));
        }
        // The costs of rank 0 count, so that all decide alike.
        let (method, estimate) = choose(&methods, &proposals, &proposals[0].costs, &setting);
        let start = Instant::now();
        let done = if method == Method::TwoPhase {
            self.two_phase(&side, range, point.as_ref().map(|point| (point, tiled)), work)
        } else {
            let local = self.carry_out_alone(write, &side, method, &[], work);
            self.meeting.conclude(comm.as_ref(), local)
        };
        // What goes on beside the program takes as long as the program lets it.
        if methods.len() > 1 && done.is_ok() && !in_task() {
            let took = start.elapsed().as_secs_f64();
            // Rank 0's experience counts: it is kept by the size of its own pieces.
            let size = PieceSize::of(proposals[0].len, proposals[0].pieces);
            self.model.learn(write, size, method, estimate, took);
            self.empty_proposals = [None, None];
        }
        match early {
            Some(early) => done.and(early),
            None => done,
        }
    }

    /// Whether nothing is gained by waiting for the others: they are asked for nothing, or the access
    /// costs less than to meet.
    fn needs_nobody(&self, write: bool, side: &FileSide, shape: &Shape) -> bool {
        if let Some(answer) = self.may_do_alone(write) {
            return answer;
        }
        let size = PieceSize::of(side.len(), 1);
        if side.regions() == 1 && shape.runs() == 1 {
            return self.is_less_than_to_meet(write, size);
        }
        self.estimate_alone(write, side, shape).1 < self.costs.costs(write, size).meet
    }

    /// Whether everything must be done alone, or nothing may; `None` if it depends on the access.
    fn may_do_alone(&self, write: bool) -> Option<bool> {
        let setting = Setting { tiled: true, ..self.setting_together(write) };
        let methods = candidates(&self.hints, &setting, !self.atomic, self.reads_back);
        if !methods.contains(&Method::TwoPhase) {
            return Some(true);
        }
        (methods.len() == 1).then_some(false)
    }

    /// Whether to meet costs more than one request: what is one stays one, so only the system call counts;
    /// the bytes have to move anyway.
    fn is_less_than_to_meet(&self, write: bool, size: PieceSize) -> bool {
        let costs = self.costs.costs(write, size);
        let op = if write { costs.contended_op } else { costs.read_op };
        op < costs.meet
    }

    /// The same for one request of so many bytes.
    fn request_needs_nobody(&self, write: bool, len: u64) -> bool {
        let size = PieceSize::of(len, 1);
        let known = &self.alone[usize::from(write)];
        if let Some((of, answer)) = known.get()
            && of == size
        {
            return answer;
        }
        let answer =
            self.may_do_alone(write).unwrap_or_else(|| self.is_less_than_to_meet(write, size));
        known.set(Some((size, answer)));
        answer
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
        part: RankAccess,
        shape: &Shape,
        early: Option<&Result<u64, FileError>>,
    ) -> Result<Agreement, FileError> {
        let comm = Arc::clone(&self.comm);
        self.calls += 1;
        let seed = self.seed.wrapping_add(self.calls);
        if matches!(early, Some(Ok(_))) && self.note == 0 {
            let proposal = self.empty_proposal(write);
            return Ok(match self.meeting.attend(comm.as_ref(), &proposal)? {
                None => Agreement::Over,
                Some(proposals) => self.agree(proposals, FileSide::nothing(), seed),
            });
        }
        let left = match (part, early) {
            (RankAccess::Side(side), None) => side.and_then(|side| {
                let boundary = match side.range() {
                    Some(range) if write => side.boundary(&range, &Point::new(seed))?,
                    _ => Boundary::default(),
                };
                Ok((boundary, side))
            }),
            _ => FileSide::nothing().map(|side| (Boundary::default(), side)),
        };
        let proposal = match &left {
            Ok((boundary, side)) => Proposal {
                boundary: *boundary,
                failed: early.is_some_and(Result::is_err),
                ..self.proposal(side, shape, write)
            },
            Err(_) => Proposal { failed: true, ..Proposal::default() },
        };
        let proposals = self.meeting.show(comm.as_ref(), proposal)?;
        Ok(self.agree(proposals, left.map(|(_, side)| side), seed))
    }

    /// What a meeting comes to.
    fn agree(
        &mut self,
        proposals: Vec<Proposal>,
        left: Result<FileSide, FileError>,
        seed: u64,
    ) -> Agreement {
        self.note = proposals.iter().fold(0, |all, proposal| all | proposal.note);
        match left {
            Err(error) => Agreement::Failed(error),
            Ok(_) if proposals.iter().any(|proposal| proposal.failed) => Agreement::SomeoneFailed,
            Ok(side) => Agreement::Agreed(Agreed { side, proposals, seed }),
        }
    }

    /// What a rank shows that has done its part; made again after there was something to learn.
    fn empty_proposal(&mut self, write: bool) -> EncodedProposal {
        let known = &self.empty_proposals[usize::from(write)];
        if let Some(proposal) = known {
            return proposal.clone();
        }
        let costs = self.model.known().hopeful_costs(write, PieceSize::of(0, 0));
        let proposal = Proposal { reads_back: self.reads_back, costs, ..Proposal::default() };
        self.empty_proposals[usize::from(write)].insert(proposal.into()).clone()
    }

    /// This rank's part, as one request, which may wait if it is a write; what is taken is left out.
    fn carry_out_plain(
        &mut self,
        write: bool,
        may_wait: bool,
        plain: &ContiguousRequest,
        taken: &[Range<u64>],
        work: &mut dyn FnMut(Step<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let range = plain.offset..plain.offset + plain.memory.len() as u64;
        let done = guarded(|| {
            let guard = if write { self.guard_plain(range)? } else { Guard::None };
            // Who sieves must find everything in the file.
            let is_locked = matches!(guard, Guard::Locked { .. });
            let may_wait = may_wait && !is_locked && taken.is_empty();
            let behind = self.behind.as_ref().filter(|_| may_wait);
            let around = ExcludingStore { store: self.store.inner(), taken };
            let store = around.if_needed();
            let done = work(Step::ContiguousRequest { store, plain, behind })?;
            drop(guard);
            Ok(done)
        })?;
        if done.resent > 0 {
            self.account_waiting(done.resent);
        } else {
            self.account_plain(plain, done.bytes);
        }
        Ok(done.bytes)
    }

    /// Whether a write of so many bytes may wait for others.
    fn may_wait(&mut self, len: u64) -> bool {
        let Some(behind) = &self.behind else { return false };
        if in_task() || !WriteBehind::is_for(len) {
            return false;
        }
        let is_one_of_many =
            self.small_writes.goes_on() || self.hints.write_behind == Switch::Enable;
        is_one_of_many && behind.is_ready()
    }

    /// Keeps count of a write that waits where all ranks put theirs.
    fn account_waiting(&mut self, bytes: u64) {
        let stats = Stats { calls: 1, wanted: bytes, resent: bytes, ..Stats::default() };
        self.stats += stats;
        self.usage.count(Method::TwoPhase);
        let (method, in_memory) = (Method::TwoPhase, Some(true));
        self.last = Some(CallReport { method, domains: None, in_memory, stats });
    }

    /// This rank's part, by a method that needs nobody else; what is taken is left out.
    fn carry_out_alone(
        &mut self,
        write: bool,
        side: &FileSide,
        method: Method,
        taken: &[Range<u64>],
        work: &mut dyn FnMut(Step<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let before = self.store.counts();
        let way = self.way_of(method, write, side);
        let local = self.with_buffer(write, side, method, |file, buffer| {
            let around = ExcludingStore { store: file.store.as_ref(), taken };
            let store = around.if_needed();
            guarded(|| work(Step::Alone { store, side, way: &way, buffer }))
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
        work: &mut dyn FnMut(Step<'_>) -> Result<Outcome, FileError>,
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
        let call = TwoPhaseCall {
            comm: comm.as_ref(),
            store: store.as_ref(),
            groups: &ring.groups,
            domains: &domains,
            ring: &ring.ring,
            first: ring.first,
            file: side,
            holes: &holes,
        };
        let remote = call.descriptions()?;
        let outcome = work(Step::TwoPhase { call: &call, remote: &remote })?;
        let own = ring.groups.aggregator[ring.groups.group_of(comm.rank())];
        ring.first += own.map_or(0, |own| domains.windows(own));

        let local = match outcome.error {
            Some(error) => Err(error),
            None => Ok(outcome.bytes),
        };
        let done = if ring.groups.ranks.len() == 1 && comm.size() > 1 {
            // Everyone has waited for the last window: all see the same.
            if ring.ring.has_failed() { disagree(comm.as_ref(), local) } else { local }
        } else {
            self.meeting.conclude(comm.as_ref(), local)
        };
        if done.is_err() {
            ring.ring.forget_failure();
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
            let len = WindowRing::len(ranks, groups.slots, window);
            if let Some(memory) = comm.node_memory(len)? {
                let ring = WindowRing::new(RingMemory::Node(memory), ranks, groups.slots, window);
                let mixed = groups.ranks.len() > 1;
                let ring = if mixed { ring.impatient() } else { ring };
                return Ok(Ring { groups, ring, first: 0 });
            }
        }
        let groups = Groups::new(comm.nodes(), false, &self.hints, &capabilities);
        let window = groups.window.get() as usize;
        // A rank that does not aggregate needs the table only.
        let window = if groups.aggregator[comm.rank()].is_some() { window } else { 0 };
        let ring = WindowRing::own(ranks, groups.slots, window);
        let ring = ring.ok_or_else(|| FileError::NoMemory {
            call: "collective buffering",
            what: format!(
                "{} buffers of {window} bytes; cb_buffer_size may be smaller",
                groups.slots
            ),
        })?;
        Ok(Ring { groups, ring, first: 0 })
    }
}
