//! How a rank carries out an access by itself: the decision, the method, the books.

use std::ops::Range;
use std::sync::Arc;

use striate_layout::characteristics::Method;
use striate_store::store::{Lock, LockKind, Placement, Store};
use striate_store::{AlignedBuffer, Counts};

use striate_datatype::{Boundary, Datatype, Element};

use super::stream_buffers::StreamBuffers;
use crate::access::FileSide;
use crate::cores::cores;
use crate::cost_model::PieceSize;
use crate::hints::MethodChoice;
use crate::memory::{Content, ContentMut, Shape};
use crate::method::two_phase::waiter::Waiter;
use crate::method::two_phase::window_ring::WindowRing;
use crate::method::{datatype, list, posix, sieve};
use crate::method_selection::{Setting, candidates, choose};
use crate::overlapping_read::OverlappingRead;
use crate::rendezvous::Proposal;
use crate::{CallReport, File, FileError, Memory, MemoryMut, Mode, Stats, View};

/// How an independent access is carried out.
#[derive(Clone, Debug)]
pub(super) struct IndependentPlan {
    pub(super) method: Method,
    list_regions: u64,
    atomic: bool,
    /// Bytes of the sieve's buffer, at most.
    window: u64,
    /// The sieve's first window.
    first: u64,
    guard: WriteGuard,
    /// Whether there are more cores than ranks.
    beside: bool,
}

/// An access that is contiguous on both sides.
pub(super) struct ContiguousRequest {
    pub(super) offset: u64,
    pub(super) memory: Range<usize>,
}

/// What keeps plain writes from coming between the read and the write of a sieve in another rank.
#[derive(Clone, Debug)]
pub(super) enum WriteGuard {
    /// There is nobody else, or nobody sieves.
    None,
    /// A lock, unless the ranks know by their common memory, where this one has a number, that nobody has sieved so
    /// far.
    Lock(Option<(Arc<WindowRing>, usize)>),
}

impl File {
    #[inline]
    pub(super) fn check_mode(&self, write: bool, call: &'static str) -> Result<(), FileError> {
        let (mode, needed) = if write { (Mode::WRITE, "writing") } else { (Mode::READ, "reading") };
        if self.mode.contains(mode) {
            Ok(())
        } else {
            Err(FileError::NotOpenedFor { call, needed })
        }
    }

    pub(super) fn side(
        &self,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> Result<FileSide, FileError> {
        FileSide::new(&self.view, self.stream_position(call, offset, shape)?, shape.len())
    }

    /// The access, if the view may show bytes of it more than once, and room for these bytes.
    pub(super) fn overlap(
        &self,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> Result<Option<(OverlappingRead, Vec<u8>)>, FileError> {
        if !self.view.overlaps() {
            return Ok(None);
        }
        let position = self.stream_position(call, offset, shape)?;
        if !self.view.folds(position, shape.len()) {
            return Ok(None);
        }
        let overlap = OverlappingRead::new(&self.view, position, shape.len())?;
        let room = overlap.room()?;
        Ok(Some((overlap, room)))
    }

    /// Where an access of whole etypes begins in the view's stream.
    fn stream_position(
        &self,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> Result<u64, FileError> {
        let etype = self.view.etype().size();
        if !shape.len().is_multiple_of(etype) {
            let reason = format!("{} bytes are not whole etypes of {etype} bytes", shape.len());
            return Err(FileError::Argument { call, reason });
        }
        offset.checked_mul(etype).ok_or_else(|| FileError::Argument {
            call,
            reason: format!("offset {offset} is beyond what a file can hold"),
        })
    }

    /// The side of a call that brings its own description of the file.
    pub(super) fn placed(
        call: &'static str,
        place: &Placement,
        shape: &Shape,
    ) -> Result<FileSide, FileError> {
        if place.len != shape.len() {
            let reason = format!("{} bytes of memory for {} of the file", shape.len(), place.len);
            return Err(FileError::Argument { call, reason });
        }
        if place.len == 0 {
            return FileSide::new(&View::bytes(), 0, 0);
        }
        // The same is asked of views, for the same reasons.
        let byte = Datatype::element(Element::U8);
        View::new(place.displacement, &byte, &place.datatype)?.shows(place.start, place.len)?;
        Ok(FileSide::from_placement(place.clone())?)
    }

    pub(super) fn proposal(&self, side: &FileSide, shape: &Shape, write: bool) -> Proposal {
        let range = side.range().unwrap_or(0..0);
        let regions = side.regions();
        let pieces = regions.max(shape.runs());
        // Rank 0 tells what it has learned since the file was opened.
        let costs = match self.comm.rank() {
            0 => self.model.known().hopeful_costs(write, PieceSize::of(side.len(), pieces)),
            _ => self.costs.costs(write, PieceSize::of(side.len(), pieces)),
        };
        Proposal {
            failed: false,
            reads_back: self.reads_back,
            note: self.note,
            len: side.len(),
            low: range.start,
            high: range.end,
            boundary: Boundary::default(),
            regions,
            pieces,
            costs,
        }
    }

    pub(super) fn setting(&self, write: bool, ranks: usize, nodes: usize) -> Setting {
        let sieve_buffer = self.hints.sieve_buffer(write);
        Setting {
            write,
            capabilities: self.store.capabilities(),
            ranks_per_node: ranks as f64 / nodes as f64,
            nodes: nodes as f64,
            cores: cores() as f64,
            in_memory: true,
            new_rings: if self.exchange.is_some() { 0.0 } else { 1.0 },
            tiled: false,
            window: self.hints.cb_buffer_size.unwrap_or(1 << 20) as f64,
            sieve_buffer: sieve_buffer as f64,
            list_regions: self.hints.list_regions as f64,
        }
    }

    /// Decides how an independent call is carried out.
    pub(super) fn way(&self, write: bool, side: &FileSide, shape: &Shape) -> IndependentPlan {
        self.way_of(self.best_alone(write, side, shape), write, side)
    }

    pub(super) fn best_alone(&self, write: bool, side: &FileSide, shape: &Shape) -> Method {
        self.estimate_alone(write, side, shape).0
    }

    /// The cheapest method that needs nobody, and the seconds it would take.
    pub(super) fn estimate_alone(
        &self,
        write: bool,
        side: &FileSide,
        shape: &Shape,
    ) -> (Method, f64) {
        // The others are likely to do the same at the same time.
        let ranks = self.ranks_here();
        let setting = Setting { tiled: side.regions() <= 1, ..self.setting(write, ranks, 1) };
        let mut methods = candidates(&self.hints, &setting, false, self.reads_back);
        if methods.len() > 1 && side.regions() <= 1 && shape.runs() <= 1 {
            // One request is one request.
            methods = vec![Method::Posix];
        }
        let proposal = self.proposal(side, shape, write);
        let costs = self.costs.costs(write, PieceSize::of(proposal.len, proposal.pieces));
        choose(&methods, &vec![proposal; ranks], &costs, &setting)
    }

    /// Ranks of this rank's node.
    fn ranks_here(&self) -> usize {
        let here = self.comm.nodes()[self.comm.rank()];
        self.comm.nodes().iter().filter(|&&node| node == here).count()
    }

    pub(super) fn way_of(&self, method: Method, write: bool, side: &FileSide) -> IndependentPlan {
        let buffer = self.hints.sieve_buffer(write);
        let windows = side.range().map_or(0, |range| (range.end - range.start).div_ceil(buffer));
        let share = u128::from(windows) * self.comm.rank() as u128 / self.comm.size() as u128;
        let guard = if write { self.write_guard() } else { WriteGuard::None };
        IndependentPlan {
            method,
            list_regions: self.hints.list_regions,
            atomic: self.atomic,
            window: buffer,
            first: share as u64,
            guard,
            beside: self.ranks_here() < cores(),
        }
    }

    pub(super) fn write_guard(&self) -> WriteGuard {
        if self.needs_guard() {
            WriteGuard::Lock(self.meeting.room().map(|room| (Arc::clone(room), self.comm.rank())))
        } else {
            WriteGuard::None
        }
    }

    #[inline]
    pub(super) fn needs_guard(&self) -> bool {
        self.sieved && (self.comm.size() > 1 || !self.background.is_idle())
    }

    /// What one plain write needs.
    pub(super) fn guard_plain(&self, range: Range<u64>) -> Result<Guard<'_>, FileError> {
        if !self.needs_guard() {
            return Ok(Guard::None);
        }
        let room = self.meeting.room().map(|room| (&**room, self.comm.rank()));
        Guard::locked_or_not(self.store.as_ref(), range, room)
    }

    /// The access as one request, if it is contiguous on both sides, and no more is asked for: most
    /// calls of most programs, which should cost what the system call costs. Its books are kept
    /// apart (`account_plain`), so that it goes past the store's counters.
    #[inline]
    pub(super) fn plain(&self, offset: u64, shape: &Shape) -> Option<ContiguousRequest> {
        let free =
            matches!(self.hints.method, MethodChoice::Auto | MethodChoice::Fixed(Method::Posix));
        let memory = shape.contiguous()?;
        let etype = self.view.etype().size();
        // A division is a good part of what is done here.
        let whole_etypes = etype == 1 || shape.len().is_multiple_of(etype);
        if !free || self.atomic || shape.len() == 0 || !whole_etypes {
            return None;
        }
        let position = offset.checked_mul(etype)?;
        let start = self.view.run_at(position, shape.len())?;
        start.checked_add(shape.len()).filter(|&end| i64::try_from(end).is_ok())?;
        Some(ContiguousRequest { offset: start, memory: memory..memory + shape.len() as usize })
    }

    #[inline]
    pub(super) fn account_plain(&mut self, plain: &ContiguousRequest, moved: u64) {
        let stats = Stats {
            calls: 1,
            wanted: plain.memory.len() as u64,
            accessed: moved,
            operations: 1,
            regions: 1,
            ..Stats::default()
        };
        self.stats += stats;
        self.usage.count(Method::Posix);
        self.last =
            Some(CallReport { method: Method::Posix, domains: None, in_memory: None, stats });
    }

    /// Carries out an independent call, and keeps count.
    pub(super) fn independent(
        &mut self,
        write: bool,
        side: &FileSide,
        shape: &Shape,
        work: impl FnOnce(
            &dyn Store,
            &IndependentPlan,
            &mut Option<AlignedBuffer>,
        ) -> Result<u64, FileError>,
    ) -> Result<u64, FileError> {
        let way = self.way(write, side, shape);
        let before = self.store.counts();
        let method = way.method;
        let done = self.with_buffer(write, side, method, |file, buffer| {
            work(file.store.as_ref(), &way, buffer)
        })?;
        self.account(write, side, method, before, None, 0);
        Ok(done)
    }

    /// Lends the rank's sieve buffer to a call.
    pub(super) fn with_buffer<T>(
        &mut self,
        write: bool,
        side: &FileSide,
        method: Method,
        call: impl FnOnce(&Self, &mut Option<AlignedBuffer>) -> T,
    ) -> T {
        let mut buffer = self.buffer.take();
        if method == Method::Sieve {
            let hint = self.hints.sieve_buffer(write);
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

    pub(super) fn account(
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
        if matches!(method, Method::Datatype | Method::List) {
            // The store sees none of them, or pieces of them.
            stats.regions = side.regions();
        }
        self.stats += stats;
        self.usage.count(method);
        self.last = Some(CallReport {
            method,
            domains: domains.map(|(name, _)| name),
            in_memory: domains.map(|(_, in_memory)| in_memory),
            stats,
        });
    }
}

pub(super) fn cost_of(write: bool, wanted: u64, counts: Counts) -> Stats {
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
pub(super) fn sieve_buffer<'b>(
    buffer: &'b mut Option<AlignedBuffer>,
    side: &FileSide,
    way: &IndependentPlan,
) -> &'b mut AlignedBuffer {
    buffer.get_or_insert_with(|| {
        let span = side.range().map_or(1, |range| range.end - range.start);
        AlignedBuffer::new(span.min(way.window) as usize)
    })
}

pub(super) fn read_independently(
    store: &dyn Store,
    side: &FileSide,
    to: &mut MemoryMut<'_>,
    way: &IndependentPlan,
    buffer: &mut Option<AlignedBuffer>,
) -> Result<u64, FileError> {
    let Some(range) = side.range() else { return Ok(0) };
    let lock = way.atomic.then(|| store.lock(range, LockKind::Shared)).transpose()?;
    if let (ContentMut::Made(target), false) = (&mut to.content, way.method == Method::Sieve) {
        let windows = StreamBuffers { store, side, beside: way.beside, buffer };
        let bytes = windows.read(&mut **target, &|part: &FileSide, bytes: &mut [u8]| {
            read_bytes(store, part, &mut bytes.into(), way)
        })?;
        drop(lock);
        return Ok(bytes);
    }
    let bytes = match way.method {
        Method::Sieve => sieve::read(store, side, to, sieve_buffer(buffer, side, way))?,
        _ => read_bytes(store, side, to, way)?,
    };
    drop(lock);
    Ok(bytes)
}

pub(super) fn write_independently(
    store: &dyn Store,
    side: &FileSide,
    from: &Memory<'_>,
    way: &IndependentPlan,
    buffer: &mut Option<AlignedBuffer>,
) -> Result<(), FileError> {
    let Some(range) = side.range() else { return Ok(()) };
    let guard = if way.atomic {
        Guard::Locked { _lock: store.lock(range, LockKind::Exclusive)? }
    } else if way.method == Method::Sieve {
        // It locks window by window.
        Guard::None
    } else {
        Guard::new(store, range, &way.guard)?
    };
    match way.method {
        Method::Sieve => {
            if let WriteGuard::Lock(Some((room, _))) = &way.guard {
                // The ranks outlive each other's writes: there is nobody to ask for health.
                room.begin_sieving(Waiter::Helper)?;
            }
            let plan = sieve::WritePlan { first: way.first, locked: way.atomic };
            sieve::write(store, side, from, sieve_buffer(buffer, side, way), &plan)?;
        }
        _ => match from.content {
            Content::Made(source) => {
                let windows = StreamBuffers { store, side, beside: way.beside, buffer };
                windows.write(source, &|part: &FileSide, bytes: &mut [u8]| {
                    write_bytes(store, part, &(&*bytes).into(), way)?;
                    Ok(part.len())
                })?;
            }
            Content::Bytes(_) => write_bytes(store, side, from, way)?,
        },
    }
    drop(guard);
    Ok(())
}

/// By one of the methods that hand memory to the store as it is.
fn read_bytes(
    store: &dyn Store,
    side: &FileSide,
    to: &mut MemoryMut<'_>,
    way: &IndependentPlan,
) -> Result<u64, FileError> {
    match way.method {
        Method::List => list::read(store, side, to, way.list_regions),
        Method::Datatype => datatype::read(store, side, to),
        _ => posix::read(store, side, to),
    }
}

fn write_bytes(
    store: &dyn Store,
    side: &FileSide,
    from: &Memory<'_>,
    way: &IndependentPlan,
) -> Result<(), FileError> {
    match way.method {
        Method::List => list::write(store, side, from, way.list_regions),
        Method::Datatype => datatype::write(store, side, from),
        _ => posix::write(store, side, from),
    }
}

/// Held while a plain write is under way.
pub(super) enum Guard<'a> {
    None,
    /// Nobody sieves.
    Unlocked {
        _until_dropped: Unlocked<'a>,
    },
    Locked {
        _lock: Box<dyn Lock + 'a>,
    },
}

impl<'a> Guard<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        range: Range<u64>,
        guard: &'a WriteGuard,
    ) -> Result<Self, FileError> {
        let WriteGuard::Lock(room) = guard else { return Ok(Self::None) };
        Self::locked_or_not(store, range, room.as_ref().map(|(room, rank)| (&**room, *rank)))
    }

    fn locked_or_not(
        store: &'a dyn Store,
        range: Range<u64>,
        room: Option<(&'a WindowRing, usize)>,
    ) -> Result<Self, FileError> {
        if let Some(until_dropped) = room.and_then(|(room, rank)| Unlocked::begin(room, rank)) {
            return Ok(Self::Unlocked { _until_dropped: until_dropped });
        }
        Ok(Self::Locked { _lock: store.lock(range, LockKind::Shared)? })
    }
}

/// A write without a lock, while nobody sieves.
pub(super) struct Unlocked<'a>(&'a WindowRing, usize);

impl<'a> Unlocked<'a> {
    fn begin(room: &'a WindowRing, rank: usize) -> Option<Self> {
        // Made only if it has begun: it ends when it is dropped.
        room.begin_unlocked(rank).then(|| Self(room, rank))
    }
}

impl Drop for Unlocked<'_> {
    fn drop(&mut self) {
        self.0.end_unlocked(self.1);
    }
}
