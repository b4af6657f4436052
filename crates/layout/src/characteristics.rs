//! The characteristics model of \[CHING\]: what each access method costs, before it is carried out.
//!
//! [`characteristics`] takes one [`Access`] per client of a call and gives, for every [`Method`],
//! the bytes accessed, the operations, the bytes resent among clients and the size of the regions,
//! per client. It is computed from the descriptions, not by listing regions, so that the answer for
//! a billion regions takes as long as for ten, and a million clients can be modelled one by one.
//!
//! Clients need not be alike: every figure is the mean over the clients, rounded to the nearest
//! whole number. Two-phase counts the work of an aggregator instead, as the paper does.
//!
//! The paper's formulas count every byte of a span as accessed. [`sieve_exact`] and
//! [`two_phase_exact`] model an implementation that skips windows without wanted bytes; they look
//! at each window with wanted bytes, but never at regions.

mod requests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fmt;
use std::num::NonZeroU64;

use serde::Serialize;
use striate_datatype::{Cursor, Datatype, TypeError};
use thiserror::Error;

use crate::file_domain::{DomainKind, Domains};
pub use requests::{RequestCounts, requests, servers};

/// A way to carry out a noncontiguous access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// One read or write per piece that is contiguous in memory and file.
    Posix,
    /// Large contiguous reads that span the regions.
    Sieve,
    /// Collective: aggregators do large contiguous I/O on file domains, and data is exchanged.
    TwoPhase,
    /// Requests that carry lists of regions.
    List,
    /// One request that carries the description.
    Datatype,
}

impl Method {
    /// Every method, in the order of the paper's tables.
    pub const ALL: [Self; 5] =
        [Self::Posix, Self::Sieve, Self::TwoPhase, Self::List, Self::Datatype];

    /// The name used in hints, options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::Sieve => "sieve",
            Self::TwoPhase => "two-phase",
            Self::List => "list",
            Self::Datatype => "datatype",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Pieces that one list request carries at most. A file region that corresponds to many pieces of
/// memory counts as one region of the paper's limit, but the length of a request must be bounded as
/// well.
pub const PIECES_PER_LIST_REQUEST: u64 = 4096;

/// What the methods are configured with; the defaults are the paper's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that one sieving operation reads or writes at most.
    pub sieve_buffer: NonZeroU64,
    /// Bytes that an aggregator reads or writes at most per round.
    pub two_phase_buffer: NonZeroU64,
    /// Clients that aggregate, the first ones; all if `None`. There are no more than clients.
    pub aggregators: Option<NonZeroU64>,
    /// How the file is distributed over the aggregators.
    pub domains: DomainKind,
    /// File regions that a list request carries at most.
    pub regions_per_list_request: NonZeroU64,
    /// Regions that are looked at to count the pieces of an access that is noncontiguous on both
    /// sides. Beyond it the count is a lower bound.
    pub regions_looked_at: u64,
}

impl Default for Settings {
    fn default() -> Self {
        const BUFFER: NonZeroU64 = NonZeroU64::new(4 << 20).expect("4 MiB is not 0");
        const REGIONS: NonZeroU64 = NonZeroU64::new(64).expect("64 is not 0");
        Self {
            sieve_buffer: BUFFER,
            two_phase_buffer: BUFFER,
            aggregators: None,
            domains: DomainKind::Even,
            regions_per_list_request: REGIONS,
            regions_looked_at: 1 << 20,
        }
    }
}

/// The access of one client in one call: bytes of its memory, and the corresponding bytes of the
/// file.
#[derive(Clone, Debug)]
pub struct Access {
    memory: Datatype,
    file: Datatype,
}

/// Why an access cannot be modelled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Memory and file do not hold the same number of bytes.
    #[error("memory holds {memory} bytes and the file view {file}: they must be equal")]
    Lengths {
        /// Bytes in memory.
        memory: u64,
        /// Bytes in the file.
        file: u64,
    },
    /// The file type is not valid as a view.
    #[error("not a file view: offsets must not be negative and must ascend without overlap")]
    NotAView,
    /// A type does not fit in 64-bit offsets.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl Access {
    /// `memory_count` copies of `memory`, and `file_count` copies of `file` with the same number of
    /// bytes.
    pub fn new(
        memory: &Datatype,
        memory_count: u64,
        file: &Datatype,
        file_count: u64,
    ) -> Result<Self, AccessError> {
        let memory = Datatype::contiguous(memory_count, memory)?;
        let file = Datatype::contiguous(file_count, file)?;
        if memory.size() != file.size() {
            return Err(AccessError::Lengths { memory: memory.size(), file: file.size() });
        }
        Self { memory, file }.checked()
    }

    /// `file_count` copies of `file`, and contiguous memory.
    pub fn from_contiguous_memory(file: &Datatype, file_count: u64) -> Result<Self, AccessError> {
        let file = Datatype::contiguous(file_count, file)?;
        Self { memory: Datatype::bytes(file.size())?, file }.checked()
    }

    /// The same access, its file view starting `displacement` bytes further on.
    pub fn displaced(self, displacement: i64) -> Result<Self, AccessError> {
        Self { file: self.file.displaced(displacement)?, ..self }.checked()
    }

    fn checked(self) -> Result<Self, AccessError> {
        let valid = self.file.is_ascending() && self.file.true_lower_bound() >= 0;
        if valid { Ok(self) } else { Err(AccessError::NotAView) }
    }

    /// Bytes wanted.
    pub fn wanted(&self) -> u64 {
        self.file.size()
    }

    /// Contiguous regions of the file.
    pub fn regions(&self) -> u64 {
        self.file.runs()
    }

    /// Number of pieces that are contiguous in memory and in the file.
    ///
    /// A piece ends where a run of either side ends, so their number is the runs of both sides less
    /// the ends they share. The shared ends are found by walking the side with fewer runs and
    /// asking the other whether a run ends there: a transposition of a million cells into a few
    /// large regions is counted by looking at the few. If even that side has more than `look_at`
    /// runs, the larger of the two numbers of runs stands as a lower bound.
    pub fn pieces(&self, look_at: u64) -> Result<PieceCount, AccessError> {
        let (coarse, fine) = if self.memory.runs() <= self.file.runs() {
            (&self.memory, &self.file)
        } else {
            (&self.file, &self.memory)
        };
        if coarse.runs() <= 1 {
            return Ok(PieceCount::Exactly(fine.runs()));
        }
        if coarse.runs() > look_at {
            return Ok(PieceCount::AtLeast(fine.runs()));
        }
        let mut probe = Cursor::new(fine, 1)?;
        let (mut end, mut shared) = (0, 0);
        for run in Cursor::new(coarse, 1)? {
            end += run.len;
            shared += u64::from(run_ends_at(&mut probe, end));
        }
        Ok(PieceCount::Exactly(coarse.runs() + fine.runs() - shared))
    }

    /// Bytes wanted inside of `range`, found without walking.
    fn wanted_within(&self, range: &std::ops::Range<u64>) -> Result<u64, AccessError> {
        let before =
            |offset: u64| self.file.bytes_before(1, i64::try_from(offset).unwrap_or(i64::MAX));
        Ok(before(range.end)? - before(range.start)?)
    }

    /// First to last byte of the file that is touched; `None` if there is none.
    fn file_range(&self) -> Option<std::ops::Range<u64>> {
        let (low, high) = (self.file.true_lower_bound(), self.file.true_upper_bound());
        // Not negative: checked when the access was made.
        (self.wanted() > 0).then_some(low as u64..high as u64)
    }
}

/// The number of pieces of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceCount {
    /// This number.
    Exactly(u64),
    /// This number or more.
    AtLeast(u64),
}

/// Whether a run of the cursor's stream ends before byte `end`, which is not 0.
fn run_ends_at(cursor: &mut Cursor<'_>, end: u64) -> bool {
    cursor.seek(end - 1);
    let last = cursor.next_run(1);
    match (last, cursor.offset()) {
        (Some(last), Some(next)) => last.end() != next,
        _ => true,
    }
}

/// What one method costs each client; see the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Characteristics {
    /// The method.
    pub method: Method,
    /// Bytes the client asks for.
    pub wanted: u64,
    /// Bytes read or written for it.
    pub accessed: u64,
    /// I/O operations.
    pub operations: u64,
    /// Whether `operations` is a lower bound, since counting would take too long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Bytes that the client exchanges with other clients; `None` for a method without exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resent: Option<u64>,
    /// Bytes of one contiguous region that is accessed: their mean, or the most there can be.
    pub region_size: u64,
}

/// What client `i` of a two-phase call does, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AggregatorWork {
    /// Bytes of the windows it reads or writes as aggregator `i`; 0 if it is none.
    pub accessed: u64,
    /// The windows: one operation each.
    pub operations: u64,
    /// Bytes it wants in the domains of other clients, which are exchanged with them.
    pub resent: u64,
    /// Bytes that other clients want in its domain. The sum over all clients equals that of
    /// `resent`.
    pub gathered: u64,
}

/// What every method costs for a call in which client `i` does `accesses[i]`, in the order of
/// [`Method::ALL`].
///
/// ```
/// use striate_datatype::Datatype;
/// use striate_layout::characteristics::{Access, Method, Settings, characteristics};
///
/// // Two clients read the even and the odd rows of 1 KiB of a megabyte.
/// let rows: Datatype = "vector(512, 1KiB, stride=2KiB)".parse()?;
/// let even = Access::from_contiguous_memory(&rows, 1)?;
/// let odd = even.clone().displaced(1024)?;
/// let settings = Settings::default();
/// let [posix, .., two_phase, list, datatype] = characteristics(&[even, odd], &settings)?;
/// assert_eq!((posix.operations, list.operations, datatype.operations), (512, 8, 1));
/// assert_eq!((two_phase.method, two_phase.resent), (Method::TwoPhase, Some(256 << 10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Even domains are modelled as in the paper: the longest domain is accessed as a whole. For the
/// other kinds two-phase is the mean over the aggregators of [`two_phase_exact`], at its cost.
pub fn characteristics(
    accesses: &[Access],
    settings: &Settings,
) -> Result<[Characteristics; 5], AccessError> {
    let wanted = mean(accesses, Access::wanted);
    let regions = accesses.iter().map(|access| u128::from(access.regions())).sum();
    let total = accesses.iter().map(|access| u128::from(access.wanted())).sum();
    let plain = |method, operations, region_size| Characteristics {
        method,
        wanted,
        accessed: wanted,
        operations,
        at_least: false,
        resent: None,
        region_size,
    };

    let per_request = settings.regions_per_list_request.get();
    let (mut pieces, mut requests) = (0u128, 0u128);
    let mut at_least = false;
    for access in accesses {
        let counted = access.pieces(settings.regions_looked_at)?;
        at_least |= matches!(counted, PieceCount::AtLeast(_));
        let (PieceCount::Exactly(n) | PieceCount::AtLeast(n)) = counted;
        let by_regions = access.regions().div_ceil(per_request);
        pieces += u128::from(n);
        requests += u128::from(by_regions.max(n.div_ceil(PIECES_PER_LIST_REQUEST)));
    }
    let clients = accesses.len() as u128;
    let posix = Characteristics {
        at_least,
        ..plain(Method::Posix, ratio(pieces, clients), ratio(total, pieces))
    };

    let span = |access: &Access| access.file_range().map_or(0, |range| range.end - range.start);
    let accessed = mean(accesses, span);
    let operations = mean(accesses, |access| span(access).div_ceil(settings.sieve_buffer.get()));
    let sieve = Characteristics {
        accessed,
        ..plain(Method::Sieve, operations, accessed.min(settings.sieve_buffer.get()))
    };

    let TwoPhaseFigures { accessed, operations, region_size, resent } =
        two_phase(accesses, settings)?;
    let two_phase = Characteristics {
        accessed,
        resent: Some(resent),
        ..plain(Method::TwoPhase, operations, region_size)
    };

    let list = plain(Method::List, ratio(requests, clients), ratio(total, regions));
    let calls = mean(accesses, |access| u64::from(access.wanted() > 0));
    let datatype = plain(Method::Datatype, calls, ratio(total, regions));

    Ok([posix, sieve, two_phase, list, datatype])
}

/// The figures of two-phase, per aggregator; `resent` per client.
struct TwoPhaseFigures {
    accessed: u64,
    operations: u64,
    region_size: u64,
    resent: u64,
}

fn two_phase(accesses: &[Access], settings: &Settings) -> Result<TwoPhaseFigures, AccessError> {
    let (kind, buffer) = (settings.domains, settings.two_phase_buffer);
    let domains = aggregate_domains(accesses, kind, settings.aggregators, buffer);
    if kind == DomainKind::Even {
        let range = domains.range();
        let longest = (range.end - range.start).div_ceil(domains.aggregators());
        let resent = mean_resent(accesses, &domains)?;
        return Ok(TwoPhaseFigures {
            accessed: longest,
            operations: domains.rounds(),
            region_size: longest.min(buffer.get()),
            resent,
        });
    }
    let work = aggregator_work(accesses, &domains)?;
    let total = |of: fn(&AggregatorWork) -> u64| work.iter().map(|work| u128::from(of(work))).sum();
    let (accessed, operations) = (total(|work| work.accessed), total(|work| work.operations));
    let aggregators = u128::from(domains.aggregators());
    Ok(TwoPhaseFigures {
        accessed: ratio(accessed, aggregators),
        operations: ratio(operations, aggregators),
        region_size: ratio(accessed, operations),
        resent: ratio(total(|work| work.resent), accesses.len() as u128),
    })
}

/// The work of each client of a two-phase call, when the range that the clients access is
/// distributed over the first `aggregators` clients (all, if there are fewer).
///
/// Window `w` of aggregator `a` is one operation of its whole length if any client wants a byte of
/// it, and none otherwise. A byte is exchanged if its client is not the aggregator of its window.
/// Bytes that several clients want are accessed once but exchanged for each.
///
/// The cost is one seek per client and window that it touches, at most clients × windows, however
/// many regions there are.
pub fn two_phase_exact(
    accesses: &[Access],
    kind: DomainKind,
    aggregators: NonZeroU64,
    window: NonZeroU64,
) -> Result<Vec<AggregatorWork>, AccessError> {
    aggregator_work(accesses, &aggregate_domains(accesses, kind, Some(aggregators), window))
}

/// Visits the windows with wanted bytes in file order, by the next wanted byte of each client, so
/// that windows without wanted bytes cost nothing.
fn aggregator_work(
    accesses: &[Access],
    domains: &Domains,
) -> Result<Vec<AggregatorWork>, AccessError> {
    let mut work = vec![AggregatorWork::default(); accesses.len()];
    let mut cursors = accesses
        .iter()
        .map(|access| Cursor::new(&access.file, 1))
        .collect::<Result<Vec<_>, _>>()?;
    // Offsets are not negative: checked when the accesses were made.
    let next_of = |cursor: &Cursor<'_>| cursor.offset().map(|offset| offset as u64);
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = (0..)
        .zip(&cursors)
        .filter_map(|(client, cursor)| Some(Reverse((next_of(cursor)?, client))))
        .collect();
    while let Some(&Reverse((offset, _))) = next.peek() {
        // A wanted byte is in the range, and each aggregator is a client.
        let Some((owner, i)) = domains.owner(offset) else { break };
        let Some(window) = domains.window(owner, i) else { break };
        let owner = owner as usize;
        work[owner].accessed += window.end - window.start;
        work[owner].operations += 1;
        while let Some(mut top) = next.peek_mut()
            && top.0.0 < window.end
        {
            let client = top.0.1;
            let before = cursors[client].position();
            cursors[client].seek_offset(i64::try_from(window.end).unwrap_or(i64::MAX))?;
            if client != owner {
                let bytes = cursors[client].position() - before;
                work[client].resent += bytes;
                work[owner].gathered += bytes;
            }
            match next_of(&cursors[client]) {
                Some(offset) => top.0.0 = offset,
                None => drop(PeekMut::pop(top)),
            }
        }
    }
    Ok(work)
}

/// Bytes accessed and operations of a sieve that skips windows without wanted bytes.
///
/// Windows of `buffer` bytes lie side by side from the first wanted byte on; those without a wanted
/// byte are not accessed, and the last ends with the last wanted byte. Where no gap is as long as
/// the buffer this is the paper's formula: the whole span in ⌈span / buffer⌉ operations.
///
/// The cost is a seek per window.
pub fn sieve_exact(access: &Access, buffer: NonZeroU64) -> Result<(u64, u64), AccessError> {
    let (mut accessed, mut operations) = (0, 0);
    sieve_windows(access, buffer, |window| {
        accessed += window.end - window.start;
        operations += 1;
    })?;
    Ok((accessed, operations))
}

/// Goes through the windows of a sieve that hold a wanted byte.
fn sieve_windows(
    access: &Access,
    buffer: NonZeroU64,
    mut each: impl FnMut(std::ops::Range<u64>),
) -> Result<(), AccessError> {
    let Some(range) = access.file_range() else { return Ok(()) };
    let mut cursor = Cursor::new(&access.file, 1)?;
    while let Some(next) = cursor.offset() {
        let index = (next as u64 - range.start) / buffer;
        let start = range.start + index * buffer.get();
        let end = range.end.min(start.saturating_add(buffer.get()));
        each(start..end);
        // Not beyond 2⁶³: it is the end of the range at most.
        cursor.seek_offset(end as i64)?;
    }
    Ok(())
}

/// The range that the clients access, distributed over the aggregators.
fn aggregate_domains(
    accesses: &[Access],
    kind: DomainKind,
    aggregators: Option<NonZeroU64>,
    window: NonZeroU64,
) -> Domains {
    let range = accesses
        .iter()
        .filter_map(Access::file_range)
        .reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
    let clients = NonZeroU64::new(accesses.len() as u64).unwrap_or(NonZeroU64::MIN);
    let count = aggregators.map_or(clients, |aggregators| aggregators.min(clients));
    Domains::new(kind, range.unwrap_or(0..0), count, window)
}

/// Bytes that lie outside of a client's own domain, if it has one, must travel. For domains that
/// are contiguous.
fn mean_resent(accesses: &[Access], domains: &Domains) -> Result<u64, AccessError> {
    let mut resent = 0u128;
    for (client, access) in (0..).zip(accesses) {
        let own = match domains.extent(client) {
            Some(domain) => access.wanted_within(&domain)?,
            None => 0,
        };
        resent += u128::from(access.wanted() - own);
    }
    Ok(ratio(resent, accesses.len() as u128))
}

fn mean(accesses: &[Access], of: impl Fn(&Access) -> u64) -> u64 {
    let total = accesses.iter().map(|access| u128::from(of(access))).sum();
    ratio(total, accesses.len() as u128)
}

/// `total / n`, rounded to the nearest; 0 for nothing. Fits, as a mean of 64-bit numbers.
fn ratio(total: u128, n: u128) -> u64 {
    (total + n / 2).checked_div(n).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use striate_datatype::Pieces as Walk;

    use super::*;

    fn access(memory: &str, file: &str) -> Access {
        Access::new(&memory.parse().unwrap(), 1, &file.parse().unwrap(), 1).unwrap()
    }

    fn walked(access: &Access) -> u64 {
        let memory = Cursor::new(&access.memory, 1).unwrap();
        Walk::new(memory, Cursor::new(&access.file, 1).unwrap()).count() as u64
    }

    #[test]
    fn a_piece_ends_where_either_side_does() {
        for (memory, file, pieces) in [
            ("bytes(12)", "vector(3, 4, stride=8)", 3),
            ("vector(3, 4, stride=8)", "bytes(12)", 3),
            ("vector(3, 4, stride=8)", "vector(3, 4, stride=5)", 3),
            ("vector(3, 4, stride=8)", "vector(2, 6, stride=8)", 4),
            ("vector(6, 2, stride=3)", "vector(2, 6, stride=8)", 6),
            ("vector(12, 1, stride=-1)", "vector(4, 3, stride=4)", 12),
            ("bytes(0)", "bytes(0)", 0),
        ] {
            let access = access(memory, file);
            assert_eq!(access.pieces(100), Ok(PieceCount::Exactly(pieces)), "{memory} | {file}");
            assert_eq!(walked(&access), pieces);
        }
    }

    #[test]
    fn too_many_regions_give_a_lower_bound() {
        let access = access("vector(3, 4, stride=8)", "vector(2, 6, stride=8)");
        assert_eq!(access.pieces(1), Ok(PieceCount::AtLeast(3)));
        let settings = Settings { regions_looked_at: 1, ..Settings::default() };
        let [posix, sieve, ..] = characteristics(&[access], &settings).unwrap();
        assert_eq!((posix.at_least, posix.operations, sieve.at_least), (true, 3, false));
    }

    #[test]
    fn a_billion_regions_are_not_walked() {
        let access = access("bytes(1000000000)", "vector(1000000000, 1, stride=2)");
        let [posix, sieve, two_phase, list, datatype] =
            characteristics(&[access], &Settings::default()).unwrap();
        assert_eq!(posix.operations, 1_000_000_000);
        assert_eq!((sieve.accessed, sieve.operations), (1_999_999_999, 477));
        assert_eq!((two_phase.operations, two_phase.resent), (477, Some(0)));
        assert_eq!((list.operations, datatype.operations), (15_625_000, 1));
        assert_eq!(datatype.region_size, 1);
    }

    #[test]
    fn clients_beyond_the_aggregators_resend_everything() {
        let block: Datatype = "bytes(100)".parse().unwrap();
        let clients: Vec<Access> = (0..4)
            .map(|i| Access::from_contiguous_memory(&block, 1).unwrap().displaced(i * 100).unwrap())
            .collect();
        let settings = Settings { aggregators: NonZeroU64::new(2), ..Settings::default() };
        let two_phase = &characteristics(&clients, &settings).unwrap()[2];
        // Domains of 200 bytes: client 0 keeps its 100, client 1 has none of 200..400.
        assert_eq!((two_phase.accessed, two_phase.resent), (200, Some(75)));
        let all = &characteristics(&clients, &Settings::default()).unwrap()[2];
        assert_eq!((all.accessed, all.resent), (100, Some(0)));
    }

    fn number(n: u64) -> NonZeroU64 {
        NonZeroU64::new(n).unwrap()
    }

    #[test]
    fn windows_without_wanted_bytes_are_skipped() {
        let rows: Datatype = "vector(3, 10, stride=100)".parse().unwrap();
        let first = Access::from_contiguous_memory(&rows, 1).unwrap();
        let clients = [first.clone(), first.displaced(10).unwrap()];
        let kind = DomainKind::StaticCycling { unit: number(10) };
        // Units 0, 10 and 20 belong to client 0, which is their aggregator; 1, 11 and 21 likewise.
        let work = two_phase_exact(&clients, kind, number(2), number(50)).unwrap();
        let own = AggregatorWork { accessed: 30, operations: 3, resent: 0, gathered: 0 };
        assert_eq!(work, [own, own]);
        // One aggregator for both: client 1 has none, and resends everything.
        let kind = DomainKind::Aligned { unit: number(50) };
        let work = two_phase_exact(&clients, kind, number(1), number(50)).unwrap();
        let all = AggregatorWork { accessed: 50 + 50 + 20, operations: 3, resent: 0, gathered: 30 };
        assert_eq!(work, [all, AggregatorWork { resent: 30, ..AggregatorWork::default() }]);

        let settings = Settings {
            domains: DomainKind::StaticCycling { unit: number(10) },
            ..Settings::default()
        };
        let two_phase = &characteristics(&clients, &settings).unwrap()[2];
        assert_eq!((two_phase.accessed, two_phase.operations), (30, 3));
        assert_eq!((two_phase.resent, two_phase.region_size), (Some(0), 10));
    }

    #[test]
    fn a_sieve_skips_long_gaps() {
        let buffer = number(25);
        for (file, expected) in [
            ("bytes(100)", (100, 4)),
            // 0..25, 100..125 and 200..210.
            ("vector(3, 10, stride=100)", (60, 3)),
            // 0..25 and 25..35.
            ("vector(4, 5, stride=10)", (35, 2)),
            // 0..25 and 25..45.
            ("indexed([3 at 0, 3 at 20, 5 at 40] of u8)", (45, 2)),
            ("bytes(0)", (0, 0)),
        ] {
            let view: Datatype = file.parse().unwrap();
            let access = Access::from_contiguous_memory(&view, 1).unwrap();
            assert_eq!(sieve_exact(&access, buffer), Ok(expected), "{file}");
        }
    }

    #[test]
    fn empty_accesses_cost_nothing() {
        let empty = access("bytes(0)", "bytes(0)");
        for clients in [vec![], vec![empty.clone()], vec![empty.clone(), empty]] {
            for row in characteristics(&clients, &Settings::default()).unwrap() {
                assert_eq!((row.wanted, row.accessed, row.operations), (0, 0, 0), "{}", row.method);
            }
        }
    }

    #[test]
    fn invalid_accesses_are_refused() {
        let four: Datatype = "bytes(4)".parse().unwrap();
        let backwards: Datatype = "vector(4, 1, stride=-1)".parse().unwrap();
        assert_eq!(
            Access::new(&four, 1, &four, 2).unwrap_err(),
            AccessError::Lengths { memory: 4, file: 8 }
        );
        assert_eq!(Access::new(&four, 1, &backwards, 1).unwrap_err(), AccessError::NotAView);
        let moved = Access::from_contiguous_memory(&four, 1).unwrap().displaced(-1);
        assert_eq!(moved.unwrap_err(), AccessError::NotAView);
    }

    proptest! {
        #[test]
        fn pieces_agree_with_walking(
            memory in prop::collection::vec((1u64..9, 0i64..3), 1..40),
            file in prop::collection::vec((1u64..9, 0i64..3), 1..40),
        ) {
            let of = |parts: &[(u64, i64)], size: u64| {
                let (mut at, mut left, mut blocks) = (0i64, size, Vec::new());
                for &(len, gap) in parts.iter().cycle() {
                    let len = len.min(left);
                    blocks.push((len, at));
                    at += len as i64 + gap;
                    left -= len;
                    if left == 0 {
                        break;
                    }
                }
                Datatype::hindexed(&blocks, &Datatype::bytes(1).unwrap()).unwrap()
            };
            let access = Access::new(&of(&memory, 120), 1, &of(&file, 120), 1).unwrap();
            prop_assert_eq!(access.pieces(1000).unwrap(), PieceCount::Exactly(walked(&access)));
        }

        #[test]
        fn resent_agrees_with_looking_at_each_byte(
            count in 1u64..20, block in 1u64..6, gap in 0i64..6,
            clients in 1u64..5, aggregators in 1u64..6,
        ) {
            let stride = (block as i64 + gap) * clients as i64;
            let byte = Datatype::bytes(1).unwrap();
            let view = Datatype::hvector(count, block, stride, &byte).unwrap();
            let accesses: Vec<Access> = (0..clients as i64)
                .map(|i| {
                    let access = Access::from_contiguous_memory(&view, 1).unwrap();
                    access.displaced(i * (block as i64 + gap)).unwrap()
                })
                .collect();
            let aggregators = NonZeroU64::new(aggregators);
            let settings = Settings { aggregators, ..Settings::default() };
            let buffer = settings.two_phase_buffer;
            let domains = aggregate_domains(&accesses, DomainKind::Even, aggregators, buffer);
            let mut resent = 0u128;
            for (client, access) in (0..).zip(&accesses) {
                let own = domains.extent(client).unwrap_or(0..0);
                for run in access.file.flatten(1).unwrap() {
                    let bytes = run.offset..run.end();
                    resent += bytes.filter(|&byte| !own.contains(&(byte as u64))).count() as u128;
                }
            }
            let two_phase = &characteristics(&accesses, &settings).unwrap()[2];
            prop_assert_eq!(two_phase.resent, Some(ratio(resent, u128::from(clients))));
        }

        #[test]
        fn exact_work_agrees_with_looking_at_each_byte(
            views in prop::collection::vec(prop::collection::vec((1u64..9, 0i64..40), 0..8), 1..6),
            kind in 0..5, unit in 1u64..30, targets in 1u32..5, x in 1u32..4,
            aggregators in 1u64..8, buffer in 1u64..40,
        ) {
            let unit = number(unit);
            let targets = targets.try_into().unwrap();
            let kind = match kind {
                0 => DomainKind::Even,
                1 => DomainKind::Aligned { unit },
                2 => DomainKind::StaticCycling { unit },
                3 => DomainKind::GroupCycling { unit, targets },
                _ => DomainKind::XTarget { unit, targets, x: x.try_into().unwrap() },
            };
            let accesses: Vec<Access> = views
                .iter()
                .map(|blocks| {
                    let mut at = 0;
                    let blocks: Vec<_> = blocks
                        .iter()
                        .map(|&(len, gap)| {
                            at += gap + len as i64;
                            (len, at - len as i64)
                        })
                        .collect();
                    let view = Datatype::hindexed(&blocks, &Datatype::bytes(1).unwrap()).unwrap();
                    Access::from_contiguous_memory(&view, 1).unwrap()
                })
                .collect();
            let bytes_of = |access: &Access| -> Vec<u64> {
                let runs = access.file.flatten(1).unwrap();
                runs.iter().flat_map(|run| run.offset as u64..run.end() as u64).collect()
            };
            let buffer = number(buffer);
            let domains = aggregate_domains(&accesses, kind, Some(number(aggregators)), buffer);
            let mut work = vec![AggregatorWork::default(); accesses.len()];
            let mut touched = std::collections::BTreeSet::new();
            for (client, access) in accesses.iter().enumerate() {
                for byte in bytes_of(access) {
                    let (owner, window) = domains.owner(byte).unwrap();
                    touched.insert((owner, window));
                    if owner as usize != client {
                        work[client].resent += 1;
                        work[owner as usize].gathered += 1;
                    }
                }
            }
            for (owner, window) in touched {
                let window = domains.window(owner, window).unwrap();
                work[owner as usize].accessed += window.end - window.start;
                work[owner as usize].operations += 1;
            }
            let exact = two_phase_exact(&accesses, kind, number(aggregators), buffer).unwrap();
            prop_assert_eq!(exact, work);

            for access in &accesses {
                let bytes = bytes_of(access);
                let (mut accessed, mut operations) = (0, 0);
                if let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) {
                    for start in (first..=last).step_by(buffer.get() as usize) {
                        let end = (start + buffer.get()).min(last + 1);
                        if bytes.iter().any(|byte| (start..end).contains(byte)) {
                            accessed += end - start;
                            operations += 1;
                        }
                    }
                }
                prop_assert_eq!(sieve_exact(access, buffer).unwrap(), (accessed, operations));
            }
        }
    }
}
