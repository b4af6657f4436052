//! Data access that goes on while the program does; `request.rs` says how.
//!
//! A collective call that was begun is carried out by a *deputy*: a file of its own with the same ranks,
//! store and hints and the view of the moment, which gets on as a task of the rank. What collective calls
//! hand on from one to the next (the ring of windows, the numbers of meetings) is lent to the deputies as
//! [`CollectiveHandover`] while there are some, and taken back before the file itself makes a collective call. So the
//! file can be used, and moved, while a deputy is half-way through its call.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use striate_comm::Comm;
use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counted};

use super::collective::Ring;
use super::independent::{cost_of, read_independently, write_independently};
use super::io_threads;
use super::shared_pointer::SharedPointer;
use crate::memory::Shape;
use crate::method::two_phase::guarded;
use crate::request::ResultSlot;
use crate::write_behind::SmallWrites;
use crate::{CallReport, File, FileError, Request, Source, Stats, Target, Usage};

/// Bytes of an independent call that is cheaper carried out at once than by a thread.
const SMALL: u64 = 64 << 10;

/// What collective calls hand on from one to the next.
#[derive(Debug, Default)]
pub(super) struct CollectiveHandover {
    exchange: Option<Ring>,
    calls: u64,
    meetings: u64,
    failed: bool,
    stats: Stats,
    usage: Usage,
    last: Option<CallReport>,
}

fn lock(baggage: &Mutex<CollectiveHandover>) -> MutexGuard<'_, CollectiveHandover> {
    baggage.lock().unwrap_or_else(PoisonError::into_inner)
}

impl File {
    /// Begins to read at `offset` etypes.
    pub fn iread_at<B>(&mut self, offset: u64, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: Target,
    {
        self.check_mode(false, "iread_at")?;
        self.let_catch_up();
        let shape = buffer.memory_mut().shape;
        if self.is_small(offset, &shape) {
            let done = guarded(|| self.read_at(offset, buffer.memory_mut()));
            return Ok(Request::done(buffer, done));
        }
        if let Some((overlap, mut room)) = self.overlap("iread_at", offset, &shape)? {
            let way = self.way(false, overlap.side(), &shape);
            self.usage.count(way.method);
            return Ok(self.on_a_thread(false, buffer, move |store, buffer: &mut B, scratch| {
                let mut to = (&mut room).into();
                let read = read_independently(store, overlap.side(), &mut to, &way, scratch)?;
                overlap.hand_on(&room[..read as usize], &mut buffer.memory_mut())
            }));
        }
        let side = self.side("iread_at", offset, &shape)?;
        let way = self.way(false, &side, &shape);
        self.usage.count(way.method);
        Ok(self.on_a_thread(false, buffer, move |store, buffer: &mut B, scratch| {
            read_independently(store, &side, &mut buffer.memory_mut(), &way, scratch)
        }))
    }

    /// Begins to write at `offset` etypes.
    pub fn iwrite_at<B>(&mut self, offset: u64, buffer: B) -> Result<Request<B>, FileError>
    where
        B: Source,
    {
        self.check_mode(true, "iwrite_at")?;
        self.let_catch_up();
        let shape = buffer.memory().shape;
        if self.is_small(offset, &shape) {
            let done = guarded(|| self.write_at(offset, buffer.memory()));
            return Ok(Request::done(buffer, done));
        }
        let side = self.side("iwrite_at", offset, &shape)?;
        let way = self.way(true, &side, &shape);
        self.usage.count(way.method);
        Ok(self.on_a_thread(true, buffer, move |store, buffer: &mut B, scratch| {
            let from = buffer.memory();
            write_independently(store, &side, &from, &way, scratch).map(|()| side.len())
        }))
    }

    /// Begins to read at the individual pointer, and moves it on by what was asked for.
    pub fn iread<B>(&mut self, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: Target,
    {
        let bytes = buffer.memory_mut().len();
        let request = self.iread_at(self.position, buffer)?;
        self.move_on(bytes);
        Ok(request)
    }

    /// Begins to write at the individual pointer, and moves it on.
    pub fn iwrite<B>(&mut self, buffer: B) -> Result<Request<B>, FileError>
    where
        B: Source,
    {
        let bytes = buffer.memory().len();
        let request = self.iwrite_at(self.position, buffer)?;
        self.move_on(bytes);
        Ok(request)
    }

    /// Whether the access is one request that a thread could not begin before it is done.
    fn is_small(&self, offset: u64, shape: &Shape) -> bool {
        shape.len() <= SMALL
            && !self.store.capabilities().typed
            && self.plain(offset, shape).is_some()
    }

    /// Begins to read at `offset` etypes, together with the other ranks. Collective: ranks begin such
    /// calls in the same order, and may wait for them in any.
    pub fn iread_at_all<B>(&mut self, offset: u64, mut buffer: B) -> Request<B>
    where
        B: Target,
    {
        self.begin_together(move |file| {
            let done = guarded(|| file.read_together(offset, buffer.memory_mut()));
            (buffer, done)
        })
    }

    /// Begins to write at `offset` etypes, together with the other ranks. Collective: ranks begin
    /// such calls in the same order, and may wait for them in any.
    pub fn iwrite_at_all<B>(&mut self, offset: u64, buffer: B) -> Request<B>
    where
        B: Source,
    {
        self.begin_together(move |file| {
            let done = guarded(|| file.write_together(offset, &buffer.memory()));
            (buffer, done)
        })
    }

    /// Takes part in the collective call that the other ranks begin with an error in place of what it
    /// needs, as [`File::decline`] does in those that are not begun. All ranks' requests end with an
    /// error.
    pub fn idecline(&mut self, error: FileError) -> Request<()> {
        self.begin_together(move |file| {
            let comm = Arc::clone(&file.comm);
            ((), file.meeting.conclude(comm.as_ref(), Err(error)))
        })
    }

    /// Drives the collective calls that were begun as far as they get without waiting for other ranks.
    ///
    /// It can be called from wherever MPI may be called, also while MPI waits for something else.
    pub fn progress(&mut self) {
        let Some(queue) = &self.queue else { return };
        queue.progress();
        if queue.is_empty() {
            self.take_back();
        }
    }

    /// Waits for a request, and returns its buffer and the bytes moved. For a collective request all
    /// ranks wait sooner or later. Calls that this rank has begun on other files get on meanwhile.
    #[expect(clippy::needless_pass_by_value, reason = "a request is waited for once")]
    pub fn wait<B>(&mut self, request: Request<B>) -> (B, Result<u64, FileError>) {
        // An independent request must not wait for other ranks.
        if request.collective
            && let Some(queue) = &self.queue
        {
            // It only fails in a task, and no task waits for another.
            let _ = queue.drive(|| request.slot.is_filled());
            if queue.is_empty() {
                self.take_back();
            }
        }
        request.slot.take()
    }

    /// Has a deputy carry out `call`, when those begun before are done.
    fn begin_together<B: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Self) -> (B, Result<u64, FileError>) + Send + 'static,
    ) -> Request<B> {
        let slot = ResultSlot::new();
        let result = Arc::clone(&slot);
        let lent = self.lent.take().unwrap_or_else(|| {
            let mut baggage = self.pack();
            // What was spent so far stays where it can be asked for.
            self.stats = std::mem::take(&mut baggage.stats);
            self.usage = std::mem::take(&mut baggage.usage);
            self.last = baggage.last.take();
            Arc::new(Mutex::new(baggage))
        });
        let comm = self.comm_of_begun();
        let (mut deputy, baggage) = (self.deputy(comm), Arc::clone(&lent));
        self.lent = Some(lent);
        if let Some(queue) = &self.queue {
            queue.push(move || {
                deputy.unpack(std::mem::take(&mut *lock(&baggage)));
                let done = call(&mut deputy);
                *lock(&baggage) = deputy.pack();
                result.fill(done);
            });
        }
        Request { slot, collective: true }
    }

    /// Says that nobody but this file uses the communicator that it was opened with. Then calls that are
    /// begun use it, too; otherwise the ranks make one for them when the first is begun, and wait for
    /// each other then.
    pub fn own_comm(&mut self) {
        self.begun_comm = Some(Arc::clone(&self.comm));
    }

    /// The communicator of calls that are begun: what they do must not come between other calls.
    fn comm_of_begun(&mut self) -> Arc<dyn Comm> {
        let made = match self.begun_comm.take() {
            Some(comm) => comm,
            None if self.comm.size() == 1 => Arc::clone(&self.comm),
            None => match self.comm.split(Some(0), self.comm.rank() as u64) {
                Ok(Some(comm)) => comm,
                // The ranks cannot reach each other; the call will say so.
                _ => Arc::clone(&self.comm),
            },
        };
        self.begun_comm = Some(Arc::clone(&made));
        made
    }

    /// See the module.
    fn deputy(&mut self, comm: Arc<dyn Comm>) -> Self {
        let store: Arc<dyn Store> = Arc::clone(&self.store) as _;
        Self {
            comm,
            begun_comm: None,
            // Counted apart from what the rank does meanwhile.
            store: Arc::new(Counted::new(store)),
            behind: None,
            presence: None,
            small_writes: SmallWrites::default(),
            caught_up: Cell::new(0),
            place: None,
            striping: None,
            mode: self.mode,
            hints: Arc::clone(&self.hints),
            view: self.view.clone(),
            position: 0,
            shared: SharedPointer::none(),
            atomic: self.atomic,
            reads_back: self.reads_back,
            sieved: self.sieved,
            meeting: self.meeting.apart(),
            note: 0,
            exchange: None,
            alone: Default::default(),
            empty_proposals: [None, None],
            seed: self.seed,
            calls: 0,
            costs: self.costs,
            model: self.model.clone(),
            stats: Stats::default(),
            usage: Usage::default(),
            clock: self.clock.clone(),
            last: None,
            buffer: None,
            queue: None,
            lent: None,
            background: Arc::clone(&self.background),
        }
    }

    fn pack(&mut self) -> CollectiveHandover {
        CollectiveHandover {
            exchange: self.exchange.take(),
            calls: self.calls,
            meetings: self.meeting.held,
            failed: self.meeting.failed,
            stats: std::mem::take(&mut self.stats),
            usage: std::mem::take(&mut self.usage),
            last: self.last.take(),
        }
    }

    fn unpack(&mut self, baggage: CollectiveHandover) {
        self.exchange = baggage.exchange;
        self.calls = baggage.calls;
        self.meeting.held = baggage.meetings;
        self.meeting.failed = baggage.failed;
        self.stats += baggage.stats;
        self.usage += baggage.usage;
        self.last = baggage.last.or(self.last);
    }

    fn take_back(&mut self) {
        if let Some(lent) = self.lent.take() {
            let baggage = std::mem::take(&mut *lock(&lent));
            self.unpack(baggage);
        }
    }

    pub(super) fn carry_out_pending(&mut self) {
        if let Some(queue) = &self.queue {
            // As above.
            let _ = queue.drive(|| false);
            self.take_back();
        }
    }

    pub(super) fn join_background(&mut self) {
        self.stats += self.background.join(self.comm.tasks());
    }

    pub(super) fn on_a_thread<B: Send + 'static>(
        &mut self,
        write: bool,
        mut buffer: B,
        work: impl FnOnce(&dyn Store, &mut B, &mut Option<AlignedBuffer>) -> Result<u64, FileError>
        + Send
        + 'static,
    ) -> Request<B> {
        let slot = ResultSlot::new();
        let result = Arc::clone(&slot);
        let inner: Arc<dyn Store> = Arc::clone(&self.store) as _;
        let here = Arc::clone(&self.background);
        here.begin();
        io_threads::submit(Box::new(move || {
            // Counted apart from what the rank does meanwhile.
            let store = Counted::new(inner);
            let done = guarded(|| work(&store, &mut buffer, &mut None));
            let wanted = *done.as_ref().unwrap_or(&0);
            let cost = cost_of(write, wanted, store.counts());
            drop(store);
            result.fill((buffer, done));
            here.end(cost);
        }));
        Request { slot, collective: false }
    }
}
