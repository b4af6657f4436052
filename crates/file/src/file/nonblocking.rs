//! Data access that goes on while the program does; `request.rs` says how.

use std::sync::Arc;

use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counted};

use super::independent::{cost_of, read_independently, write_independently};
use crate::method::two_phase::guarded;
use crate::request::Slot;
use crate::{File, FileError, Request, Source, Target, View};

/// A collective call that was begun and not carried out.
pub(super) struct Pending(Box<dyn FnOnce(&mut File) + Send>);

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a collective call")
    }
}

impl File {
    /// Begins to read at `offset` etypes.
    pub fn iread_at<B>(&mut self, offset: u64, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: Target,
    {
        self.check_mode(false, "iread_at")?;
        let shape = buffer.memory_mut().shape;
        let side = self.side("iread_at", offset, &shape)?;
        let way = self.way(false, &side, &shape);
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
        let shape = buffer.memory().shape;
        let side = self.side("iwrite_at", offset, &shape)?;
        let way = self.way(true, &side, &shape);
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

    /// Begins to read at `offset` etypes, together with the other ranks. Collective: ranks begin such
    /// calls in the same order, and may wait for them in any.
    pub fn iread_at_all<B>(&mut self, offset: u64, mut buffer: B) -> Request<B>
    where
        B: Target,
    {
        let slot = Slot::new();
        let (result, view) = (Arc::clone(&slot), self.view.clone());
        self.pending.push_back(Pending(Box::new(move |file: &mut Self| {
            let to = buffer.memory_mut();
            let done = file.with_view(view, |file| file.read_together(offset, to));
            result.fill((buffer, done));
        })));
        Request { slot, collective: true }
    }

    /// Begins to write at `offset` etypes, together with the other ranks. Collective: ranks begin
    /// such calls in the same order, and may wait for them in any.
    pub fn iwrite_at_all<B>(&mut self, offset: u64, buffer: B) -> Request<B>
    where
        B: Source,
    {
        let slot = Slot::new();
        let (result, view) = (Arc::clone(&slot), self.view.clone());
        self.pending.push_back(Pending(Box::new(move |file: &mut Self| {
            let from = buffer.memory();
            let done = file.with_view(view, |file| file.write_together(offset, &from));
            result.fill((buffer, done));
        })));
        Request { slot, collective: true }
    }

    /// Takes part in the collective call that the other ranks begin with an error in place of what it
    /// needs, as [`File::decline`] does in those that are not begun. All ranks' requests end with an
    /// error.
    pub fn idecline(&mut self, error: FileError) -> Request<()> {
        let slot = Slot::new();
        let result = Arc::clone(&slot);
        self.pending.push_back(Pending(Box::new(move |file: &mut Self| {
            let comm = Arc::clone(&file.comm);
            let done = file.meeting.conclude(comm.as_ref(), Err(error));
            result.fill(((), done));
        })));
        Request { slot, collective: true }
    }

    /// Waits for a request, and returns its buffer and the bytes moved. For a collective request all
    /// ranks wait sooner or later.
    #[expect(clippy::needless_pass_by_value, reason = "a request is waited for once")]
    pub fn wait<B>(&mut self, request: Request<B>) -> (B, Result<u64, FileError>) {
        loop {
            if let Some(done) = request.slot.try_take() {
                return done;
            }
            // An independent request must not wait for other ranks.
            match if request.collective { self.pending.pop_front() } else { None } {
                Some(Pending(carry_out)) => carry_out(self),
                None => return request.slot.take(),
            }
        }
    }

    pub(super) fn carry_out_pending(&mut self) {
        while let Some(Pending(carry_out)) = self.pending.pop_front() {
            carry_out(self);
        }
    }

    pub(super) fn join_threads(&mut self) {
        for thread in std::mem::take(&mut self.threads) {
            if let Ok(stats) = thread.join() {
                self.stats += stats;
            }
        }
    }

    pub(super) fn with_view<T>(&mut self, view: View, call: impl FnOnce(&mut Self) -> T) -> T {
        let current = std::mem::replace(&mut self.view, view);
        let result = call(self);
        self.view = current;
        result
    }

    pub(super) fn on_a_thread<B: Send + 'static>(
        &mut self,
        write: bool,
        mut buffer: B,
        work: impl FnOnce(&dyn Store, &mut B, &mut Option<AlignedBuffer>) -> Result<u64, FileError>
        + Send
        + 'static,
    ) -> Request<B> {
        let slot = Slot::new();
        let result = Arc::clone(&slot);
        let inner: Arc<dyn Store> = Arc::clone(&self.store) as _;
        self.threads.push(std::thread::spawn(move || {
            // Counted apart from what the rank does meanwhile.
            let store = Counted::new(inner);
            let done = guarded(|| work(&store, &mut buffer, &mut None));
            let wanted = *done.as_ref().unwrap_or(&0);
            result.fill((buffer, done));
            cost_of(write, wanted, store.counts())
        }));
        Request { slot, collective: false }
    }
}
