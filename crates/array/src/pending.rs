//! [`Pending`]: nonblocking accesses, and how they are combined into few large ones.
//!
//! Accesses whose ranges in the file are disjoint are combined: one datatype with a field for each.
//! Accesses whose ranges overlap form a cluster, which is carried out in windows of the file: the
//! bytes of a window are collected in a buffer, later accesses over earlier ones, and written or
//! read with one access.

use striate_datatype::{Cursor, Datatype, TypeError};
use striate_file::{Gather, Placement, Scatter};

use crate::access::Access;
use crate::netcdf4::HeapWrite;
use crate::stream::{ConcatenatedStreams, ReadStream, StreamPart, WriteStream};
use crate::{ArrayError, placement};

/// Accesses that are combined at most: the number of loops of a description is limited.
const MAX_COMBINED: usize = 2048;
/// Memory shared by several accesses that stays in a core's cache.
const TILE: u64 = 1 << 20;
/// Bytes that an access writes of a tile, at least.
const MIN_TILE_PIECE: u64 = 16 << 10;
/// Bytes of the file that a window spans at most.
const WINDOW: u64 = 16 << 20;
/// Runs that a window contains at most.
const MAX_RUNS: usize = 1 << 16;

/// Nonblocking accesses and the memory they borrow: started by [`crate::Dataset::iput`] and the
/// like, carried out by [`crate::Dataset::wait_all`]. Dropping it cancels them.
#[derive(Debug, Default)]
pub struct Pending<'m> {
    /// The dataset, in the state of its definitions when the first access was started.
    of: Option<u64>,
    pub(crate) puts: Vec<Access<WriteStream<'m>>>,
    pub(crate) gets: Vec<Access<ReadStream<'m>>>,
    /// Writes of values of variable length, which have a copy of them.
    pub(crate) heap_writes: Vec<HeapWrite>,
}

impl Pending<'_> {
    /// No accesses.
    pub fn new() -> Self {
        Self::default()
    }

    /// An error unless all accesses were started on that dataset as it is defined now: they contain
    /// offsets in the file, which another dataset, or the same one after a redefinition, does not
    /// share.
    pub(crate) fn check(&self, dataset: u64) -> Result<(), ArrayError> {
        if self.of.is_none_or(|of| of == dataset) {
            return Ok(());
        }
        Err(ArrayError::Definition {
            what: "pending accesses".into(),
            reason: "they were begun on another dataset, or before this one was redefined".into(),
        })
    }

    /// Binds it to a dataset, if no access was started yet.
    pub(crate) fn begin_on(&mut self, dataset: u64) -> Result<(), ArrayError> {
        self.check(dataset)?;
        self.of = Some(dataset);
        Ok(())
    }

    /// Number of accesses.
    pub fn len(&self) -> usize {
        self.puts.len() + self.heap_writes.len() + self.gets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How accesses are carried out: lists of their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Groups of disjoint accesses in the order of the file, each to be combined.
    pub(crate) disjoint: Vec<Vec<usize>>,
    /// Clusters of overlapping accesses, each in the order of the calls.
    pub(crate) clusters: Vec<Vec<usize>>,
}

impl Schedule {
    pub(crate) fn new<'p>(placements: impl Iterator<Item = &'p Placement>) -> Self {
        let mut spans: Vec<(u64, u64, usize)> = placements
            .enumerate()
            .filter(|(_, placement)| placement.len > 0)
            .map(|(number, placement)| (placement::span(placement), number))
            .map(|(span, number)| (span.start, span.end, number))
            .collect();
        spans.sort_unstable();
        let mut schedule = Self::default();
        let mut disjoint = Vec::new();
        let mut rest = spans.as_slice();
        while let Some(&(_, mut end, _)) = rest.first() {
            let mut len = 1;
            while let Some(&(low, high, _)) = rest.get(len)
                && low < end
            {
                end = end.max(high);
                len += 1;
            }
            let (cluster, after) = rest.split_at(len);
            let mut numbers: Vec<usize> = cluster.iter().map(|&(_, _, number)| number).collect();
            if len == 1 {
                disjoint.append(&mut numbers);
            } else {
                numbers.sort_unstable();
                schedule.clusters.push(numbers);
            }
            rest = after;
        }
        schedule.disjoint = disjoint.chunks(MAX_COMBINED).map(<[usize]>::to_vec).collect();
        schedule
    }
}

/// A contiguous run of an access.
#[derive(Clone, Copy, Debug)]
struct ClusterRun {
    offset: u64,
    len: u64,
    /// Number of the access.
    access: usize,
    /// Position in its stream.
    position: u64,
}

/// A contiguous region of the file that a window covers.
#[derive(Clone, Copy, Debug)]
struct WindowRegion {
    offset: u64,
    len: u64,
    /// Where it begins in the buffer.
    position: u64,
}

/// An access of a cluster, and how far it has been carried out.
#[derive(Debug)]
struct ClusterMember {
    access: usize,
    datatype: Datatype,
    position: u64,
}

/// The windows of a cluster of accesses, in ascending order.
#[derive(Debug)]
pub(crate) struct ClusterWindows {
    members: Vec<ClusterMember>,
}

/// One window of a cluster.
#[derive(Debug, Default)]
pub(crate) struct ClusterWindow {
    runs: Vec<ClusterRun>,
    regions: Vec<WindowRegion>,
}

impl ClusterWindows {
    pub(crate) fn new<'p>(
        accesses: impl Iterator<Item = (usize, &'p Placement)>,
    ) -> Result<Self, TypeError> {
        let members = accesses.map(|(access, placement)| {
            Ok(ClusterMember { access, datatype: placement.as_type()?, position: 0 })
        });
        Ok(Self { members: members.collect::<Result<_, TypeError>>()? })
    }

    /// The next window; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<ClusterWindow>, TypeError> {
        let runs_of_each = (MAX_RUNS / self.members.len().max(1)).max(16);
        let mut base = None;
        for member in &self.members {
            let mut cursor = Cursor::new(&member.datatype, 1)?;
            cursor.seek(member.position);
            base = [base, cursor.offset()].into_iter().flatten().min();
        }
        let Some(base) = base else { return Ok(None) };
        let mut end = base + WINDOW as i64;
        let mut runs: Vec<ClusterRun> = Vec::new();
        for member in &self.members {
            let mut cursor = Cursor::new(&member.datatype, 1)?;
            cursor.seek(member.position);
            for taken in 0.. {
                let Some(offset) = cursor.offset().filter(|&offset| offset < end) else { break };
                if taken == runs_of_each {
                    // The window ends at the limit of this access, for the other accesses as well.
                    end = offset;
                    break;
                }
                let position = cursor.position();
                let Some(run) = cursor.next_run((end - offset) as u64) else { break };
                let (offset, len) = (run.offset as u64, run.len);
                runs.push(ClusterRun { offset, len, access: member.access, position });
            }
        }
        runs.retain(|run| run.offset < end as u64);
        for run in &mut runs {
            run.len = run.len.min(end as u64 - run.offset);
        }
        for member in &mut self.members {
            member.position = member.position.max(member.datatype.bytes_before(1, end)?);
        }
        Ok(Some(ClusterWindow::new(runs)))
    }
}

impl ClusterWindow {
    fn new(runs: Vec<ClusterRun>) -> Self {
        let mut sorted: Vec<(u64, u64)> = runs.iter().map(|run| (run.offset, run.len)).collect();
        sorted.sort_unstable();
        let mut regions: Vec<WindowRegion> = Vec::new();
        let mut total = 0;
        for (offset, len) in sorted {
            match regions.last_mut() {
                Some(region) if offset <= region.offset + region.len => {
                    let more = (offset + len).saturating_sub(region.offset + region.len);
                    region.len += more;
                    total += more;
                }
                _ => {
                    regions.push(WindowRegion { offset, len, position: total });
                    total += len;
                }
            }
        }
        Self { runs, regions }
    }

    /// Its regions in the file.
    pub(crate) fn placement(&self) -> Result<Placement, TypeError> {
        if self.regions.is_empty() {
            return placement::empty();
        }
        placement::regions(self.regions.iter().map(|region| (region.offset, region.len)))
    }

    /// The range of a run in the buffer.
    fn in_buffer(&self, run: &ClusterRun) -> std::ops::Range<usize> {
        let after = self.regions.partition_point(|region| region.offset <= run.offset);
        let region = self.regions[after.saturating_sub(1)];
        let start = (region.position + run.offset - region.offset) as usize;
        start..start + run.len as usize
    }

    /// A buffer for its bytes, filled with zeros.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        vec![0; self.regions.iter().map(|region| region.len).sum::<u64>() as usize]
    }

    /// The bytes to be written: later accesses overwrite earlier ones.
    pub(crate) fn gather(
        &self,
        accesses: &[Access<WriteStream<'_>>],
    ) -> Result<Vec<u8>, ArrayError> {
        let mut buffer = self.buffer();
        for run in &self.runs {
            let bytes = &mut buffer[self.in_buffer(run)];
            accesses[run.access].memory.gather(run.position, bytes)?;
        }
        Ok(buffer)
    }

    /// Copies the bytes that were read to the memory of the accesses.
    pub(crate) fn scatter(
        &self,
        buffer: &[u8],
        accesses: &mut [Access<ReadStream<'_>>],
    ) -> Result<(), ArrayError> {
        for run in &self.runs {
            let bytes = &buffer[self.in_buffer(run)];
            accesses[run.access].memory.scatter(run.position, bytes)?;
        }
        Ok(())
    }
}

/// One access of the file that carries out several of the dataset, or parts of them.
#[derive(Debug)]
pub(crate) struct CombinedAccess {
    pub(crate) placement: Placement,
    /// Numbers of the accesses, and the range of each stream.
    pub(crate) parts: Vec<(usize, std::ops::Range<u64>)>,
}

impl CombinedAccess {
    /// The combined accesses of a group of disjoint ones: one, or as many tiles as keep the memory
    /// of each in a core's cache.
    pub(crate) fn of<M: Footprint>(
        accesses: &[Access<M>],
        numbers: &[usize],
    ) -> Result<Vec<Self>, TypeError> {
        let placements: Vec<&Placement> =
            numbers.iter().map(|&number| &accesses[number].placement).collect();
        let tiles = tile_count(accesses, numbers);
        let combined = |tile: u64| {
            let cut = |len: u64, tile: u64| {
                (u128::from(len) * u128::from(tile) / u128::from(tiles)) as u64
            };
            let ranges = placements
                .iter()
                .map(|placement| cut(placement.len, tile)..cut(placement.len, tile + 1));
            let parts: Vec<_> = numbers.iter().copied().zip(ranges).collect();
            let placement = match placements.as_slice() {
                _ if tiles > 1 => {
                    let regions = parts.iter().zip(&placements).map(|((_, part), placement)| {
                        (placement::span(placement).start + part.start, part.end - part.start)
                    });
                    placement::regions(regions)?
                }
                [one] => (*one).clone(),
                many => placement::concatenated(many)?,
            };
            Ok(Self { placement, parts })
        };
        (0..tiles).map(combined).collect()
    }
}

/// Memory that knows the range of addresses over which its elements are scattered.
pub(crate) trait Footprint {
    /// The range of addresses; `None` if there are no gaps between the elements.
    fn footprint(&self) -> Option<std::ops::Range<usize>>;
}

impl Footprint for WriteStream<'_> {
    fn footprint(&self) -> Option<std::ops::Range<usize>> {
        WriteStream::footprint(self)
    }
}

impl Footprint for ReadStream<'_> {
    /// Memory to read into is borrowed mutably, so no other access has elements in its gaps.
    fn footprint(&self) -> Option<std::ops::Range<usize>> {
        None
    }
}

/// Into how many tiles a group of disjoint accesses is cut.
///
/// Where the elements of several variables interleave in memory, as in FLASH's blocks, writing
/// variable by variable would bring the same memory into the cache once for each. So all variables
/// write what lies in one tile of the memory before the next tile begins. The pieces written then
/// must not become small, and are contiguous in the file.
fn tile_count<M: Footprint>(accesses: &[Access<M>], numbers: &[usize]) -> u64 {
    let mut sharing = 0;
    let mut span: Option<std::ops::Range<usize>> = None;
    let mut longest = 0;
    for &number in numbers {
        let access = &accesses[number];
        if access.placement.datatype.runs() > 1 || access.placement.start > 0 {
            return 1;
        }
        if let Some(own) = access.memory.footprint() {
            let overlaps =
                span.as_ref().is_none_or(|all| own.start < all.end && all.start < own.end);
            if overlaps {
                sharing += 1;
                longest = longest.max(access.placement.len);
                span = Some(
                    span.map_or(own.clone(), |all| all.start.min(own.start)..all.end.max(own.end)),
                );
            }
        }
    }
    match span {
        Some(span) if sharing > 1 => {
            (span.len() as u64 / TILE).min(longest / MIN_TILE_PIECE).max(1)
        }
        _ => 1,
    }
}

/// The streams of a combined write, one after the other.
pub(crate) fn concatenated_writes<'s, 'm>(
    accesses: &'s [Access<WriteStream<'m>>],
    combined: &CombinedAccess,
) -> ConcatenatedStreams<StreamPart<'s, 'm>> {
    let part = |(number, range): &(usize, std::ops::Range<u64>)| {
        let of: &'s WriteStream<'m> = &accesses[*number].memory;
        StreamPart { of, range: range.clone() }
    };
    ConcatenatedStreams::new(combined.parts.iter().map(part).collect(), Gather::stream_len)
}

/// The streams of a combined read, one after the other; reads are not cut into tiles.
pub(crate) fn concatenated_reads<'s, 'm>(
    accesses: &'s mut [Access<ReadStream<'m>>],
    combined: &CombinedAccess,
) -> ConcatenatedStreams<&'s mut ReadStream<'m>> {
    let mut all: Vec<Option<&'s mut ReadStream<'m>>> =
        accesses.iter_mut().map(|access| Some(&mut access.memory)).collect();
    let parts = combined.parts.iter().filter_map(|(number, _)| all[*number].take()).collect();
    ConcatenatedStreams::new(parts, |part: &&mut ReadStream<'_>| part.stream_len())
}
