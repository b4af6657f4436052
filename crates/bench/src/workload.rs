//! The three workloads of \[CHING\], and blocks distributed round robin, as descriptions.
//!
//! A [`Workload`] says, for each rank, which bytes of its memory correspond to which bytes of the
//! file, as two datatypes of equal size: the same description serves the methods, the counters, the
//! model and the drawings. Nothing here reads a clock or touches a file.

mod strided;

pub use self::strided::Strided;

use striate_datatype::notation::Notation;
use striate_datatype::{Datatype, Distribution, Element, Order, TypeError};

/// What one rank does in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankAccess {
    /// The layout in memory.
    pub memory: Datatype,
    /// Copies of it.
    pub memory_count: u64,
    /// The file view; its extent is that of the file's data, so that the next call continues
    /// there.
    pub file: Datatype,
    /// Copies of it.
    pub file_count: u64,
}

/// An access pattern of a parallel program.
///
/// # Contract
///
/// Memory and file type of an access hold the same number of bytes, the file type is valid as a
/// file view (monotonic), and ranks from 0 to `ranks() - 1` have one.
pub trait Workload {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Number of ranks that take part.
    fn ranks(&self) -> u64;

    /// What `rank` does in one call.
    fn access(&self, rank: u64) -> Result<RankAccess, TypeError>;
}

/// Displays that form a wall, each read by a rank from frames that hold the whole picture.
///
/// One call reads one frame; frames follow each other in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileReader {
    /// Displays side by side.
    pub columns: u64,
    /// Displays on top of each other.
    pub rows: u64,
    /// Pixels of a display, horizontally and vertically.
    pub tile: (u64, u64),
    /// Pixels that neighbours share, horizontally and vertically.
    pub overlap: (u64, u64),
    /// Bytes of a pixel.
    pub pixel: u64,
    /// Frames read one after the other.
    pub frames: u64,
}

impl Default for TileReader {
    /// The paper's wall of 3 × 2.
    fn default() -> Self {
        Self { columns: 3, rows: 2, tile: (1024, 768), overlap: (270, 128), pixel: 3, frames: 100 }
    }
}

impl TileReader {
    /// The paper's displays, as many as there are ranks, in a wall that is about as high as wide.
    pub fn near_square(ranks: u64) -> Self {
        let rows = largest_factor(ranks, ranks.isqrt());
        Self { columns: ranks / rows, rows, ..Self::default() }
    }

    /// Pixels of a frame, horizontally and vertically.
    pub fn frame(&self) -> (u64, u64) {
        let step = self.step();
        let along = |tiles: u64, tile: u64, step: u64| {
            tiles.saturating_sub(1).saturating_mul(step).saturating_add(tile)
        };
        (along(self.columns, self.tile.0, step.0), along(self.rows, self.tile.1, step.1))
    }

    /// Pixels from one display to the next, horizontally and vertically.
    const fn step(&self) -> (u64, u64) {
        (self.tile.0.saturating_sub(self.overlap.0), self.tile.1.saturating_sub(self.overlap.1))
    }
}

impl Workload for TileReader {
    fn name(&self) -> &'static str {
        "tile-reader"
    }

    fn ranks(&self) -> u64 {
        self.columns.saturating_mul(self.rows)
    }

    fn access(&self, rank: u64) -> Result<RankAccess, TypeError> {
        in_range(rank, self.ranks())?;
        let (frame_width, frame_height) = self.frame();
        let (column, row) = (rank % self.columns, rank / self.columns);
        let step = self.step();
        let starts = [row * step.1, column * step.0];
        let pixel = Datatype::bytes(self.pixel)?;
        let tile = [self.tile.1, self.tile.0];
        let file =
            Datatype::subarray(&[frame_height, frame_width], &tile, &starts, Order::C, &pixel)?;
        contiguous_memory(file)
    }
}

/// A three-dimensional array, block-distributed over a grid of ranks (ROMIO's `coll_perf`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block3d {
    /// Elements along each dimension.
    pub edge: u64,
    /// What an element is.
    pub element: Notation,
    /// Ranks along each dimension.
    pub grid: [u64; 3],
}

impl Default for Block3d {
    /// The paper's smallest case: 600³ integers over 2 × 2 × 2.
    fn default() -> Self {
        Self { edge: 600, element: Notation::Element(Element::I32), grid: [2, 2, 2] }
    }
}

impl Block3d {
    /// Integers over `ranks` ranks in a grid that is as close to a cube as their number allows.
    pub fn near_cubic(edge: u64, ranks: u64) -> Self {
        Self { edge, grid: near_cubic_grid(ranks), ..Self::default() }
    }

    /// The block of `rank` as people write it.
    pub fn notation(&self, rank: u64) -> Notation {
        Notation::Darray {
            rank,
            sizes: vec![self.edge; 3],
            distributions: vec![Distribution::Block(None); 3],
            grid: self.grid.to_vec(),
            order: Order::C,
            of: Box::new(self.element.clone()),
        }
    }
}

impl Workload for Block3d {
    fn name(&self) -> &'static str {
        "block3d"
    }

    fn ranks(&self) -> u64 {
        self.grid.iter().product()
    }

    fn access(&self, rank: u64) -> Result<RankAccess, TypeError> {
        contiguous_memory(self.notation(rank).build()?)
    }
}

/// The checkpoint of FLASH: cells with their variables side by side in memory, one variable after
/// the other in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flash {
    /// Ranks.
    pub processes: u64,
    /// Blocks of cells per rank.
    pub blocks: u64,
    /// Cells of a block along each dimension.
    pub cells: u64,
    /// Guard cells around a block, on each side; they are not written.
    pub guard: u64,
    /// Variables of a cell.
    pub variables: u64,
    /// What a variable is.
    pub variable: Element,
}

impl Default for Flash {
    /// The paper's problem on 8 ranks.
    fn default() -> Self {
        Self { processes: 8, blocks: 80, cells: 8, guard: 4, variables: 24, variable: Element::F64 }
    }
}

impl Flash {
    /// A rank's memory as people write it: cell by cell, the variables of a cell together, but in
    /// the order of the file, variable by variable.
    pub fn memory_notation(&self) -> Notation {
        let variable = Notation::Element(self.variable);
        // One variable of a cell, at the distance of the next cell's.
        let extent = self.variables.saturating_mul(self.variable.size());
        let extent = i64::try_from(extent).unwrap_or(i64::MAX);
        let cell = Notation::Resized { lb: 0, extent, of: variable.into() };
        let block = Notation::Subarray {
            sizes: vec![self.guard.saturating_mul(2).saturating_add(self.cells); 3],
            subsizes: vec![self.cells; 3],
            starts: vec![self.guard; 3],
            order: Order::C,
            of: cell.into(),
        };
        let one_variable = Notation::Contiguous { count: self.blocks, of: block.into() };
        Notation::Hvector {
            count: self.variables,
            block: 1,
            stride: self.variable.size() as i64,
            of: one_variable.into(),
        }
    }
}

impl Workload for Flash {
    fn name(&self) -> &'static str {
        "flash"
    }

    fn ranks(&self) -> u64 {
        self.processes
    }

    fn access(&self, rank: u64) -> Result<RankAccess, TypeError> {
        in_range(rank, self.processes)?;
        let memory = self.memory_notation().build()?;
        let one_variable = memory.size().checked_div(self.variables).unwrap_or(0);
        let sizes = [self.variables, self.processes, one_variable];
        let subsizes = [self.variables, 1, one_variable];
        let byte = Datatype::bytes(1)?;
        let file = Datatype::subarray(&sizes, &subsizes, &[0, rank, 0], Order::C, &byte)?;
        Ok(RankAccess { memory, memory_count: 1, file, file_count: 1 })
    }
}

fn contiguous_memory(file: Datatype) -> Result<RankAccess, TypeError> {
    let memory = Datatype::bytes(file.size())?;
    Ok(RankAccess { memory, memory_count: 1, file, file_count: 1 })
}

const fn in_range(rank: u64, size: u64) -> Result<(), TypeError> {
    if rank < size { Ok(()) } else { Err(TypeError::Rank { rank, size }) }
}

/// The largest factor of `n` that is not above `limit`.
pub(crate) fn largest_factor(n: u64, limit: u64) -> u64 {
    (1..=limit.max(1)).rev().find(|factor| n.is_multiple_of(*factor)).unwrap_or(1)
}

/// Three factors of `ranks`, as close to each other as possible, the largest first.
pub(crate) fn near_cubic_grid(ranks: u64) -> [u64; 3] {
    // The largest factors that are not above the cube and the square root leave the least spread.
    let root = |n: u64, power: f64| {
        let estimate = (n as f64).powf(1.0 / power).round() as u64;
        let too_large = (estimate as f64).powf(power) > n as f64 + 0.5;
        if too_large { estimate.saturating_sub(1) } else { estimate }
    };
    let ranks = ranks.max(1);
    let small = largest_factor(ranks, root(ranks, 3.0));
    let middle = largest_factor(ranks / small, root(ranks / small, 2.0));
    [ranks / small / middle, middle, small]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ty: &Datatype) -> (u64, u64) {
        (ty.runs(), ty.size() / ty.runs())
    }

    fn every_rank(workload: &dyn Workload, check: impl Fn(RankAccess)) {
        for rank in 0..workload.ranks() {
            let access = workload.access(rank).unwrap();
            assert_eq!(
                access.memory.size() * access.memory_count,
                access.file.size() * access.file_count
            );
            assert!(access.file.is_monotonic());
            for ty in [&access.memory, &access.file] {
                let encoded = ty.encode();
                assert!(encoded.len() < 200, "{} bytes for {ty}", encoded.len());
                assert_eq!(Datatype::decode(&encoded).as_ref(), Ok(ty));
            }
            check(access);
        }
        let beyond = workload.access(workload.ranks());
        assert!(matches!(beyond, Err(TypeError::Rank { .. })));
    }

    #[test]
    fn a_tile_is_768_rows_of_3_kib() {
        let wall = TileReader::default();
        assert_eq!(wall.frame(), (2532, 1408));
        every_rank(&wall, |access| {
            assert_eq!(runs(&access.file), (768, 3072));
            assert!(access.memory.is_contiguous());
            assert_eq!(access.file.extent(), 2532 * 1408 * 3);
        });
        // The last tile ends where the frame does.
        let last = wall.access(5).unwrap().file;
        assert_eq!(last.true_upper_bound(), last.extent());
    }

    #[test]
    fn a_block_is_90_000_rows_of_1_200_bytes() {
        every_rank(&Block3d::default(), |access| {
            assert_eq!(runs(&access.file), (90_000, 1_200));
            assert_eq!(access.file.extent(), 600 * 600 * 600 * 4);
        });
    }

    #[test]
    fn blocks_of_an_edge_that_does_not_divide_cover_the_array() {
        let workload = Block3d { edge: 7, element: Notation::Bytes(12), grid: [4, 2, 3] };
        let total: u64 =
            (0..workload.ranks()).map(|rank| workload.access(rank).unwrap().file.size()).sum();
        assert_eq!(total, 7 * 7 * 7 * 12);
    }

    #[test]
    fn flash_scatters_8_bytes_in_memory_and_320_kib_in_the_file() {
        let flash = Flash::default();
        every_rank(&flash, |access| {
            assert_eq!(runs(&access.memory), (983_040, 8));
            assert_eq!(runs(&access.file), (24, 320 << 10));
            assert_eq!(access.file.extent(), 8 * 24 * (320 << 10));
        });
        // The ranks' parts of a variable follow each other.
        let second = flash.access(1).unwrap().file;
        assert_eq!(second.true_lower_bound(), 320 << 10);
    }

    #[test]
    fn flash_streams_one_variable_after_the_other() {
        let flash =
            Flash { processes: 1, blocks: 2, cells: 2, guard: 1, variables: 3, ..Flash::default() };
        let memory = flash.access(0).unwrap().memory;
        let mut expected = Vec::new();
        for variable in 0..3 {
            for block in 0..2 {
                for (z, y, x) in (0..8).map(|i| (1 + i / 4, 1 + i / 2 % 2, 1 + i % 2)) {
                    let cell = ((block * 4 + z) * 4 + y) * 4 + x;
                    expected.push((cell * 3 + variable) * 8);
                }
            }
        }
        let runs = memory.flatten(1).unwrap();
        assert!(runs.iter().all(|run| run.len == 8));
        assert_eq!(runs.iter().map(|run| run.offset).collect::<Vec<i64>>(), expected);
    }

    #[test]
    fn walls_are_near_squares() {
        for (ranks, columns, rows) in [(1, 1, 1), (2, 2, 1), (4, 2, 2), (6, 3, 2), (7, 7, 1)] {
            let wall = TileReader::near_square(ranks);
            assert_eq!((wall.columns, wall.rows), (columns, rows));
        }
        assert_eq!(TileReader::near_square(6), TileReader::default());
    }

    #[test]
    fn grids_are_near_cubes() {
        for (ranks, grid) in [
            (1, [1, 1, 1]),
            (2, [2, 1, 1]),
            (6, [3, 2, 1]),
            (8, [2, 2, 2]),
            (12, [3, 2, 2]),
            (13, [13, 1, 1]),
            (27, [3, 3, 3]),
            (64, [4, 4, 4]),
            (1_000_000, [100, 100, 100]),
        ] {
            assert_eq!(Block3d::near_cubic(10, ranks).grid, grid, "{ranks}");
        }
    }
}
