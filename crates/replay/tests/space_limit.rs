//! A recording of a few lines does not fill the disk: what files take is counted before anything is
//! made.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_process::Origin;
use striate_recording::Recording;
use striate_replay::{Options, Outcome, ReplayError, ReplayTarget, Timing, replay};
use striate_stack::Function;
use striate_trace::{Call, Header, Record, RecordedCall, Subject, TracedFile, Writer};

const HUGE: u64 = 1 << 60;

fn file() -> Arc<TracedFile> {
    Arc::new(TracedFile { opener: 7, number: 1, path: "/data/a".into(), flags: libc::O_RDWR })
}

fn open(flags: i32, size: Option<u64>) -> (Function, RecordedCall, u64) {
    let (file, path) = (file(), Path::new("/data/a").into());
    (Function::Open, Call::Open { file, path, flags: libc::O_RDWR | flags, mode: 0o600, size }, 3)
}

fn transfer(reads: bool, offset: u64, length: u64, moved: u64) -> (Function, RecordedCall, u64) {
    let (file, placed, offset, flags, parts) = (file(), true, Some(offset), 0, 1);
    if reads {
        (Function::Pread, Call::Read { file, placed, offset, length, flags, parts }, moved)
    } else {
        (Function::Pwrite, Call::Write { file, placed, offset, length, flags, parts }, moved)
    }
}

fn recorded(place: &Path, calls: Vec<(Function, RecordedCall, u64)>) -> Recording {
    let path = place.join("a.trace");
    let _ = std::fs::remove_file(&path);
    let origin = Origin { process: 7, ..Origin::default() };
    let header = Header { origin, clock: 1000, began: 1000, ..Header::default() };
    let mut writer = Writer::create(&path, &header).unwrap();
    for (start, (function, call, result)) in (0..).map(|n| 2000 + n * 100).zip(calls) {
        let (thread, duration, outcome, known) = (7, 10, Ok(result), true);
        let record = Record { function, thread, start, duration, outcome, known, call };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
    Recording::open(&path).unwrap()
}

fn replayed(
    recording: &Recording,
    root: &Path,
    most_space: Option<u64>,
) -> Result<Outcome, ReplayError> {
    let onto = ReplayTarget::Directory(root.to_path_buf());
    let options = Options { onto, timing: Timing::AsFast, most_space, ..Options::default() };
    replay(recording, &options)
}

fn refused(recording: &Recording, root: &Path, most_space: Option<u64>) -> (u64, PathBuf) {
    let error = replayed(recording, root, most_space).unwrap_err();
    let told = error.to_string();
    let ReplayError::Space { needed, largest, .. } = error else { panic!("{told}") };
    assert!(told.contains("/data/a"), "{told}");
    assert!(!root.exists() || std::fs::read_dir(root).unwrap().next().is_none(), "{told}");
    (needed, largest.0)
}

#[test]
fn what_takes_more_than_is_free_is_refused_before_anything_is_made() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let allocate = |mode| {
        let call = Call::Allocate { file: file(), mode, offset: 0, length: HUGE };
        (Function::Fallocate, call, 0)
    };
    let stat = Call::Stat {
        of: Subject::Name(Path::new("/data/a").into()),
        flags: 0,
        size: Some(HUGE),
        mode: Some(libc::S_IFREG | 0o644),
    };
    let (creates, new) = (libc::O_CREAT | libc::O_EXCL, Some(0));
    for (least, calls) in [
        (HUGE, vec![open(0, Some(HUGE))]),
        (HUGE, vec![(Function::Stat, stat, 0)]),
        (HUGE, vec![open(0, None), transfer(true, HUGE, 100, 100)]),
        (HUGE, vec![open(creates, new), allocate(0)]),
        (HUGE, vec![open(creates, new), allocate(libc::FALLOC_FL_KEEP_SIZE)]),
    ] {
        let recording = recorded(place.path(), calls);
        let (needed, largest) = refused(&recording, &root, None);
        assert!(needed >= least && largest == Path::new("/data/a"), "{needed} {largest:?}");
    }
}

#[test]
fn holes_take_nothing_and_a_limit_holds() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let (creates, new) = (libc::O_CREAT | libc::O_EXCL, Some(0));
    let far = 1 << 40;
    let calls = || {
        let truncate = Call::Truncate { file: file(), length: far };
        vec![
            open(creates, new),
            (Function::Ftruncate, truncate, 0),
            transfer(false, far - 10, 20, 20),
            transfer(false, 0, 100_000, 100_000),
            // Short then, but there may be room for all of it now.
            transfer(false, 0, 1 << 20, 10),
        ]
    };
    let recording = recorded(place.path(), calls());
    let (needed, _) = refused(&recording, &root, Some(1 << 20));
    assert_eq!(needed, (1 << 20) + 2 * 4096);
    let outcome = replayed(&recording, &root, Some(needed)).unwrap();
    assert!(outcome.differences_count() <= 1, "{:?}", outcome.first_differences);
    let about = std::fs::metadata(root.join("data/a")).unwrap();
    assert_eq!(about.len(), far + 10);
}
