//! `striate trace stats`: totals of the calls of a recording.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use striate_datatype::{Bytes, counted};
use striate_recording::figures::{Figures, Transfers};
use striate_recording::stats::{FunctionFigures, LayerFigures};
use striate_recording::{PeakRates, Recording, Stats, line};
use striate_stack::Kind;

use super::selection::Selection;
use crate::document::Document;
use crate::number::{grouped, short};
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Show totals of the calls of a recording
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate trace stats traces
  striate trace stats run.trace --top 50 --path '/scratch/**'
  striate trace stats run.trace --json | jq '.rows[0].files[0]'

sequential: after the last byte that the process had read (or written) of the file; consecutive:
immediately after it. Percentages are of the calls whose offset is known.")]
pub(super) struct TraceStatsArgs {
    /// The recording
    recording: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Number of files and processes that are listed
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
    /// Offsets that are not a multiple of this are unaligned
    #[arg(long, value_name = "BYTES")]
    alignment: Option<u64>,
}

/// The row of the JSON document.
#[derive(Debug, Serialize)]
struct StatsRow {
    recording: PathBuf,
    /// Nanoseconds since 1970.
    began: u64,
    /// Files that calls were about.
    files_count: u64,
    /// The highest rates, in bytes per second.
    peak: PeakRates,
    total: FiguresRow,
    processes: Vec<ProcessRow>,
    ranks: BTreeMap<u32, FiguresRow>,
    files: Vec<FileRow>,
    functions: BTreeMap<&'static str, FunctionFigures>,
    /// Functions of MPI-IO, and the calls on files that they made.
    layers: BTreeMap<&'static str, LayerFigures>,
    complaints: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ProcessRow {
    process: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    host: String,
    command: Vec<String>,
    #[serde(flatten)]
    told: FiguresRow,
}

#[derive(Debug, Serialize)]
struct FileRow {
    path: String,
    processes: u64,
    #[serde(flatten)]
    told: FiguresRow,
}

/// Figures with what follows from them.
#[derive(Debug, Serialize)]
struct FiguresRow {
    #[serde(flatten)]
    figures: Figures,
    kinds: BTreeMap<&'static str, u64>,
    /// Bytes in a second of the time in calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_rate: Option<f64>,
}

impl From<&Figures> for FiguresRow {
    fn from(figures: &Figures) -> Self {
        let kinds = Kind::ALL.into_iter().map(|kind| (kind.name(), figures.of(kind)));
        Self {
            figures: figures.clone(),
            kinds: kinds.filter(|(_, count)| *count > 0).collect(),
            read_rate: figures.reads.rate(),
            write_rate: figures.writes.rate(),
        }
    }
}

pub(super) fn run(args: &TraceStatsArgs, json: bool) -> Result<(), CommandError> {
    let filter = args.selection.filter()?;
    let (recording, bar) = super::open_watched(&args.recording, "reading")?;
    let stats = Stats::of(&recording, &filter, args.alignment);
    bar.end(|| "it was read in part, and nothing was written".to_owned())?;
    if json {
        let answer = answer(&recording, &stats, args.top);
        return Document::new(vec![answer], Vec::new()).print();
    }
    terminal::print(&text(&recording, &stats, args.top))
}

fn answer(recording: &Recording, stats: &Stats, top: usize) -> StatsRow {
    let processes = recording.processes().iter().zip(&stats.processes);
    let files = stats.top_files().into_iter().take(top);
    let ranks = stats.ranks.iter().map(|(rank, figures)| (*rank, figures.into()));
    StatsRow {
        recording: recording.path().to_path_buf(),
        began: recording.began(),
        files_count: stats.files_count(),
        peak: stats.peak,
        total: (&stats.total).into(),
        processes: processes
            .map(|(process, figures)| {
                let origin = process.header().origin.clone();
                ProcessRow {
                    process: origin.process,
                    rank: origin.rank,
                    host: origin.host,
                    command: origin.command,
                    told: figures.into(),
                }
            })
            .collect(),
        ranks: ranks.collect(),
        files: files
            .map(|(path, file)| FileRow {
                path: path.to_string_lossy().into_owned(),
                processes: file.processes,
                told: (&file.figures).into(),
            })
            .collect(),
        functions: stats.functions.clone(),
        layers: stats.layers.clone(),
        complaints: recording.complaints(),
    }
}

fn text(recording: &Recording, stats: &Stats, top: usize) -> String {
    let total = &stats.total;
    let mut text = format!(
        "{}: {} of {} on {} in {} s\n",
        recording.path().display(),
        counted(total.calls, "call"),
        counted(recording.processes().len() as u64, "process"),
        counted(stats.files_count(), "file"),
        line::seconds(total.span()),
    );
    let (read, written) = (Bytes(total.bytes_read), Bytes(total.bytes_written));
    let _ = writeln!(text, "  {} failed, {read} read, {written} written", grouped(total.errors));
    if let Some(peak) = peak(stats.peak) {
        let _ = writeln!(text, "  {peak}");
    }
    if total.unknown > 0 {
        let unknown = grouped(total.unknown);
        let _ = writeln!(text, "  {unknown} whose result is unknown: it was not recorded");
    }
    for (name, transfers) in [("read", &total.reads), ("written", &total.writes)] {
        transfers_text(&mut text, name, transfers);
    }
    if total.copied > 0 {
        let _ = writeln!(text, "  {} of both copied within the kernel", Bytes(total.copied));
    }
    if !stats.layers.is_empty() {
        heading(&mut text, "MPI-IO calls, and the calls beneath them");
        layers(&mut text, stats);
    }
    heading(&mut text, "by function");
    functions(&mut text, stats);
    heading(&mut text, "by size of request");
    sizes(&mut text, total);
    if !stats.ranks.is_empty() {
        heading(&mut text, "by rank");
        let rows = stats.ranks.iter().map(|(rank, figures)| (rank.to_string(), figures));
        figures_table(&mut text, "rank", rows.take(top));
        more(&mut text, stats.ranks.len(), top);
    }
    heading(&mut text, "by process");
    let mut rows: Vec<_> = recording.processes().iter().zip(&stats.processes).collect();
    rows.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.time));
    let rows = rows.into_iter().take(top).map(|(process, figures)| {
        let origin = &process.header().origin;
        let program =
            origin.command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(""));
        (format!("{} {program}", origin.process), figures)
    });
    figures_table(&mut text, "process", rows);
    more(&mut text, recording.processes().len(), top);
    heading(&mut text, "by file");
    let rows = stats.top_files().into_iter().take(top);
    let rows = rows.map(|(path, file)| (path.display().to_string(), &file.figures));
    figures_table(&mut text, "file", rows);
    more(&mut text, stats.files.len(), top);
    text
}

/// The highest rates as a sentence, if bytes were moved.
pub(crate) fn peak(peak: PeakRates) -> Option<String> {
    let PeakRates { window_ns, read, written } = peak;
    let seconds = window_ns / striate_recording::peak::WINDOW;
    (read > 0 || written > 0).then(|| {
        let (read, written) = (Bytes(read), Bytes(written));
        format!("at most {read}/s read and {written}/s written in windows of {seconds} s")
    })
}

fn heading(text: &mut String, name: &str) {
    let _ = writeln!(text, "\n{}", terminal::heading(name));
}

/// How many are not listed.
fn more(text: &mut String, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(text, "  and {} more; --top lists more", grouped((all - shown) as u64));
    }
}

fn transfers_text(text: &mut String, name: &str, transfers: &Transfers) {
    if transfers.calls == 0 {
        return;
    }
    let rate =
        transfers.rate().map_or(String::new(), |rate| format!(" at {}/s", Bytes(rate as u64)));
    let share = |some| transfers.share(some).map_or("?".to_owned(), |share| short(share * 100.0));
    let _ = writeln!(
        text,
        "  {} {name} by {}{rate}: {} % sequential, {} % consecutive, {} % unaligned",
        Bytes(transfers.bytes),
        counted(transfers.calls, "call"),
        share(transfers.sequential),
        share(transfers.consecutive),
        share(transfers.unaligned),
    );
}

fn functions(text: &mut String, stats: &Stats) {
    let mut table = Table::new(&[
        ("function", Side::Left),
        ("calls", Side::Right),
        ("errors", Side::Right),
        ("unknown", Side::Right),
        ("bytes", Side::Right),
        ("seconds", Side::Right),
        ("longest", Side::Right),
    ]);
    let mut rows: Vec<_> = stats.functions.iter().collect();
    rows.sort_by_key(|(name, figures)| (std::cmp::Reverse(figures.time), **name));
    for (name, figures) in rows {
        table.row([
            (*name).to_owned(),
            grouped(figures.calls),
            grouped(figures.errors),
            if figures.unknown > 0 { grouped(figures.unknown) } else { String::new() },
            if figures.bytes > 0 { Bytes(figures.bytes).to_string() } else { String::new() },
            line::seconds(figures.time),
            line::seconds(figures.longest),
        ]);
    }
    text.push_str(&table.render());
}

fn layers(text: &mut String, stats: &Stats) {
    let mut table = Table::new(&[
        ("function", Side::Left),
        ("", Side::Left),
        ("calls", Side::Right),
        ("errors", Side::Right),
        ("bytes", Side::Right),
        ("seconds", Side::Right),
        ("calls", Side::Right),
        ("bytes", Side::Right),
        ("seconds", Side::Right),
    ]);
    let bytes = |figures: &FunctionFigures| match figures.bytes {
        0 => String::new(),
        bytes => Bytes(bytes).to_string(),
    };
    let mut rows: Vec<_> = stats.layers.iter().collect();
    rows.sort_by_key(|(name, figures)| (std::cmp::Reverse(figures.own.time), **name));
    for (name, LayerFigures { collective, own, beneath }) in rows {
        table.row([
            (*name).to_owned(),
            if *collective { "collective" } else { "independent" }.to_owned(),
            grouped(own.calls),
            grouped(own.errors),
            bytes(own),
            line::seconds(own.time),
            grouped(beneath.calls),
            bytes(beneath),
            line::seconds(beneath.time),
        ]);
    }
    text.push_str(&table.render());
}

fn sizes(text: &mut String, total: &Figures) {
    let mut table =
        Table::new(&[("up to", Side::Right), ("reads", Side::Right), ("writes", Side::Right)]);
    let length = total.reads.sizes.len().max(total.writes.sizes.len());
    for digits in 0..length {
        let of = |transfers: &Transfers| transfers.sizes.get(digits).copied().unwrap_or(0);
        let (reads, writes) = (of(&total.reads), of(&total.writes));
        if reads + writes > 0 {
            let most = 1_u128.checked_shl(digits as u32).unwrap_or(0).saturating_sub(1);
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            table.row([grouped(most), grouped(reads), grouped(writes)]);
        }
    }
    text.push_str(&table.render());
}

fn figures_table<'f>(
    text: &mut String,
    name: &str,
    rows: impl Iterator<Item = (String, &'f Figures)>,
) {
    let mut table = Table::new(&[
        (name, Side::Left),
        ("calls", Side::Right),
        ("errors", Side::Right),
        ("read", Side::Right),
        ("written", Side::Right),
        ("opens", Side::Right),
        ("stats", Side::Right),
        ("seeks", Side::Right),
        ("seconds", Side::Right),
    ]);
    for (name, figures) in rows {
        table.row([
            name,
            grouped(figures.calls),
            grouped(figures.errors),
            Bytes(figures.reads.bytes).to_string(),
            Bytes(figures.writes.bytes).to_string(),
            grouped(figures.of(Kind::Open)),
            grouped(figures.of(Kind::Stat)),
            grouped(figures.of(Kind::Seek)),
            line::seconds(figures.time),
        ]);
    }
    text.push_str(&table.render());
}
