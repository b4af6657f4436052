//! [`File`]: what ranks open together.
//!
//! # Semantics
//!
//! They are those of MPI-IO.
//!
//! * **Offsets** count etypes of the view from its displacement on. Reads and writes at explicit
//!   offsets leave the individual pointer alone; the others start at it and move it on by what they
//!   moved.
//! * **End of file.** A read returns how many bytes it got; less than asked for means that the file
//!   ended. Memory behind stays as it was. A write beyond the end leaves zeros between.
//! * **Holes of a view** are never changed by a write, whatever the method does inside.
//! * **Consistency.** In the default, nonatomic mode, what a rank wrote is seen by its own later reads,
//!   and by other ranks after a collective call or [`File::sync`] on both sides. Bytes that several
//!   ranks write at the same time hold what one of them wrote, byte by byte. In atomic mode calls
//!   that overlap take effect one after the other as a whole; every data access then locks its range.
//! * **Collective calls** end alike on every rank: if one fails, all get an error that names it.
//! * **Durability.** What was written before [`File::sync`] returned survives a crash.
//! * A file is used by one thread of a rank at a time; ranks may be threads of one process.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use striate_comm::Comm;
use striate_datatype::{Boundary, Point};
use striate_layout::characteristics::Method;
use striate_store::store::{LockKind, Store};
use striate_store::{AlignedBuffer, Counted, Counts, PosixFile, PosixOptions};

use crate::access::FileSide;
use crate::auto::{Setting, candidates, choose};
use crate::collective::{Card, Meeting, disagree};
use crate::cost::CostModel;
use crate::hints::{Exchange, Switch};
use crate::memory::Shape;
use crate::method::two_phase::plan::Groups;
use crate::method::two_phase::staging::{Place, Staging};
use crate::method::two_phase::{Call, Holes, Outcome};
use crate::method::{datatype, list, posix, sieve};
use crate::request::Slot;
use crate::{CallReport, FileError, Hints, Memory, MemoryMut, Mode, Request, Stats, View};

/// A file that ranks have opened together. See the module for what its calls mean.
#[derive(Debug)]
pub struct File {
    comm: Arc<dyn Comm>,
    store: Arc<Counted<Arc<dyn Store>>>,
    path: Option<PathBuf>,
    mode: Mode,
    hints: Hints,
    view: View,
    /// The individual pointer, in etypes.
    position: u64,
    atomic: bool,
    /// Whether the store can be read although the file is only written.
    reads_back: bool,
    meeting: Meeting,
    exchange: Option<Ring>,
    /// Draws the points at which holes are looked for.
    seed: u64,
    calls: u64,
    costs: Option<CostModel>,
    stats: Stats,
    last: Option<CallReport>,
    buffer: Option<AlignedBuffer>,
    /// Collective calls that were begun and not carried out.
    pending: VecDeque<Pending>,
    threads: Vec<JoinHandle<Stats>>,
}

struct Pending(Box<dyn FnOnce(&mut File) + Send>);

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a collective call")
    }
}

/// The ring of this rank's group, and how far it has turned.
#[derive(Debug)]
struct Ring {
    groups: Groups,
    staging: Staging,
    first: u64,
}

/// How an independent access is carried out.
#[derive(Clone, Copy, Debug)]
struct Way {
    method: Method,
    list_regions: u64,
    atomic: bool,
    /// The sieve's first window.
    first: u64,
}

impl File {
    /// Opens the file at `path` on all ranks. Collective; the hints of rank 0 count.
    pub fn open(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let path = path.as_ref();
        let (hints, seed) = first_agreement(comm.as_ref(), mode, hints)?;
        // One rank creates, so that EXCLUSIVE means: none of us found it there.
        let mut opened = None;
        let first = if comm.rank() == 0 {
            open_posix(path, mode, &hints, true).map(|store| opened = Some(store))
        } else {
            Ok(())
        };
        disagree(comm.as_ref(), first)?;
        let others = match opened {
            Some(opened) => Ok(opened),
            None => open_posix(path, mode, &hints, false),
        };
        let (store, reads_back) = disagree(comm.as_ref(), others)?;
        let mut file = Self::assemble(comm, Arc::new(store), mode, hints, seed, reads_back)?;
        file.path = Some(path.to_path_buf());
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
        let (hints, seed) = first_agreement(comm.as_ref(), mode, hints)?;
        let mut file = Self::assemble(comm, store, mode, hints, seed, true)?;
        file.start_at_end()?;
        Ok(file)
    }

    fn assemble(
        comm: &Arc<dyn Comm>,
        store: Arc<dyn Store>,
        mode: Mode,
        hints: Hints,
        seed: u64,
        reads_back: bool,
    ) -> Result<Self, FileError> {
        let meeting = Meeting::new(comm.as_ref())?;
        Ok(Self {
            comm: Arc::clone(comm),
            store: Arc::new(Counted::new(store)),
            path: None,
            mode,
            hints,
            view: View::bytes(),
            position: 0,
            atomic: false,
            reads_back,
            meeting,
            exchange: None,
            seed,
            calls: 0,
            costs: None,
            stats: Stats::default(),
            last: None,
            buffer: None,
            pending: VecDeque::new(),
            threads: Vec::new(),
        })
    }

    fn start_at_end(&mut self) -> Result<(), FileError> {
        if self.mode.contains(Mode::APPEND) {
            self.position = self.size()? / self.view.etype().size();
        }
        Ok(())
    }

    /// Closes the file on all ranks, after what was begun is done. Collective.
    ///
    /// A file that is dropped instead is closed by this rank alone; pending collective calls are lost.
    pub fn close(mut self) -> Result<(), FileError> {
        self.carry_out_pending();
        self.join_threads();
        let delete = self.mode.contains(Mode::DELETE_ON_CLOSE);
        // All ranks are done before the name goes.
        self.meeting.conclude(self.comm.as_ref(), Ok(()))?;
        if !delete {
            return Ok(());
        }
        let deleted = match &self.path {
            Some(path) if self.comm.rank() == 0 => Self::delete(path),
            _ => Ok(()),
        };
        self.meeting.conclude(self.comm.as_ref(), deleted)
    }

    /// Deletes the file at `path`. Not collective: one rank calls it.
    pub fn delete(path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = path.as_ref();
        std::fs::remove_file(path).map_err(|error| FileError::Argument {
            call: "delete",
            reason: format!("{}: {error}", path.display()),
        })
    }

    /// Replaces the view and puts the individual pointer at its start. Collective; the views of ranks
    /// may differ, but not the size of their etypes.
    pub fn set_view(&mut self, view: View) -> Result<(), FileError> {
        self.carry_out_pending();
        let card = Card { len: view.etype().size(), ..Card::default() };
        let cards = self.meeting.show(self.comm.as_ref(), card)?;
        if cards.iter().any(|card| card.len != cards[0].len) {
            let reason = "the ranks' etypes are of different sizes".into();
            return Err(FileError::View { reason });
        }
        self.view = view;
        self.position = 0;
        Ok(())
    }

    /// The view.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The hints in effect.
    pub const fn hints(&self) -> &Hints {
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

    /// Length of the file in bytes.
    pub fn size(&self) -> Result<u64, FileError> {
        Ok(self.store.len()?)
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
        let cards = self.meeting.show(self.comm.as_ref(), Card { len, ..Card::default() })?;
        let done = if !self.mode.contains(Mode::WRITE) {
            Err(FileError::NotOpenedFor { call, needed: "writing" })
        } else if cards.iter().any(|card| card.len != cards[0].len) {
            Err(FileError::Argument { call, reason: "the ranks gave different lengths".into() })
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
        self.join_threads();
        let done = if self.mode.contains(Mode::WRITE) {
            self.store.sync().map_err(FileError::from)
        } else {
            Ok(())
        };
        self.meeting.conclude(self.comm.as_ref(), done)
    }

    /// Sets atomic mode. Collective.
    pub fn set_atomicity(&mut self, atomic: bool) -> Result<(), FileError> {
        self.carry_out_pending();
        let possible = !atomic || self.store.capabilities().locks;
        let done = if possible {
            Ok(())
        } else {
            Err(FileError::Argument {
                call: "set_atomicity",
                reason: format!("{} has no locks", self.store.name()),
            })
        };
        self.meeting.conclude(self.comm.as_ref(), done)?;
        self.atomic = atomic;
        Ok(())
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
        let end = self.view.stream_before(self.size()?)?.div_ceil(self.view.etype().size());
        self.position = end.checked_add_signed(offset).ok_or_else(|| FileError::Argument {
            call: "seek_end",
            reason: "the position would lie before the start of the view".into(),
        })?;
        Ok(())
    }

    /// What this rank's calls have cost so far.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// What the calls of all ranks have cost so far, rank by rank. Collective.
    pub fn stats_of_all(&mut self) -> Result<Vec<Stats>, FileError> {
        let mine: Vec<u8> = self.stats.to_words().iter().flat_map(|w| w.to_le_bytes()).collect();
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

    /// How the last blocking call that moved data was carried out.
    pub const fn last_call(&self) -> Option<&CallReport> {
        self.last.as_ref()
    }

    // ---- data access ----

    /// Reads at `offset` etypes. Returns the bytes read.
    pub fn read_at<'m>(
        &mut self,
        offset: u64,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        let mut to = to.into();
        self.check_mode(false, "read_at")?;
        let side = self.side("read_at", offset, &to.shape)?;
        self.independent(false, &side, &to.shape.clone(), |store, way, buffer| {
            read_independently(store, &side, &mut to, way, buffer)
        })
    }

    /// Writes at `offset` etypes. Returns the bytes written: all.
    pub fn write_at<'m>(
        &mut self,
        offset: u64,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        let from = from.into();
        self.check_mode(true, "write_at")?;
        let side = self.side("write_at", offset, &from.shape)?;
        self.independent(true, &side, &from.shape, |store, way, buffer| {
            write_independently(store, &side, &from, way, buffer)?;
            Ok(side.len())
        })
    }

    /// Reads at `offset` etypes, together with the other ranks. Collective.
    pub fn read_at_all<'m>(
        &mut self,
        offset: u64,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        self.carry_out_pending();
        self.read_together(offset, to.into())
    }

    /// Writes at `offset` etypes, together with the other ranks. Collective.
    pub fn write_at_all<'m>(
        &mut self,
        offset: u64,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        self.carry_out_pending();
        self.write_together(offset, &from.into())
    }

    /// Reads at the individual pointer and moves it on.
    pub fn read<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let bytes = self.read_at(self.position, to)?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Writes at the individual pointer and moves it on.
    pub fn write<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let bytes = self.write_at(self.position, from)?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Reads at the individual pointer, together with the other ranks, and moves it on. Collective.
    pub fn read_all<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        self.carry_out_pending();
        let bytes = self.read_together(self.position, to.into())?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Writes at the individual pointer, together with the other ranks, and moves it on. Collective.
    pub fn write_all<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        self.carry_out_pending();
        let bytes = self.write_together(self.position, &from.into())?;
        self.move_on(bytes);
        Ok(bytes)
    }

    fn move_on(&mut self, bytes: u64) {
        self.position += bytes / self.view.etype().size();
    }

    // ---- nonblocking ----

    /// Begins to read `buffer.len()` bytes at `offset` etypes.
    pub fn iread_at<B>(&mut self, offset: u64, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        self.check_mode(false, "iread_at")?;
        let shape = MemoryMut::from(buffer.as_mut()).shape;
        let side = self.side("iread_at", offset, &shape)?;
        let way = self.way(false, &side, &shape);
        Ok(self.on_a_thread(false, buffer, move |store, buffer: &mut B, scratch| {
            let mut to = MemoryMut::from(buffer.as_mut());
            read_independently(store, &side, &mut to, way, scratch)
        }))
    }

    /// Begins to write `buffer` at `offset` etypes.
    pub fn iwrite_at<B>(&mut self, offset: u64, buffer: B) -> Result<Request<B>, FileError>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        self.check_mode(true, "iwrite_at")?;
        let shape = Memory::from(buffer.as_ref()).shape;
        let side = self.side("iwrite_at", offset, &shape)?;
        let way = self.way(true, &side, &shape);
        Ok(self.on_a_thread(true, buffer, move |store, buffer: &mut B, scratch| {
            let from = Memory::from(B::as_ref(buffer));
            write_independently(store, &side, &from, way, scratch).map(|()| side.len())
        }))
    }

    /// Begins to read at the individual pointer, and moves it on by the buffer's length.
    pub fn iread<B>(&mut self, mut buffer: B) -> Result<Request<B>, FileError>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let bytes = buffer.as_mut().len() as u64;
        let request = self.iread_at(self.position, buffer)?;
        self.move_on(bytes);
        Ok(request)
    }

    /// Begins to write at the individual pointer, and moves it on.
    pub fn iwrite<B>(&mut self, buffer: B) -> Result<Request<B>, FileError>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let bytes = buffer.as_ref().len() as u64;
        let request = self.iwrite_at(self.position, buffer)?;
        self.move_on(bytes);
        Ok(request)
    }

    /// Begins to read at `offset` etypes, together with the other ranks. Collective: ranks begin such
    /// calls in the same order, and may wait for them in any.
    pub fn iread_at_all<B>(&mut self, offset: u64, mut buffer: B) -> Request<B>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let slot = Slot::new();
        let (result, view) = (Arc::clone(&slot), self.view.clone());
        self.pending.push_back(Pending(Box::new(move |file: &mut Self| {
            let done =
                file.with_view(view, |file| file.read_together(offset, buffer.as_mut().into()));
            result.fill((buffer, done));
        })));
        Request { slot }
    }

    /// Begins to write at `offset` etypes, together with the other ranks. Collective: ranks begin
    /// such calls in the same order, and may wait for them in any.
    pub fn iwrite_at_all<B>(&mut self, offset: u64, buffer: B) -> Request<B>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let slot = Slot::new();
        let (result, view) = (Arc::clone(&slot), self.view.clone());
        self.pending.push_back(Pending(Box::new(move |file: &mut Self| {
            let from = buffer.as_ref().into();
            let done = file.with_view(view, |file| file.write_together(offset, &from));
            result.fill((buffer, done));
        })));
        Request { slot }
    }

    /// Waits for a request, and returns its buffer and the bytes moved. For a collective request all
    /// ranks wait sooner or later.
    pub fn wait<B>(&mut self, request: Request<B>) -> (B, Result<u64, FileError>) {
        loop {
            if let Some(done) = request.slot.try_take() {
                return done;
            }
            match self.pending.pop_front() {
                Some(Pending(carry_out)) => carry_out(self),
                None => return request.slot.take(),
            }
        }
    }

    fn carry_out_pending(&mut self) {
        while let Some(Pending(carry_out)) = self.pending.pop_front() {
            carry_out(self);
        }
    }

    fn join_threads(&mut self) {
        for thread in std::mem::take(&mut self.threads) {
            if let Ok(stats) = thread.join() {
                self.stats += stats;
            }
        }
    }

    fn with_view<T>(&mut self, view: View, call: impl FnOnce(&mut Self) -> T) -> T {
        let current = std::mem::replace(&mut self.view, view);
        let result = call(self);
        self.view = current;
        result
    }

    fn on_a_thread<B: Send + 'static>(
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
            let done = work(&store, &mut buffer, &mut None);
            let wanted = *done.as_ref().unwrap_or(&0);
            result.fill((buffer, done));
            cost_of(write, wanted, store.counts())
        }));
        Request { slot }
    }

    // ---- how it is done ----

    fn check_mode(&self, write: bool, call: &'static str) -> Result<(), FileError> {
        let (mode, needed) = if write { (Mode::WRITE, "writing") } else { (Mode::READ, "reading") };
        if self.mode.contains(mode) {
            Ok(())
        } else {
            Err(FileError::NotOpenedFor { call, needed })
        }
    }

    fn side(&self, call: &'static str, offset: u64, shape: &Shape) -> Result<FileSide, FileError> {
        let etype = self.view.etype().size();
        if !shape.len().is_multiple_of(etype) {
            let reason = format!("{} bytes are not whole etypes of {etype} bytes", shape.len());
            return Err(FileError::Argument { call, reason });
        }
        let position = offset.checked_mul(etype).ok_or_else(|| FileError::Argument {
            call,
            reason: format!("offset {offset} is beyond what a file can hold"),
        })?;
        FileSide::new(&self.view, position, shape.len())
    }

    fn card(&mut self, side: &FileSide, shape: &Shape, write: bool) -> Card {
        let range = side.range().unwrap_or(0..0);
        let costs = if write { self.costs().writes } else { self.costs().reads };
        let regions = side.regions();
        Card {
            failed: false,
            reads_back: self.reads_back,
            len: side.len(),
            low: range.start,
            high: range.end,
            boundary: Boundary::default(),
            regions,
            pieces: regions.max(shape.runs()),
            costs,
        }
    }

    fn costs(&mut self) -> &mut CostModel {
        let path = self.path.as_deref();
        self.costs.get_or_insert_with(|| match path {
            Some(path) => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                CostModel::measure(directory.unwrap_or(Path::new(".")))
            }
            None => CostModel::default(),
        })
    }

    fn setting(&self, write: bool, ranks: usize, nodes: usize) -> Setting {
        let sieve_buffer =
            if write { self.hints.ind_wr_buffer_size } else { self.hints.ind_rd_buffer_size };
        Setting {
            write,
            capabilities: self.store.capabilities(),
            ranks_per_node: ranks as f64 / nodes as f64,
            nodes: nodes as f64,
            cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
            in_memory: true,
            tiled: false,
            window: self.hints.cb_buffer_size.unwrap_or(1 << 20) as f64,
            sieve_buffer: sieve_buffer as f64,
            list_regions: self.hints.list_regions as f64,
        }
    }

    /// Decides how an independent call is carried out.
    fn way(&mut self, write: bool, side: &FileSide, shape: &Shape) -> Way {
        self.decide_alone(write, side, shape).0
    }

    fn decide_alone(&mut self, write: bool, side: &FileSide, shape: &Shape) -> (Way, f64) {
        let setting = Setting { tiled: side.regions() <= 1, ..self.setting(write, 1, 1) };
        let methods = candidates(&self.hints, &setting, false, self.reads_back);
        let (method, seconds) = match methods.as_slice() {
            // Nothing to decide: no need to know what things cost.
            [only] => (*only, 0.0),
            _ => {
                let card = self.card(side, shape, write);
                choose(&methods, &[card], &card.costs, &setting)
            }
        };
        (self.way_of(method, write, side), seconds)
    }

    fn way_of(&self, method: Method, write: bool, side: &FileSide) -> Way {
        let buffer =
            if write { self.hints.ind_wr_buffer_size } else { self.hints.ind_rd_buffer_size };
        let windows = side.range().map_or(0, |range| (range.end - range.start).div_ceil(buffer));
        let share = windows as u128 * self.comm.rank() as u128 / self.comm.size() as u128;
        Way {
            method,
            list_regions: self.hints.list_regions,
            atomic: self.atomic,
            first: share as u64,
        }
    }

    /// Carries out an independent call, and keeps count.
    fn independent(
        &mut self,
        write: bool,
        side: &FileSide,
        shape: &Shape,
        work: impl FnOnce(&dyn Store, Way, &mut Option<AlignedBuffer>) -> Result<u64, FileError>,
    ) -> Result<u64, FileError> {
        let (way, estimate) = self.decide_alone(write, side, shape);
        let before = self.store.counts();
        let start = Instant::now();
        let done = self
            .with_buffer(write, side, way, |file, buffer| work(file.store.as_ref(), way, buffer))?;
        if estimate > 0.0 {
            let took = start.elapsed().as_secs_f64();
            self.costs().learn(write, way.method, estimate, took);
        }
        self.account(write, side, way.method, before, None, 0);
        Ok(done)
    }

    /// Lends the rank's sieve buffer to a call.
    fn with_buffer<T>(
        &mut self,
        write: bool,
        side: &FileSide,
        way: Way,
        call: impl FnOnce(&Self, &mut Option<AlignedBuffer>) -> T,
    ) -> T {
        let mut buffer = self.buffer.take();
        if way.method == Method::Sieve {
            let hint =
                if write { self.hints.ind_wr_buffer_size } else { self.hints.ind_rd_buffer_size };
            let span = side.range().map_or(1, |range| range.end - range.start);
            let len = hint.min(span).max(1) as usize;
            if buffer.as_ref().is_none_or(|buffer| buffer.len() != len) {
                buffer = Some(AlignedBuffer::new(len));
            }
        }
        let result = call(self, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn account(
        &mut self,
        write: bool,
        side: &FileSide,
        method: Method,
        before: Counts,
        domains: Option<(&'static str, bool)>,
        resent: u64,
    ) {
        let mut stats = cost_of(write, side.len(), self.store.counts() - before);
        stats.resent = resent;
        if method == Method::Datatype {
            stats.regions = side.regions();
        }
        self.stats += stats;
        self.last = Some(CallReport {
            method,
            domains: domains.map(|(name, _)| name),
            in_memory: domains.map(|(_, in_memory)| in_memory),
            stats,
        });
    }

    fn read_together(&mut self, offset: u64, mut to: MemoryMut<'_>) -> Result<u64, FileError> {
        let side = self
            .check_mode(false, "read_at_all")
            .and_then(|()| self.side("read_at_all", offset, &to.shape));
        let shape = to.shape.clone();
        self.together(false, side, &shape, &mut |work| match work {
            Work::Alone { store, side, way, buffer } => {
                let bytes = read_independently(store, side, &mut to, way, buffer)?;
                Ok(Outcome { bytes, ..Outcome::default() })
            }
            Work::TwoPhase { call, remote } => call.read(&mut to, remote),
        })
    }

    fn write_together(&mut self, offset: u64, from: &Memory<'_>) -> Result<u64, FileError> {
        let side = self
            .check_mode(true, "write_at_all")
            .and_then(|()| self.side("write_at_all", offset, &from.shape));
        self.together(true, side, &from.shape, &mut |work| match work {
            Work::Alone { store, side, way, buffer } => {
                write_independently(store, side, from, way, buffer)?;
                Ok(Outcome { bytes: side.len(), ..Outcome::default() })
            }
            Work::TwoPhase { call, remote } => call.write(from, remote),
        })
    }

    /// A collective call: meet, decide, carry out, conclude.
    fn together(
        &mut self,
        write: bool,
        side: Result<FileSide, FileError>,
        shape: &Shape,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        self.calls += 1;
        let point = Point::new(self.seed.wrapping_add(self.calls));
        let card = match &side {
            Ok(side) => {
                let own = self.card(side, shape, write);
                // Only a write needs to know about holes.
                let boundary = if write {
                    side.boundary(&(own.low..own.high), &point)
                } else {
                    Ok(Boundary::default())
                };
                boundary.map_or(Card { failed: true, ..Card::default() }, |boundary| Card {
                    boundary,
                    ..own
                })
            }
            Err(_) => Card { failed: true, ..Card::default() },
        };
        let cards = self.meeting.show(comm.as_ref(), card)?;
        if cards.iter().any(|card| card.failed) {
            return disagree(comm.as_ref(), side.map(|_| 0));
        }
        let side = side?;
        let mut taking_part = cards.iter().filter(|card| card.len > 0);
        let Some(first) = taking_part.next() else { return Ok(0) };
        let range = taking_part
            .fold(first.low..first.high, |all, one| all.start.min(one.low)..all.end.max(one.high));
        let whole = point.interval(range.start as i64..range.end as i64);
        let tiled = write && cards.iter().map(|card| card.boundary).sum::<Boundary>() == whole;

        let nodes = comm.nodes().iter().max().map_or(1, |max| max + 1);
        let mut setting = self.setting(write, comm.size(), nodes);
        setting.tiled = tiled;
        setting.in_memory = self
            .exchange
            .as_ref()
            .map_or(self.hints.exchange == Exchange::Auto && nodes < comm.size(), |ring| {
                ring.groups.in_memory
            });
        let reads_back = cards.iter().all(|card| card.reads_back);
        let together = !self.atomic;
        let methods = candidates(&self.hints, &setting, together, reads_back);
        // The costs of rank 0 count, so that all decide alike.
        let (method, estimate) = choose(&methods, &cards, &cards[0].costs, &setting);
        let before = self.store.counts();
        let start = Instant::now();
        let done = if method == Method::TwoPhase {
            self.two_phase(write, &side, range, tiled, &point, before, work)
        } else {
            let way = self.way_of(method, write, &side);
            let local = self.with_buffer(write, &side, way, |file, buffer| {
                let store: &dyn Store = file.store.as_ref();
                work(Work::Alone { store, side: &side, way, buffer })
            });
            let local = local.map(|outcome| outcome.bytes);
            let done = self.meeting.conclude(comm.as_ref(), local);
            self.account(write, &side, method, before, None, 0);
            done
        };
        if methods.len() > 1 && done.is_ok() {
            let took = start.elapsed().as_secs_f64();
            self.costs().learn(write, method, estimate, took);
        }
        done
    }

    #[expect(clippy::too_many_arguments, reason = "all that `together` has found out")]
    fn two_phase(
        &mut self,
        write: bool,
        side: &FileSide,
        range: std::ops::Range<u64>,
        tiled: bool,
        point: &Point,
        before: Counts,
        work: &mut dyn FnMut(Work<'_>) -> Result<Outcome, FileError>,
    ) -> Result<u64, FileError> {
        let comm = Arc::clone(&self.comm);
        let mut ring = match self.exchange.take() {
            Some(ring) => ring,
            None => self.make_ring()?,
        };
        let domains = ring.groups.domains(range);
        let holes = if write {
            Holes::find(comm.as_ref(), &domains, side, point, tiled)?
        } else {
            Holes::None
        };
        let store = Arc::clone(&self.store);
        let call = Call {
            comm: comm.as_ref(),
            store: store.as_ref(),
            groups: &ring.groups,
            domains: &domains,
            staging: &ring.staging,
            first: ring.first,
            file: side,
            holes: &holes,
        };
        let remote = call.descriptions()?;
        let outcome = work(Work::TwoPhase { call: &call, remote: &remote })?;
        let own = ring.groups.aggregator[ring.groups.group_of(comm.rank())];
        ring.first += own.map_or(0, |own| domains.windows(own));

        let local = match outcome.error {
            Some(error) => Err(error),
            None => Ok(outcome.bytes),
        };
        let done = if ring.groups.ranks.len() == 1 && comm.size() > 1 {
            // Everyone has waited for the last window: all see the same.
            if ring.staging.has_failed() { disagree(comm.as_ref(), local) } else { local }
        } else {
            self.meeting.conclude(comm.as_ref(), local)
        };
        if done.is_err() {
            ring.staging.forget_failure();
        }
        let report = (ring.groups.kind.name(), ring.groups.in_memory);
        self.account(write, side, Method::TwoPhase, before, Some(report), outcome.resent);
        self.exchange = Some(ring);
        done
    }

    /// Decides how data travels, and makes the ring; collective.
    fn make_ring(&self) -> Result<Ring, FileError> {
        let comm = self.comm.as_ref();
        let capabilities = self.store.capabilities();
        let ranks = comm.size();
        let shared_by_some = comm.nodes().iter().max().is_some_and(|max| max + 1 < ranks);
        if self.hints.exchange == Exchange::Auto && shared_by_some {
            let groups = Groups::new(comm.nodes(), true, &self.hints, &capabilities);
            let window = groups.window.get() as usize;
            let len = Staging::len(ranks, groups.slots, window);
            if let Some(memory) = comm.node_memory(len)? {
                let staging = Staging::new(Place::Node(memory), ranks, groups.slots, window);
                return Ok(Ring { groups, staging, first: 0 });
            }
        }
        let groups = Groups::new(comm.nodes(), false, &self.hints, &capabilities);
        let window = groups.window.get() as usize;
        // A rank that does not aggregate needs the table only.
        let window = if groups.aggregator[comm.rank()].is_some() { window } else { 0 };
        let staging = Staging::own(ranks, groups.slots, window);
        Ok(Ring { groups, staging, first: 0 })
    }
}

/// What a collective call hands to the direction that knows the memory.
enum Work<'a> {
    Alone {
        store: &'a dyn Store,
        side: &'a FileSide,
        way: Way,
        buffer: &'a mut Option<AlignedBuffer>,
    },
    TwoPhase {
        call: &'a Call<'a>,
        remote: &'a [(usize, FileSide)],
    },
}

impl Drop for File {
    fn drop(&mut self) {
        self.join_threads();
    }
}

fn cost_of(write: bool, wanted: u64, counts: Counts) -> Stats {
    let (there, back) =
        if write { (counts.write, counts.read) } else { (counts.read, counts.write) };
    Stats {
        calls: 1,
        wanted,
        accessed: there.bytes,
        operations: there.operations,
        read_back: back.bytes,
        read_backs: back.operations,
        resent: 0,
        regions: there.regions,
    }
}

/// The buffer of a sieve; the thread of a nonblocking call has none yet.
fn sieve_buffer<'b>(
    buffer: &'b mut Option<AlignedBuffer>,
    side: &FileSide,
) -> &'b mut AlignedBuffer {
    buffer.get_or_insert_with(|| {
        let span = side.range().map_or(1, |range| range.end - range.start);
        AlignedBuffer::new(span.min(512 << 10) as usize)
    })
}

fn read_independently(
    store: &dyn Store,
    side: &FileSide,
    to: &mut MemoryMut<'_>,
    way: Way,
    buffer: &mut Option<AlignedBuffer>,
) -> Result<u64, FileError> {
    let Some(range) = side.range() else { return Ok(0) };
    let lock = way.atomic.then(|| store.lock(range, LockKind::Shared)).transpose()?;
    let bytes = match way.method {
        Method::Sieve => sieve::read(store, side, to, sieve_buffer(buffer, side))?,
        Method::List => list::read(store, side, to, way.list_regions)?,
        Method::Datatype => datatype::read(store, side, to)?,
        Method::Posix | Method::TwoPhase => posix::read(store, side, to)?,
    };
    drop(lock);
    Ok(bytes)
}

fn write_independently(
    store: &dyn Store,
    side: &FileSide,
    from: &Memory<'_>,
    way: Way,
    buffer: &mut Option<AlignedBuffer>,
) -> Result<(), FileError> {
    let Some(range) = side.range() else { return Ok(()) };
    let lock = way.atomic.then(|| store.lock(range, LockKind::Exclusive)).transpose()?;
    match way.method {
        Method::Sieve => {
            let plan = sieve::WritePlan { first: way.first, locked: way.atomic };
            sieve::write(store, side, from, sieve_buffer(buffer, side), &plan)?;
        }
        Method::List => list::write(store, side, from, way.list_regions)?,
        Method::Datatype => datatype::write(store, side, from)?,
        Method::Posix | Method::TwoPhase => posix::write(store, side, from)?,
    }
    drop(lock);
    Ok(())
}

/// Checks the mode, and makes rank 0's hints and a fresh seed everyone's. Collective.
fn first_agreement(comm: &dyn Comm, mode: Mode, hints: &Hints) -> Result<(Hints, u64), FileError> {
    disagree(comm, mode.check())?;
    let seed = RandomState::new().hash_one(std::process::id());
    let mut text = format!("{seed} {hints}").into_bytes();
    comm.broadcast(0, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    let (seed, hints) = text.split_once(' ').unwrap_or(("0", &text));
    Ok((hints.parse()?, seed.parse().unwrap_or(0)))
}

/// Opens for reading, too, where only writing is asked for: methods that change a part of a window
/// must read the rest. Where that is forbidden, such methods are out of the question.
fn open_posix(
    path: &Path,
    mode: Mode,
    hints: &Hints,
    first: bool,
) -> Result<(PosixFile, bool), FileError> {
    let write = mode.contains(Mode::WRITE);
    let options = PosixOptions {
        read: true,
        write,
        create: first && mode.contains(Mode::CREATE),
        exclusive: first && mode.contains(Mode::EXCLUSIVE),
        direct: hints.direct == Switch::Enable,
        list_regions: hints.list_regions as usize,
        ..PosixOptions::default()
    };
    let write_only = PosixOptions { read: false, ..options.clone() };
    match PosixFile::open(path, &options) {
        Err(_) if write && !mode.contains(Mode::READ) => {
            Ok((PosixFile::open(path, &write_only)?, false))
        }
        opened => Ok((opened?, true)),
    }
}
