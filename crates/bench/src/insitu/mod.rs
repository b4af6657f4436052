//! `bench insitu`: the cost of the stack under unmodified programs, and the gain of its stages.
//!
//! Every sample is taken in a process of its own, which the library is loaded into as into any
//! program, or not; what is compared takes turns within a round. The cost of a call is measured
//! within one process, which alternates between the function that the program got and the one of
//! the C library.

mod cases;
mod overhead;
mod task;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;
use striate_statistics::{Median, Ratio, median};
use thiserror::Error;

use crate::io::ScratchDirectory;
pub use cases::case_names;
use cases::{InsituCase, Places, TaskVariant};
use overhead::Function;
pub use task::Task;

/// Why the benchmark ended early.
#[derive(Debug, Error)]
pub enum InsituError {
    /// A directory or a file could not be made, read or removed.
    #[error("cannot {attempted} {path}: {source}")]
    File {
        /// What was attempted.
        attempted: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A process that measures did not.
    #[error("{case}, {way}: the process that measures {reason}")]
    Worker {
        /// The case.
        case: &'static str,
        /// The way.
        way: &'static str,
        /// What it did.
        reason: String,
    },
    /// What was written is not what should have been.
    #[error("{case}, {way}: {path} does not hold what was written")]
    Wrong {
        /// The case.
        case: &'static str,
        /// The way.
        way: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// What to run.
#[derive(Clone, Debug)]
pub struct InsituOptions {
    /// The library that is loaded into processes.
    pub library: PathBuf,
    /// The command that carries out a [`Task`], whose words it gets as arguments.
    pub worker: Vec<OsString>,
    /// Where files are: on a local file system.
    pub directory: PathBuf,
    /// A faster place.
    pub fast: PathBuf,
    /// Rounds of the gains.
    pub repeat: usize,
    /// Rounds of the costs of calls; in each there is a block of calls of either kind.
    pub rounds: usize,
    /// Only cases whose name contains this.
    pub only: Option<String>,
}

/// The cost of a call, or the rate of a way.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum InsituRow {
    /// What a call costs more than without the library.
    Overhead(Overhead),
    /// How fast a task was done in a way.
    Rate(Rate),
}

/// What a call costs more than without the library, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Overhead {
    /// The stack.
    pub case: &'static str,
    /// The function.
    pub function: &'static str,
    /// What the function of the C library takes: the median.
    pub plain_ns: f64,
    /// Median of what the other one takes more, within rounds.
    pub value_ns: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// The mean of the middle eight tenths: it also has in it what happens in fewer than half of
    /// the blocks.
    pub mean_ns: f64,
    /// The most it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal_ns: Option<f64>,
    /// Whether it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// Differences of all rounds in order.
    pub samples: Vec<f64>,
}

/// How fast a task was done.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// The case.
    pub case: &'static str,
    /// The way.
    pub way: &'static str,
    /// What the rate counts: `MiB/s` or `files/s`.
    pub unit: &'static str,
    /// Bytes of one request.
    pub request: u64,
    /// Requests or files.
    pub count: u64,
    /// The median.
    pub median: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// All samples in order.
    pub samples: Vec<f64>,
}

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InsituResults {
    /// Costs and rates.
    pub rows: Vec<InsituRow>,
    /// The gains.
    pub ratios: Vec<Ratio>,
}

/// Runs the benchmark; `progress` is called with each case as it starts, its index and their
/// number.
pub fn run(
    options: &InsituOptions,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<InsituResults, InsituError> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let places = Places { slow: scratch(&options.directory)?, fast: scratch(&options.fast)? };
    let overheads: Vec<_> = cases::OVERHEADS.iter().filter(|case| wanted(case.name)).collect();
    let cases: Vec<_> = cases::CASES.iter().filter(|case| wanted(case.name)).collect();
    let total = overheads.len() + cases.len();
    let mut results = InsituResults::default();
    for (place, stack) in overheads.iter().enumerate() {
        progress(stack.name, place, total);
        for function in Function::ALL {
            let row = measure_overhead(options, &places, stack, function)?;
            results.rows.push(InsituRow::Overhead(row));
        }
    }
    for (place, case) in cases.iter().enumerate() {
        progress(case.name, overheads.len() + place, total);
        measure_case(options, &places, case, &mut results)?;
    }
    Ok(results)
}

/// What the process that measures does; the rest happens in the one that asks it to.
pub fn work(words: &[String]) -> Result<String, String> {
    let task: Task = words.join(" ").parse()?;
    task.carry_out()
}

fn scratch(directory: &Path) -> Result<ScratchDirectory, InsituError> {
    ScratchDirectory::new(directory).map_err(|source| InsituError::File {
        attempted: "make a directory in",
        path: directory.to_path_buf(),
        source,
    })
}

fn measure_overhead(
    options: &InsituOptions,
    places: &Places,
    stack: &cases::OverheadStack,
    function: Function,
) -> Result<Overhead, InsituError> {
    let name = function.name();
    let task = Task::Overhead { function, rounds: options.rounds, file: places.fast_file() };
    let way = TaskVariant { name, stages: Some(stack.stages), on_fast: false };
    let output = ask(options, places, stack.name, &way, &task)?.0;
    let mut samples: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for line in output.lines() {
        let mut times = line.split(' ').map(str::parse::<f64>);
        for samples in &mut samples {
            samples.push(times.next().and_then(Result::ok).unwrap_or(f64::NAN));
        }
    }
    let [plain, wrapped] = samples;
    let samples: Vec<f64> =
        wrapped.iter().zip(&plain).map(|(wrapped, plain)| wrapped - plain).collect();
    let (Some(Median { value, ci95 }), Some(usual)) = (median(&samples), median(&plain)) else {
        let reason = format!("printed nothing: {output}");
        return Err(InsituError::Worker { case: stack.name, way: name, reason });
    };
    Ok(Overhead {
        case: stack.name,
        function: name,
        plain_ns: usual.value,
        value_ns: value,
        ci95,
        mean_ns: mean_of_the_middle(&samples),
        goal_ns: stack.goal,
        met: stack.goal.map(|goal| value <= goal),
        samples,
    })
}

/// The mean without the tenth at either end, which other programs on the machine have made.
fn mean_of_the_middle(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let outside = sorted.len() / 10;
    let middle = &sorted[outside..sorted.len() - outside];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

fn measure_case(
    options: &InsituOptions,
    places: &Places,
    case: &'static InsituCase,
    results: &mut InsituResults,
) -> Result<(), InsituError> {
    // To the last close, and to the end of the process.
    let mut samples = [(); 2].map(|()| vec![Vec::new(); case.ways.len()]);
    for round in 0..options.repeat {
        // The order rotates from round to round.
        for turn in 0..case.ways.len() {
            let place = (turn + round) % case.ways.len();
            let rates = measure_way(options, places, case, &case.ways[place])?;
            for (samples, rate) in samples.iter_mut().zip(rates) {
                samples[place].push(rate);
            }
        }
    }
    let names = [Some(case.name), case.to_the_end];
    for (name, samples) in names.into_iter().zip(&samples) {
        if let Some(name) = name {
            report(name, case, samples, results);
        }
    }
    Ok(())
}

/// The rows of a case, and its comparisons.
fn report(
    name: &'static str,
    case: &'static InsituCase,
    samples: &[Vec<f64>],
    results: &mut InsituResults,
) {
    for (way, samples) in case.ways.iter().zip(samples) {
        let Some(Median { value, ci95 }) = median(samples) else { continue };
        results.rows.push(InsituRow::Rate(Rate {
            case: name,
            way: way.name,
            unit: case.unit(),
            request: case.request,
            count: case.count,
            median: value,
            ci95,
            samples: samples.clone(),
        }));
    }
    for (ours, other, goal) in case.comparisons {
        let find = |name: &str| case.ways.iter().position(|way| way.name == name);
        if let (Some(ours_at), Some(other_at)) = (find(ours), find(other)) {
            let name = format!("{name}: {ours} over {other}");
            let ratio = Ratio::within(name, &samples[ours_at], &samples[other_at], *goal);
            results.ratios.extend(ratio);
        }
    }
}

/// One sample: the rates to the last close and to the end of the process.
fn measure_way(
    options: &InsituOptions,
    places: &Places,
    case: &'static InsituCase,
    way: &TaskVariant,
) -> Result<[f64; 2], InsituError> {
    let home = if way.on_fast { places.fast.path() } else { places.slow.path() };
    let target = home.join("data");
    clear(&target)?;
    let task = case.task(&target);
    task.prepare().map_err(|source| InsituError::File {
        attempted: "prepare",
        path: target.clone(),
        source,
    })?;
    let (output, whole) = ask(options, places, case.name, way, &task)?;
    let within: f64 = output.trim().parse().map_err(|_| InsituError::Worker {
        case: case.name,
        way: way.name,
        reason: format!("printed {output:?}"),
    })?;
    if way.keeps_data() && !task.left_what_it_should() {
        return Err(InsituError::Wrong { case: case.name, way: way.name, path: target });
    }
    set_aside(&target)?;
    Ok([within, whole].map(|seconds| case.rate(seconds)))
}

/// Takes what a sample has left out of the way. Files of a directory are emptied but stay until the
/// scratch directory goes: file systems do not like to use the inodes of files again that were
/// removed just now, and ext4 spends more time on looking at those, one after the other, than on
/// making files.
fn set_aside(target: &Path) -> Result<(), InsituError> {
    if !target.is_dir() {
        return clear(target);
    }
    let emptied = std::fs::read_dir(target).and_then(|mut entries| {
        entries.try_for_each(|entry| File::create(entry?.path()).map(drop))
    });
    let aside = (0..).map(|number| target.with_extension(number.to_string()));
    let Some(aside) = aside.into_iter().find(|path| !path.exists()) else { return Ok(()) };
    emptied.and_then(|()| std::fs::rename(target, &aside)).map_err(|source| InsituError::File {
        attempted: "set aside",
        path: target.to_path_buf(),
        source,
    })
}

/// Lets a process carry out a task. What it says, and how many seconds there were from its start to
/// its end.
fn ask(
    options: &InsituOptions,
    places: &Places,
    case: &'static str,
    way: &TaskVariant,
    task: &Task,
) -> Result<(String, f64), InsituError> {
    let failed = |reason: String| InsituError::Worker { case, way: way.name, reason };
    let Some((program, words)) = options.worker.split_first() else {
        return Err(failed("is not known".into()));
    };
    let mut command = Command::new(program);
    command.args(words).args(task.to_string().split(' ')).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("STRIATE_STACK").env_remove("STRIATE_RUN_DIR");
    if let Some(text) = way.text(places) {
        let file = places.fast.path().join("stack.toml");
        let run = places.fast.path().join("run");
        let made = std::fs::write(&file, text).and_then(|()| std::fs::create_dir_all(&run));
        made.map_err(|source| InsituError::File {
            attempted: "write",
            path: file.clone(),
            source,
        })?;
        command.env("LD_PRELOAD", &options.library).env("STRIATE_STACK", file);
        command.env("STRIATE_RUN_DIR", run);
    }
    let start = Instant::now();
    let output = command.output().map_err(|error| failed(format!("cannot be started: {error}")))?;
    let seconds = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // What the library says goes to standard error: a stack that is not there would measure
    // nothing.
    if !output.status.success() || said.contains("striate:") {
        return Err(failed(format!("ended with {}: {}", output.status, said.trim())));
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), seconds))
}

fn clear(path: &Path) -> Result<(), InsituError> {
    let gone =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match gone {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(InsituError::File { attempted: "remove", path: path.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_leave_out_what_is_far_off() {
        let mut samples: Vec<f64> = (0..20).map(f64::from).collect();
        assert!((mean_of_the_middle(&samples) - 9.5).abs() < 1e-12);
        samples[3] = 1e9;
        assert!(mean_of_the_middle(&samples) < 12.0);
        assert!((mean_of_the_middle(&[4.0]) - 4.0).abs() < 1e-12);
    }
}
