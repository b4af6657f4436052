//! Record and replay of real programs: the replay makes the same calls, moves the same bytes at the
//! same offsets, and leaves files of the same sizes.
//!
//! The feature `peers` says that the programs are installed: see `PACKAGES` in `./test`. The
//! scripts are those of the tests of doors.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use striate_recording::Recording;
use striate_replay::{Options, Outcome, ReplayTarget, Timing, replay};
use striate_trace::{Call, Function};
use striate_unmodified::scripts::{self, Script};

/// A directory in memory, if there is a file system for that: programs here sync a lot.
fn place() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("round-trip-").tempdir_in(root).unwrap()
}

fn record(script: &'static str, place: &Path, environment: &[(&str, &Path)]) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_striate"));
    let [work, tmp, home, traces] = ["work", "tmp", "home", "traces"].map(|name| place.join(name));
    for directory in [&work, &tmp, &home] {
        fs::create_dir(directory).unwrap();
    }
    let mut command = Command::new(program);
    command
        .args(["run", "--quiet", "--trace"])
        .arg(&traces)
        .args(["--", "/bin/sh"])
        .current_dir(&work)
        .env_remove("LD_PRELOAD")
        .env("TMPDIR", &tmp)
        .env("HOME", &home)
        .env("LC_ALL", "C")
        .envs(environment.iter().copied());
    Script::new(script).add_to(&mut command);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} fails: {told}");
    traces
}

/// What a call did: process, function, path, where and how much, the size of what was opened.
type Did = (u32, &'static str, PathBuf, Option<u64>, u64, Result<u64, i32>, Option<u64>);

/// Paths on which calls of several threads were under way at a time, of which at least one was not
/// a read: which of them came first is not recorded, so what they found may differ.
fn raced(recording: &Recording) -> BTreeSet<PathBuf> {
    let mut under_way: BTreeMap<PathBuf, Vec<(usize, u32, u64, bool)>> = BTreeMap::new();
    let mut raced = BTreeSet::new();
    for (process, record) in recording.in_order() {
        let path = record.call.path().map(|path| path.to_path_buf());
        let Some(path) = path.or_else(|| record.call.file().map(|file| file.path.clone())) else {
            continue;
        };
        let reads =
            matches!(record.call, Call::Read { .. } | Call::Stat { .. } | Call::Seek { .. });
        let others = under_way.entry(path.clone()).or_default();
        others.retain(|other| other.2 > record.start);
        if others
            .iter()
            .any(|other| (other.0, other.1) != (process, record.thread) && !(reads && other.3))
        {
            raced.insert(path);
        }
        others.push((process, record.thread, record.start + record.duration, reads));
    }
    raced
}

fn calls(recording: &Recording, raced: &BTreeSet<PathBuf>) -> BTreeMap<Did, u64> {
    let mut calls = BTreeMap::new();
    for (process, record) in recording.in_order() {
        let number = recording.processes()[process].header().origin.process;
        let path = record.call.path().map(|path| path.to_path_buf());
        let path = path.or_else(|| record.call.file().map(|file| file.path.clone()));
        let (offset, length, moved, size) = match &record.call {
            Call::Read { offset, length, .. } | Call::Write { offset, length, .. } => {
                (*offset, *length, record.outcome, None)
            }
            Call::CopyRange { length, .. } | Call::SendFile { length, .. } => {
                (None, *length, record.outcome, None)
            }
            Call::Seek { offset, .. } => (None, offset.unsigned_abs(), record.outcome, None),
            _ if path.as_ref().is_some_and(|path| raced.contains(path)) => (None, 0, Ok(0), None),
            // Stages are notified of such calls (clones of files, asynchronous I/O …), which are
            // not made again: their results are unknown.
            _ if record.function == Function::Other => (None, 0, Ok(0), None),
            Call::Open { size, .. } => (None, 0, record.outcome.map(|_| 0), *size),
            _ => (None, 0, record.outcome.map(|_| 0), None),
        };
        let did =
            (number, record.function.name(), path.unwrap_or_default(), offset, length, moved, size);
        *calls.entry(did).or_default() += 1;
    }
    calls
}

/// Sizes of regular files below a directory.
fn sizes(root: &Path, directory: &Path, sizes: &mut BTreeMap<PathBuf, u64>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            self::sizes(root, &path, sizes);
        } else if about.is_file() {
            sizes.insert(path.strip_prefix(root).unwrap().to_path_buf(), about.len());
        }
    }
}

/// The largest sizes of files that calls told.
fn seen(recording: &Recording) -> BTreeMap<PathBuf, u64> {
    let mut seen: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for (_, record) in recording.in_order() {
        let size = match &record.call {
            Call::Open { size, .. } | Call::Stat { size, .. } => size.unwrap_or(0),
            Call::Read { offset: Some(offset), .. } | Call::Write { offset: Some(offset), .. } => {
                offset + record.outcome.unwrap_or(0)
            }
            Call::Truncate { length, .. } => *length,
            _ => 0,
        };
        let path = record.call.path().map(|path| path.to_path_buf());
        let path = path.or_else(|| record.call.file().map(|file| file.path.clone()));
        let known = seen.entry(path.unwrap_or_default()).or_default();
        *known = size.max(*known);
    }
    seen
}

fn round_trip(script: &'static str, environment: &[(&str, &Path)]) {
    let (place, again) = (place(), self::place());
    let traces = record(script, place.path(), environment);
    let recording = Recording::open(&traces).unwrap();
    let [root, trace] = ["root", "traces"].map(|name| again.path().join(name));
    let options = Options {
        onto: ReplayTarget::Directory(root.clone()),
        timing: Timing::AsFast,
        trace: Some(trace.clone()),
        most_differences: 1000,
        ..Options::default()
    };
    let outcome = replay(&recording, &options).unwrap();
    let told = told(&outcome);
    println!("{script}: {told}");
    let raced = raced(&recording);
    let (excused, wrong): (Vec<_>, Vec<_>) =
        outcome.first_differences.iter().partition(|one| raced.contains(&one.path));
    println!("{script}: of {} paths that calls raced on, {} differ", raced.len(), excused.len());
    assert!(wrong.is_empty(), "{script}: {wrong:#?}");
    assert_eq!(outcome.differences_count(), excused.len() as u64, "{script}");
    assert!(outcome.failures.is_empty() && outcome.waits_given_up == 0, "{:?}", outcome.failures);

    let replayed = Recording::open(&trace).unwrap();
    let (before, after) = (calls(&recording, &raced), calls(&replayed, &raced));
    let mut wrong = Vec::new();
    for did in before.keys().chain(after.keys()) {
        let counts = [&before, &after].map(|calls| calls.get(did).copied().unwrap_or(0));
        if counts[0] != counts[1] && !wrong.contains(&(did, counts)) {
            wrong.push((did, counts));
        }
    }
    assert!(
        wrong.is_empty(),
        "{script}: {} differ: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(10)]
    );

    // Files that the recording knows have the sizes that they have.
    let work = place.path().join("work");
    let here = root.join(work.strip_prefix("/").unwrap());
    let [mut real, mut made] = [BTreeMap::new(), BTreeMap::new()];
    sizes(&work, &work, &mut real);
    sizes(&here, &here, &mut made);
    let seen = seen(&recording);
    let (unseen, wrong): (Vec<_>, Vec<_>) = made
        .iter()
        .filter(|(path, size)| real.get(*path).is_some_and(|real| real != *size))
        .map(|(path, size)| (path, *size, real[path]))
        // What a program that was not recorded wrote, and no recorded call read, cannot be known.
        .partition(|(path, made, real)| {
            made < real && seen.get(&work.join(path)).is_some_and(|seen| seen <= made)
        });
    println!("{script}: unseen sizes of {unseen:?}");
    println!("{script}: {} of {} files are there", made.len(), real.len());
    assert!(wrong.is_empty(), "{script}: sizes differ: {wrong:?}");
}

fn told(outcome: &Outcome) -> String {
    format!(
        "{} calls of {} processes; made first {}, made good {:?}, only told {:?}, left out {:?}",
        outcome.total().calls,
        outcome.processes,
        outcome.made_first,
        outcome.made_good,
        outcome.noted,
        outcome.skipped
    )
}

macro_rules! round_trips {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            round_trip(concat!(stringify!($name), ".sh"), &[("PYTHON", interpreter())]);
        }
    )* };
}

round_trips! { coreutils tar git sqlite rsync gcc python h5py netcdf }

/// A python that has h5py: `STRIATE_PYTHON`, or the one that the tests of the preload door use,
/// too.
fn interpreter() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| scripts::python(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}

#[test]
fn open_mpi() {
    ranks("openmpi", "mpiexec.openmpi --oversubscribe --bind-to none");
}

#[test]
fn mpich() {
    ranks("mpich", "mpiexec.mpich");
}

fn ranks(mpi: &str, mpiexec: &str) {
    let made = tempfile::tempdir().unwrap();
    let program = made.path().join("ranks");
    scripts::compile_ranks(mpi, &program);
    round_trip("mpi.sh", &[("PROGRAM", &program), ("MPIEXEC", Path::new(mpiexec))]);
}
