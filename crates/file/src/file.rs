//! [`File`]: opening, closing and what is not data access. Data access is in `data.rs` and
//! `nonblocking.rs`; how it is carried out in `independent.rs` and `together.rs`.

mod collective;
mod data_access;
mod independent;
mod io_threads;
mod nonblocking;
mod open_context;
mod shared_pointer;
mod sidecar_pointer;
mod stream_buffers;

use std::cell::Cell;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use striate_comm::Comm;
use striate_comm::task::TaskQueue;
use striate_store::lustre::StripingReport;
use striate_store::store::Store;
use striate_store::{AlignedBuffer, Counted};

use crate::cost_model::{CostModel, CostTable, PieceSize};
use crate::hints::{MethodChoice, Switch};
use crate::location::{Location, OpenedStore};
use crate::rendezvous::{
    EncodedProposal, Proposal, Rendezvous, declined, disagree, someone_declined,
};
use crate::usage::{Clock, Timed};
use crate::write_behind::{OpenFileEntry, SmallWrites, WriteBehind};
use crate::{CallReport, FileError, Hints, Mode, Stats, Usage, View, striping};
use collective::Ring;
use io_threads::IoThreads;
use nonblocking::CollectiveHandover;
pub use open_context::OpenContext;
pub use shared_pointer::Seek;
use shared_pointer::SharedPointer;

/// A file that ranks have opened together.
///
/// # Semantics
///
/// They are those of MPI-IO.
///
/// * **Offsets** count etypes of the view from its displacement on. Reads and writes at explicit
///   offsets leave the individual pointer alone; the others start at it and move it on by what they
///   moved.
/// * **The shared pointer** is one for all ranks, which use it with equal views. A call at it moves it on
///   by what was asked for before it moves data; ordered calls do so in the order of ranks.
/// * **End of file.** A read returns how many bytes it got; less than asked for means that the file
///   ended. Memory behind stays as it was. A write beyond the end leaves zeros between.
/// * **Holes of a view** are never changed by a write, whatever the method does inside.
/// * **Consistency.** In the default, nonatomic mode, what a rank wrote is seen by its own later reads,
///   and by other ranks after a collective call or [`File::sync`] on both sides. Bytes that several
///   ranks write at the same time hold what one of them wrote, byte by byte. In atomic mode calls
///   that overlap take effect one after the other as a whole; every data access then locks its range.
/// * **Collective calls** end alike on every rank: if one fails, all get an error that names it. There is an exception:
///   ranks that read, or write, one request each, time and again, stop to meet for it, and may be some calls ahead of
///   others. Then an error is that of the rank whose call has failed.
/// * **Durability.** What was written before [`File::sync`] returned survives a crash.
/// * A file is used by one thread of a rank at a time; ranks may be threads of one process.
#[derive(Debug)]
pub struct File {
    comm: Arc<dyn Comm>,
    /// That of calls that are begun, once there are some.
    begun_comm: Option<Arc<dyn Comm>>,
    store: Arc<Counted<Arc<dyn Store>>>,
    /// Where small writes wait, below the store.
    behind: Option<Arc<WriteBehind>>,
    /// Tells others in this process that the file is open.
    presence: Option<OpenFileEntry>,
    /// What small writes there were so far.
    small_writes: SmallWrites,
    /// The last write for which nobody met up to which others have been let come on.
    caught_up: Cell<u64>,
    place: Option<Location>,
    /// Rank 0's, on all ranks.
    striping: Option<StripingReport>,
    mode: Mode,
    hints: Arc<Hints>,
    view: View,
    /// The individual pointer, in etypes.
    position: u64,
    shared: SharedPointer,
    atomic: bool,
    /// Whether the store can be read although the file is only written.
    reads_back: bool,
    /// Whether others may sieve what this rank writes: its plain writes then need a guard.
    sieved: bool,
    meeting: Rendezvous,
    /// What this rank tells the others in its next collective call, then what all have told.
    note: u8,
    exchange: Option<Ring>,
    /// The size of the last request of a collective read, and of a write, and whether it needs nobody.
    alone: [Cell<Option<(PieceSize, bool)>>; 2],
    /// What this rank shows in a collective read, and in a write, of which it has done its part.
    empty_proposals: [Option<EncodedProposal>; 2],
    /// Draws the points at which holes are looked for.
    seed: u64,
    calls: u64,
    /// What things cost, the same on all ranks, so that they decide alike alone as well.
    costs: CostTable,
    /// What rank 0 learns from collective calls.
    model: CostModel,
    stats: Stats,
    usage: Usage,
    /// What the store has taken, if that is measured.
    clock: Option<Arc<Clock>>,
    last: Option<CallReport>,
    buffer: Option<AlignedBuffer>,
    /// Collective calls that were begun and are not done; a deputy has none.
    queue: Option<TaskQueue>,
    /// Where those find what they need of this file, while there are some.
    lent: Option<Arc<Mutex<CollectiveHandover>>>,
    /// Independent calls that were begun and are not done.
    background: Arc<IoThreads>,
}

impl File {
    /// Opens the file at `path` on all ranks: a path, or the URL of a file on I/O servers
    /// (`striate://host:port/name`). Collective; the hints of rank 0 count.
    pub fn open(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let mut meeting = Rendezvous::new(comm.as_ref())?;
        Self::open_at(comm, &mut meeting, path.as_ref(), mode, hints)
    }

    /// Opens a file by ranks that meet in a place where no file is open. Collective.
    fn open_at(
        comm: &Arc<dyn Comm>,
        meeting: &mut Rendezvous,
        path: &Path,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let place = mode.check().and_then(|()| Location::new(path));
        let first = first_agreement(comm.as_ref(), meeting, mode, hints, place)?;
        let First { given: place, mut hints, seed, same } = first;
        if !same {
            return Err(FileError::NotSame { call: "open", what: "modes" });
        }
        // One rank creates, so that EXCLUSIVE means: none of us found it there. It also tries out what things cost
        // there, if that is not known, and tells the others.
        let mut opened = None;
        let mut model = CostModel::default();
        let first = if comm.rank() == 0 {
            place.open(mode, &hints, true).map(|one| {
                if hints.method == MethodChoice::Auto {
                    model = place.costs(one.store.as_ref());
                }
                opened = Some(one);
            })
        } else {
            Ok(())
        };
        let is_striped = opened.as_ref().is_some_and(|opened| opened.striping.is_some());
        let proposal = Proposal {
            costs: model.known().plain(),
            note: u8::from(is_striped),
            ..Proposal::default()
        };
        let ((), proposals) = meeting.agree(comm.as_ref(), first, proposal)?;
        let others = match opened {
            Some(opened) => Ok(opened),
            None => place.open(mode, &hints, false),
        };
        let OpenedStore { store, local, reads_back, striping } =
            meeting.conclude(comm.as_ref(), others)?;
        let striping = match place {
            Location::Path(_) if proposals[0].note > 0 => {
                striping::agree(comm.as_ref(), &mut hints, striping.as_ref())?
            }
            _ => None,
        };
        // All ranks have it, or none: they see what waits in the memory of all.
        let may_wait = mode.contains(Mode::WRITE)
            && hints.method == MethodChoice::Auto
            && hints.write_behind != Switch::Disable
            && hints.direct != Switch::Enable;
        let behind = local.as_ref().filter(|_| may_wait);
        let behind = behind.and_then(|file| meeting.behind(file, comm.as_ref()));
        let presence = local.and_then(|file| OpenFileEntry::new(&file, behind.as_ref()));
        let store = behind.clone().map_or(store, |behind| behind as _);
        // From here on the ranks meet by the file, if they do.
        let mut file = Self::assemble(comm, meeting.clone(), store, mode, hints, seed, reads_back);
        file.behind = behind;
        file.presence = presence;
        file.striping = striping;
        file.costs = CostTable::new(proposals[0].costs);
        file.model = model;
        file.shared.keep_beside(&place, seed);
        file.place = Some(place);
        file.start_at_end()?;
        Ok(file)
    }

    /// Opens an object that exists already: each rank brings a handle of it. Collective; the hints of
    /// rank 0 count. [`Mode::CREATE`] and [`Mode::DELETE_ON_CLOSE`] mean nothing here.
    pub fn on_store(
        comm: &Arc<dyn Comm>,
        store: Arc<dyn Store>,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let mut meeting = Rendezvous::new(comm.as_ref())?;
        let first = first_agreement(comm.as_ref(), &mut meeting, mode, hints, mode.check())?;
        // Modes may differ: each rank brings what it can do with the object.
        let First { hints, seed, .. } = first;
        let mut file = Self::assemble(comm, meeting, store, mode, hints, seed, true);
        file.start_at_end()?;
        Ok(file)
    }

    fn assemble(
        comm: &Arc<dyn Comm>,
        meeting: Rendezvous,
        store: Arc<dyn Store>,
        mode: Mode,
        hints: Hints,
        seed: u64,
        reads_back: bool,
    ) -> Self {
        let shared = SharedPointer::new(comm.as_ref(), &meeting);
        let mut file = Self {
            comm: Arc::clone(comm),
            begun_comm: None,
            store: Arc::new(Counted::new(store)),
            behind: None,
            presence: None,
            small_writes: SmallWrites::default(),
            caught_up: Cell::new(0),
            place: None,
            striping: None,
            mode,
            hints: Arc::new(hints),
            view: View::bytes(),
            position: 0,
            shared,
            atomic: false,
            reads_back,
            sieved: false,
            meeting,
            note: 0,
            exchange: None,
            alone: Default::default(),
            empty_proposals: [None, None],
            seed,
            calls: 0,
            costs: CostTable::default(),
            model: CostModel::default(),
            stats: Stats::default(),
            usage: Usage::default(),
            clock: None,
            last: None,
            buffer: None,
            queue: Some(TaskQueue::new(comm.tasks())),
            lent: None,
            background: Arc::default(),
        };
        file.sieved = file.sieves();
        file
    }

    /// Rank 0 tries out what things cost where the file is, if that is not known, and tells the others.
    fn learn_costs(&mut self, place: &Location) -> Result<(), FileError> {
        if self.hints.method != MethodChoice::Auto {
            return Ok(());
        }
        if self.comm.rank() == 0 {
            self.model = place.costs(self.store.as_ref());
        }
        let proposal = Proposal { costs: self.model.known().plain(), ..Proposal::default() };
        let proposals = self.meeting.show(self.comm.as_ref(), proposal)?;
        self.costs = CostTable::new(proposals[0].costs);
        Ok(())
    }

    fn start_at_end(&mut self) -> Result<(), FileError> {
        if self.mode.contains(Mode::APPEND) {
            let size = self.size().and_then(|size| {
                // Before the ranks agree, so that nobody uses it before.
                if self.comm.rank() == 0 {
                    self.shared.set(size)?;
                }
                Ok(size)
            });
            // Etypes are bytes so far.
            self.position = disagree(self.comm.as_ref(), size)?;
        }
        Ok(())
    }

    /// Closes the file on all ranks, after what was begun is done. Collective.
    ///
    /// A file that is dropped instead is closed by this rank alone; pending collective calls are lost.
    pub fn close(mut self) -> Result<(), FileError> {
        self.close_together()
    }

    fn close_together(&mut self) -> Result<(), FileError> {
        self.carry_out_pending();
        self.join_background();
        let delete = self.mode.contains(Mode::DELETE_ON_CLOSE);
        let settled = self.end_behind();
        // All ranks are done before the name goes.
        let settled = self.meeting.conclude(self.comm.as_ref(), settled);
        if self.comm.rank() == 0 {
            self.shared.free();
        }
        if !delete {
            return settled;
        }
        let deleted = match &self.place {
            Some(place) if self.comm.rank() == 0 => place.delete(),
            _ => Ok(()),
        };
        self.meeting.conclude(self.comm.as_ref(), deleted)
    }

    /// Writes what waits; from then on nothing does.
    fn end_behind(&mut self) -> Result<(), FileError> {
        self.presence = None;
        self.behind.take().map_or(Ok(()), |behind| Ok(behind.end()?))
    }

    /// Whether nothing is under way that was begun.
    fn is_idle(&self) -> bool {
        self.queue.as_ref().is_some_and(TaskQueue::is_empty) && self.background.is_idle()
    }

    /// Deletes the file at `path`. Not collective: one rank calls it.
    pub fn delete(path: impl AsRef<Path>) -> Result<(), FileError> {
        Location::new(path.as_ref())?.delete()
    }

    /// Whether there is a file at `path`. Not collective.
    pub fn exists(path: impl AsRef<Path>) -> Result<bool, FileError> {
        Location::new(path.as_ref())?.exists()
    }

    /// Gives the file at `from` the name `to`, durably; a file of that name is replaced. Both are in the
    /// same directory, or on the same servers. Not collective: one rank calls it. Ranks that have the
    /// file open go on with it.
    pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
        Location::new(from.as_ref())?.rename(&Location::new(to.as_ref())?)
    }

    /// Replaces the view and puts the individual and the shared pointer at its start. Collective; the views of ranks
    /// may differ, but not the size of their etypes.
    pub fn set_view(&mut self, view: View) -> Result<(), FileError> {
        self.set_view_and_hints(view, None)
    }

    /// [`File::set_view`] and [`File::set_hints`] in one; ranks without hints take part as well. Collective.
    pub fn set_view_and_hints(
        &mut self,
        view: View,
        hints: Option<&Hints>,
    ) -> Result<(), FileError> {
        self.carry_out_pending();
        if view.overlaps() && self.mode.contains(Mode::WRITE) {
            let reason = "the filetype overlaps itself, and the file may be written".into();
            return Err(self.decline(FileError::View { reason }));
        }
        if self.comm.rank() == 0
            && let Err(error) = self.shared.prepare_reset()
        {
            return Err(self.decline(error));
        }
        let note = u8::from(hints.is_some());
        let proposal = Proposal { len: view.etype().size(), note, ..Proposal::default() };
        let proposals = self.meeting.show(self.comm.as_ref(), proposal)?;
        someone_declined(self.comm.as_ref(), &proposals)?;
        if proposals.iter().any(|proposal| proposal.len != proposals[0].len) {
            return Err(FileError::NotSame { call: "set_view", what: "sizes of etypes" });
        }
        self.view = view;
        self.position = 0;
        self.shared.reset();
        if proposals.iter().any(|proposal| proposal.note > 0) {
            self.take_on(hints)
        } else {
            Ok(())
        }
    }

    /// Changes hints; those that `hints` has as [`File::hints`] stay. What can only be chosen when a file is opened
    /// stays, too: its striping, whether the page cache is bypassed, and whether writes may wait. Collective; the hints of rank 0 count, and
    /// ranks may bring none.
    pub fn set_hints(&mut self, hints: Option<&Hints>) -> Result<(), FileError> {
        self.carry_out_pending();
        // What is under way goes by the old hints, and may not look out for those who sieve by new ones.
        self.join_background();
        let note = u8::from(hints.is_some());
        let proposals =
            self.meeting.show(self.comm.as_ref(), Proposal { note, ..Proposal::default() })?;
        someone_declined(self.comm.as_ref(), &proposals)?;
        if proposals.iter().any(|proposal| proposal.note > 0) {
            self.take_on(hints)
        } else {
            Ok(())
        }
    }

    /// Makes rank 0's hints everyone's; without any, they stay as they are. Collective.
    fn take_on(&mut self, hints: Option<&Hints>) -> Result<(), FileError> {
        let mut text = hints.unwrap_or(&self.hints).to_string().into_bytes();
        self.comm.broadcast(0, &mut text)?;
        let now = String::from_utf8_lossy(&text).parse::<Hints>()?.with_opening_of(&self.hints);
        if now == *self.hints {
            return Ok(());
        }
        let was_fixed = self.hints.method != MethodChoice::Auto;
        self.hints = Arc::new(now);
        // Who had to look out for sieves goes on to.
        self.sieved |= self.sieves();
        // StreamBuffers and aggregators are those of the old hints, and so is what can be done alone.
        self.exchange = None;
        self.alone = Default::default();
        match self.place.clone() {
            Some(place) if was_fixed => self.learn_costs(&place),
            _ => Ok(()),
        }
    }

    /// Whether independent writes may be sieved.
    fn sieves(&self) -> bool {
        let wanted = self.hints.ds_write != Switch::Disable;
        wanted && self.store.capabilities().locks && self.reads_back
    }

    /// The view.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The hints in effect.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// How it was opened.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// What a rank does alone comes after what the ranks wrote together before, as far as they do not keep it waiting.
    #[inline]
    fn let_catch_up(&self) {
        let Some(call) = self.meeting.last_unmet() else { return };
        if let Some(behind) = self.behind.as_ref().filter(|_| self.caught_up.get() != call) {
            behind.let_catch_up(call);
            self.caught_up.set(call);
        }
    }

    /// Length of the file in bytes.
    pub fn size(&self) -> Result<u64, FileError> {
        self.let_catch_up();
        Ok(self.store.len()?)
    }

    /// What the file is called in messages.
    pub fn name(&self) -> String {
        self.store.name()
    }

    /// Bytes of a stripe, if the file is striped over several targets.
    pub fn stripe_unit(&self) -> Option<u64> {
        let actual = self.striping().and_then(|report| report.actual);
        let capabilities = self.store.capabilities();
        let (unit, count) = actual
            .map_or((capabilities.stripe_unit, capabilities.stripe_count), |actual| {
                (Some(actual.unit), actual.count)
            });
        unit.filter(|_| count.is_some_and(|count| count > 1))
    }

    /// How the file is striped beside how the hints wanted it, if it lies on Lustre; the same on all
    /// ranks.
    pub const fn striping(&self) -> Option<&StripingReport> {
        self.striping.as_ref()
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
        self.carry_out_pending();
        let proposals =
            self.meeting.show(self.comm.as_ref(), Proposal { len, ..Proposal::default() })?;
        someone_declined(self.comm.as_ref(), &proposals)?;
        let done = if !self.mode.contains(Mode::WRITE) {
            Err(FileError::NotOpenedFor { call, needed: "writing" })
        } else if proposals.iter().any(|proposal| proposal.len != proposals[0].len) {
            Err(FileError::NotSame { call, what: "lengths" })
        } else if self.comm.rank() == 0 {
            change(&self.store)
        } else {
            Ok(())
        };
        self.meeting.conclude(self.comm.as_ref(), done)
    }

    /// Makes what all ranks have written durable, and seen by all. Collective.
    pub fn sync(&mut self) -> Result<(), FileError> {
        self.carry_out_pending();
        self.join_background();
        let done = if self.mode.contains(Mode::WRITE) {
            self.store.sync().map_err(FileError::from)
        } else {
            Ok(())
        };
        let done = self.meeting.conclude(self.comm.as_ref(), done);
        if let (Err(_), Some(behind)) = (&done, &self.behind) {
            // Everyone knows.
            behind.forget_failure();
        }
        done
    }

    /// Sets atomic mode. Collective.
    pub fn set_atomicity(&mut self, atomic: bool) -> Result<(), FileError> {
        self.carry_out_pending();
        let possible = !atomic || self.store.capabilities().locks;
        let done = if possible {
            Ok(())
        } else {
            Err(FileError::Unsupported {
                call: "set_atomicity",
                reason: format!("{} has no locks", self.store.name()),
            })
        };
        self.meeting.conclude(self.comm.as_ref(), done)?;
        self.atomic = atomic;
        Ok(())
    }

    /// Takes part in the collective call that the other ranks make, whichever it is, with an error in
    /// place of what it needs: for a caller whose arguments cannot be used. All ranks then end with an
    /// error, this one with its own, which is returned. Collective, for all calls but [`File::open`],
    /// [`File::close`] and those that are begun; see [`File::decline_open`] and [`File::idecline`].
    pub fn decline(&mut self, error: FileError) -> FileError {
        self.carry_out_pending();
        declined(self.meeting.conclude::<()>(self.comm.as_ref(), Err(error)))
    }

    /// Takes part in the other ranks' [`File::open`] with an error, as [`File::decline`] does in other
    /// calls.
    pub fn decline_open(comm: &Arc<dyn Comm>, error: FileError) -> FileError {
        match Rendezvous::new(comm.as_ref()) {
            Ok(mut meeting) => declined(meeting.conclude::<()>(comm.as_ref(), Err(error))),
            Err(error) => error.into(),
        }
    }

    /// Whether the file is in atomic mode.
    pub const fn atomicity(&self) -> bool {
        self.atomic
    }

    /// The individual pointer, in etypes.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Moves the individual pointer to `offset` etypes.
    pub const fn seek(&mut self, offset: u64) {
        self.position = offset;
    }

    /// Moves the individual pointer to `offset` etypes behind the first etype of the view that lies
    /// wholly beyond the end of the file.
    pub fn seek_end(&mut self, offset: i64) -> Result<(), FileError> {
        self.position =
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
        self.stats + self.behind.as_ref().map_or_else(Stats::default, |behind| behind.stats())
    }

    /// What the calls of all ranks have cost so far, rank by rank. Collective.
    pub fn stats_of_all(&mut self) -> Result<Vec<Stats>, FileError> {
        self.carry_out_pending();
        self.join_background();
        if let Some(behind) = &self.behind {
            // What waits has not cost anything yet.
            behind.settle_all();
        }
        let mine: Vec<u8> = self.stats().to_words().iter().flat_map(|w| w.to_le_bytes()).collect();
        let all = self.comm.allgather(&mine)?;
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
    /// measured. Calls that are under way count when they are done.
    pub fn usage(&self) -> Usage {
        let io = self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.elapsed());
        let mut usage = self.usage;
        usage.io = io;
        usage
    }

    /// Measures from now on how long requests to the store and collective calls take; see
    /// [`File::usage`].
    pub fn measure_time(&mut self) {
        if self.clock.is_none() {
            let clock = Arc::new(Clock::default());
            let inner: Arc<dyn Store> = Arc::clone(&self.store) as _;
            let timed: Arc<dyn Store> = Arc::new(Timed { inner, clock: Arc::clone(&clock) });
            self.store = Arc::new(Counted::new(timed));
            if let Some(behind) = &self.behind {
                behind.measure_time(&clock);
            }
            self.clock = Some(clock);
        }
    }

    /// How the last blocking call that moved data was carried out.
    pub const fn last_call(&self) -> Option<&CallReport> {
        self.last.as_ref()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A deputy has nothing that others could wait for.
        if self.queue.take().is_some() {
            self.background.join(self.comm.tasks());
            // There is nobody left to tell of an error.
            let _ = self.end_behind();
        }
    }
}

/// What ranks know before they open anything.
struct First<T> {
    /// What this rank needs to go on.
    given: T,
    hints: Hints,
    seed: u64,
    /// Whether all ranks have the same mode.
    same: bool,
}

/// Makes sure that all ranks can go on, and makes rank 0's hints and a fresh seed everyone's. Collective.
fn first_agreement<T>(
    comm: &dyn Comm,
    meeting: &mut Rendezvous,
    mode: Mode,
    hints: &Hints,
    given: Result<T, FileError>,
) -> Result<First<T>, FileError> {
    let text = hints.to_string();
    let proposal = Proposal {
        // Equal for equal hints, in all processes.
        len: BuildHasherDefault::<DefaultHasher>::new().hash_one(&text),
        low: RandomState::new().hash_one(std::process::id()),
        regions: u64::from(mode.bits()),
        ..Proposal::default()
    };
    let (given, proposals) = meeting.agree(comm, given, proposal)?;
    let mut hints = hints.clone();
    if proposals.iter().any(|proposal| proposal.len != proposals[0].len) {
        let mut text = text.into_bytes();
        comm.broadcast(0, &mut text)?;
        hints = String::from_utf8_lossy(&text).parse()?;
    }
    let same = proposals.iter().all(|proposal| proposal.regions == proposals[0].regions);
    Ok(First { given, hints, seed: proposals[0].low, same })
}
