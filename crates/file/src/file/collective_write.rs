//! A collective write, step by step: describe → propose → choose → execute → agree.

use std::sync::Arc;
use std::time::Instant;

use striate_layout::characteristics::Method;

use super::collective::{Agreement, CollectiveAccess};
use crate::access::FileSide;
use crate::method_selection::CollectivePlan;
use crate::{Direction, File, FileError, Memory};

const WRITE: Direction = Direction::Write;

impl File {
    /// A collective write at the view.
    pub(super) fn write_collective(
        &mut self,
        offset: u64,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let elided = self.elides_rendezvous(WRITE)?;
        let access = self.describe_part(WRITE, elided, "write_at_all", offset, &from.shape);
        if elided {
            self.write_elided(access, from)
        } else {
            self.write_with_rendezvous(access, from)
        }
    }

    /// A collective write with a rendezvous, for callers that have described their part.
    pub(super) fn write_with_rendezvous(
        &mut self,
        access: CollectiveAccess,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let timer = self.accounting.start_timer();
        let done = self.write_steps(access, from);
        self.accounting.stop_timer(timer);
        if let (Err(_), Some(write_behind)) = (&done, &self.write_behind) {
            // All ranks have returned an error now.
            write_behind.store.clear_failure();
        }
        done
    }

    fn write_steps(
        &mut self,
        access: CollectiveAccess,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.handle.comm);
        // Bytes that two-phase or a sieve reads back must not be under way from this rank; the
        // others do the same.
        self.join_background();
        self.collective.rendezvous.catch_up(comm.as_ref(), WRITE)?;

        // Describe: a part that costs less than the rendezvous is written before it.
        let early = self.write_early(&access, from);

        // Propose.
        let agreed = match self.propose(WRITE, access, &from.shape, early.as_ref())? {
            Agreement::Reached(agreed) => agreed,
            agreement => return self.end_without_plan(WRITE, agreement, early),
        };

        // Choose.
        let Some(plan) = self.choose(WRITE, &agreed) else { return early.unwrap_or(Ok(0)) };

        // Execute and agree.
        let start = Instant::now();
        let done = match plan.method {
            Method::TwoPhase => self.write_two_phase(&agreed.side, &plan, from),
            method => {
                let local = self.write_part(method, &agreed.side, from, &[]);
                self.collective.rendezvous.conclude(comm.as_ref(), local)
            }
        };
        self.learn(WRITE, &plan, start, &done);
        match early {
            Some(early) => done.and(early),
            None => done,
        }
    }

    /// Writes this rank's part at once, if that costs less than the rendezvous.
    fn write_early(
        &mut self,
        access: &CollectiveAccess,
        from: &Memory<'_>,
    ) -> Option<Result<u64, FileError>> {
        match access {
            CollectiveAccess::Contiguous(request) => {
                let may_wait = self.may_wait(request.len());
                Some(self.write_contiguous(request, from, may_wait, &[]))
            }
            CollectiveAccess::Described(Ok(side))
                if self.is_better_alone(WRITE, side, &from.shape) =>
            {
                let method = self.best_alone(WRITE, side, &from.shape);
                Some(self.write_part(method, side, from, &[]))
            }
            CollectiveAccess::Described(_) => None,
        }
    }

    /// Executes a plan in two phases: ranks exchange data, aggregators write it.
    fn write_two_phase(
        &mut self,
        side: &FileSide,
        plan: &CollectivePlan,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let (comm, store) = (Arc::clone(&self.handle.comm), Arc::clone(&self.handle.store));
        let before = store.counts();
        let ring = self.take_ring()?;
        let domains = ring.domains(plan);
        let (check, store) = (plan.hole_check.as_ref(), store.as_ref());
        let outcome = ring.write(comm.as_ref(), store, &domains, side, check, from)?;
        self.finish_two_phase(WRITE, side, ring, &domains, outcome, before)
    }

    /// Writes this rank's part of a collective call that skips the rendezvous. The order of calls
    /// is kept by announcing each part before it is written; see `write_behind/call_order.rs`.
    pub(super) fn write_elided(
        &mut self,
        access: CollectiveAccess,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        self.join_background();
        let comm = Arc::clone(&self.handle.comm);
        let call = self.collective.rendezvous.elision.last_elided_write();
        let write_behind = self.write_behind.as_ref().map(|behind| Arc::clone(&behind.store));
        let (Some(write_behind), Some(call)) = (write_behind, call) else {
            return Err(FileError::caller("ranks without shared memory skipped a rendezvous"));
        };
        match access {
            CollectiveAccess::Contiguous(request) => {
                let announced = write_behind.announce(comm.as_ref(), call, request.range())?;
                let may_wait = self.may_wait(request.len());
                self.write_contiguous(&request, from, may_wait, &announced.overwritten)
            }
            CollectiveAccess::Described(Ok(side)) => {
                let span = side.range().unwrap_or(0..0);
                self.request_rendezvous_if_better(WRITE, &side, &from.shape);
                let announced = write_behind.announce_span(comm.as_ref(), call, span)?;
                let method = self.best_alone(WRITE, &side, &from.shape);
                self.write_part(method, &side, from, &announced.overwritten)
            }
            CollectiveAccess::Described(Err(error)) => {
                drop(write_behind.announce(comm.as_ref(), call, 0..0)?);
                Err(error)
            }
        }
    }
}
