//! How a rank carries out an access by itself: describe, choose the cheapest method, execute,
//! count.

use std::ops::Range;
use std::sync::Arc;

use striate_comm::available_cores;
use striate_layout::characteristics::Method;
use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counts};

use super::describe::ContiguousRequest;
use crate::access::FileSide;
use crate::cost_model::PieceSize;
use crate::memory::Shape;
use crate::method::{self, HeldGuard, IndependentPlan, WriteGuard, guarded};
use crate::method_selection::{Setting, candidates, choose};
use crate::write_behind::ExcludingStore;
use crate::{Direction, File, FileError, Memory, MemoryMut};

impl File {
    /// Independent calls come after the collective writes before them, as far as that needs no long
    /// wait.
    #[inline]
    pub(super) fn wait_for_late_ranks(&self) {
        let Some(call) = self.collective.rendezvous.elision.last_elided_write() else { return };
        if let Some(write_behind) = &self.write_behind {
            write_behind.wait_for_late_ranks(call);
        }
    }

    /// Reads one contiguous request.
    #[inline]
    pub(super) fn read_contiguous(
        &mut self,
        request: &ContiguousRequest,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let store = self.handle.store.inner();
        let read = store.read_at(request.offset, &mut to.bytes()[request.memory.clone()])? as u64;
        self.accounting.record_contiguous(request.len(), read);
        Ok(read)
    }

    /// Writes one contiguous request of an independent call.
    pub(super) fn write_contiguous_alone(
        &mut self,
        request: &ContiguousRequest,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let may_wait = self.may_wait(request.len());
        if !may_wait && !self.needs_guard() {
            // Most writes of most programs are this, and no more.
            let bytes = &from.bytes()[request.memory.clone()];
            self.handle.store.inner().write_at(request.offset, bytes)?;
            self.accounting.record_contiguous(request.len(), request.len());
            return Ok(request.len());
        }
        self.write_contiguous(request, from, may_wait, &[])
    }

    /// Writes one contiguous request, or buffers it if it may wait. Bytes of `excluded` ranges are
    /// left out.
    pub(super) fn write_contiguous(
        &mut self,
        request: &ContiguousRequest,
        from: &Memory<'_>,
        may_wait: bool,
        excluded: &[Range<u64>],
    ) -> Result<u64, FileError> {
        let bytes = &from.bytes()[request.memory.clone()];
        let buffered = guarded(|| {
            let guard = self.guard_contiguous(request.range())?;
            // A rank that sieves must find everything in the file.
            let may_wait = may_wait && !guard.is_locked() && excluded.is_empty();
            let buffered = match self.write_behind.as_ref().filter(|_| may_wait) {
                Some(write_behind) => write_behind.store.buffer(request.offset, bytes)?,
                None => false,
            };
            if !buffered {
                let store = ExcludingStore { store: self.handle.store.inner(), excluded };
                store.if_needed().write_at(request.offset, bytes)?;
            }
            drop(guard);
            Ok(buffered)
        })?;
        if buffered {
            self.accounting.record_buffered(request.len());
        } else {
            self.accounting.record_contiguous(request.len(), request.len());
        }
        Ok(request.len())
    }

    /// Whether a write of so many bytes may wait in memory.
    pub(super) fn may_wait(&mut self, len: u64) -> bool {
        let hint = self.handle.hints.write_behind;
        self.write_behind.as_mut().is_some_and(|write_behind| write_behind.may_wait(len, hint))
    }

    #[inline]
    fn needs_guard(&self) -> bool {
        self.handle.sieved && (self.handle.comm.size() > 1 || !self.pending.background.is_idle())
    }

    /// What one contiguous write has to hold.
    fn guard_contiguous(&self, range: Range<u64>) -> Result<HeldGuard<'_>, FileError> {
        if !self.needs_guard() {
            return Ok(HeldGuard::None);
        }
        let node = self.collective.rendezvous.node();
        let node = node.map(|node| (&**node, self.handle.comm.rank()));
        HeldGuard::take(self.handle.store.as_ref(), range, node)
    }

    fn write_guard(&self) -> WriteGuard {
        if self.needs_guard() {
            let node = self.collective.rendezvous.node();
            WriteGuard::Lock(node.map(|node| (Arc::clone(node), self.handle.comm.rank())))
        } else {
            WriteGuard::None
        }
    }

    /// Reads an access by the cheapest method, in an independent call.
    pub(super) fn read_described(
        &mut self,
        side: &FileSide,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let before = self.handle.store.counts();
        let plan = self.plan_alone(Direction::Read, side, &to.shape);
        let read = self.execute_read(&plan, side, to)?;
        self.record_call(Direction::Read, side, plan.method, before);
        Ok(read)
    }

    /// Writes an access by the cheapest method, in an independent call.
    pub(super) fn write_described(
        &mut self,
        side: &FileSide,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let before = self.handle.store.counts();
        let plan = self.plan_alone(Direction::Write, side, &from.shape);
        self.execute_write(&plan, side, from, &[])?;
        self.record_call(Direction::Write, side, plan.method, before);
        Ok(side.len())
    }

    /// Reads this rank's part of a collective call by a method that needs no other rank.
    pub(super) fn read_part(
        &mut self,
        method: Method,
        side: &FileSide,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let before = self.handle.store.counts();
        let plan = self.plan_method(method, Direction::Read, side);
        let done = guarded(|| self.execute_read(&plan, side, to));
        self.record_call(Direction::Read, side, method, before);
        done
    }

    /// Writes this rank's part of a collective call by a method that needs no other rank. Bytes of
    /// `excluded` ranges are left out.
    pub(super) fn write_part(
        &mut self,
        method: Method,
        side: &FileSide,
        from: &Memory<'_>,
        excluded: &[Range<u64>],
    ) -> Result<u64, FileError> {
        let before = self.handle.store.counts();
        let plan = self.plan_method(method, Direction::Write, side);
        let done = guarded(|| self.execute_write(&plan, side, from, excluded));
        self.record_call(Direction::Write, side, method, before);
        done.map(|()| side.len())
    }

    fn execute_read(
        &mut self,
        plan: &IndependentPlan,
        side: &FileSide,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let mut buffer = self.take_sieve_buffer(Direction::Read, side, plan.method);
        let done = method::read(self.handle.store.as_ref(), side, to, plan, &mut buffer);
        self.sieve_buffer = buffer;
        done
    }

    fn execute_write(
        &mut self,
        plan: &IndependentPlan,
        side: &FileSide,
        from: &Memory<'_>,
        excluded: &[Range<u64>],
    ) -> Result<(), FileError> {
        let mut buffer = self.take_sieve_buffer(Direction::Write, side, plan.method);
        let store = ExcludingStore { store: self.handle.store.as_ref(), excluded };
        let done = method::write(store.if_needed(), side, from, plan, &mut buffer);
        self.sieve_buffer = buffer;
        done
    }

    fn record_call(
        &mut self,
        direction: Direction,
        side: &FileSide,
        method: Method,
        before: Counts,
    ) {
        let counts = self.handle.store.counts() - before;
        self.accounting.record_call(direction, side, method, counts, None);
    }

    /// The sieve buffer that is reused from call to call, of the right size if the method needs it.
    fn take_sieve_buffer(
        &mut self,
        direction: Direction,
        side: &FileSide,
        method: Method,
    ) -> Option<AlignedBuffer> {
        let buffer = self.sieve_buffer.take();
        if method != Method::Sieve {
            return buffer;
        }
        let span = side.range().map_or(1, |range| range.end - range.start);
        let len = self.handle.hints.sieve_buffer(direction).min(span).max(1) as usize;
        buffer.filter(|buffer| buffer.len() == len).or_else(|| Some(AlignedBuffer::new(len)))
    }

    /// Plans an independent access: the cheapest method, and its parameters.
    pub(super) fn plan_alone(
        &self,
        direction: Direction,
        side: &FileSide,
        shape: &Shape,
    ) -> IndependentPlan {
        self.plan_method(self.best_alone(direction, side, shape), direction, side)
    }

    /// The parameters of a method.
    fn plan_method(
        &self,
        method: Method,
        direction: Direction,
        side: &FileSide,
    ) -> IndependentPlan {
        let comm = &self.handle.comm;
        let buffer = self.handle.hints.sieve_buffer(direction);
        let windows = side.range().map_or(0, |range| (range.end - range.start).div_ceil(buffer));
        // Ranks that sieve the same range start at different windows of it.
        let first = u128::from(windows) * comm.rank() as u128 / comm.size() as u128;
        IndependentPlan {
            method,
            list_regions: self.handle.hints.list_regions,
            atomic: self.handle.atomic,
            sieve_window: buffer,
            first_window: first as u64,
            guard: if direction.is_write() { self.write_guard() } else { WriteGuard::None },
            spare_core: self.handle.ranks_of_node() < available_cores(),
        }
    }

    pub(super) fn best_alone(
        &self,
        direction: Direction,
        side: &FileSide,
        shape: &Shape,
    ) -> Method {
        self.estimate_alone(direction, side, shape).0
    }

    /// The cheapest method that needs no other rank, and the seconds it would take.
    pub(super) fn estimate_alone(
        &self,
        direction: Direction,
        side: &FileSide,
        shape: &Shape,
    ) -> (Method, f64) {
        // The other ranks of the node are likely to do the same at the same time.
        let ranks = self.handle.ranks_of_node();
        let setting = Setting { tiled: side.regions() <= 1, ..self.setting(direction, ranks, 1) };
        let mut methods = candidates(&self.handle.hints, &setting, false, self.handle.reads_back);
        if methods.len() > 1 && side.regions() <= 1 && shape.runs() <= 1 {
            // A contiguous access is one request by any method.
            methods = vec![Method::Posix];
        }
        let proposal = self.proposal(direction, side, shape);
        let size = PieceSize::of(proposal.len, proposal.pieces);
        let costs = self.collective.costs.costs(direction, size);
        choose(&methods, &vec![proposal; ranks], &costs, &setting)
    }
}
