//! Nonblocking data access; `request.rs` says when such calls make progress.
//!
//! A nonblocking collective call is carried out by a *task file*: a [`File`] of its own with the
//! same ranks, store and hints and the view of the moment, which runs as a task of the rank. What
//! collective calls hand on from one to the next (the ring of windows, the count of rendezvous) is
//! lent to the task files as a [`CollectiveHandover`] while there are any, and taken back before
//! the file itself makes a collective call. So the file can be used, and moved, while such a call
//! is under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use striate_comm::Comm;
use striate_comm::task::TaskQueue;
use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counted};

use super::accounting::cost_of;
use super::collective::RingState;
use super::io_threads::{self, BackgroundCalls};
use super::shared_pointer::Pointers;
use crate::memory::Shape;
use crate::method::{self, guarded};
use crate::request::ResultSlot;
use crate::{CallReport, Direction, File, FileError, Request, Source, Stats, Target, Usage};

/// Bytes of an independent call that is cheaper carried out at once than by a thread.
const SMALL: u64 = 64 << 10;

/// Calls of a file that are not complete.
#[derive(Debug)]
pub(super) struct Pending {
    /// Collective ones; a task file has none.
    pub(super) queue: Option<TaskQueue>,
    /// What these need of the file, while there are any.
    handover: Option<Arc<Mutex<CollectiveHandover>>>,
    /// The communicator of these, once there are any.
    comm: Option<Arc<dyn Comm>>,
    /// Independent ones.
    pub(super) background: Arc<BackgroundCalls>,
}

impl Pending {
    pub(super) fn new(comm: &dyn Comm) -> Self {
        let queue = Some(TaskQueue::new(comm.tasks()));
        Self { queue, handover: None, comm: None, background: Arc::default() }
    }

    fn for_task(&self) -> Self {
        let background = Arc::clone(&self.background);
        Self { queue: None, handover: None, comm: None, background }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.as_ref().is_some_and(TaskQueue::is_empty) && self.background.is_idle()
    }
}

/// What collective calls hand on from one to the next.
#[derive(Debug, Default)]
struct CollectiveHandover {
    ring: Option<RingState>,
    calls: u64,
    rendezvous: u64,
    failed: bool,
    stats: Stats,
    usage: Usage,
    last: Option<CallReport>,
}

fn lock(handover: &Mutex<CollectiveHandover>) -> MutexGuard<'_, CollectiveHandover> {
    handover.lock().unwrap_or_else(PoisonError::into_inner)
}

impl File {
    /// Starts to read at `offset` etypes.
    pub fn iread_at<B>(&mut self, offset: u64, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: Target,
    {
        const CALL: &str = "iread_at";
        self.handle.check_mode(Direction::Read, CALL)?;
        self.wait_for_late_ranks();
        let shape = buffer.memory_mut().shape;
        if self.is_small(offset, &shape) {
            let done = guarded(|| self.read_at(offset, buffer.memory_mut()));
            return Ok(Request::done(buffer, done));
        }
        if let Some((overlapping, mut scratch_buffer)) =
            self.describe_overlapping(CALL, offset, &shape)?
        {
            let plan = self.plan_alone(Direction::Read, overlapping.side(), &shape);
            self.accounting.usage.count(plan.method);
            let work = move |store: &dyn Store, buffer: &mut B, scratch: &mut _| {
                let mut to = (&mut scratch_buffer).into();
                let read = method::read(store, overlapping.side(), &mut to, &plan, scratch)?;
                overlapping.copy_to(&scratch_buffer[..read as usize], &mut buffer.memory_mut())
            };
            return Ok(self.on_a_thread(Direction::Read, buffer, work));
        }
        let side = self.describe(CALL, offset, &shape)?;
        let plan = self.plan_alone(Direction::Read, &side, &shape);
        self.accounting.usage.count(plan.method);
        let work = move |store: &dyn Store, buffer: &mut B, scratch: &mut _| {
            method::read(store, &side, &mut buffer.memory_mut(), &plan, scratch)
        };
        Ok(self.on_a_thread(Direction::Read, buffer, work))
    }

    /// Starts to write at `offset` etypes.
    pub fn iwrite_at<B>(&mut self, offset: u64, buffer: B) -> Result<Request<B>, FileError>
    where
        B: Source,
    {
        const CALL: &str = "iwrite_at";
        self.handle.check_mode(Direction::Write, CALL)?;
        self.wait_for_late_ranks();
        let shape = buffer.memory().shape;
        if self.is_small(offset, &shape) {
            let done = guarded(|| self.write_at(offset, buffer.memory()));
            return Ok(Request::done(buffer, done));
        }
        let side = self.describe(CALL, offset, &shape)?;
        let plan = self.plan_alone(Direction::Write, &side, &shape);
        self.accounting.usage.count(plan.method);
        let work = move |store: &dyn Store, buffer: &mut B, scratch: &mut _| {
            method::write(store, &side, &buffer.memory(), &plan, scratch).map(|()| side.len())
        };
        Ok(self.on_a_thread(Direction::Write, buffer, work))
    }

    /// Starts to read at the individual pointer, and advances it by what was asked for.
    pub fn iread<B>(&mut self, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: Target,
    {
        let bytes = buffer.memory_mut().len();
        let request = self.iread_at(self.pointers.individual, buffer)?;
        self.advance(bytes);
        Ok(request)
    }

    /// Starts to write at the individual pointer, and advances it.
    pub fn iwrite<B>(&mut self, buffer: B) -> Result<Request<B>, FileError>
    where
        B: Source,
    {
        let bytes = buffer.memory().len();
        let request = self.iwrite_at(self.pointers.individual, buffer)?;
        self.advance(bytes);
        Ok(request)
    }

    /// Whether the access is one request that is over before a thread could start it.
    fn is_small(&self, offset: u64, shape: &Shape) -> bool {
        shape.len() <= SMALL
            && !self.handle.store.capabilities().typed
            && self.contiguous_request(offset, shape).is_some()
    }

    /// Starts to read at `offset` etypes. Collective: ranks start such calls in the same order, and
    /// may wait for them in any order.
    pub fn iread_at_all<B>(&mut self, offset: u64, mut buffer: B) -> Request<B>
    where
        B: Target,
    {
        self.start_collective(move |file| {
            let done = guarded(|| file.read_collective(offset, buffer.memory_mut()));
            (buffer, done)
        })
    }

    /// Starts to write at `offset` etypes. Collective: ranks start such calls in the same order,
    /// and may wait for them in any order.
    pub fn iwrite_at_all<B>(&mut self, offset: u64, buffer: B) -> Request<B>
    where
        B: Source,
    {
        self.start_collective(move |file| {
            let done = guarded(|| file.write_collective(offset, &buffer.memory()));
            (buffer, done)
        })
    }

    /// Takes part in the nonblocking collective call that the other ranks start with an error in
    /// place of an access, as [`File::decline`] does in blocking ones. The requests of all ranks
    /// end with an error.
    pub fn idecline(&mut self, error: FileError) -> Request<()> {
        self.start_collective(move |file| {
            let comm = Arc::clone(&file.handle.comm);
            ((), file.collective.rendezvous.conclude(comm.as_ref(), Err(error)))
        })
    }

    /// Drives nonblocking collective calls as far as possible without waiting for other ranks.
    ///
    /// It can be called from wherever MPI may be called, also while MPI waits for something else.
    pub fn progress(&mut self) {
        let Some(queue) = &self.pending.queue else { return };
        queue.progress();
        if queue.is_empty() {
            self.take_handover_back();
        }
    }

    /// Waits for a request, and returns its buffer and the bytes moved. For a collective request
    /// all ranks wait sooner or later. Calls that this rank has started on other files make
    /// progress meanwhile.
    #[expect(clippy::needless_pass_by_value, reason = "a request is waited for once")]
    pub fn wait<B>(&mut self, request: Request<B>) -> (B, Result<u64, FileError>) {
        // An independent request must not wait for other ranks.
        if request.collective
            && let Some(queue) = &self.pending.queue
        {
            // It only fails in a task, and no task waits for another.
            let _ = queue.drive(|| request.slot.is_filled());
            if queue.is_empty() {
                self.take_handover_back();
            }
        }
        request.slot.take()
    }

    /// Has a task file carry out `call`, after the calls that were started before.
    fn start_collective<B: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Self) -> (B, Result<u64, FileError>) + Send + 'static,
    ) -> Request<B> {
        let slot = ResultSlot::new();
        let result = Arc::clone(&slot);
        let handover = self.pending.handover.take().unwrap_or_else(|| {
            let mut handover = self.hand_over();
            // What was spent so far stays where it can be asked for.
            self.accounting.stats = std::mem::take(&mut handover.stats);
            self.accounting.usage = std::mem::take(&mut handover.usage);
            self.accounting.last = handover.last.take();
            Arc::new(Mutex::new(handover))
        });
        let comm = self.comm_of_tasks();
        let (mut task_file, shared) = (self.task_file(comm), Arc::clone(&handover));
        self.pending.handover = Some(handover);
        if let Some(queue) = &self.pending.queue {
            queue.push(move || {
                task_file.take_over(std::mem::take(&mut *lock(&shared)));
                let done = call(&mut task_file);
                *lock(&shared) = task_file.hand_over();
                result.fill(done);
            });
        }
        Request { slot, collective: true }
    }

    /// Promises that only this file uses the communicator that it was opened with. Nonblocking
    /// collective calls then use it, too; otherwise the ranks make one for them in the first such
    /// call, which waits for all ranks.
    pub fn own_comm(&mut self) {
        self.pending.comm = Some(Arc::clone(&self.handle.comm));
    }

    /// The communicator of nonblocking calls, whose messages must not come between those of other
    /// calls.
    fn comm_of_tasks(&mut self) -> Arc<dyn Comm> {
        let comm = &self.handle.comm;
        let made = match self.pending.comm.take() {
            Some(comm) => comm,
            None if comm.size() == 1 => Arc::clone(comm),
            None => match comm.split(Some(0), comm.rank() as u64) {
                Ok(Some(comm)) => comm,
                // The ranks cannot reach each other; the call will return that.
                _ => Arc::clone(comm),
            },
        };
        self.pending.comm = Some(Arc::clone(&made));
        made
    }

    /// See the module.
    fn task_file(&mut self, comm: Arc<dyn Comm>) -> Self {
        Self {
            handle: self.handle.for_task(comm),
            view: self.view.clone(),
            pointers: Pointers::none(),
            collective: self.collective.for_task(),
            write_behind: None,
            accounting: self.accounting.for_task(),
            pending: self.pending.for_task(),
            sieve_buffer: None,
        }
    }

    fn hand_over(&mut self) -> CollectiveHandover {
        CollectiveHandover {
            ring: self.collective.ring.take(),
            calls: self.collective.calls,
            rendezvous: self.collective.rendezvous.count,
            failed: self.collective.rendezvous.failed,
            stats: std::mem::take(&mut self.accounting.stats),
            usage: std::mem::take(&mut self.accounting.usage),
            last: self.accounting.last.take(),
        }
    }

    fn take_over(&mut self, handover: CollectiveHandover) {
        self.collective.ring = handover.ring;
        self.collective.calls = handover.calls;
        self.collective.rendezvous.count = handover.rendezvous;
        self.collective.rendezvous.failed = handover.failed;
        self.accounting.stats += handover.stats;
        self.accounting.usage += handover.usage;
        self.accounting.last = handover.last.or(self.accounting.last);
    }

    fn take_handover_back(&mut self) {
        if let Some(handover) = self.pending.handover.take() {
            let handover = std::mem::take(&mut *lock(&handover));
            self.take_over(handover);
        }
    }

    /// Completes the collective calls that were started, before another one.
    pub(super) fn complete_pending(&mut self) {
        if let Some(queue) = &self.pending.queue {
            // As above.
            let _ = queue.drive(|| false);
            self.take_handover_back();
        }
    }

    /// Waits for the independent calls that were started.
    pub(super) fn join_background(&mut self) {
        self.accounting.stats += self.pending.background.join(self.handle.comm.tasks());
    }

    fn on_a_thread<B: Send + 'static>(
        &mut self,
        direction: Direction,
        mut buffer: B,
        work: impl FnOnce(&dyn Store, &mut B, &mut Option<AlignedBuffer>) -> Result<u64, FileError>
        + Send
        + 'static,
    ) -> Request<B> {
        let slot = ResultSlot::new();
        let result = Arc::clone(&slot);
        let inner: Arc<dyn Store> = Arc::clone(&self.handle.store) as _;
        let background = Arc::clone(&self.pending.background);
        background.begin();
        io_threads::submit(Box::new(move || {
            // Counted separately from what the rank does meanwhile.
            let store = Counted::new(inner);
            let done = guarded(|| work(&store, &mut buffer, &mut None));
            let wanted = *done.as_ref().unwrap_or(&0);
            let cost = cost_of(direction, wanted, store.counts());
            drop(store);
            result.fill((buffer, done));
            background.end(cost);
        }));
        Request { slot, collective: false }
    }
}
