//! `striate quickstart`: a demonstration on a block-distributed array.
//!
//! The array is a cube of integers, distributed over some ranks: each rank's block is described,
//! packed out of the array, checked against coordinates counted by hand, and unpacked into a second
//! array. Then ranks (threads here) write the blocks into one file and read them back, by every
//! access method, with the settings of \[CHING\]; what each method costs is counted at the file.
//! The same is done on a few I/O servers that are started for it, where requests and their bytes
//! are counted, too. Then a dataset is divided over those of four storage targets that are not
//! slow. At last some of this is recorded, and a report made of it.

mod methods;
mod recorded;
mod targets;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use striate_bench::io::{self, SignalCleanup};
use striate_bench::workload::{Block3d, Workload};
use striate_datatype::notation::Notation;
use striate_datatype::{Bytes, Order, Packer};

use self::methods::{EDGE_ON_SERVERS, Measured, REPETITIONS, SERVERS};
use self::recorded::Recorded;
use self::targets::Divided;
use crate::document::{Document, available_memory};
use crate::number::{counted, grouped};
use crate::shell::{continued, own_command, quoted, quoted_path};
use crate::table::{Side, Table};
use crate::{CommandError, space, terminal};

/// Bytes of an element of the array.
const ELEMENT: usize = 4;

/// Blocks that are listed; more would hide the rest.
const LISTED: usize = 8;

/// Describe a block-distributed array, and write and read it in parallel by every method
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate quickstart
  striate quickstart --edge 600             the array of the paper, 824 MiB
  striate quickstart --edge 100 --ranks 27 --json
  striate quickstart --keep climate         then: ncdump -h climate/climate.nc")]
pub(crate) struct QuickstartArgs {
    /// Elements along each of the three dimensions; an element is a 4-byte integer
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..))]
    edge: u64,

    /// Ranks that share the array
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=4096))]
    ranks: u64,

    /// The directory for the file, which is removed afterwards; by default the system's temporary
    /// directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Keep the partitioned dataset, the directories that are its storage targets, and the report
    /// in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// A row of the JSON document: the block of a rank, a method, the dataset, or what was recorded.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum QuickstartRow {
    Block(Block),
    Method(Box<io::IoRow>),
    Divided(Box<Divided>),
    Recorded(Recorded),
}

/// What was found out about the block of one rank.
#[derive(Clone, Debug, Serialize)]
struct Block {
    rank: u64,
    notation: String,
    size: u64,
    runs: u64,
    /// Bytes of the binary form.
    binary_bytes: u64,
    /// Bytes of the list of regions.
    list_bytes: u64,
    /// Packed, compared with what was expected, and unpacked.
    verified: bool,
}

pub(crate) fn run(args: &QuickstartArgs, json: bool) -> Result<(), CommandError> {
    let array_bytes = check_memory(args.edge)?;
    let directory = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let hint = "use a smaller --edge, or another --dir";
    space::check("the array as a file", array_bytes as u64, &directory, hint)?;
    let _interrupted = SignalCleanup::new(|| {
        // Over the bar that is shown.
        let clear = if std::io::stderr().is_terminal() { "\r\u{1b}[2K" } else { "" };
        eprintln!("{clear}striate: interrupted: what the quickstart wrote is removed");
    });
    let workload = Block3d::near_cubic(args.edge, args.ranks);
    let blocks = distribute(&workload, array_bytes)?;
    let in_file = methods::in_directory(&workload, &directory)?;
    let small = Block3d::near_cubic(args.edge.min(EDGE_ON_SERVERS), args.ranks);
    let on_servers = methods::on_servers(&small, &directory)?;
    let divided = targets::run(&directory, args.keep.as_deref())?;
    let recorded = recorded::run(&workload, &directory, args.keep.as_deref())?;
    if json {
        let results = [in_file.results, on_servers.results];
        let ratios = results.iter().flat_map(|results| results.ratios.clone()).collect();
        let methods = results.into_iter().flat_map(|results| results.rows);
        let methods = methods.map(|row| QuickstartRow::Method(Box::new(row)));
        let rows = blocks.into_iter().map(QuickstartRow::Block).chain(methods);
        let rows = rows
            .chain([QuickstartRow::Divided(Box::new(divided)), QuickstartRow::Recorded(recorded)]);
        return Document::new(rows.collect(), ratios).print();
    }
    let text = text(&workload, array_bytes, &blocks, &in_file, (&small, &on_servers));
    terminal::print_fitted(&(text + &last_words(&divided, &recorded)))?;
    // Commands are broken as a shell takes them, so that they can be pasted.
    let next = next(&own_command(), &workload, &divided, &recorded, terminal::width());
    terminal::print(&if terminal::is_utf8() { next } else { terminal::to_ascii(&next) })
}

/// Bytes of the array, if two of them and a block fit into memory.
fn check_memory(edge: u64) -> Result<usize, CommandError> {
    let array = |edge: u64| u128::from(edge).pow(2).saturating_mul(u128::from(edge) * 4);
    // A block is at most as large as the array: with one rank it is.
    let needed = array(edge).saturating_mul(3);
    let available = available_memory();
    if needed <= u128::from(available) && usize::try_from(needed).is_ok() {
        return Ok(array(edge) as usize);
    }
    let largest = (available as f64 / 12.0).cbrt() as u64;
    Err(CommandError::Memory {
        what: format!("an array of {edge}³ integers, copied twice,", edge = grouped(edge)),
        needed: u64::try_from(needed).unwrap_or(u64::MAX),
        available,
        hint: format!("use a smaller array: --edge {} fits", largest / 10 * 10),
    })
}

/// Packs every block out of one array, verifies it, and unpacks it into another.
fn distribute(workload: &Block3d, array_bytes: usize) -> Result<Vec<Block>, CommandError> {
    let mut original = vec![0u8; array_bytes];
    for (index, element) in original.chunks_exact_mut(ELEMENT).enumerate() {
        element.copy_from_slice(&value(index));
    }
    let mut copy = vec![0u8; array_bytes];
    let mut stream = Vec::new();
    let mut blocks = Vec::new();
    let progress = progress(workload.ranks());
    for rank in 0..workload.ranks() {
        let failed =
            |error: striate_datatype::TypeError| failed(workload.notation(rank).to_string(), error);
        let ty = workload.notation(rank).build().map_err(failed)?;
        let block = BlockOfArray::of(workload, rank);
        let same = block.notation(workload).build().map_err(failed)?;
        if same != ty {
            return Err(mismatch(rank, "is described differently as a subarray"));
        }
        let packer = Packer::new(&ty, 1).map_err(failed)?;
        stream.clear();
        stream.resize(ty.size() as usize, 0);
        let attempt = || format!("cannot pack the block of rank {rank}");
        packer
            .pack(&original, 0, &mut stream)
            .map_err(|error| CommandError::failed(attempt(), error, ""))?;
        if !block.is_packed_in(&stream, workload.edge as usize) {
            return Err(mismatch(rank, "was packed wrongly"));
        }
        packer
            .unpack(&stream, &mut copy, 0)
            .map_err(|error| CommandError::failed(attempt(), error, ""))?;
        blocks.push(Block {
            rank,
            notation: block.notation(workload).to_string(),
            size: ty.size(),
            runs: ty.runs(),
            binary_bytes: ty.encode().len() as u64,
            list_bytes: ty.runs() * 16,
            verified: true,
        });
        progress.inc(1);
    }
    progress.finish_and_clear();
    if copy == original { Ok(blocks) } else { Err(mismatch(0, "or another is not whole again")) }
}

/// The bytes of element `index` of the array; all differ, up to 2³² elements.
const fn value(index: usize) -> [u8; ELEMENT] {
    (index as u32).to_ne_bytes()
}

/// A block by its indices, found without the datatypes that are to be checked.
struct BlockOfArray([Range<u64>; 3]);

impl BlockOfArray {
    fn of(workload: &Block3d, rank: u64) -> Self {
        let [_, columns, layers] = workload.grid;
        let coordinates = [rank / layers / columns, rank / layers % columns, rank % layers];
        Self(std::array::from_fn(|dimension| {
            let length = workload.edge.div_ceil(workload.grid[dimension]);
            let start = (coordinates[dimension] * length).min(workload.edge);
            start..(start + length).min(workload.edge)
        }))
    }

    fn notation(&self, workload: &Block3d) -> Notation {
        Notation::Subarray {
            sizes: vec![workload.edge; 3],
            subsizes: self.0.iter().map(|range| range.end - range.start).collect(),
            starts: self.0.iter().map(|range| range.start).collect(),
            order: Order::C,
            of: Box::new(workload.element.clone()),
        }
    }

    /// Whether `stream` holds the elements of the block of an array with this edge, row by row.
    fn is_packed_in(&self, stream: &[u8], edge: usize) -> bool {
        let [planes, rows, columns] =
            [0, 1, 2].map(|d| self.0[d].start as usize..self.0[d].end as usize);
        let mut elements = stream.chunks_exact(ELEMENT);
        for plane in planes {
            for row in rows.clone() {
                for column in columns.clone() {
                    let expected = value((plane * edge + row) * edge + column);
                    if elements.next() != Some(&expected[..]) {
                        return false;
                    }
                }
            }
        }
        elements.next().is_none() && elements.remainder().is_empty()
    }
}

fn failed(
    what: impl std::fmt::Display,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> CommandError {
    CommandError::failed(format!("cannot compute {what}"), error, "try a smaller --edge")
}

fn mismatch(rank: u64, what: &str) -> CommandError {
    CommandError::failed(
        "verification failed",
        format!("the block of rank {rank} {what}"),
        "this is a bug in striate: please report it with the command line and the machine",
    )
}

/// Shown while it lasts, on a terminal only.
fn progress(ranks: u64) -> ProgressBar {
    let bar = ProgressBar::new(ranks);
    if let Ok(style) = ProgressStyle::with_template("  packing {wide_bar} {pos}/{len} ranks") {
        bar.set_style(style);
    }
    bar
}

fn text(
    workload: &Block3d,
    array_bytes: usize,
    blocks: &[Block],
    in_file: &Measured,
    (small, on_servers): (&Block3d, &Measured),
) -> String {
    let edge = workload.edge;
    let [planes, rows, columns] = workload.grid;
    let mut text = format!(
        "An array of {edge} × {edge} × {edge} integers ({}), dealt to {} in a grid of {planes} × \
         {rows} × {columns}:\n  {}\n\n",
        Bytes(array_bytes as u64),
        counted(workload.ranks(), "rank"),
        workload.notation(0).to_string().replace("rank=0", "rank=…"),
    );
    let _ = writeln!(
        text,
        "{}",
        terminal::heading(
            "Each rank's block, described in bytes: the binary form, or a list of regions"
        )
    );
    let mut table = Table::new(&[
        ("rank", Side::Right),
        ("block", Side::Left),
        ("data", Side::Right),
        ("runs", Side::Right),
        ("binary", Side::Right),
        ("list", Side::Right),
    ]);
    for block in blocks.iter().take(LISTED) {
        table.row([
            grouped(block.rank),
            placed(&block.notation),
            Bytes(block.size).to_string(),
            grouped(block.runs),
            grouped(block.binary_bytes),
            grouped(block.list_bytes),
        ]);
    }
    text.push_str(&table.render());
    if blocks.len() > LISTED {
        let _ = writeln!(text, "  … and {} more", grouped((blocks.len() - LISTED) as u64));
    }
    text.push_str(
        "Verified: every block was packed and compared byte by byte with values counted by hand, \
         then unpacked into a second array, which is equal to the first.\n\n",
    );
    let heading = format!("The array as a file on {}: MiB/s, and what a rank pays", in_file.store);
    let _ = writeln!(text, "{}", terminal::heading(&heading));
    text.push_str(&methods::table(&in_file.results));
    text.push_str(
        "A file system has no call that takes a description: there 'datatype' is one operation for the \
         program, but a system call for every region, as 'posix' is, and so the two tie. I/O servers take \
         the description as it is:\n",
    );
    let heading = format!(
        "An array of {0} × {0} × {0} on {SERVERS} I/O servers within this program: the same, and what \
         is asked of servers",
        small.edge
    );
    let _ = writeln!(text, "\n{}", terminal::heading(&heading));
    text.push_str(&methods::table(&on_servers.results));
    let _ = writeln!(
        text,
        "Verified: every byte of every file that was written, and of every block that was read.\n\
         Medians of {REPETITIONS}, through the page cache, with the settings of the paper.",
    );
    text
}

/// The dataset and the recording.
fn last_words(divided: &Divided, recorded: &Recorded) -> String {
    let mut text = format!("\n{}\n", terminal::heading(&Divided::heading()));
    text.push_str(&divided.text());
    let _ = writeln!(text, "\n{}", terminal::heading("What this program did with files"));
    text.push_str(&recorded.text());
    text
}

/// What to try next, as commands to paste.
fn next(
    own: &str,
    workload: &Block3d,
    divided: &Divided,
    recorded: &Recorded,
    width: Option<usize>,
) -> String {
    let mut text = format!("\n{}\n", terminal::heading("Next"));
    let mut try_out = |why: &str, commands: &[&[&str]]| {
        let _ = writeln!(text, "  # {why}");
        for words in commands {
            let _ = writeln!(text, "{}", continued(words, width));
        }
    };
    if !divided.is_kept() {
        let keep: &[&str] = &[own, "quickstart", "--keep climate"];
        try_out(
            "keep that dataset; look at its master, and a partition",
            &[keep, &["ncdump -h climate/climate.nc"], &["ncdump climate/target-0/*.nc"]],
        );
    }
    if (workload.edge, workload.ranks()) != (600, 8) {
        try_out("the paper's numbers for these tables", &[&[own, "quickstart", "--edge 600"]]);
    }
    let block = Block3d::default();
    let example = compact(&BlockOfArray::of(&block, 2).notation(&block).to_string());
    let example = quoted(&example);
    try_out("draw a block", &[&[own, "describe", &example, "--svg block.svg"]]);
    let trace = quoted_path(recorded.trace());
    try_out("a report on the requests of this program", &[&[own, "report", &trace]]);
    try_out("see what another program does with files", &[&[own, "run", "-- ls -l"]]);
    let strided: &[&str] = &[own, "bench strided", "--block 64", "--api striate,posix"];
    let tiles: &[&str] =
        &[own, "bench tile-reader", "--servers 16", "--independent", "--contiguous"];
    try_out("measure other patterns", &[strided, tiles, &[own, "bench", "--help"]]);
    text
}

/// What differs from block to block: its size and its place.
fn placed(notation: &str) -> String {
    let compact = compact(notation);
    let place = compact.split_once(" of i32, ").map(|(_, place)| place.trim_end_matches(')'));
    place.unwrap_or(&compact).to_owned()
}

/// The notation with less space in its lists.
fn compact(notation: &str) -> String {
    notation.replace(", ", ",").replace(",[", ", [")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_any_shape_are_verified() {
        for (edge, ranks) in [(1, 1), (1, 8), (5, 4), (7, 12), (12, 27), (9, 13)] {
            let workload = Block3d::near_cubic(edge, ranks);
            let bytes = check_memory(edge).unwrap();
            let blocks = distribute(&workload, bytes).unwrap();
            assert_eq!(blocks.iter().map(|block| block.size).sum::<u64>(), bytes as u64);
            assert_eq!(blocks.len() as u64, ranks);
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let workload = Block3d::near_cubic(4, 8);
        let block = BlockOfArray::of(&workload, 5);
        let ty = block.notation(&workload).build().unwrap();
        let array: Vec<u8> = (0..64).flat_map(value).collect();
        let mut stream = vec![0; ty.size() as usize];
        Packer::new(&ty, 1).unwrap().pack(&array, 0, &mut stream).unwrap();
        assert!(block.is_packed_in(&stream, 4));
        assert!(!block.is_packed_in(&stream[..28], 4));
        stream[13] ^= 1;
        assert!(!block.is_packed_in(&stream, 4));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for edge in [100_000, u64::MAX] {
            assert!(matches!(check_memory(edge), Err(CommandError::Memory { .. })));
        }
    }
}
