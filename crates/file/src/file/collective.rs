//! The steps that collective reads and writes have in common; `collective_read.rs` and
//! `collective_write.rs` are the recipes made of them.
//!
//! A collective call is *describe → propose → choose → execute → agree*. Each rank describes its
//! part of the access. If that is cheaper than a rendezvous, it carries its part out at once. Then
//! all ranks exchange proposals; from these every rank chooses the same method (a pure function,
//! [`plan_collective`]). They execute it, and end alike: if one rank fails, all do.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use striate_comm::task::in_task;
use striate_comm::{Comm, available_cores};
use striate_datatype::{Boundary, Point};
use striate_layout::characteristics::Method;
use striate_layout::file_domain::Domains;
use striate_store::Counts;
use striate_store::store::Store;

use super::accounting::TwoPhaseReport;
use super::describe::ContiguousRequest;
use crate::access::FileSide;
use crate::cost_model::{CostModel, CostTable, PieceSize};
use crate::direction::PerDirection;
use crate::hints::Exchange;
use crate::memory::{Memory, MemoryMut, Shape};
use crate::method::two_phase::node_work::NodeWork;
use crate::method::two_phase::plan::Groups;
use crate::method::two_phase::window_ring::WindowRing;
use crate::method::two_phase::{FailureFlag, GroupsCall, Holes, TwoPhaseCall, TwoPhaseOutcome};
use crate::method_selection::{
    CollectivePlan, HoleCheck, Setting, candidates, local_unit, plan_collective,
};
use crate::rendezvous::{EncodedProposal, Proposal, Rendezvous, error_of, share_error};
use crate::{Direction, File, FileError};

/// What a file keeps from one collective call to the next.
#[derive(Debug)]
pub(super) struct CollectiveState {
    pub(super) rendezvous: Rendezvous,
    /// The collective buffers, made by the first call that needs them.
    pub(super) ring: Option<RingState>,
    /// The proposal of this rank for its next collective call, then the proposals of all ranks.
    pub(super) note: u8,
    /// Draws the points at which boundary sums are taken.
    pub(super) seed: u64,
    pub(super) calls: u64,
    /// The costs, the same on all ranks, so that they also come to the same decisions without a
    /// rendezvous.
    pub(super) costs: CostTable,
    /// What rank 0 learns from collective calls.
    pub(super) model: CostModel,
    /// Whether the last contiguous request of a collective call was better made without a
    /// rendezvous.
    alone: PerDirection<Cell<Option<AloneAnswer>>>,
    /// The proposal of a rank that has carried out its part.
    empty_proposals: PerDirection<Option<EncodedProposal>>,
}

/// Whether requests of a size are better made without a rendezvous.
#[derive(Clone, Copy, Debug)]
struct AloneAnswer {
    size: PieceSize,
    is_better: bool,
}

impl CollectiveState {
    pub(super) fn new(rendezvous: Rendezvous, seed: u64) -> Self {
        Self {
            rendezvous,
            ring: None,
            note: 0,
            seed,
            calls: 0,
            costs: CostTable::default(),
            model: CostModel::default(),
            alone: PerDirection::default(),
            empty_proposals: PerDirection::default(),
        }
    }

    /// The same for a nonblocking call. The ring and the counts are handed over when the call runs.
    pub(super) fn for_task(&mut self) -> Self {
        Self {
            costs: self.costs,
            model: self.model.clone(),
            ..Self::new(self.rendezvous.for_task(), self.seed)
        }
    }

    /// Forgets what follows from the hints, which have changed.
    pub(super) fn hints_have_changed(&mut self) {
        self.ring = None;
        self.alone = PerDirection::default();
    }
}

/// The collective buffers of this rank's group.
#[derive(Debug)]
pub(super) struct RingState {
    groups: Groups,
    buffers: CollectiveBuffers,
}

#[derive(Debug)]
enum CollectiveBuffers {
    /// Of the only group: a ring of windows, and the number of its next window.
    Ring { windows: WindowRing, next: u64 },
    /// Of one of several groups.
    Work(NodeWork),
}

impl CollectiveBuffers {
    fn has_failed(&self) -> bool {
        match self {
            Self::Ring { windows, .. } => windows.has_failed(),
            Self::Work(work) => work.has_failed(),
        }
    }

    fn clear_failure(&self) {
        match self {
            Self::Ring { windows, .. } => windows.clear_failure(),
            Self::Work(work) => work.clear_failure(),
        }
    }
}

impl RingState {
    /// A two-phase write with these buffers. Collective.
    pub(super) fn write(
        &self,
        comm: &dyn Comm,
        store: &dyn Store,
        domains: &Domains,
        file: &FileSide,
        hole_check: Option<&HoleCheck>,
        from: &Memory<'_>,
    ) -> Result<TwoPhaseOutcome, FileError> {
        let groups = &self.groups;
        match &self.buffers {
            CollectiveBuffers::Ring { windows, next } => {
                let holes = &Holes::find(comm, domains, file, hole_check)?;
                let (ring, first) = (windows, *next);
                TwoPhaseCall { comm, store, groups, domains, ring, first, file, holes }.write(from)
            }
            CollectiveBuffers::Work(work) => {
                GroupsCall { comm, store, groups, domains, work, file, hole_check }.write(from)
            }
        }
    }

    /// A two-phase read with these buffers. Collective.
    pub(super) fn read(
        &self,
        comm: &dyn Comm,
        store: &dyn Store,
        domains: &Domains,
        file: &FileSide,
        to: &mut MemoryMut<'_>,
    ) -> Result<TwoPhaseOutcome, FileError> {
        let groups = &self.groups;
        match &self.buffers {
            CollectiveBuffers::Ring { windows, next } => {
                let (ring, first, holes) = (windows, *next, &Holes::None);
                TwoPhaseCall { comm, store, groups, domains, ring, first, file, holes }.read(to)
            }
            CollectiveBuffers::Work(work) => {
                let hole_check = None;
                GroupsCall { comm, store, groups, domains, work, file, hole_check }.read(to)
            }
        }
    }

    /// The file domains of a planned access.
    pub(super) fn domains(&self, plan: &CollectivePlan) -> Domains {
        self.groups.domains(plan.range.clone(), plan.local_unit)
    }
}

/// A rank's part of a collective call.
pub(super) enum CollectiveAccess {
    /// One request, for which no rendezvous is needed.
    Contiguous(ContiguousRequest),
    /// These bytes of the file, or an error in place of them.
    Described(Result<FileSide, FileError>),
}

/// The decision that follows from the proposals of all ranks.
pub(super) enum Agreement {
    /// This rank cannot take part.
    Failed(FileError),
    /// Another rank cannot take part, or has failed before.
    OtherFailed,
    /// All ranks have carried out their parts.
    AllDone,
    /// There is something to do together.
    Reached(Agreed),
}

/// What is left to do, and what all ranks know of it.
pub(super) struct Agreed {
    /// This rank's part.
    pub(super) side: FileSide,
    proposals: Vec<Proposal>,
    /// Determines the point at which the boundary sums of this call were taken.
    seed: u64,
}

impl File {
    /// Whether this call at a view skips the rendezvous. All ranks get the same answer.
    pub(super) fn elides_rendezvous(&mut self, direction: Direction) -> Result<bool, FileError> {
        Ok(self.collective.rendezvous.elision.elides(self.handle.comm.as_ref(), direction)?)
    }

    /// Describes this rank's part of a call at the view. It is one contiguous request if that is
    /// better made without a rendezvous, or if there is none (`elided`).
    pub(super) fn describe_part(
        &self,
        direction: Direction,
        elided: bool,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> CollectiveAccess {
        if let Err(error) = self.handle.check_mode(direction, call) {
            return CollectiveAccess::Described(Err(error));
        }
        match self.contiguous_request(offset, shape) {
            Some(request) if elided || self.request_is_better_alone(direction, shape.len()) => {
                CollectiveAccess::Contiguous(request)
            }
            _ => CollectiveAccess::Described(self.describe(call, offset, shape)),
        }
    }

    /// Requests a rendezvous for the next calls, if this one should have had it.
    pub(super) fn request_rendezvous_if_better(
        &self,
        direction: Direction,
        side: &FileSide,
        shape: &Shape,
    ) {
        if side.len() > 0 && !self.is_better_alone(direction, side, shape) {
            self.collective.rendezvous.elision.request_rendezvous();
        }
    }

    /// Whether a rank carries out its part at once: nothing is to be gained by other ranks, or the
    /// access costs less than a rendezvous.
    pub(super) fn is_better_alone(
        &self,
        direction: Direction,
        side: &FileSide,
        shape: &Shape,
    ) -> bool {
        if let Some(answer) = self.hints_decide_alone(direction) {
            return answer;
        }
        let size = PieceSize::of(side.len(), 1);
        if side.regions() == 1 && shape.runs() == 1 {
            return self.is_cheaper_than_rendezvous(direction, size);
        }
        let seconds = self.estimate_alone(direction, side, shape).1;
        seconds < self.collective.costs.costs(direction, size).rendezvous
    }

    /// The same for one request of so many bytes.
    fn request_is_better_alone(&self, direction: Direction, len: u64) -> bool {
        let size = PieceSize::of(len, 1);
        let known = self.collective.alone.get(direction);
        if let Some(answer) = known.get()
            && answer.size == size
        {
            return answer.is_better;
        }
        let is_better = self
            .hints_decide_alone(direction)
            .unwrap_or_else(|| self.is_cheaper_than_rendezvous(direction, size));
        known.set(Some(AloneAnswer { size, is_better }));
        is_better
    }

    /// Whether every part must be carried out alone, or none may; `None` if it depends on the
    /// access.
    fn hints_decide_alone(&self, direction: Direction) -> Option<bool> {
        let setting = Setting { tiled: true, ..self.collective_setting(direction) };
        let (hints, handle) = (&self.handle.hints, &self.handle);
        let methods = candidates(hints, &setting, !handle.atomic, handle.reads_back);
        if !methods.contains(&Method::TwoPhase) {
            return Some(true);
        }
        (methods.len() == 1).then_some(false)
    }

    /// Whether a rendezvous costs more than one request. The request stays one by any method, so
    /// only the system call counts; the bytes have to be moved anyway.
    fn is_cheaper_than_rendezvous(&self, direction: Direction, size: PieceSize) -> bool {
        let costs = self.collective.costs.costs(direction, size);
        let request = if direction.is_write() { costs.contended_op } else { costs.read_op };
        request < costs.rendezvous
    }

    fn collective_setting(&self, direction: Direction) -> Setting {
        let (ranks, nodes) = (self.handle.comm.size(), self.handle.node_count());
        let shares_memory = self.handle.hints.exchange == Exchange::Auto && nodes < ranks;
        let ring = self.collective.ring.as_ref();
        Setting {
            in_memory: ring.map_or(shares_memory, |ring| ring.groups.in_memory),
            ..self.setting(direction, ranks, nodes)
        }
    }

    /// What a method is chosen by besides the proposals.
    pub(super) fn setting(&self, direction: Direction, ranks: usize, nodes: usize) -> Setting {
        let hints = &self.handle.hints;
        Setting {
            direction,
            capabilities: self.handle.store.capabilities(),
            ranks_per_node: ranks as f64 / nodes as f64,
            nodes: nodes as f64,
            cores: available_cores() as f64,
            in_memory: true,
            new_rings: if self.collective.ring.is_some() { 0.0 } else { 1.0 },
            tiled: false,
            window: hints.cb_buffer_size.unwrap_or(1 << 20) as f64,
            sieve_buffer: hints.sieve_buffer(direction) as f64,
            list_regions: hints.list_regions as f64,
            local_unit: None,
        }
    }

    /// The numbers of an access, as other ranks would get them.
    pub(super) fn proposal(
        &self,
        direction: Direction,
        side: &FileSide,
        shape: &Shape,
    ) -> Proposal {
        let range = side.range().unwrap_or(0..0);
        let regions = side.regions();
        let pieces = regions.max(shape.runs());
        let size = PieceSize::of(side.len(), pieces);
        // Rank 0 proposes what it has learned since the file was opened.
        let costs = match self.handle.comm.rank() {
            0 => self.collective.model.table().optimistic_costs(direction, size),
            _ => self.collective.costs.costs(direction, size),
        };
        Proposal {
            failed: false,
            reads_back: self.handle.reads_back,
            note: self.collective.note,
            len: side.len(),
            low: range.start,
            high: range.end,
            boundary: Boundary::default(),
            regions,
            pieces,
            costs,
        }
    }

    /// Proposes what is left of this rank's part, and learns the proposals of all ranks. `early` is
    /// the result of a part that was carried out already.
    pub(super) fn propose(
        &mut self,
        direction: Direction,
        access: CollectiveAccess,
        shape: &Shape,
        early: Option<&Result<u64, FileError>>,
    ) -> Result<Agreement, FileError> {
        let comm = Arc::clone(&self.handle.comm);
        self.collective.calls += 1;
        let seed = self.collective.seed.wrapping_add(self.collective.calls);
        if matches!(early, Some(Ok(_))) && self.collective.note == 0 {
            let proposal = self.empty_proposal(direction);
            let proposals = self.collective.rendezvous.propose_nothing(comm.as_ref(), &proposal)?;
            return Ok(match proposals {
                None => Agreement::AllDone,
                Some(proposals) => self.agreement(proposals, FileSide::nothing(), seed),
            });
        }
        let left = match (access, early) {
            (CollectiveAccess::Described(side), None) => side.and_then(|side| {
                let boundary = match side.range() {
                    Some(range) if direction.is_write() => {
                        side.boundary(&range, &Point::new(seed))?
                    }
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
                ..self.proposal(direction, side, shape)
            },
            Err(_) => Proposal { failed: true, ..Proposal::default() },
        };
        let proposals = self.collective.rendezvous.propose(comm.as_ref(), proposal)?;
        Ok(self.agreement(proposals, left.map(|(_, side)| side), seed))
    }

    fn agreement(
        &mut self,
        proposals: Vec<Proposal>,
        left: Result<FileSide, FileError>,
        seed: u64,
    ) -> Agreement {
        self.collective.note = proposals.iter().fold(0, |all, proposal| all | proposal.note);
        match left {
            Err(error) => Agreement::Failed(error),
            Ok(_) if proposals.iter().any(|proposal| proposal.failed) => Agreement::OtherFailed,
            Ok(side) => Agreement::Reached(Agreed { side, proposals, seed }),
        }
    }

    /// The proposal of a rank that has carried out its part; made again when there was something to
    /// learn.
    fn empty_proposal(&mut self, direction: Direction) -> EncodedProposal {
        if let Some(known) = self.collective.empty_proposals.get(direction) {
            return known.clone();
        }
        let size = PieceSize::of(0, 0);
        let costs = self.collective.model.table().optimistic_costs(direction, size);
        let reads_back = self.handle.reads_back;
        let proposal = Proposal { reads_back, costs, ..Proposal::default() };
        self.collective.empty_proposals.get_mut(direction).insert(proposal.into()).clone()
    }

    /// Ends a call in which there is nothing to do together.
    pub(super) fn end_without_plan(
        &mut self,
        direction: Direction,
        agreement: Agreement,
        early: Option<Result<u64, FileError>>,
    ) -> Result<u64, FileError> {
        let early = early.unwrap_or(Ok(0));
        let comm = self.handle.comm.as_ref();
        match agreement {
            Agreement::Failed(error) => share_error(comm, early.and(Err(error))),
            Agreement::OtherFailed => share_error(comm, early),
            Agreement::AllDone | Agreement::Reached(_) => {
                // Later writes are put in order by write-behind; reads need no order.
                let may_be_elided = !direction.is_write() || self.write_behind.is_some();
                let idle = may_be_elided.then_some(direction);
                self.collective.rendezvous.elision.record_call(idle);
                early
            }
        }
    }

    /// Chooses how the call is carried out; `None` if no rank has anything left to do. All ranks
    /// choose the same.
    pub(super) fn choose(
        &mut self,
        direction: Direction,
        agreed: &Agreed,
    ) -> Option<CollectivePlan> {
        self.collective.rendezvous.elision.record_call(None);
        let (hints, atomic) = (&self.handle.hints, self.handle.atomic);
        let capabilities = self.handle.store.capabilities();
        let nodes = self.handle.comm.nodes();
        let local_unit = if Groups::may_follow_blocks(nodes, hints, &capabilities) {
            local_unit(&agreed.proposals, nodes)
        } else {
            None
        };
        let setting = Setting { local_unit, ..self.collective_setting(direction) };
        plan_collective(&agreed.proposals, agreed.seed, hints, setting, atomic)
    }

    /// Rank 0 learns from a call how good the estimate of its method was. Not from a nonblocking
    /// one, which takes as long as the program lets it.
    pub(super) fn learn(
        &mut self,
        direction: Direction,
        plan: &CollectivePlan,
        start: Instant,
        done: &Result<u64, FileError>,
    ) {
        if plan.had_choice && done.is_ok() && !in_task() {
            let took = start.elapsed().as_secs_f64();
            self.collective.model.learn(direction, plan.size, plan.method, plan.estimate, took);
            self.collective.empty_proposals = PerDirection::default();
        }
    }

    /// The ring of the calls before, or a new one. Collective.
    pub(super) fn take_ring(&mut self) -> Result<RingState, FileError> {
        match self.collective.ring.take() {
            Some(ring) => Ok(ring),
            None => share_error(self.handle.comm.as_ref(), self.make_ring()),
        }
    }

    /// Decides how data travels, and makes the ring; collective.
    fn make_ring(&self) -> Result<RingState, FileError> {
        let (comm, hints) = (self.handle.comm.as_ref(), &self.handle.hints);
        let capabilities = self.handle.store.capabilities();
        let ranks = comm.size();
        let some_share_memory = comm.nodes().iter().max().is_some_and(|max| max + 1 < ranks);
        if hints.exchange == Exchange::Auto && some_share_memory {
            let groups = Groups::new(comm.nodes(), true, hints, &capabilities);
            if groups.ranks.len() == 1 {
                let (slots, window) = (groups.slots, groups.window.get() as usize);
                if let Some(memory) = comm.node_memory(WindowRing::len(ranks, slots, window))? {
                    let windows = WindowRing::shared(memory, ranks, slots, window);
                    let buffers = CollectiveBuffers::Ring { windows, next: 0 };
                    return Ok(RingState { groups, buffers });
                }
            } else {
                let sizes = groups.work_sizes(groups.group_of(comm.rank()));
                // All groups get as much as the largest needs.
                let all = (0..groups.ranks.len()).map(|group| groups.work_sizes(group).len());
                if let Some(memory) = comm.node_memory(all.max().unwrap_or(0))? {
                    let buffers = CollectiveBuffers::Work(NodeWork::shared(memory, sizes));
                    return Ok(RingState { groups, buffers });
                }
            }
        }
        let groups = Groups::new(comm.nodes(), false, hints, &capabilities);
        let (window, slots) = (groups.window.get() as usize, groups.slots);
        let buffers = if groups.ranks.len() > 1 {
            let sizes = groups.work_sizes(groups.group_of(comm.rank()));
            NodeWork::private(sizes).map(CollectiveBuffers::Work)
        } else {
            let windows = WindowRing::private(ranks, slots, window);
            windows.map(|windows| CollectiveBuffers::Ring { windows, next: 0 })
        };
        let buffers = buffers.ok_or_else(|| FileError::NoMemory {
            call: "collective buffering",
            what: format!("{slots} buffers of {window} bytes; cb_buffer_size may be smaller"),
        })?;
        Ok(RingState { groups, buffers })
    }

    /// Ends a two-phase call alike on all ranks, counts it, and puts the ring back. Collective.
    pub(super) fn finish_two_phase(
        &mut self,
        direction: Direction,
        side: &FileSide,
        mut ring: RingState,
        domains: &Domains,
        outcome: TwoPhaseOutcome,
        before: Counts,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.handle.comm);
        if let CollectiveBuffers::Ring { next, .. } = &mut ring.buffers {
            let own = ring.groups.aggregator[ring.groups.group_of(comm.rank())];
            *next += own.map_or(0, |own| domains.windows(own));
        }
        let local = match outcome.error {
            Some(error) => Err(error),
            None => Ok(outcome.bytes),
        };
        let done = if ring.groups.ranks.len() == 1 && comm.size() > 1 {
            // All ranks have waited for the last window: all know the same.
            if ring.buffers.has_failed() { share_error(comm.as_ref(), local) } else { local }
        } else {
            self.collective.rendezvous.conclude(comm.as_ref(), local)
        };
        if done.is_err() {
            ring.buffers.clear_failure();
        }
        let counts = self.handle.store.counts() - before;
        let report = TwoPhaseReport {
            domains: ring.groups.kind.name(),
            in_memory: ring.groups.in_memory,
            resent: outcome.resent,
        };
        self.accounting.record_call(direction, side, Method::TwoPhase, counts, Some(&report));
        self.collective.ring = Some(ring);
        done
    }

    /// [`File::decline`] where the other ranks read or write at their views: if that call skips the
    /// rendezvous, they do not learn of it.
    pub fn decline_access(&mut self, direction: Direction, error: FileError) -> FileError {
        self.complete_pending();
        match self.elides_rendezvous(direction) {
            Err(error) => error,
            Ok(false) => self.decline(error),
            Ok(true) if direction.is_write() => {
                let nothing = CollectiveAccess::Described(Err(error));
                error_of(self.write_elided(nothing, &(&[]).into()))
            }
            Ok(true) => error,
        }
    }
}
