//! `striate probe`: the bandwidths of storage targets, and the choice of those to use.

mod plot;
mod progress;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use clap::Args;
use clap::builder::{StringValueParser, TypedValueParser as _};
use serde::Serialize;
use striate_comm::{Comm, agree};
use striate_datatype::{Bytes, parse_size};
use striate_file::{FileError, Measured, Probe, ProbeOptions, StorageTarget, probe};
use striate_server::parse_duration;

use crate::document::Document;
use crate::number::{counted, grouped, short};
use crate::output::write_whole;
use crate::table::{Side, Table};
use crate::time::length;
use crate::{CommandError, ranks, signals, space, terminal};

/// Measure the bandwidth of storage targets, and choose those to use
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate probe /scratch1 /scratch2 /scratch3
  striate probe striate://io.example --svg targets.svg       all servers of a file system
  striate probe /lustre#0 /lustre#1 /lustre#2 --size 64MiB   storage targets of a Lustre mount
  mpiexec -n 16 striate probe /lustre#{0..155} --json        ranks share the targets

A target is a directory, a URL (striate://host:port/path), or one of these followed by #N: the server,
or the storage target of a Lustre mount, of that number. A URL without a number stands for all its servers.

Together, i targets give i × B, where B is the bandwidth of the slowest. Targets are used from the fastest on
until this product has fallen by more than --delta of its highest value. The data is written around the page
cache, or made durable where that is not possible, and removed in any case.")]
pub(crate) struct ProbeArgs {
    /// Directories, servers, storage targets of a Lustre mount
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<StorageTarget>,

    /// Bytes to write to each target
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size())]
    size: u64,

    /// The fraction of the highest i × B that may be given up to use more targets
    #[arg(long, value_name = "PART", default_value_t = ProbeOptions::default().delta, value_parser = delta)]
    delta: f64,

    /// Number of targets that a rank measures at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    at_once: u16,

    /// Time limit for one target; the bytes written until then count
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = limit)]
    limit: Duration,

    /// Use an earlier measurement if it is not older than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    reuse: Option<Duration>,

    /// Also draw both curves and the cut into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Use ASCII characters only
    #[arg(long)]
    ascii: bool,
}

fn size() -> impl clap::builder::TypedValueParser<Value = u64> {
    StringValueParser::new().try_map(|text| match parse_size(&text) {
        Ok(size) if (1..=1 << 40).contains(&size) => Ok(size),
        Ok(_) => Err("must be from 1 byte to 1 TiB".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

fn delta(text: &str) -> Result<f64, String> {
    let delta: Option<f64> = text.parse().ok();
    delta.filter(|delta| (0.0..=1.0).contains(delta)).ok_or_else(|| "must be from 0 to 1".into())
}

fn limit(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be more than 0".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// What was found; the row of the JSON document. Rates are in bytes per second.
#[derive(Debug, Serialize)]
struct ProbeRow {
    /// Bytes written to each target.
    size: u64,
    delta: f64,
    ranks: usize,
    /// How many targets give the highest aggregate.
    peak: usize,
    /// How many targets are kept.
    kept: usize,
    /// The rate of the slowest target that is kept.
    lower_bound: f64,
    /// What the kept targets give together, and all.
    kept_aggregate: f64,
    full_aggregate: f64,
    /// How old the samples are, if they were not taken now.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_s: Option<f64>,
    /// From fast to slow.
    targets: Vec<TargetRow>,
}

#[derive(Debug, Serialize)]
struct TargetRow {
    target: String,
    kept: bool,
    bandwidth: f64,
    aggregate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<SampleRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct SampleRow {
    bytes: u64,
    seconds: f64,
    direct: bool,
}

impl ProbeRow {
    fn new(probe: &Probe, ranks: usize) -> Self {
        let choice = &probe.choice;
        let target = |(&index, &aggregate): (&usize, &f64)| {
            let Measured { target, outcome } = &probe.targets[index];
            let sample = |sample: &striate_file::Sample| SampleRow {
                bytes: sample.bytes,
                seconds: sample.seconds,
                direct: sample.direct,
            };
            TargetRow {
                target: target.to_string(),
                kept: choice.is_chosen(index),
                bandwidth: probe.targets[index].bandwidth(),
                aggregate,
                sample: outcome.as_ref().ok().map(sample),
                error: outcome.as_ref().err().cloned(),
            }
        };
        Self {
            size: probe.size,
            delta: probe.delta,
            ranks,
            peak: choice.peak,
            kept: choice.cut,
            lower_bound: choice.lower_bound,
            kept_aggregate: choice.chosen_aggregate(),
            full_aggregate: choice.full_aggregate(),
            age_s: probe.age.map(|age| age.as_secs_f64()),
            targets: choice.order.iter().zip(&choice.aggregate).map(target).collect(),
        }
    }

    /// Targets that could be measured come first.
    fn measured(&self) -> &[TargetRow] {
        let measured = self.targets.iter().take_while(|target| target.sample.is_some()).count();
        &self.targets[..measured]
    }
}

pub(crate) fn run(args: &ProbeArgs, json: bool) -> Result<(), CommandError> {
    let stop = signals::flag()?;
    let written = Arc::new(AtomicU64::new(0));
    let shown = progress::ProbeBar::new(&written);
    let found = ranks::run(1, |comm| {
        let targets = expanded(comm.as_ref(), &args.targets)?;
        check_space(comm.as_ref(), &targets, args)?;
        if comm.rank() == 0 {
            // Each rank measures some of them, and sees only those.
            shown.begin(args.size * (targets.len().div_ceil(comm.size()) as u64));
        }
        let probe = probe(comm, &targets, &options(args, &stop, &written)).map_err(failed)?;
        Ok(ProbeRow::new(&probe, comm.size()))
    });
    drop(shown);
    let found = found?;
    let Some(row) = found else { return Ok(()) };
    if let Some(path) = &args.svg {
        write_whole(path, |file| file.write_all(plot::svg(&row).as_bytes()))
            .map_err(|source| CommandError::Write { path: path.clone(), source })?;
    }
    let well = row.measured().len() == row.targets.len();
    if json {
        Document::new(vec![row], Vec::new()).print()?;
    } else {
        let ascii = args.ascii || !terminal::is_utf8();
        let mut text = table(&row);
        if std::io::stdout().is_terminal() && row.measured().len() > 2 {
            let _ = write!(text, "\n{}", plot::text(&row, ascii));
        }
        let _ = write!(text, "\n{}", summary(&row));
        if let Some(path) = &args.svg {
            let _ = writeln!(text, "drawn in {}", path.display());
        }
        let text = terminal::fitted(&text, terminal::width());
        terminal::print(&if ascii { terminal::to_ascii(&text) } else { text })?;
    }
    if well { Ok(()) } else { Err(CommandError::NotWell) }
}

/// Refuses data that does not fit onto the targets that are directories. Collective.
fn check_space(
    comm: &dyn Comm,
    targets: &[StorageTarget],
    args: &ProbeArgs,
) -> Result<(), CommandError> {
    let look = || -> Result<(), CommandError> {
        let is_directory = |target: &&StorageTarget| !target.is_remote() && args.reuse.is_none();
        let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
        for target in targets.iter().filter(is_directory) {
            let Ok(data) = std::fs::metadata(target.base()) else { continue };
            // Those on one file system are written to at the same time, as many as that.
            let all = needed.entry(data.dev()).or_default();
            *all = (*all + args.size).min(args.size * u64::from(args.at_once));
            let hint = "write less: --size";
            space::check("the probe", *all, &target.base(), hint)?;
        }
        Ok(())
    };
    space::agreed(comm, look())
}

fn options(args: &ProbeArgs, stop: &Arc<AtomicBool>, written: &Arc<AtomicU64>) -> ProbeOptions {
    ProbeOptions {
        size: args.size,
        delta: args.delta,
        valid: args.reuse.unwrap_or_default(),
        limit: args.limit,
        at_once: args.at_once.into(),
        stop: Some(Arc::clone(stop)),
        written: Some(Arc::clone(written)),
        ..ProbeOptions::default()
    }
}

/// The targets, with all servers of URLs that name none. One rank asks, and broadcasts the answer.
fn expanded(
    comm: &dyn Comm,
    targets: &[StorageTarget],
) -> Result<Vec<StorageTarget>, CommandError> {
    let all = if comm.rank() == 0 { list(targets) } else { Ok(Vec::new()) };
    let agreed = agree(comm, all.as_ref().map(drop).map_err(ToString::to_string));
    let all = all?;
    agreed?;
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let mut told = names.join("\n").into_bytes();
    comm.broadcast(0, &mut told)?;
    String::from_utf8_lossy(&told).lines().map(|line| line.parse().map_err(failed)).collect()
}

fn list(targets: &[StorageTarget]) -> Result<Vec<StorageTarget>, CommandError> {
    let mut all: Vec<StorageTarget> = Vec::new();
    for target in targets {
        for one in target.each().map_err(failed)? {
            if all.contains(&one) {
                return Err(CommandError::usage(
                    format!("{one} is named twice"),
                    "measured together with itself, it would seem half as fast",
                ));
            }
            all.push(one);
        }
    }
    Ok(all)
}

fn failed(error: FileError) -> CommandError {
    match error {
        FileError::Store(error) => error.into(),
        FileError::Interrupted { .. } => {
            let what =
                "it was interrupted; what it wrote is removed, unless a server did not answer";
            CommandError::failed("the probe is not complete", what, "")
        }
        other => CommandError::failed("cannot probe the targets", other, ""),
    }
}

/// A rate in MiB per second.
fn rate(bytes: f64) -> String {
    short(bytes / f64::from(1 << 20))
}

fn table(row: &ProbeRow) -> String {
    let columns = [
        ("i", Side::Right),
        ("target", Side::Left),
        ("MiB/s", Side::Right),
        ("i × MiB/s", Side::Right),
        ("", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for (number, target) in (1..).zip(&row.targets) {
        let verdict = match (&target.error, &target.sample) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(sample)) => {
                let verdict = if target.kept { "kept" } else { "dropped" };
                let peak = if number == row.peak { ", highest" } else { "" };
                let short = if sample.bytes < row.size { ", out of time" } else { "" };
                format!("{verdict}{peak}{short}")
            }
            (None, None) => String::new(),
        };
        let shown = |value: f64| if target.error.is_some() { String::new() } else { rate(value) };
        table.row([
            number.to_string(),
            target.target.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect(),
            shown(target.bandwidth),
            shown(target.aggregate),
            verdict,
        ]);
    }
    table.render()
}

fn summary(row: &ProbeRow) -> String {
    let measured = row.measured();
    if measured.is_empty() {
        return "no target could be measured\n".to_owned();
    }
    let kept =
        format!("{} of {}", grouped(row.kept as u64), counted(row.targets.len() as u64, "target"));
    let mut text = match row.kept {
        1 => format!("{kept} is kept: {} MiB/s", rate(row.lower_bound)),
        _ => format!(
            "{kept} are kept: {} MiB/s or more each, {} MiB/s together",
            rate(row.lower_bound),
            rate(row.kept_aggregate),
        ),
    };
    if row.kept < measured.len() {
        let _ = write!(text, " (all: {} MiB/s)", rate(row.full_aggregate));
    }
    let is_direct = |target: &TargetRow| target.sample.as_ref().is_some_and(|sample| sample.direct);
    let how = match (measured.iter().any(is_direct), measured.iter().all(is_direct)) {
        (_, true) => "around the page cache",
        (true, _) => "around the page cache where that is possible, and made durable elsewhere",
        _ => "and made durable",
    };
    let _ = write!(text, "\n{} written to each {how}", Bytes(row.size));
    if let Some(age) = row.age_s {
        let _ = write!(text, ", {} ago", length(Duration::from_secs_f64(age)));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bandwidths: &[f64]) -> ProbeRow {
        let rates: Vec<f64> = bandwidths.iter().map(|rate| rate * f64::from(1 << 20)).collect();
        let choice = striate_layout::targets::choose(&rates, 0.2);
        let targets = rates.iter().enumerate().map(|(i, &rate)| Measured {
            target: format!("/t{i}").parse().unwrap(),
            outcome: if rate > 0.0 {
                let bytes = 16 << 20;
                Ok(striate_file::Sample { bytes, seconds: bytes as f64 / rate, direct: true })
            } else {
                Err("No such file or directory".to_owned())
            },
        });
        let targets = targets.collect();
        ProbeRow::new(&Probe { targets, choice, size: 16 << 20, delta: 0.2, age: None }, 1)
    }

    pub(super) fn example() -> ProbeRow {
        row(&[100.0, 90.0, 0.0, 11.0, 95.0])
    }

    #[test]
    fn the_table_is_sorted_and_says_what_is_dropped() {
        let row = example();
        let lines = [
            "  i  target  MiB/s  i × MiB/s",
            "  1  /t0       100        100  kept",
            "  2  /t4        95        190  kept",
            "  3  /t1        90        270  kept, highest",
            "  4  /t3        11         44  dropped",
            "  5  /t2                       failed: No such file or directory",
        ];
        assert_eq!(table(&row).lines().collect::<Vec<_>>(), lines);
        assert_eq!(
            summary(&row),
            "3 of 5 targets are kept: 90 MiB/s or more each, 270 MiB/s together (all: 44 MiB/s)\n\
             16 MiB written to each around the page cache\n"
        );
        assert!(summary(&super::tests::row(&[0.0])).contains("no target"));
    }
}
