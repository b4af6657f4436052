//! Made-up recordings: threads and processes whose calls came out as a model says must come out so
//! again.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use striate_recording::Recording;
use striate_replay::{Options, Outcome, ReplayTarget, StoreAt, Timing, VectorMethod, replay};
use striate_stack::{Configuration, Function};
use striate_trace::Call;
use support::{Story, close, file, made_up, open, read, stat, write};

fn onto(root: &Path) -> Options {
    let timing = Timing::AsFast;
    Options { onto: ReplayTarget::Directory(root.to_path_buf()), timing, ..Options::default() }
}

fn assert_same(outcome: &Outcome) {
    assert_eq!(outcome.differences_count(), 0, "{:#?}", outcome.first_differences);
    assert_eq!(outcome.made_good, BTreeMap::new());
    assert_eq!(outcome.skipped, BTreeMap::new());
    assert_eq!((outcome.failures.len(), outcome.waits_given_up), (0, 0), "{:?}", outcome.failures);
}

/// Sizes of files below a directory, by the recorded path.
fn sizes(root: &Path) -> HashMap<PathBuf, u64> {
    contents(root).into_iter().map(|(path, bytes)| (path, bytes.len() as u64)).collect()
}

fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("data")).unwrap() {
        let path = entry.unwrap().path();
        let recorded = Path::new("/").join(path.strip_prefix(root).unwrap());
        all.insert(recorded, std::fs::read(&path).unwrap());
    }
    all
}

#[test]
fn threads_and_processes_come_out_as_the_model_says() {
    for seed in 1..=12 {
        let (processes, threads) = [(1, 1), (1, 6), (5, 1), (3, 4)][seed as usize % 4];
        let model = made_up(seed * 7919, processes, threads, 1500);
        let recording = model.story.recording();
        let root = tempfile::tempdir().unwrap();
        let outcome = replay(&recording, &onto(root.path())).unwrap();
        assert_same(&outcome);
        assert_eq!(sizes(root.path()), model.sizes, "seed {seed}");
        assert_eq!(outcome.total().calls, outcome.records);
        assert_eq!(outcome.total().bytes_recorded, outcome.total().bytes_replayed);
        assert!(outcome.workers <= (processes * threads) as usize);
    }
}

#[test]
fn a_recording_of_the_replay_is_the_recording() {
    let recording = made_up(99, 2, 3, 800).story.recording();
    let (root, traces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = Some(traces.path().to_path_buf());
    assert_same(&replay(&recording, &Options { trace, ..onto(root.path()) }).unwrap());
    let again = Recording::open(traces.path()).unwrap();
    let told = |recording: &Recording| {
        let mut calls = BTreeMap::<_, u64>::new();
        for (process, record) in recording.in_order() {
            let number = recording.processes()[process].header().origin.process;
            let path = record.call.file().map(|file| file.path.clone());
            let path = path.or(record.call.path().map(|path| path.to_path_buf()));
            let (transfer, size) = match &record.call {
                Call::Read { placed, offset, length, .. }
                | Call::Write { placed, offset, length, .. } => {
                    (Some((*placed, *offset, *length)), None)
                }
                Call::Open { size, .. } | Call::Stat { size, .. } => (None, *size),
                _ => (None, None),
            };
            let moved = record.outcome.map(|moved| if transfer.is_some() { moved } else { 0 });
            *calls
                .entry((number, record.function.name(), path, transfer, size, moved))
                .or_default() += 1;
        }
        calls
    };
    let (before, after) = (told(&recording), told(&again));
    for (call, count) in &before {
        assert_eq!(after.get(call), Some(count), "{call:?}");
    }
    assert_eq!(before.len(), after.len());
}

const STACKS: &[(&str, &str)] = &[
    ("count", "[[stage]]\nkind = 'count'\ndirectory = 'BESIDE'\n"),
    ("write-back", "[[stage]]\nkind = 'write-back'\nblock = '4KiB'\nmemory = '64KiB'\n"),
    ("read-ahead", "[[stage]]\nkind = 'read-ahead'\nwindow = '8KiB'\n"),
    ("align", "[[stage]]\nkind = 'align'\nstripe = '4KiB'\n"),
    ("combine", "[[stage]]\nkind = 'combine'\n"),
    (
        "path-rewrite",
        "[[stage]]\nkind = 'path-rewrite'\nrules = [{ from = '/data', to = 'BESIDE' }]\n",
    ),
    ("throttle", "[[stage]]\nkind = 'throttle'\nlatency = '2us'\n"),
    (
        "all",
        "[[stage]]\nkind = 'combine'\n[[stage]]\nkind = 'write-back'\n[[stage]]\nkind = 'read-ahead'\n",
    ),
];

fn configuration(text: &str, beside: &Path) -> Arc<Configuration> {
    let text = format!("[paths]\ninclude = ['/data']\n{text}");
    let text = text.replace("BESIDE", beside.to_str().unwrap());
    Arc::new(striate_stages::parse_stack(&text).unwrap())
}

#[test]
fn stacks_leave_the_same_files() {
    for seed in [3, 17] {
        let recording = made_up(seed, 1, 3, 1000).story.recording();
        let plain = tempfile::tempdir().unwrap();
        assert_same(&replay(&recording, &onto(plain.path())).unwrap());
        for (name, text) in STACKS {
            let (root, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let stack = Some(configuration(text, beside.path()));
            let outcome = replay(&recording, &Options { stack, ..onto(root.path()) }).unwrap();
            assert_eq!(outcome.differences_count(), 0, "{name}: {:#?}", outcome.first_differences);
            assert!(outcome.failures.is_empty(), "{name}: {:?}", outcome.failures);
            assert!(contents(plain.path()) == contents(root.path()), "{name}");
        }
    }
}

/// One process writes and ends without a close; the next reads. What was held back is there by
/// then.
#[test]
fn the_end_of_a_process_settles() {
    let mut story = Story::default();
    let (first, second) = (story.process(10, 1), story.process(11, 1));
    let out = file(10, 1, "/data/out", libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
    story.call(first, 10, (0, 10), Function::Open, Ok(3), open(&out, 0));
    story.call(first, 10, (20, 30), Function::Write, Ok(5000), write(&out, false, 0, 5000));
    let back = file(11, 1, "/data/out", libc::O_RDONLY);
    story.call(second, 11, (100, 110), Function::Stat, Ok(0), stat("/data/out", Some(5000)));
    story.call(second, 11, (120, 130), Function::Open, Ok(3), open(&back, 5000));
    story.call(second, 11, (140, 150), Function::Read, Ok(5000), read(&back, false, 0, 9000));
    let recording = story.recording();
    for (name, text) in STACKS {
        let (root, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stack = Some(configuration(text, beside.path()));
        let outcome = replay(&recording, &Options { stack, ..onto(root.path()) }).unwrap();
        assert_eq!(outcome.differences_count(), 0, "{name}: {:#?}", outcome.first_differences);
    }
}

/// A child goes on at the position of a file that its parent has closed by then.
#[test]
fn a_child_has_the_files_of_its_parent() {
    for parent_ends in [false, true] {
        let mut story = Story::default();
        let (parent, child) = (story.process(10, 1), story.process(11, 10));
        let out = file(10, 1, "/data/out", libc::O_RDWR | libc::O_CREAT);
        story.call(parent, 10, (0, 10), Function::Open, Ok(3), open(&out, 0));
        story.call(parent, 10, (20, 30), Function::Write, Ok(100), write(&out, false, 0, 100));
        if !parent_ends {
            story.call(parent, 10, (40, 50), Function::Close, Ok(0), close(&out));
        }
        story.call(child, 11, (60, 70), Function::Write, Ok(100), write(&out, false, 100, 100));
        story.call(child, 11, (80, 90), Function::Close, Ok(0), close(&out));
        story.call(child, 11, (100, 110), Function::Stat, Ok(0), stat("/data/out", Some(200)));
        let recording = story.recording();
        for (name, text) in STACKS {
            let (root, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let traces = tempfile::tempdir().unwrap();
            let stack = Some(configuration(text, beside.path()));
            let trace = Some(traces.path().to_path_buf());
            let options = Options { stack, trace, ..onto(root.path()) };
            let outcome = replay(&recording, &options).unwrap();
            assert_eq!(outcome.differences_count(), 0, "{name}: {:#?}", outcome.first_differences);
            assert_eq!(sizes(root.path())[Path::new("/data/out")], 200, "{name}");
            // It is one file, also in a recording of the replay.
            let again = Recording::open(traces.path()).unwrap();
            let mut openers: Vec<_> = again
                .in_order()
                .filter_map(|(_, record)| {
                    Some((record.call.file()?.opener, record.call.file()?.number))
                })
                .collect();
            openers.dedup();
            assert_eq!(openers, [(10, 1)], "{name}");
        }
    }
}

/// Programs that were not recorded have created a file, changed its size, and removed it.
#[test]
fn what_was_not_recorded_is_made_good() {
    let mut story = Story::default();
    let process = story.process(10, 1);
    let path: Arc<Path> = Path::new("/data/x").into();
    story.call(process, 10, (0, 5), Function::Stat, Err(libc::ENOENT), stat("/data/x", None));
    let first = file(10, 1, "/data/x", libc::O_RDONLY);
    story.call(process, 10, (10, 15), Function::Open, Ok(3), open(&first, 70));
    story.call(process, 10, (20, 25), Function::Read, Ok(70), read(&first, false, 0, 100));
    story.call(process, 10, (30, 35), Function::Read, Ok(10), read(&first, false, 70, 100));
    story.call(process, 10, (40, 45), Function::Stat, Ok(0), stat("/data/x", Some(20)));
    let made = Call::MakeDirectory { path, mode: 0o755 };
    story.call(process, 10, (50, 55), Function::Mkdir, Ok(0), made);
    let root = tempfile::tempdir().unwrap();
    let outcome = replay(&story.recording(), &onto(root.path())).unwrap();
    assert_eq!(outcome.differences_count(), 0, "{:#?}", outcome.first_differences);
    let made: Vec<_> = outcome.made_good.into_iter().collect();
    assert_eq!(made, [("files made", 1), ("names removed", 1), ("sizes changed", 2)]);
    assert!(root.path().join("data/x").is_dir());
}

#[test]
fn differences_are_told_with_both_sides() {
    let mut story = Story::default();
    let process = story.process(10, 1);
    let out = file(10, 1, "/data/x", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL);
    story.call(process, 10, (0, 5), Function::Open, Ok(3), open(&out, 0));
    // The disk was full.
    let full = Err(libc::ENOSPC);
    story.call(process, 10, (10, 15), Function::Write, full, write(&out, false, 0, 100));
    story.call(process, 10, (20, 25), Function::Write, Ok(60), write(&out, true, 0, 100));
    let outcome =
        replay(&story.recording(), &Options { timing: Timing::AsFast, ..Options::default() });
    let outcome = outcome.unwrap();
    let told: Vec<_> = outcome
        .first_differences
        .iter()
        .map(|one| (one.number, one.kind.name(), one.recorded.as_str(), one.replayed.as_str()))
        .collect();
    let full = std::io::Error::from_raw_os_error(libc::ENOSPC).to_string();
    assert_eq!(told, [(1, "succeeds", full.as_str(), "100"), (2, "other bytes", "60", "100")]);
    assert_eq!(outcome.root, None);
}

#[test]
fn damaged_recordings_are_replayed_as_far_as_they_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.trace");
    made_up(5, 3, 3, 2000).story.write(&path);
    let bytes = std::fs::read(&path).unwrap();
    for part in 1..8 {
        let mut damaged = bytes.clone();
        if part % 2 == 0 {
            damaged.truncate(bytes.len() * part / 8);
        } else {
            let at = bytes.len() * part / 8;
            damaged[at] ^= 0x55;
        }
        let Ok(recording) = Recording::in_memory(&path, damaged) else { continue };
        let options = Options { timing: Timing::AsFast, ..Options::default() };
        let outcome = replay(&recording, &options).unwrap();
        assert!(outcome.records <= 2000 && !outcome.interrupted);
    }
}

#[test]
fn a_replay_can_be_stopped() {
    let mut story = Story::default();
    let process = story.process(10, 1);
    let hour = 3_600_000_000_000;
    story.call(process, 10, (0, 5), Function::Stat, Ok(0), stat("/data/x", Some(5)));
    story.call(process, 10, (hour, hour + 5), Function::Stat, Ok(0), stat("/data/x", Some(5)));
    let place = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let within = Some(place.path().to_path_buf());
    let onto = ReplayTarget::Temporary { within, keep: false };
    let options = Options { onto, stop: Arc::clone(&stop), ..Options::default() };
    let recording = story.recording();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while std::fs::read_dir(place.path()).unwrap().next().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
        });
        replay(&recording, &options).unwrap()
    });
    assert!(outcome.interrupted);
    assert!(std::fs::read_dir(place.path()).unwrap().next().is_none());
}

#[test]
fn too_many_threads_are_refused() {
    let mut story = Story::default();
    let process = story.process(10, 1);
    for thread in 0..5 {
        for time in [u64::from(thread), 100 + u64::from(thread)] {
            let when = (time, time + 1);
            story.call(process, thread, when, Function::Stat, Ok(0), stat("/data/x", Some(5)));
        }
    }
    let recording = story.recording();
    let refused = replay(&recording, &Options { most_workers: 4, ..Options::default() });
    assert!(refused.is_err_and(|error| error.to_string().contains("5 threads")));
}

#[test]
fn stores_come_out_the_same() {
    let recording = made_up(42, 2, 2, 1200).story.recording();
    let directory = tempfile::tempdir().unwrap();
    for at in [StoreAt::Memory, StoreAt::Directory(directory.path().to_path_buf())] {
        let onto = ReplayTarget::Store { at, method: VectorMethod::List };
        let options = Options { onto, timing: Timing::AsFast, ..Options::default() };
        let outcome = replay(&recording, &options).unwrap();
        assert_same(&outcome);
    }
    let plain = tempfile::tempdir().unwrap();
    replay(&recording, &onto(plain.path())).unwrap();
    assert!(contents(plain.path()) == contents(directory.path()));
}

/// Think time is kept, but for threads that waited for others.
#[test]
fn every_timing_makes_all_calls() {
    let recording = made_up(7, 2, 2, 300).story.recording();
    for timing in [Timing::AsRecorded, Timing::Scale(0.5), Timing::Think, Timing::AsFast] {
        let root = tempfile::tempdir().unwrap();
        let outcome = replay(&recording, &Options { timing, ..onto(root.path()) }).unwrap();
        assert_same(&outcome);
        assert_eq!(outcome.total().calls, 300.min(outcome.records));
    }
}
