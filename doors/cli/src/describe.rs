//! `striate describe`: the loops, size, bounds and runs of a description, and a picture of it.
//!
//! Nothing is walked that could be long: the answer for a billion runs comes as fast as for ten.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use striate_datatype::notation::{LoopLine, Notation};
use striate_datatype::{Bytes, Cursor, Datatype};

use crate::document::Document;
use crate::number::{bytes, grouped, short};
use crate::output::write_whole;
use crate::picture::Picture;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Bytes that a list of regions takes per region: an offset and a length.
const LIST_ENTRY: u64 = 16;

/// Explain a datatype description: its loops, size, bounds and runs, and a picture
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate describe 'vector(768, 3KiB, stride=7596)'
  striate describe 'subarray([600,600,600] of i32, [300,300,300] at [0,300,0])' --svg block.svg
  striate describe 'struct(1 of i32 at 0, 3 of f64 at 8)' --count 4 --json
  striate describe - < long-list.txt

Notation:
  i32 f64 byte …                            bytes(3KiB)           contiguous(5 of f64)
  vector(10, 2 of f64, stride=5)            hvector(10, 2 of f64, stride=40)
  indexed([2 at 0, 3 at 7] of i32)          hindexed([2 at 0, 3 at 28] of i32)
  indexed_block(2 of i32, at [0, 7, 9])     hindexed_block(2 of i32, at [0, 28, 36])
  struct(1 of i32 at 0, 3 of f64 at 8)      resized(f32, lb=0, extent=16)
  subarray([4,6] of f32, [2,2] at [1,1], order=fortran)
  darray([64,64] of f64, dist=[block, cyclic(2)], grid=[2,2], rank=1)

The constructors are those of MPI. Strides and displacements count elements, in the h forms bytes.
Where 'of TYPE' is left out the elements are bytes. Numbers take binary suffixes: 3KiB, 4m.")]
pub(crate) struct DescribeArgs {
    /// The description, in the notation below; '-' reads it from standard input
    notation: String,

    /// Number of copies, each displaced by the extent of the one before
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,

    /// Runs to list
    #[arg(long, value_name = "N", default_value_t = 8)]
    runs: usize,

    /// Also draw the pattern into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Use ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// What is known about a description; a row of the JSON document.
#[derive(Debug, Serialize)]
struct TypeDescription {
    /// As written.
    notation: String,
    /// The normal form in the same notation.
    normal: String,
    copies: u64,
    loops_written: Vec<LoopRow>,
    loops_normal: Vec<LoopRow>,
    /// Where the first byte of the stream lies.
    first_offset: i64,
    size: u64,
    extent: i64,
    lower_bound: i64,
    true_lower_bound: i64,
    true_upper_bound: i64,
    runs: u64,
    density: f64,
    /// Valid as a file view.
    monotonic: bool,
    /// Bytes of the binary form.
    binary_bytes: u64,
    /// Bytes of the list of regions.
    list_bytes: u64,
    first_runs: Vec<FirstRun>,
}

#[derive(Debug, Serialize)]
struct LoopRow {
    depth: usize,
    text: String,
}

#[derive(Debug, Serialize)]
struct FirstRun {
    offset: i64,
    length: u64,
}

pub(crate) fn run(args: &DescribeArgs, json: bool) -> Result<(), CommandError> {
    let text = if args.notation == "-" { read_standard_input()? } else { args.notation.clone() };
    let wrong = |source| CommandError::Notation { text: text.clone(), source };
    let notation: Notation = text.parse().map_err(wrong)?;
    let copies = notation
        .build()
        .and_then(|ty| Datatype::contiguous(args.count, &ty))
        .map_err(|error| wrong(error.into()))?;
    let description =
        TypeDescription::of(&notation, &copies, args).map_err(|error| wrong(error.into()))?;
    if let Some(path) = &args.svg {
        let drawing = description.drawing(&copies).map_err(|error| wrong(error.into()))?;
        write_whole(path, |file| file.write_all(drawing.as_bytes()))
            .map_err(|source| CommandError::Write { path: path.clone(), source })?;
    }
    if json {
        return Document::new(vec![description], Vec::new()).print();
    }
    let ascii = args.ascii || !terminal::is_utf8();
    let picture = Picture::new(&copies, 64, 16).map_err(|error| wrong(error.into()))?;
    let mut text = description.text();
    if let Some(picture) = picture {
        let _ = write!(text, "\n{}\n{}", terminal::heading("Picture"), picture.text(ascii));
    }
    if let Some(path) = &args.svg {
        let _ = writeln!(text, "\nDrawn in {}", path.display());
    }
    if ascii {
        text = terminal::to_ascii(&text);
    }
    terminal::print(&terminal::fitted(&text, terminal::width()))
}

/// Longest description that is read from standard input.
const MAX_INPUT: u64 = 64 << 20;

/// A description of a long list does not fit into an argument.
fn read_standard_input() -> Result<String, CommandError> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_INPUT + 1).read_to_string(&mut text).map_err(|error| {
        CommandError::failed("cannot read standard input", error, "give it text in UTF-8")
    })?;
    if text.len() as u64 > MAX_INPUT {
        return Err(CommandError::usage(
            format!("the description is longer than {}", Bytes(MAX_INPUT)),
            "describe one part of it",
        ));
    }
    Ok(text)
}

impl TypeDescription {
    fn of(
        notation: &Notation,
        copies: &Datatype,
        args: &DescribeArgs,
    ) -> Result<Self, striate_datatype::TypeError> {
        let first_runs = Cursor::new(copies, 1)?
            .take(args.runs)
            .map(|run| FirstRun { offset: run.offset, length: run.len })
            .collect();
        Ok(Self {
            notation: notation.to_string(),
            normal: copies.to_string(),
            copies: args.count,
            loops_written: lines(notation.loops()?),
            loops_normal: lines(copies.loops()),
            first_offset: copies.first_offset(),
            size: copies.size(),
            extent: copies.extent(),
            lower_bound: copies.lower_bound(),
            true_lower_bound: copies.true_lower_bound(),
            true_upper_bound: copies.true_upper_bound(),
            runs: copies.runs(),
            density: copies.density(),
            monotonic: copies.is_monotonic(),
            binary_bytes: copies.encode().len() as u64,
            list_bytes: copies.runs().saturating_mul(LIST_ENTRY),
            first_runs,
        })
    }

    fn text(&self) -> String {
        let mut text = terminal::heading("As written");
        let _ = match self.copies {
            1 => writeln!(text),
            copies => writeln!(text, "  ({} copies of this)", grouped(copies)),
        };
        text.push_str(&listing(&self.loops_written));
        let _ = write!(text, "\n{}", terminal::heading("Normal form"));
        let _ = match self.first_offset {
            0 => writeln!(text),
            offset => writeln!(text, "  (its first byte at {})", grouped(offset)),
        };
        text.push_str(&listing(&self.loops_normal));
        let _ = writeln!(text);
        for (name, value) in self.facts() {
            let _ = writeln!(text, "{}{value}", terminal::heading(&format!("{name:<14}")));
        }
        if !self.first_runs.is_empty() {
            let all = self.first_runs.len() as u64 == self.runs;
            let title = if all { "Runs" } else { "First runs" };
            let _ = write!(text, "\n{}\n{}", terminal::heading(title), self.run_table());
        }
        text
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { runs, binary_bytes, list_bytes, .. } = *self;
        let mean = short(self.size as f64 / runs.max(1) as f64);
        let run_text = match runs {
            0 => "none".to_owned(),
            1 => "1: contiguous".to_owned(),
            _ => format!("{}, {mean} bytes on average", grouped(runs)),
        };
        let view = if self.monotonic {
            "yes: offsets ascend without overlap"
        } else if self.true_lower_bound < 0 {
            "no: there are negative offsets"
        } else {
            "no: offsets do not ascend, or overlap"
        };
        let upper_bound = i128::from(self.lower_bound) + i128::from(self.extent);
        let factor = list_bytes as f64 / binary_bytes.max(1) as f64;
        let list = match factor {
            factor if factor >= 1.5 => format!(", {} times as much", short(factor.round())),
            _ => String::new(),
        };
        vec![
            ("Size", bytes(self.size)),
            ("Extent", bytes(self.extent)),
            ("Bounds", format!("{} to {}", grouped(self.lower_bound), grouped(upper_bound))),
            (
                "True bounds",
                format!("{} to {}", grouped(self.true_lower_bound), grouped(self.true_upper_bound)),
            ),
            ("Runs", run_text),
            ("Density", format!("{} %", short(self.density * 100.0))),
            ("File view", view.to_owned()),
            (
                "Binary form",
                format!(
                    "{}; as a list of regions {}{list}",
                    bytes(binary_bytes),
                    bytes(list_bytes)
                ),
            ),
        ]
    }

    fn run_table(&self) -> String {
        let mut table = Table::new(&[("offset", Side::Right), ("length", Side::Right)]);
        for run in &self.first_runs {
            table.row([grouped(run.offset), grouped(run.length)]);
        }
        table.render()
    }

    fn drawing(&self, copies: &Datatype) -> Result<String, striate_datatype::TypeError> {
        let facts = [
            match self.copies {
                1 => format!("{} in {} runs", bytes(self.size), grouped(self.runs)),
                n => format!(
                    "{} copies: {} in {} runs",
                    grouped(n),
                    bytes(self.size),
                    grouped(self.runs)
                ),
            },
            format!(
                "described in {}, as a list of regions {}",
                bytes(self.binary_bytes),
                bytes(self.list_bytes)
            ),
        ];
        let picture = Picture::new(copies, 192, 96)?;
        Ok(picture.map_or_else(
            || {
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"240\" height=\"40\">\
                 <text x=\"24\" y=\"26\" fill=\"#7b7f87\">no bytes at all</text></svg>\n"
                    .to_owned()
            },
            |picture| picture.svg(&self.notation, &facts),
        ))
    }
}

fn lines(loops: Vec<LoopLine>) -> Vec<LoopRow> {
    loops.into_iter().map(|line| LoopRow { depth: line.depth, text: line.text }).collect()
}

fn listing(lines: &[LoopRow]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "  {}{}", "  ".repeat(line.depth), line.text);
        text
    })
}
