//! `striate bench mount`: reading and writing through mounts, compared with the source.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use striate_bench::insitu::Rate;
use striate_datatype::parse_size;
use striate_mount::{Mounted, Options};
use striate_statistics::{Median, Ratio, median};

use super::{absolute, ratio_table};
use crate::document::Document;
use crate::table::{Side, Table};
use crate::{CommandError, signals, space, terminal};

/// Measure reading and writing through mounts, compared with the source itself
///
/// All variants alternate in each round: the source, a mount with passthrough, a mount without
/// stages and without passthrough, and a mount with the stage write-back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench mount
  striate bench mount --dir /scratch --size 1GiB --repeat 15 --json")]
pub(super) struct MountBenchArgs {
    /// Where files are written
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    dir: PathBuf,
    /// Bytes of the file
    #[arg(long, default_value = "256MiB", value_parser = |text: &str| parse_size(text))]
    size: u64,
    /// Rounds: samples of each variant
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
}

/// What is measured: its name, the bytes of a request, and whether it reads.
const CASES: [(&str, usize, bool); 3] = [
    ("1 MiB writes", 1 << 20, false),
    ("1 MiB reads", 1 << 20, true),
    ("16 KiB writes", 16 << 10, false),
];

const WAYS: [&str; 4] = ["source", "passthrough", "requests", "write-back"];

/// What is compared: the case, one way over another, and the least we want.
const COMPARED: [(usize, usize, usize, Option<f64>); 8] = [
    (0, 1, 0, Some(0.8)),
    (1, 1, 0, Some(0.8)),
    (0, 3, 0, Some(0.35)),
    (1, 3, 0, Some(0.35)),
    (0, 2, 0, None),
    (1, 2, 0, None),
    (2, 3, 2, Some(1.0)),
    (2, 3, 1, None),
];

/// A directory that goes away with this.
struct ScratchDirectory(PathBuf);

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn run(args: &MountBenchArgs, json: bool) -> Result<(), CommandError> {
    let hint = "use a smaller --size, or another --dir";
    space::check("the benchmark", args.size, &args.dir, hint)?;
    let stop = signals::flag()?;
    let place = ScratchDirectory(
        absolute(&args.dir).join(format!("striate-bench-mount-{}", std::process::id())),
    );
    let source = made(&place.0.join("source"))?;
    let mut mounts = Vec::new();
    for (way, stage) in [("passthrough", ""), ("requests", ""), ("write-back", "write-back")] {
        mounts.push(mount(&source, &made(&place.0.join(way))?, way, stage)?);
    }
    let directories: Vec<PathBuf> = std::iter::once(source.clone())
        .chain(mounts.iter().map(|mount| mount.point().to_path_buf()))
        .collect();
    let mut samples = vec![vec![Vec::new(); WAYS.len()]; CASES.len()];
    let bar = super::progress_bar();
    for round in 0..args.repeat as usize {
        for (case, (name, request, reads)) in CASES.into_iter().enumerate() {
            super::show(
                &bar,
                (round * CASES.len() + case, args.repeat as usize * CASES.len()),
                round,
                name,
            );
            for (way, directory) in directories.iter().enumerate() {
                let path = directory.join("data");
                let took = if reads {
                    read(&path, request, &stop)
                } else {
                    write(&path, request, args.size, &stop)
                };
                if stop.load(Ordering::Relaxed) {
                    bar.finish_and_clear();
                    let what = "the mounts are gone, and what was written is removed";
                    return Err(CommandError::failed("interrupted", what, ""));
                }
                let seconds = took.map_err(|error| failed(&path, error))?;
                samples[case][way].push(args.size as f64 / f64::from(1 << 20) / seconds);
            }
        }
    }
    bar.finish_and_clear();
    for mount in mounts {
        mount.end().map_err(|error| CommandError::failed("cannot unmount", error, ""))?;
    }
    let ratios: Vec<Ratio> = COMPARED
        .into_iter()
        .filter_map(|(case, ours, other, goal)| {
            let name = format!("{}: {} over {}", CASES[case].0, WAYS[ours], WAYS[other]);
            Ratio::within(name, &samples[case][ours], &samples[case][other], goal)
        })
        .collect();
    let rows: Vec<Rate> = rates(samples, args.size);
    if json {
        return Document::new(rows, ratios).print();
    }
    let heading = terminal::heading("Rates in MiB/s, median [95 % interval]");
    terminal::print_fitted(&format!("{heading}\n{}{}", table(&rows), ratio_table(&ratios)))
}

fn made(path: &Path) -> Result<PathBuf, CommandError> {
    fs::create_dir_all(path).map_err(|error| failed(path, error))?;
    Ok(path.to_path_buf())
}

fn failed(path: &Path, error: std::io::Error) -> CommandError {
    let attempted = format!("cannot finish the benchmark: {}", path.display());
    CommandError::failed(attempted, error, "choose another directory with --dir")
}

fn mount(source: &Path, point: &Path, way: &str, stage: &str) -> Result<Mounted, CommandError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        let hint = "users other than root need fusermount3 (Debian: fuse3)";
        CommandError::failed(format!("cannot mount for {way}"), error, hint)
    };
    let mut text = format!("[paths]\ninclude = [{:?}]\n", source.to_string_lossy());
    if !stage.is_empty() {
        let _ = writeln!(text, "[[stage]]\nkind = {stage:?}");
    }
    let stack = striate_stages::parse_stack(&text).and_then(|stack| stack.build());
    let stack = stack.map_err(|error| failed(error.into()))?;
    let mut options = Options::new(source, point);
    options.passthrough = way == "passthrough";
    let mounted = Mounted::new(&options, stack).map_err(|error| failed(error.into()))?;
    match mounted.notices().pop() {
        Some(notice) if options.passthrough => Err(failed(notice.into())),
        _ => Ok(mounted),
    }
}

/// Memory whose pages are there, and start where pages do.
fn memory(request: usize) -> Vec<u8> {
    vec![0x5a; request]
}

fn write(path: &Path, request: usize, size: u64, stop: &AtomicBool) -> std::io::Result<f64> {
    let bytes = memory(request);
    let start = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..size.div_ceil(request as u64) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        file.write_all(&bytes)?;
    }
    drop(file);
    Ok(start.elapsed().as_secs_f64())
}

fn read(path: &Path, request: usize, stop: &AtomicBool) -> std::io::Result<f64> {
    let mut bytes = memory(request);
    let start = Instant::now();
    let mut file = File::open(path)?;
    while file.read(&mut bytes)? > 0 && !stop.load(Ordering::Relaxed) {}
    Ok(start.elapsed().as_secs_f64())
}

fn rates(samples: Vec<Vec<Vec<f64>>>, size: u64) -> Vec<Rate> {
    let mut rows = Vec::new();
    for ((case, request, _), ways) in CASES.into_iter().zip(samples) {
        for (way, samples) in WAYS.into_iter().zip(ways) {
            let Some(Median { value, ci95 }) = median(&samples) else { continue };
            let request = request as u64;
            let count = size.div_ceil(request);
            rows.push(Rate {
                case,
                way,
                unit: "MiB/s",
                request,
                count,
                median: value,
                ci95,
                samples,
            });
        }
    }
    rows
}

fn table(rows: &[Rate]) -> String {
    let mut table = Table::new(&[("case", Side::Left), ("", Side::Left), ("MiB/s", Side::Right)]);
    for row in rows {
        let [low, high] = row.ci95;
        let rate = format!("{:.0} [{low:.0}–{high:.0}]", row.median);
        table.row([row.case.to_owned(), row.way.to_owned(), rate]);
    }
    table.render()
}
