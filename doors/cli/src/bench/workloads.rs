//! The workloads of `striate bench` that do file I/O, each with its own options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use striate_bench::io::{FileChoice, IoGoals, IoOp, Ior, Pattern, Repeated};
use striate_bench::workload::{Block3d, Flash, Strided, TileReader};
use striate_datatype::parse_size;

use super::io::{IoArgs, Setting};
use crate::CommandError;
use crate::number::{counted, grouped};

/// Bytes from 1 on.
pub(super) fn size(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(0) => Err("it must be at least 1 byte".into()),
        Ok(size) if i64::try_from(size).is_ok() => Ok(size),
        Ok(_) => Err("offsets are signed 64-bit numbers".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    Write,
    Read,
}

impl Direction {
    fn among(asked: &[Self], op: IoOp) -> bool {
        asked.contains(&if op == IoOp::Write { Self::Write } else { Self::Read })
    }
}

/// Options of the workloads that are one call.
#[derive(Debug, Args)]
struct CallArgs {
    /// Independent calls instead of collective ones
    #[arg(long)]
    independent: bool,
    #[command(flatten)]
    io: IoArgs,
}

impl CallArgs {
    fn setting(&self, ranks: u64, paper: bool, ops: &[Direction]) -> Setting {
        Setting {
            ranks: self.io.ranks.unwrap_or(ranks),
            paper,
            write: Direction::among(ops, IoOp::Write),
            read: Direction::among(ops, IoOp::Read),
            collective: !self.independent,
            in_one_piece: false,
            contiguous: false,
            goals: IoGoals::default(),
        }
    }
}

/// The limit of what methods can reach.
#[derive(Debug, Args)]
struct LimitArgs {
    /// Also measure the bytes of each call in one contiguous piece, as the limit of the methods
    #[arg(long)]
    contiguous: bool,
}

impl LimitArgs {
    /// The setting with the limit, and the part of it that descriptions should reach.
    fn add_to(&self, setting: Setting, goal: f64) -> Setting {
        let goals = IoGoals { contiguous: Some(goal), ..setting.goals };
        Setting { contiguous: self.contiguous, goals, ..setting }
    }
}

/// The number of ranks there are must be the one that the layout has.
fn check_ranks(layout: &str, has: u64, ranks: u64) -> Result<(), CommandError> {
    if has == ranks {
        return Ok(());
    }
    Err(CommandError::usage(
        format!("{layout} is for {}, but there are {}", counted(has, "rank"), grouped(ranks)),
        "give only one of the two: the number of ranks, or their layout",
    ))
}

/// Displays of a wall read their parts of frames, which overlap (3 × 2 in the paper)
///
/// Each rank reads the pixels of its display from every frame of a file, frame by frame, into
/// memory that it reuses. Costs are per frame. The settings are the paper's: every rank aggregates,
/// in even domains, by messages, with buffers of 4 MiB, and lists have 64 regions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench tile-reader                         the paper's wall, all methods
  striate bench tile-reader --frames 10 --tuned     Striate's settings, and the method that it chooses
  striate bench tile-reader --servers 16 --independent --contiguous
                                                    on I/O servers, compared with their limit")]
pub(super) struct TileReaderArgs {
    /// Frames in the file
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    frames: u64,
    /// Displays side by side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    columns: Option<u64>,
    /// Displays on top of each other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    rows: Option<u64>,
    /// Pixels of a display, wide and high
    #[arg(long, value_name = "WxH", default_value = "1024x768", value_parser = dimensions::<2>)]
    tile: [u64; 2],
    /// Pixels that neighbours share, horizontally and vertically
    #[arg(long, value_name = "WxH", default_value = "270x128", value_parser = overlap)]
    overlap: [u64; 2],
    /// Operations to measure; if frames are only read, they are written before
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read")]
    op: Vec<Direction>,
    /// Use Striate's settings instead of the paper's
    #[arg(long)]
    tuned: bool,
    #[command(flatten)]
    limit: LimitArgs,
    #[command(flatten)]
    call: CallArgs,
}

impl TileReaderArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        if self.overlap[0] >= self.tile[0] || self.overlap[1] >= self.tile[1] {
            return Err(CommandError::usage(
                "displays that overlap completely do not form a wall",
                "use an --overlap that is smaller than the --tile",
            ));
        }
        let laid_out = match (self.columns, self.rows) {
            (None, None) => 6,
            (columns, rows) => columns.unwrap_or(1) * rows.unwrap_or(1),
        };
        let setting = self.call.setting(laid_out, !self.tuned, &self.op);
        let setting = self.limit.add_to(setting, 0.8);
        self.call.io.run(json, setting, |ranks| {
            let mut wall = TileReader::near_square(ranks);
            if self.columns.is_some() || self.rows.is_some() {
                (wall.columns, wall.rows) = (self.columns.unwrap_or(1), self.rows.unwrap_or(1));
                let layout = format!("a wall of {} × {}", wall.columns, wall.rows);
                check_ranks(&layout, laid_out, ranks)?;
            }
            wall.tile = self.tile.into();
            wall.overlap = self.overlap.into();
            wall.frames = self.frames;
            Ok(Box::new(Repeated { workload: wall, steps: self.frames }))
        })
    }
}

/// A cube of integers in blocks, one per rank (600³ over 8 in the paper; ROMIO's `coll_perf`)
///
/// The settings are the paper's: every rank aggregates, in even domains, by messages, with buffers
/// of 4 MiB, and lists have 64 regions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench block3d                                the paper's cube, 824 MiB, all methods
  striate bench block3d --edge 256 --grid 4x2x1 --tuned
  striate bench block3d --servers 4 --delay 200us --independent --goal next=1.5")]
pub(super) struct Block3dArgs {
    /// Elements of 4 bytes along each dimension
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    edge: u64,
    /// Ranks along each dimension; by default as near to a cube as their number allows
    #[arg(long, value_name = "XxYxZ", value_parser = dimensions::<3>)]
    grid: Option<[u64; 3]>,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write,read")]
    op: Vec<Direction>,
    /// Use Striate's settings instead of the paper's
    #[arg(long)]
    tuned: bool,
    #[command(flatten)]
    limit: LimitArgs,
    #[command(flatten)]
    call: CallArgs,
}

impl Block3dArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let in_grid = self.grid.map(|grid| grid.iter().fold(1, |n: u64, m| n.saturating_mul(*m)));
        if in_grid.is_some_and(|ranks| ranks > 4096) {
            return Err(CommandError::usage(
                "the grid has more than 4096 ranks",
                "use a smaller --grid",
            ));
        }
        let setting = self.call.setting(in_grid.unwrap_or(8), !self.tuned, &self.op);
        let setting = self.limit.add_to(setting, 0.6);
        self.call.io.run(json, setting, |ranks| {
            let mut workload = Block3d::near_cubic(self.edge, ranks);
            if let (Some(grid), Some(has)) = (self.grid, in_grid) {
                check_ranks(
                    &format!("a grid of {} × {} × {}", grid[0], grid[1], grid[2]),
                    has,
                    ranks,
                )?;
                workload.grid = grid;
            }
            Ok(Box::new(Repeated::once(workload)))
        })
    }
}

/// The checkpoint of FLASH: cells in memory, variables in the file
///
/// Each rank has blocks of cells with guard cells around them; the variables of a cell lie together
/// in memory, and one after the other in the file. The settings are the paper's: every rank
/// aggregates, in even domains, by messages, with buffers of 4 MiB, and lists have 64 regions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench flash                                  the paper's checkpoint, all methods
  striate bench flash --blocks 8 --method datatype,two-phase")]
pub(super) struct FlashArgs {
    /// Blocks of a rank
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    blocks: u64,
    /// Cells of a block along each dimension
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    cells: u64,
    /// Guard cells on each side of a block
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    guard: u64,
    /// Variables of 8 bytes in a cell
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    variables: u64,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write,read")]
    op: Vec<Direction>,
    /// Use Striate's settings instead of the paper's
    #[arg(long)]
    tuned: bool,
    #[command(flatten)]
    call: CallArgs,
}

impl FlashArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = self.call.setting(8, !self.tuned, &self.op);
        self.call.io.run(json, setting, |ranks| {
            Ok(Box::new(Repeated::once(Flash {
                processes: ranks,
                blocks: self.blocks,
                cells: self.cells,
                guard: self.guard,
                variables: self.variables,
                ..Flash::default()
            })))
        })
    }
}

/// Blocks of equal size, distributed round robin over the ranks, in one call per rank
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench strided --block 64 --method all
  striate bench strided --block 64KiB --total 256MiB --independent --api striate,posix
  mpiexec -n 4 striate bench strided --block 512 --api striate,mpiio --repeat 9 --dir /dev/shm")]
pub(super) struct StridedArgs {
    /// Bytes of a block
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = size)]
    block: u64,
    /// Blocks of a rank
    #[arg(long, value_name = "N", conflicts_with = "total", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Bytes of all ranks together, at least
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    total: u64,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write,read")]
    op: Vec<Direction>,
    #[command(flatten)]
    call: CallArgs,
}

impl StridedArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = self.call.setting(4, false, &self.op);
        self.call.io.run(json, setting, |ranks| {
            let round = self.block.saturating_mul(ranks);
            let count = self.count.unwrap_or_else(|| self.total.div_ceil(round));
            Ok(Box::new(Repeated::once(Strided { ranks, block: self.block, count })))
        })
    }
}

/// IOR's pattern, in IOR's terms
///
/// In every segment each rank has a block, which it moves transfer by transfer; the blocks of a
/// segment follow each other in the order of ranks. All transfers of a rank are timed together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench ior -b 16m -t 1m -i 5
  striate bench ior -b 1m -t 4k -s 16 -F -a striate,posix
  striate bench ior -b 64m -t 16m --servers 4 -a striate,socket
  striate bench ior -w -k -o testfile -b 16m -t 1m     keep the file, to read it  striate bench ior -r -o testfile -b 16m -t 1mlater  mpiexec -n 4 striate bench ior -c -a striate,mpiio -t 64k -b 64k -s 256 -C -i 9")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub(super) struct IorArgs {
    /// Bytes of a rank's block in a segment
    #[arg(short, long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    block: u64,
    /// Bytes of a call; a block is a multiple of it
    #[arg(short, long, value_name = "SIZE", default_value = "256KiB", value_parser = size)]
    transfer: u64,
    /// Segments
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    segments: u64,
    /// A file per rank instead of a shared one
    #[arg(short = 'F', long)]
    file_per_process: bool,
    /// Collective calls
    #[arg(short, long)]
    collective: bool,
    /// A rank reads what the next rank wrote
    #[arg(short = 'C', long)]
    reorder: bool,
    /// The transfers of a rank come in random order
    #[arg(short = 'z', long)]
    random: bool,
    /// Measure writes; without -w and -r both
    #[arg(short, long)]
    write: bool,
    /// Measure reads; without -w and -r both
    #[arg(short, long)]
    read: bool,
    /// Verify what was written: the default, see --no-verify
    #[arg(short = 'W')]
    check_write: bool,
    /// Verify what was read: the default, see --no-verify
    #[arg(short = 'R')]
    check_read: bool,
    /// The file, instead of one in --dir; with -F, FILE.0, FILE.1 and so on. If only -r is given
    /// and the file exists, it is read
    #[arg(short = 'o', long = "file", value_name = "FILE", conflicts_with = "dir")]
    file: Option<PathBuf>,
    /// Keep the file; without -o it is called testFile
    #[arg(short, long)]
    keep: bool,
    /// Overwrite the file of -o if it exists
    #[arg(long, requires = "file")]
    overwrite: bool,
    #[command(flatten)]
    io: IoArgs,
}

impl IorArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        if !self.block.is_multiple_of(self.transfer) {
            return Err(CommandError::usage(
                format!(
                    "a block of {} is not a multiple of the transfer size {}",
                    counted(self.block, "byte"),
                    grouped(self.transfer)
                ),
                "use a -b that is a multiple of -t",
            ));
        }
        let neither = !self.write && !self.read;
        let setting = Setting {
            ranks: 4,
            paper: false,
            write: self.write || neither,
            read: self.read || neither,
            collective: self.collective,
            in_one_piece: true,
            contiguous: false,
            goals: IoGoals { socket: Some(0.7), ..IoGoals::default() },
        };
        let files = FileChoice {
            name: self.file.clone().or_else(|| self.keep.then(|| self.io.default_file())),
            keep: self.keep,
            overwrite: self.overwrite,
        };
        self.io.run_on(json, setting, &files, |ranks| {
            let bytes = u128::from(self.block) * u128::from(self.segments) * u128::from(ranks);
            let transfers = u128::from(self.block / self.transfer) * u128::from(self.segments);
            if i64::try_from(bytes).is_err() || transfers > 1 << 40 {
                return Err(CommandError::usage(
                    "the ranks would have more data or transfers than can be counted",
                    "use a smaller -b or -s, or a larger -t",
                ));
            }
            let pattern = Ior {
                ranks,
                block: self.block,
                transfer: self.transfer,
                segments: self.segments,
                file_per_process: self.file_per_process,
                reorder: self.reorder,
                random: self.random,
            };
            Ok(Box::new(pattern) as Box<dyn Pattern>)
        })
    }
}

/// Numbers from 1 on with an `x` between.
pub(super) fn dimensions<const N: usize>(text: &str) -> Result<[u64; N], String> {
    let numbers = numbers(text)?;
    if numbers.contains(&0) { Err("they must be at least 1".into()) } else { Ok(numbers) }
}

fn overlap(text: &str) -> Result<[u64; 2], String> {
    numbers(text)
}

fn numbers<const N: usize>(text: &str) -> Result<[u64; N], String> {
    let numbers: Option<Vec<u64>> = text
        .split(['x', 'X', '×'])
        .map(|number| number.trim().parse().ok().filter(|n| *n <= 1 << 20))
        .collect();
    let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| format!("expected {N} numbers with an 'x' between"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_read() {
        assert_eq!(dimensions::<3>("2x3x4"), Ok([2, 3, 4]));
        assert_eq!(numbers::<2>("270X0"), Ok([270, 0]));
        for wrong in ["", "2x3", "2x3x4x5", "2x0x4", "axbxc", "-1x2x3", "99999999x1x1"] {
            assert!(dimensions::<3>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_at_least_a_byte() {
        assert_eq!(size("4k"), Ok(4096));
        assert!(size("0").is_err() && size("1 apple").is_err() && size("9e18g").is_err());
    }
}
