//! What the tests of files share: numbers from a seed, a watchdog, random views and memory with
//! their plain twins.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use striate_comm::{Comm, Threads};
use striate_datatype::notation::Notation;
use striate_datatype::{Datatype, Distribution, Order};
use striate_file::{FileError, View};
use striate_testing::splitmix::{SplitMix64, mix};
use striate_testing::type_map::TypeMap;

/// Runs `body` as ranks on one node, on two, on one without shared memory, and as one rank; with a
/// directory of its own each.
pub fn on_all_jobs(
    what: &'static str,
    body: impl Fn(&Arc<dyn Comm>, &Path) -> Result<(), FileError> + Sync,
) {
    let _watchdog = Watchdog::new(Duration::from_secs(180), what);
    let jobs = [
        Threads::new(4),
        Threads::on_nodes(&[0, 0, 1, 1]),
        Threads::new(4).without_node_memory(),
        Threads::new(1),
    ];
    for job in jobs {
        let directory = tempfile::tempdir().unwrap();
        job.try_run(|comm| body(&comm, directory.path())).unwrap();
    }
}

/// The same numbers from the same seed, everywhere and for ever.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(mix(seed ^ 0x5EED_F11E)))
    }

    pub fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// As [`Random::from`], small numbers far more often.
    pub fn mostly_small(&mut self, low: u64, high: u64) -> u64 {
        let high = match self.below(4) {
            0 => high,
            1 => low + (high - low) / 8,
            _ => low + (high - low) / 64,
        };
        self.from(low, high)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// What a write numbered `salt` leaves at `offset`: no two offsets or writes are alike for long.
pub fn content(offset: u64, salt: u64) -> u8 {
    mix(offset.wrapping_mul(31).wrapping_add(mix(salt))) as u8
}

/// A number from the environment.
pub fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Ends the process, naming what it was at, if that lasts too long: a test that hangs must say
/// where.
pub struct Watchdog {
    at: Arc<Mutex<(Instant, String)>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    pub fn new(limit: Duration, what: &str) -> Self {
        let at = Arc::new(Mutex::new((Instant::now(), what.to_owned())));
        let done = Arc::new(AtomicBool::new(false));
        let (shared, ended) = (Arc::clone(&at), Arc::clone(&done));
        let limit = number_from("STRIATE_LIMIT").map_or(limit, Duration::from_secs);
        std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(100));
                let (since, what) = shared.lock().unwrap().clone();
                if since.elapsed() > limit && !ended.load(Ordering::SeqCst) {
                    // Not by a macro, whose output is captured until the test ends.
                    let text = format!("watchdog: {what} lasts longer than {limit:?}\n");
                    let _ = std::io::stderr().write_all(text.as_bytes());
                    std::process::abort();
                }
            }
        });
        Self { at, done }
    }

    /// Starts the clock anew.
    pub fn at(&self, what: impl Into<String>) {
        *self.at.lock().unwrap() = (Instant::now(), what.into());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
    }
}

/// Ranks on one node, each on its own, or on two or three; now and then without shared memory.
pub fn random_threads(random: &mut Random, ranks: usize) -> (Threads, String) {
    let nodes: Vec<usize> = match random.below(4) {
        0 => vec![0; ranks],
        1 => (0..ranks).collect(),
        _ => {
            let nodes = random.from(2, 3);
            (0..ranks).map(|_| random.below(nodes) as usize).collect()
        }
    };
    let threads = Threads::on_nodes(&nodes);
    if random.percent(15) {
        (threads.without_node_memory(), format!("{nodes:?} without node memory"))
    } else {
        (threads, format!("{nodes:?}"))
    }
}

/// A view and where its bytes lie.
#[derive(Clone, Debug)]
pub struct PlainView {
    pub view: View,
    pub etype: u64,
    displacement: u64,
    offsets: Vec<i64>,
    extent: i64,
}

impl PlainView {
    pub fn new(displacement: u64, etype: u64, filetype: &Notation) -> Self {
        let twin = TypeMap::of(filetype);
        let unit = Datatype::bytes(etype).unwrap();
        let view = View::new(displacement, &unit, &filetype.build().unwrap())
            .unwrap_or_else(|error| panic!("{filetype:?} at {displacement}: {error}"));
        let extent = twin.extent();
        Self { view, etype, displacement, offsets: twin.offsets, extent }
    }

    pub fn bytes() -> Self {
        Self::new(0, 1, &Notation::Bytes(1))
    }

    /// Where byte `position` of the stream lies in the file.
    pub fn offset(&self, position: u64) -> u64 {
        let size = self.offsets.len() as u64;
        let copy = self.displacement as i64 + (position / size) as i64 * self.extent;
        (copy + self.offsets[(position % size) as usize]) as u64
    }

    /// Where the `len` bytes from `offset` etypes on lie.
    pub fn offsets(&self, offset: u64, len: u64) -> Vec<u64> {
        let start = offset * self.etype;
        (start..start + len).map(|position| self.offset(position)).collect()
    }

    pub fn extent(&self) -> u64 {
        self.extent as u64
    }

    pub fn size(&self) -> u64 {
        self.offsets.len() as u64
    }
}

/// Whether the twin can be a view, by looking at every byte of some copies.
fn is_view(twin: &TypeMap) -> bool {
    let copies = twin.copies(3);
    !twin.offsets.is_empty()
        && copies[0] >= 0
        && copies.windows(2).all(|pair| pair[0] < pair[1])
        && twin.extent() > 0
}

/// A nest of loops over `unit`-byte leaves.
pub fn random_notation(random: &mut Random, unit: u64, depth: u32, ascending: bool) -> Notation {
    let leaf = |random: &mut Random| Notation::Bytes(unit * random.from(1, 3));
    if depth == 0 || random.percent(15) {
        return leaf(random);
    }
    let of = Box::new(random_notation(random, unit, depth - 1, ascending));
    let extent = TypeMap::of(&of).extent().unsigned_abs().max(1);
    let step = |random: &mut Random| {
        let step = random.from(0, 4) as i64;
        if !ascending && random.percent(30) { -step } else { step }
    };
    let list = |random: &mut Random, unit: u64| {
        let mut at = if ascending { 0 } else { -(random.from(0, 9) as i64) };
        let mut blocks = Vec::new();
        for _ in 0..random.from(1, 4) {
            at += random.from(0, 5) as i64;
            let len = random.from(0, 3);
            blocks.push((len, at));
            at += (len * unit) as i64;
        }
        if !ascending {
            random.shuffle(&mut blocks);
        }
        blocks
    };
    match random.below(10) {
        0 => Notation::Contiguous { count: random.from(1, 4), of },
        1 | 2 => {
            let block = random.from(1, 3);
            let stride = block as i64 + step(random);
            Notation::Vector { count: random.from(1, 4), block, stride, of }
        }
        3 => {
            let stride = extent as i64 + 3 * step(random);
            Notation::Hvector { count: random.from(1, 4), block: 1, stride, of }
        }
        4 => Notation::Indexed { blocks: list(random, 1), of },
        5 => Notation::Hindexed { blocks: list(random, extent), of },
        6 => {
            let fields = list(random, extent);
            Notation::Struct {
                fields: fields.into_iter().map(|(len, at)| (len, at, (*of).clone())).collect(),
            }
        }
        7 => {
            let dims: Vec<(u64, u64, u64)> = (0..random.from(1, 3))
                .map(|_| {
                    let size = random.from(1, 4);
                    let sub = random.from(1, size);
                    (size, sub, random.below(size - sub + 1))
                })
                .collect();
            Notation::Subarray {
                sizes: dims.iter().map(|d| d.0).collect(),
                subsizes: dims.iter().map(|d| d.1).collect(),
                starts: dims.iter().map(|d| d.2).collect(),
                order: random.pick(&[Order::C, Order::Fortran]),
                of,
            }
        }
        8 => {
            let grid: Vec<u64> = (0..2).map(|_| random.from(1, 3)).collect();
            let sizes: Vec<u64> = grid.iter().map(|n| random.from(*n, 6)).collect();
            let distributions = random_distributions(random, &grid);
            let rank = random.below(grid.iter().product());
            Notation::Darray { rank, sizes, distributions, grid, order: Order::C, of }
        }
        _ => {
            let lb = if ascending { 0 } else { random.from(0, 20) as i64 - 10 };
            Notation::Resized { lb, extent: (extent + random.from(0, 12)) as i64, of }
        }
    }
}

fn random_distributions(random: &mut Random, grid: &[u64]) -> Vec<Distribution> {
    grid.iter()
        .map(|&processes| match random.below(3) {
            0 if processes == 1 => Distribution::None,
            0 | 1 => Distribution::Block(None),
            _ => Distribution::Cyclic(random.from(1, 2)),
        })
        .collect()
}

/// One view per rank; `None` where a rank sees nothing. Most kinds are disjoint; some tile.
pub fn random_views(random: &mut Random, ranks: usize) -> Vec<Option<PlainView>> {
    let unit = random.pick(&[1, 1, 2, 3, 4, 8]);
    let displacement = random.mostly_small(0, 3000);
    let leaf = || Box::new(Notation::Bytes(unit));
    let ranks = ranks as u64;
    match random.below(8) {
        // Each cell of a tile belongs to one rank or to none.
        0 | 1 => {
            let cells = random.from(1, 60);
            let holes = random.pick(&[0, 0, 20, 70]);
            let owners: Vec<Option<u64>> = (0..cells)
                .map(|_| if random.percent(holes) { None } else { Some(random.below(ranks)) })
                .collect();
            (0..ranks)
                .map(|rank| cells_of(random, &owners, rank, unit))
                .map(|tile| {
                    let of = Box::new(tile?);
                    let tile = Notation::Resized { lb: 0, extent: (cells * unit) as i64, of };
                    Some(PlainView::new(displacement, unit, &tile))
                })
                .collect()
        }
        // An array, dealt in blocks or round robin.
        2 => {
            let grid = random_grid(random, ranks);
            let sizes: Vec<u64> = grid.iter().map(|n| random.from(1, 4 * n + 2)).collect();
            let distributions = random_distributions(random, &grid);
            let order = random.pick(&[Order::C, Order::Fortran]);
            (0..ranks)
                .map(|rank| {
                    let darray = Notation::Darray {
                        rank,
                        sizes: sizes.clone(),
                        distributions: distributions.clone(),
                        grid: grid.clone(),
                        order,
                        of: leaf(),
                    };
                    let some = !TypeMap::of(&darray).offsets.is_empty();
                    some.then(|| PlainView::new(displacement, unit, &darray))
                })
                .collect()
        }
        // Interleaved blocks, with or without gaps; each rank displaced by its place.
        3 | 4 => {
            let block = random.mostly_small(1, 700 / unit);
            let gap = random.pick(&[0, 0, 1, 5]);
            let stride = ((block * ranks + gap) * unit) as i64;
            let count = random.from(1, 4);
            (0..ranks)
                .map(|rank| {
                    let of = Box::new(Notation::Contiguous { count: block, of: leaf() });
                    let blocks = Notation::Hvector { count, block: 1, stride, of };
                    let extent = stride * count as i64;
                    let view = Notation::Resized { lb: 0, extent, of: Box::new(blocks) };
                    Some(PlainView::new(displacement + rank * block * unit, unit, &view))
                })
                .collect()
        }
        // Slabs of a two-dimensional array, uneven.
        5 => {
            let columns = random.from(ranks, 3 * ranks + 5);
            let rows = random.from(1, 6);
            let mut cuts: Vec<u64> = (1..ranks).map(|_| random.from(0, columns)).collect();
            cuts.sort_unstable();
            cuts.insert(0, 0);
            cuts.push(columns);
            cuts.windows(2)
                .map(|cut| {
                    let array = Notation::Subarray {
                        sizes: vec![rows, columns],
                        subsizes: vec![rows, cut[1] - cut[0]],
                        starts: vec![0, cut[0]],
                        order: Order::C,
                        of: leaf(),
                    };
                    (cut[1] > cut[0]).then(|| PlainView::new(displacement, unit, &array))
                })
                .collect()
        }
        // All ranks have the same view.
        6 => {
            let view = any_view(random, unit);
            vec![Some(view); ranks as usize]
        }
        // Each rank has a view of its own.
        _ => (0..ranks).map(|_| Some(any_view(random, unit))).collect(),
    }
}

/// The cells of a tile that are `rank`'s, described in one of several ways.
fn cells_of(random: &mut Random, owners: &[Option<u64>], rank: u64, unit: u64) -> Option<Notation> {
    let mine: Vec<i64> = (0..)
        .zip(owners)
        .filter(|(_, owner)| **owner == Some(rank))
        .map(|(cell, _)| cell)
        .collect();
    let of = Box::new(Notation::Bytes(unit));
    let in_bytes = |cell: i64| cell * unit as i64;
    let single = || mine.iter().map(|&cell| (1, cell));
    Some(match random.below(5) {
        _ if mine.is_empty() => return None,
        0 => Notation::Indexed { blocks: single().collect(), of },
        1 => Notation::Hindexed {
            blocks: single().map(|(n, cell)| (n, in_bytes(cell))).collect(),
            of,
        },
        2 => Notation::IndexedBlock { block: 1, displacements: mine, of },
        3 => Notation::HindexedBlock {
            block: 1,
            offsets: mine.iter().map(|&cell| in_bytes(cell)).collect(),
            of,
        },
        _ => Notation::Struct {
            fields: mine.iter().map(|&cell| (1, in_bytes(cell), Notation::Bytes(unit))).collect(),
        },
    })
}

pub fn any_view(random: &mut Random, unit: u64) -> PlainView {
    for _ in 0..20 {
        let notation = random_notation(random, unit, 3, true);
        let twin = TypeMap::of(&notation);
        if is_view(&twin) && twin.offsets.len() < 2000 {
            return PlainView::new(random.mostly_small(0, 2000), unit, &notation);
        }
    }
    PlainView::new(random.below(100), unit, &Notation::Bytes(unit))
}

fn random_grid(random: &mut Random, ranks: u64) -> Vec<u64> {
    let divisors: Vec<u64> = (1..=ranks).filter(|n| ranks.is_multiple_of(*n)).collect();
    let first = random.pick(&divisors);
    vec![first, ranks / first]
}

/// Memory of a call: a buffer, its description, and the index of each byte of its stream.
#[derive(Clone, Debug)]
pub struct PlainMemory {
    pub buffer: Vec<u8>,
    pub origin: usize,
    pub count: u64,
    /// `None`: the buffer as it is.
    pub datatype: Option<Datatype>,
    pub stream: Vec<usize>,
}

impl PlainMemory {
    pub fn plain(random: &mut Random, len: u64) -> Self {
        let len = len as usize;
        let buffer = random.bytes(len);
        Self { buffer, origin: 0, count: 1, datatype: None, stream: (0..len).collect() }
    }

    /// About `len` bytes in units of `unit`, described somehow. Their places do not overlap.
    pub fn random(random: &mut Random, len: u64, unit: u64) -> Self {
        let len = len / unit * unit;
        if len == 0 || random.percent(25) {
            return Self::plain(random, len);
        }
        for _ in 0..20 {
            let notation = random_notation(random, unit, 3, false);
            let twin = TypeMap::of(&notation);
            let size = twin.offsets.len() as u64;
            if size == 0 || size > len {
                continue;
            }
            if let Some(memory) = Self::of(random, &notation, len / size) {
                return memory;
            }
        }
        // Cells with gaps, in any order.
        let cells = len / unit;
        let mut order: Vec<i64> = (0..cells as i64).collect();
        if random.percent(50) {
            random.shuffle(&mut order);
        }
        let gap = random.from(0, 5) as i64;
        let of = Box::new(Notation::Bytes(unit));
        let offsets = order.iter().map(|cell| cell * (unit as i64 + gap) - 17).collect();
        let cells = Notation::HindexedBlock { block: 1, offsets, of };
        Self::of(random, &cells, 1).expect("cells lie apart")
    }

    fn of(random: &mut Random, notation: &Notation, count: u64) -> Option<Self> {
        let offsets = TypeMap::of(notation).copies(count);
        let (low, high) = (*offsets.iter().min()?, *offsets.iter().max()?);
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) || high - low > 300_000 {
            return None;
        }
        let origin = (-low).max(0) as usize + random.below(20) as usize;
        let behind = random.below(20) as usize;
        let len = (origin as i64 + high.max(0) + 1) as usize + behind;
        let stream = offsets.iter().map(|offset| (origin as i64 + offset) as usize).collect();
        let datatype = Some(notation.build().unwrap());
        Some(Self { buffer: random.bytes(len), origin, count, datatype, stream })
    }

    pub fn len(&self) -> u64 {
        self.stream.len() as u64
    }
}
