//! Accesses that were begun and not carried out, and how they become few large ones.
//!
//! Accesses that lie apart in the file are stacked: one datatype whose fields they are. Those whose
//! ranges in the file cross each other are carried out window by window of the file: their bytes of a
//! window are put together in a buffer, later accesses over earlier ones, and written or read in one go.

use striate_datatype::{Cursor, Datatype, TypeError};
use striate_file::{Gather, Placement, Scatter};

use crate::ArrayError;
use crate::access::Access;
use crate::stream::{Incoming, Outgoing, Part, Stacked};

/// Accesses that one stack holds at most: descriptions are limited in what they may be made of.
const STACKED: usize = 2048;
/// Memory that several accesses share and that stays in a core's cache.
const TILE: u64 = 1 << 20;
/// What an access writes of a tile, at least.
const PIECE: u64 = 16 << 10;
/// Bytes of the file that a window spans at most.
const WINDOW: u64 = 16 << 20;
/// Contiguous pieces that a window holds at most.
const RUNS: usize = 1 << 16;

/// Accesses that were begun, and the memory they borrow; made by [`crate::Dataset::iput`] and the like,
/// carried out by [`crate::Dataset::wait_all`]. Dropping it forgets them.
#[derive(Debug, Default)]
pub struct Pending<'m> {
    /// Of which dataset, as it was defined then.
    of: Option<u64>,
    pub(crate) puts: Vec<Access<Outgoing<'m>>>,
    pub(crate) gets: Vec<Access<Incoming<'m>>>,
}

impl Pending<'_> {
    /// Nothing begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// An error unless everything was begun on that dataset, as it is defined now: what was begun is
    /// places in a file, which another dataset does not have, nor the same one laid out anew.
    pub(crate) fn check(&self, dataset: u64) -> Result<(), ArrayError> {
        if self.of.is_none_or(|of| of == dataset) {
            return Ok(());
        }
        Err(ArrayError::Definition {
            what: "pending accesses".into(),
            reason: "they were begun on another dataset, or before this one was redefined".into(),
        })
    }

    /// Binds it to a dataset, if nothing was begun yet.
    pub(crate) fn begin_on(&mut self, dataset: u64) -> Result<(), ArrayError> {
        self.check(dataset)?;
        self.of = Some(dataset);
        Ok(())
    }

    /// How many accesses were begun.
    pub fn len(&self) -> usize {
        self.puts.len() + self.gets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How accesses are carried out: lists of their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Each is one stack: accesses that lie apart, in the order of the file.
    pub(crate) stacks: Vec<Vec<usize>>,
    /// Each is a cluster of accesses that cross.
    pub(crate) clusters: Vec<Vec<usize>>,
}

/// From the first to the last byte.
pub(crate) fn range(place: &Placement) -> std::ops::Range<u64> {
    let low = place.displacement.saturating_add_signed(place.datatype.true_lower_bound());
    let high = place.displacement.saturating_add_signed(place.datatype.true_upper_bound());
    low..high
}

impl Schedule {
    pub(crate) fn new<'p>(places: impl Iterator<Item = &'p Placement>) -> Self {
        let mut ranges: Vec<(u64, u64, usize)> = places
            .enumerate()
            .filter(|(_, place)| place.len > 0)
            .map(|(number, place)| (range(place).start, range(place).end, number))
            .collect();
        ranges.sort_unstable();
        let mut schedule = Self::default();
        let mut apart = Vec::new();
        let mut rest = ranges.as_slice();
        while let Some(&(_, mut end, _)) = rest.first() {
            let mut len = 1;
            while let Some(&(low, high, _)) = rest.get(len)
                && low < end
            {
                end = end.max(high);
                len += 1;
            }
            let (cluster, behind) = rest.split_at(len);
            let mut numbers: Vec<usize> = cluster.iter().map(|&(_, _, number)| number).collect();
            if len == 1 {
                apart.append(&mut numbers);
            } else {
                numbers.sort_unstable();
                schedule.clusters.push(numbers);
            }
            rest = behind;
        }
        schedule.stacks = apart.chunks(STACKED).map(<[usize]>::to_vec).collect();
        schedule
    }
}

/// Several places, in ascending order, as one.
pub(crate) fn stack(places: &[&Placement]) -> Result<Placement, TypeError> {
    let far = |_| TypeError::Overflow { what: "an offset in the file" };
    let fields = places.iter().map(|place| {
        let offset = i64::try_from(place.displacement).map_err(far)?;
        Ok((1, offset, place.datatype.clone()))
    });
    let fields: Vec<_> = fields.collect::<Result<_, TypeError>>()?;
    let datatype = Datatype::structure(&fields)?;
    let len = datatype.size();
    Ok(Placement { displacement: 0, datatype, start: 0, len })
}

/// Nothing.
pub(crate) fn nowhere() -> Result<Placement, TypeError> {
    Ok(Placement { displacement: 0, datatype: Datatype::bytes(1)?, start: 0, len: 0 })
}

/// A contiguous piece of an access.
#[derive(Clone, Copy, Debug)]
struct Run {
    offset: u64,
    len: u64,
    /// Whose.
    access: usize,
    /// From where in its stream.
    position: u64,
}

/// A cluster of accesses, window by window.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Number of each access, where it lies, and how far it has been carried out.
    accesses: Vec<(usize, Datatype, u64)>,
}

/// What is done in one window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    runs: Vec<Run>,
    /// Regions of the file, and where each begins in the buffer.
    regions: Vec<(u64, u64, u64)>,
}

impl Windows {
    pub(crate) fn new<'p>(
        accesses: impl Iterator<Item = (usize, &'p Placement)>,
    ) -> Result<Self, TypeError> {
        let accesses = accesses.map(|(number, place)| Ok((number, place.as_type()?, 0)));
        Ok(Self { accesses: accesses.collect::<Result<_, TypeError>>()? })
    }

    /// The next window; `None` when all is done.
    pub(crate) fn next(&mut self) -> Result<Option<Window>, TypeError> {
        let each = (RUNS / self.accesses.len().max(1)).max(16);
        let mut base = None;
        for (_, datatype, position) in &self.accesses {
            let mut cursor = Cursor::new(datatype, 1)?;
            cursor.seek(*position);
            base = [base, cursor.offset()].into_iter().flatten().min();
        }
        let Some(base) = base else { return Ok(None) };
        let mut end = base + WINDOW as i64;
        let mut runs: Vec<Run> = Vec::new();
        for (access, datatype, position) in &self.accesses {
            let mut cursor = Cursor::new(datatype, 1)?;
            cursor.seek(*position);
            for taken in 0.. {
                let Some(offset) = cursor.offset().filter(|&offset| offset < end) else { break };
                if taken == each {
                    // Enough of this one: the window ends here, for the others as well.
                    end = offset;
                    break;
                }
                let position = cursor.position();
                let Some(run) = cursor.next_run((end - offset) as u64) else { break };
                let (offset, len) = (run.offset as u64, run.len);
                runs.push(Run { offset, len, access: *access, position });
            }
        }
        runs.retain(|run| run.offset < end as u64);
        for run in &mut runs {
            run.len = run.len.min(end as u64 - run.offset);
        }
        for (_, datatype, position) in &mut self.accesses {
            *position = (*position).max(datatype.bytes_before(1, end)?);
        }
        Ok(Some(Window::new(runs)))
    }
}

impl Window {
    fn new(runs: Vec<Run>) -> Self {
        let mut sorted: Vec<(u64, u64)> = runs.iter().map(|run| (run.offset, run.len)).collect();
        sorted.sort_unstable();
        let mut regions: Vec<(u64, u64, u64)> = Vec::new();
        let mut total = 0;
        for (offset, len) in sorted {
            match regions.last_mut() {
                Some((start, have, _)) if offset <= *start + *have => {
                    let more = (offset + len).saturating_sub(*start + *have);
                    *have += more;
                    total += more;
                }
                _ => {
                    regions.push((offset, len, total));
                    total += len;
                }
            }
        }
        Self { runs, regions }
    }

    /// Where it lies in the file.
    pub(crate) fn place(&self) -> Result<Placement, TypeError> {
        if self.regions.is_empty() {
            return nowhere();
        }
        regions_at(self.regions.iter().map(|&(at, len, _)| (at, len)))
    }

    /// Where a run lies in the buffer.
    fn in_buffer(&self, run: &Run) -> std::ops::Range<usize> {
        let region = self.regions.partition_point(|&(at, _, _)| at <= run.offset);
        let (at, _, first) = self.regions[region.saturating_sub(1)];
        let start = (first + run.offset - at) as usize;
        start..start + run.len as usize
    }

    fn buffer(&self) -> Vec<u8> {
        vec![0; self.regions.iter().map(|&(_, len, _)| len).sum::<u64>() as usize]
    }

    /// The bytes to be written: later accesses lie over earlier ones.
    pub(crate) fn gather(&self, accesses: &[Access<Outgoing<'_>>]) -> Result<Vec<u8>, ArrayError> {
        let mut buffer = self.buffer();
        for run in &self.runs {
            let room = &mut buffer[self.in_buffer(run)];
            accesses[run.access].memory.gather(run.position, room)?;
        }
        Ok(buffer)
    }

    /// Room for the bytes to be read.
    pub(crate) fn room(&self) -> Vec<u8> {
        self.buffer()
    }

    /// Hands out what was read.
    pub(crate) fn scatter(
        &self,
        buffer: &[u8],
        accesses: &mut [Access<Incoming<'_>>],
    ) -> Result<(), ArrayError> {
        for run in &self.runs {
            let bytes = &buffer[self.in_buffer(run)];
            accesses[run.access].memory.scatter(run.position, bytes)?;
        }
        Ok(())
    }
}

/// What one access of the file room carries out: parts of accesses, and where they lie together.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) place: Placement,
    pub(crate) parts: Vec<(usize, std::ops::Range<u64>)>,
}

impl Round {
    /// The rounds of a stack: one, or as many as keep the memory of each in a core's cache.
    pub(crate) fn of<M: Footprint>(
        accesses: &[Access<M>],
        numbers: &[usize],
    ) -> Result<Vec<Self>, TypeError> {
        let places: Vec<&Placement> =
            numbers.iter().map(|&number| &accesses[number].place).collect();
        let tiles = tiles(accesses, numbers);
        let round = |tile: u64| {
            let cut = |len: u64, tile: u64| {
                (u128::from(len) * u128::from(tile) / u128::from(tiles)) as u64
            };
            let ranges = places.iter().map(|place| cut(place.len, tile)..cut(place.len, tile + 1));
            let parts: Vec<_> = numbers.iter().copied().zip(ranges).collect();
            let place = match places.as_slice() {
                _ if tiles > 1 => {
                    let regions = parts.iter().zip(&places).map(|((_, part), place)| {
                        (range(place).start + part.start, part.end - part.start)
                    });
                    regions_at(regions)?
                }
                [one] => (*one).clone(),
                many => stack(many)?,
            };
            Ok(Self { place, parts })
        };
        (0..tiles).map(round).collect()
    }
}

/// Contiguous regions of the file, in ascending order.
fn regions_at(regions: impl Iterator<Item = (u64, u64)>) -> Result<Placement, TypeError> {
    let blocks: Vec<(u64, i64)> = regions.map(|(offset, len)| (len, offset as i64)).collect();
    let datatype = Datatype::hindexed(&blocks, &Datatype::bytes(1)?)?;
    let len = datatype.size();
    Ok(Placement { displacement: 0, datatype, start: 0, len })
}

/// Memory that knows between which addresses its elements lie with gaps.
pub(crate) trait Footprint {
    fn footprint(&self) -> Option<std::ops::Range<usize>>;
}

impl Footprint for Outgoing<'_> {
    fn footprint(&self) -> Option<std::ops::Range<usize>> {
        Outgoing::footprint(self)
    }
}

impl Footprint for Incoming<'_> {
    /// Borrowed alone, so that nobody else's elements lie in its gaps.
    fn footprint(&self) -> Option<std::ops::Range<usize>> {
        None
    }
}

/// Into how many rounds a stack is cut. Where the elements of several variables lie in each other's
/// gaps, as in FLASH's blocks, each would bring the same memory into the cache again; so all of them
/// write what lies in some of the memory before they go on to the next. What is written then are
/// pieces, which must not become small, and lie together in the file.
fn tiles<M: Footprint>(accesses: &[Access<M>], numbers: &[usize]) -> u64 {
    let mut shared = 0;
    let mut span: Option<std::ops::Range<usize>> = None;
    let mut longest = 0;
    for &number in numbers {
        let access = &accesses[number];
        if access.place.datatype.runs() > 1 || access.place.start > 0 {
            return 1;
        }
        if let Some(own) = access.memory.footprint() {
            let meets = span.as_ref().is_none_or(|all| own.start < all.end && all.start < own.end);
            if meets {
                shared += 1;
                longest = longest.max(access.place.len);
                span = Some(
                    span.map_or(own.clone(), |all| all.start.min(own.start)..all.end.max(own.end)),
                );
            }
        }
    }
    match span {
        Some(span) if shared > 1 => (span.len() as u64 / TILE).min(longest / PIECE).max(1),
        _ => 1,
    }
}

/// Streams of parts of accesses, one behind the other.
pub(crate) fn stacked<'s, 'm>(
    accesses: &'s [Access<Outgoing<'m>>],
    round: &Round,
) -> Stacked<Part<'s, 'm>> {
    let part = |(number, range): &(usize, std::ops::Range<u64>)| {
        let of: &'s Outgoing<'m> = &accesses[*number].memory;
        Part { of, range: range.clone() }
    };
    Stacked::new(round.parts.iter().map(part).collect(), Gather::stream_len)
}

/// Streams of accesses, one behind the other; reads are not cut into parts.
pub(crate) fn stacked_mut<'s, 'm>(
    accesses: &'s mut [Access<Incoming<'m>>],
    round: &Round,
) -> Stacked<&'s mut Incoming<'m>> {
    let mut all: Vec<Option<&'s mut Incoming<'m>>> =
        accesses.iter_mut().map(|access| Some(&mut access.memory)).collect();
    let parts = round.parts.iter().filter_map(|(number, _)| all[*number].take()).collect();
    Stacked::new(parts, |part: &&mut Incoming<'_>| part.stream_len())
}
