//! [`File`]: a file that ranks have opened together, made of parts; and its calls that do not
//! access data.
//!
//! | part | what it is | file |
//! | --- | --- | --- |
//! | [`Handle`] | ranks, store, mode, hints | `handle.rs` |
//! | [`View`] | which bytes the rank sees | `../view.rs` |
//! | [`Pointers`] | individual and shared pointer | `shared_pointer.rs`, `sidecar_pointer.rs` |
//! | [`CollectiveState`] | rendezvous, collective buffers, costs | `collective.rs` |
//! | [`BufferedWrites`] | write-behind, if it is on | `buffered_writes.rs`, `../write_behind.rs` |
//! | [`Accounting`] | what calls have cost | `accounting.rs` |
//! | [`Pending`] | nonblocking calls | `nonblocking.rs`, `io_threads.rs` |
//!
//! Data access is in `data_access.rs` and `nonblocking.rs`. How it is carried out is in
//! `independent.rs`, `collective_read.rs` and `collective_write.rs`, after `describe.rs` has found
//! which bytes of the file are meant.

mod accounting;
mod buffered_writes;
mod collective;
mod collective_read;
mod collective_write;
mod data_access;
mod describe;
mod handle;
mod independent;
mod io_threads;
mod nonblocking;
mod open;
mod open_context;
mod shared_pointer;
mod sidecar_pointer;

use std::sync::Arc;
use std::time::Duration;

use striate_comm::Comm;
use striate_store::lustre::StripingReport;
use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counted};

use crate::cost_model::CostTable;
use crate::hints::MethodChoice;
use crate::location::Location;
use crate::rendezvous::{Proposal, check_declined, error_of};
use crate::usage::{Clock, Timed};
use crate::{CallReport, FileError, Hints, Mode, Stats, Usage, View};
use accounting::Accounting;
use buffered_writes::BufferedWrites;
use collective::CollectiveState;
use handle::Handle;
use nonblocking::Pending;
pub use open_context::OpenContext;
use shared_pointer::Pointers;
pub use shared_pointer::Seek;

/// A file that ranks have opened together.
///
/// # Semantics
///
/// They are those of MPI-IO.
///
/// * **Offsets** count etypes of the view from its displacement on. Reads and writes at explicit
///   offsets leave the individual pointer alone; the others start at it and advance it by what they
///   moved.
/// * **The shared pointer** is one for all ranks, which use it with equal views. A call at it
///   advances it by what was asked for before it moves data; ordered calls do so in the order of
///   ranks.
/// * **End of file.** A read returns how many bytes it got; less than asked for means that the file
///   ended. The rest of the memory stays as it was. A write beyond the end leaves zeros between.
/// * **Holes of a view** are never changed by a write, whatever the method does inside.
/// * **Consistency.** In the default, nonatomic mode, what a rank wrote is seen by its own later
///   reads, and by other ranks after a collective call or [`File::sync`] on both sides. Bytes that
///   several ranks write at the same time hold what one of them wrote, byte by byte. In atomic mode
///   calls that overlap take effect one after the other as a whole; every data access then locks
///   its range.
/// * **Collective calls** end alike on every rank: if one fails, all get an error that names it.
///   The exception is barrier elision: ranks that read, or write, one contiguous request each, call
///   after call, skip the synchronisation of these calls and may be some calls ahead of each other;
///   an error is then returned by the rank whose request failed.
/// * **Write-behind.** Small contiguous writes of a stream may wait in memory, for less than 0.2 s,
///   and a failure to write them is returned by the next such write of each rank, and at the latest
///   by the next [`File::sync`] or [`File::close`] of all. The hint `striate_write_behind=disable`
///   turns it off.
/// * **Durability.** What was written before [`File::sync`] returned survives a crash.
/// * A file is used by one thread of a rank at a time; ranks may be threads of one process.
#[derive(Debug)]
pub struct File {
    handle: Handle,
    view: View,
    pointers: Pointers,
    collective: CollectiveState,
    write_behind: Option<BufferedWrites>,
    accounting: Accounting,
    pending: Pending,
    /// Kept from call to call.
    sieve_buffer: Option<AlignedBuffer>,
}

impl File {
    /// Rank 0 measures what requests cost where the file lies, if that is not known, and all ranks
    /// use its costs. Collective.
    fn agree_on_costs(&mut self, location: &Location) -> Result<(), FileError> {
        if self.handle.hints.method != MethodChoice::Auto {
            return Ok(());
        }
        let comm = self.handle.comm.as_ref();
        if comm.rank() == 0 {
            self.collective.model = location.costs(self.handle.store.as_ref());
        }
        let costs = self.collective.model.table().measured();
        let proposal = Proposal { costs, ..Proposal::default() };
        let all = self.collective.rendezvous.propose(comm, proposal)?;
        self.collective.costs = CostTable::new(all[0].costs);
        Ok(())
    }

    /// Replaces the view and puts the individual and the shared pointer at its start. Collective;
    /// the views of ranks may differ, but not the size of their etypes.
    pub fn set_view(&mut self, view: View) -> Result<(), FileError> {
        self.set_view_and_hints(view, None)
    }

    /// [`File::set_view`] and [`File::set_hints`] in one; ranks without hints take part as well.
    /// Collective.
    pub fn set_view_and_hints(
        &mut self,
        view: View,
        hints: Option<&Hints>,
    ) -> Result<(), FileError> {
        self.complete_pending();
        if view.overlaps() && self.handle.mode.contains(Mode::WRITE) {
            let reason = "the filetype overlaps itself, and the file may be written".into();
            return Err(self.decline(FileError::View { reason }));
        }
        if self.handle.comm.rank() == 0
            && let Err(error) = self.pointers.shared.prepare_reset()
        {
            return Err(self.decline(error));
        }
        let note = u8::from(hints.is_some());
        let proposal = Proposal { len: view.etype().size(), note, ..Proposal::default() };
        let all = self.propose_and_check(proposal)?;
        if all.iter().any(|one| one.len != all[0].len) {
            return Err(FileError::NotSame { call: "set_view", what: "sizes of etypes" });
        }
        self.view = view;
        self.pointers.individual = 0;
        self.pointers.shared.reset();
        if all.iter().any(|one| one.note > 0) { self.adopt_hints(hints) } else { Ok(()) }
    }

    /// Makes a proposal in a call other than data access; an error if a rank has declined.
    /// Collective.
    fn propose_and_check(&mut self, proposal: Proposal) -> Result<Vec<Proposal>, FileError> {
        let comm = self.handle.comm.as_ref();
        let all = self.collective.rendezvous.propose(comm, proposal)?;
        check_declined(comm, &all)?;
        Ok(all)
    }

    /// Changes hints; those that `hints` has as [`File::hints`] stay. What can only be chosen when
    /// a file is opened stays, too: its striping, whether the page cache is bypassed, and whether
    /// writes may wait. Collective; the hints of rank 0 are used, and ranks may bring none.
    pub fn set_hints(&mut self, hints: Option<&Hints>) -> Result<(), FileError> {
        self.complete_pending();
        // Calls under way use the old hints, and may not guard their writes against sieves that new
        // hints allow.
        self.join_background();
        let note = u8::from(hints.is_some());
        let all = self.propose_and_check(Proposal { note, ..Proposal::default() })?;
        if all.iter().any(|one| one.note > 0) { self.adopt_hints(hints) } else { Ok(()) }
    }

    /// Makes rank 0's hints those of all ranks; without any, they stay as they are. Collective.
    fn adopt_hints(&mut self, hints: Option<&Hints>) -> Result<(), FileError> {
        let mut text = hints.unwrap_or(&self.handle.hints).to_string().into_bytes();
        self.handle.comm.broadcast(0, &mut text)?;
        let now = String::from_utf8_lossy(&text).parse::<Hints>()?;
        let now = now.with_opening_of(&self.handle.hints);
        if now == *self.handle.hints {
            return Ok(());
        }
        let was_fixed = self.handle.hints.method != MethodChoice::Auto;
        self.handle.hints = Arc::new(now);
        // Writes that had to be guarded against sieves stay guarded.
        self.handle.sieved |= self.handle.may_sieve();
        self.collective.hints_have_changed();
        match self.handle.location.clone() {
            Some(location) if was_fixed => self.agree_on_costs(&location),
            _ => Ok(()),
        }
    }

    /// The view.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The hints in effect.
    pub fn hints(&self) -> &Hints {
        &self.handle.hints
    }

    /// The ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.handle.comm
    }

    /// How it was opened.
    pub const fn mode(&self) -> Mode {
        self.handle.mode
    }

    /// Length of the file in bytes.
    pub fn size(&self) -> Result<u64, FileError> {
        self.wait_for_late_ranks();
        Ok(self.handle.store.len()?)
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.handle.store.name()
    }

    /// Bytes of a stripe, if the file is striped over several targets.
    pub fn stripe_unit(&self) -> Option<u64> {
        let actual = self.striping().and_then(|report| report.actual);
        let capabilities = self.handle.store.capabilities();
        let (unit, count) = actual
            .map_or((capabilities.stripe_unit, capabilities.stripe_count), |actual| {
                (Some(actual.unit), actual.count)
            });
        unit.filter(|_| count.is_some_and(|count| count > 1))
    }

    /// How the file is striped and how the hints asked for it, if it lies on Lustre; the same on
    /// all ranks.
    pub const fn striping(&self) -> Option<&StripingReport> {
        self.handle.striping.as_ref()
    }

    /// Cuts the file or extends it by zeros. Collective; all ranks give the same length.
    pub fn set_size(&mut self, len: u64) -> Result<(), FileError> {
        self.resize("set_size", len, |store| Ok(store.set_len(len)?))
    }

    /// Makes sure that there is space for `len` bytes; extends the file to that length if it is
    /// shorter. Collective; all ranks give the same length.
    pub fn preallocate(&mut self, len: u64) -> Result<(), FileError> {
        self.resize("preallocate", len, |store| Ok(store.preallocate(len)?))
    }

    fn resize(
        &mut self,
        call: &'static str,
        len: u64,
        change: impl FnOnce(&dyn Store) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        self.complete_pending();
        let all = self.propose_and_check(Proposal { len, ..Proposal::default() })?;
        let done = if !self.handle.mode.contains(Mode::WRITE) {
            Err(FileError::NotOpenedFor { call, needed: "writing" })
        } else if all.iter().any(|one| one.len != all[0].len) {
            Err(FileError::NotSame { call, what: "lengths" })
        } else if self.handle.comm.rank() == 0 {
            change(&self.handle.store)
        } else {
            Ok(())
        };
        self.conclude(done)
    }

    /// Ends a call alike on all ranks. Collective.
    fn conclude<T>(&mut self, done: Result<T, FileError>) -> Result<T, FileError> {
        self.collective.rendezvous.conclude(self.handle.comm.as_ref(), done)
    }

    /// Makes what all ranks have written durable, and seen by all. Collective.
    pub fn sync(&mut self) -> Result<(), FileError> {
        self.complete_pending();
        self.join_background();
        let done = if self.handle.mode.contains(Mode::WRITE) {
            self.handle.store.sync().map_err(FileError::from)
        } else {
            Ok(())
        };
        let done = self.conclude(done);
        if let (Err(_), Some(write_behind)) = (&done, &self.write_behind) {
            // All ranks have returned an error.
            write_behind.store.clear_failure();
        }
        done
    }

    /// Hands what all ranks have written to the storage below, so that every process sees it. It is
    /// not durable then, but a rank that is killed afterwards does not lose it. Collective.
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.complete_pending();
        self.join_background();
        let done = match &self.write_behind {
            Some(write_behind) => {
                write_behind.store.flush();
                write_behind.store.check_failure().map_err(FileError::from)
            }
            None => Ok(()),
        };
        self.conclude(done)
    }

    /// Sets atomic mode. Collective.
    pub fn set_atomicity(&mut self, atomic: bool) -> Result<(), FileError> {
        self.complete_pending();
        let possible = !atomic || self.handle.store.capabilities().locks;
        let done = if possible {
            Ok(())
        } else {
            Err(FileError::Unsupported {
                call: "set_atomicity",
                reason: format!("{} has no locks", self.name()),
            })
        };
        self.conclude(done)?;
        self.handle.atomic = atomic;
        Ok(())
    }

    /// Takes part in the collective call that the other ranks make, whichever it is, with an error
    /// in place of what it needs: for a caller whose arguments cannot be used. All ranks then end
    /// with an error, this one with its own, which is returned. Collective, for all calls but
    /// [`File::open`], [`File::close`] and nonblocking ones; see [`File::decline_open`] and
    /// [`File::idecline`].
    pub fn decline(&mut self, error: FileError) -> FileError {
        self.complete_pending();
        error_of(self.conclude::<()>(Err(error)))
    }

    /// Whether the file is in atomic mode.
    pub const fn atomicity(&self) -> bool {
        self.handle.atomic
    }

    /// The individual pointer, in etypes.
    pub const fn position(&self) -> u64 {
        self.pointers.individual
    }

    /// Moves the individual pointer to `offset` etypes.
    pub const fn seek(&mut self, offset: u64) {
        self.pointers.individual = offset;
    }

    /// Moves the individual pointer to `offset` etypes behind the first etype of the view that lies
    /// wholly beyond the end of the file.
    pub fn seek_end(&mut self, offset: i64) -> Result<(), FileError> {
        self.pointers.individual =
            self.end_position()?.checked_add_signed(offset).ok_or_else(|| FileError::Argument {
                call: "seek_end",
                reason: "the position would lie before the start of the view".into(),
            })?;
        Ok(())
    }

    /// The first etype of the view that lies wholly beyond the end of the file.
    pub fn end_position(&self) -> Result<u64, FileError> {
        Ok(self.view.stream_before(self.size()?)?.div_ceil(self.view.etype().size()))
    }

    /// What this rank's calls have cost so far.
    pub fn stats(&self) -> Stats {
        let flushed = self.write_behind.as_ref().map(|write_behind| write_behind.store.stats());
        self.accounting.stats + flushed.unwrap_or_default()
    }

    /// What the calls of all ranks have cost so far, rank by rank. Collective.
    pub fn stats_of_all(&mut self) -> Result<Vec<Stats>, FileError> {
        self.complete_pending();
        self.join_background();
        if let Some(write_behind) = &self.write_behind {
            // Writes that wait have not cost anything yet.
            write_behind.store.flush();
        }
        let mine: Vec<u8> = self.stats().to_words().iter().flat_map(|w| w.to_le_bytes()).collect();
        let all = self.handle.comm.allgather(&mine)?;
        let stats = all.iter().map(|bytes| {
            let mut words = [0; 8];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            Stats::from_words(words)
        });
        Ok(stats.collect())
    }

    /// How this rank's calls were carried out so far, by method, and where the time went if it was
    /// measured. Calls that are under way count when they are complete.
    pub fn usage(&self) -> Usage {
        let io = self.accounting.clock.as_ref().map_or(Duration::ZERO, |clock| clock.elapsed());
        let mut usage = self.accounting.usage;
        usage.io = io;
        usage
    }

    /// Measures from now on how long requests to the store and collective calls take; see
    /// [`File::usage`].
    pub fn measure_time(&mut self) {
        if self.accounting.clock.is_none() {
            let clock = Arc::new(Clock::default());
            let inner: Arc<dyn Store> = Arc::clone(&self.handle.store) as _;
            let timed: Arc<dyn Store> = Arc::new(Timed { inner, clock: Arc::clone(&clock) });
            self.handle.store = Arc::new(Counted::new(timed));
            if let Some(write_behind) = &self.write_behind {
                write_behind.store.measure_time(&clock);
            }
            self.accounting.clock = Some(clock);
        }
    }

    /// How the last blocking call that moved data was carried out.
    pub const fn last_call(&self) -> Option<&CallReport> {
        self.accounting.last.as_ref()
    }
}
