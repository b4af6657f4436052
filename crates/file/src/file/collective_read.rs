//! A collective read, step by step: describe → propose → choose → execute → agree.

use std::sync::Arc;
use std::time::Instant;

use striate_layout::characteristics::Method;

use super::collective::{Agreement, CollectiveAccess};
use crate::access::FileSide;
use crate::method::guarded;
use crate::method_selection::CollectivePlan;
use crate::{Direction, File, FileError, MemoryMut};

const READ: Direction = Direction::Read;
const CALL: &str = "read_at_all";

impl File {
    /// A collective read at the view.
    pub(super) fn read_collective(
        &mut self,
        offset: u64,
        mut to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        if self.elides_rendezvous(READ)? {
            return self.read_elided(offset, to);
        }
        let checked = self.handle.check_mode(READ, CALL);
        match checked.and_then(|()| self.describe_overlapping(CALL, offset, &to.shape)) {
            Ok(None) => {
                let access = self.describe_part(READ, false, CALL, offset, &to.shape);
                self.read_with_rendezvous(access, &mut to)
            }
            // Bytes that the view shows more than once are read once, and then copied to all their
            // places.
            Ok(Some((overlapping, mut buffer))) => {
                let access = CollectiveAccess::Described(Ok(overlapping.side().clone()));
                let read = self.read_with_rendezvous(access, &mut (&mut buffer).into())?;
                overlapping.copy_to(&buffer[..read as usize], &mut to)
            }
            Err(error) => {
                self.read_with_rendezvous(CollectiveAccess::Described(Err(error)), &mut to)
            }
        }
    }

    /// Reads this rank's part of a collective call that skips the rendezvous: an independent read.
    fn read_elided(&mut self, offset: u64, to: MemoryMut<'_>) -> Result<u64, FileError> {
        if self.contiguous_request(offset, &to.shape).is_none()
            && let Ok(side) = self.describe(CALL, offset, &to.shape)
        {
            self.request_rendezvous_if_better(READ, &side, &to.shape);
        }
        self.read_at(offset, to)
    }

    /// A collective read with a rendezvous, for callers that have described their part.
    pub(super) fn read_with_rendezvous(
        &mut self,
        access: CollectiveAccess,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let timer = self.accounting.start_timer();
        let done = self.read_steps(access, to);
        self.accounting.stop_timer(timer);
        done
    }

    fn read_steps(
        &mut self,
        access: CollectiveAccess,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.handle.comm);
        self.collective.rendezvous.catch_up(comm.as_ref(), READ)?;

        // Describe: a part that costs less than the rendezvous is read before it.
        let early = self.read_early(&access, to);

        // Propose.
        let agreed = match self.propose(READ, access, &to.shape, early.as_ref())? {
            Agreement::Reached(agreed) => agreed,
            agreement => return self.end_without_plan(READ, agreement, early),
        };

        // Choose.
        let Some(plan) = self.choose(READ, &agreed) else { return early.unwrap_or(Ok(0)) };

        // Execute and agree.
        let start = Instant::now();
        let done = match plan.method {
            Method::TwoPhase => self.read_two_phase(&agreed.side, &plan, to),
            method => {
                let local = self.read_part(method, &agreed.side, to);
                self.collective.rendezvous.conclude(comm.as_ref(), local)
            }
        };
        self.learn(READ, &plan, start, &done);
        match early {
            Some(early) => done.and(early),
            None => done,
        }
    }

    /// Reads this rank's part at once, if that costs less than the rendezvous.
    fn read_early(
        &mut self,
        access: &CollectiveAccess,
        to: &mut MemoryMut<'_>,
    ) -> Option<Result<u64, FileError>> {
        match access {
            CollectiveAccess::Contiguous(request) => {
                Some(guarded(|| self.read_contiguous(request, to)))
            }
            CollectiveAccess::Described(Ok(side))
                if self.is_better_alone(READ, side, &to.shape) =>
            {
                let method = self.best_alone(READ, side, &to.shape);
                Some(self.read_part(method, side, to))
            }
            CollectiveAccess::Described(_) => None,
        }
    }

    /// Executes a plan in two phases: aggregators read, ranks exchange the data.
    fn read_two_phase(
        &mut self,
        side: &FileSide,
        plan: &CollectivePlan,
        to: &mut MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let (comm, store) = (Arc::clone(&self.handle.comm), Arc::clone(&self.handle.store));
        let before = store.counts();
        let ring = self.take_ring()?;
        let domains = ring.domains(plan);
        let outcome = ring.read(comm.as_ref(), store.as_ref(), &domains, side, to)?;
        self.finish_two_phase(READ, side, ring, &domains, outcome, before)
    }
}
