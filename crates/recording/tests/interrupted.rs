//! What is interrupted leaves nothing behind, and says so.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use striate_recording::{Filter, Progress, Recording, RecordingError, Stats, cut, import, merge};

const TRACE: &[u8] = include_bytes!("data/version-1.trace");

#[test]
fn nothing_is_left_of_a_result_that_is_not_whole() {
    let place = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(true));
    let progress = Arc::new(Progress::new(Arc::clone(&stop)));
    let recording = Recording::in_memory(Path::new("a.trace"), TRACE.to_vec()).unwrap();
    let recording = recording.watched_by(Arc::clone(&progress));
    let into = place.path().join("out.trace");
    let input = place.path().join("strace.txt");
    std::fs::write(&input, "1 1.5 open(\"/a\", O_RDONLY) = 3 <0.1>\n".repeat(10_000)).unwrap();
    let interrupted = |done: Result<u64, RecordingError>| {
        assert!(matches!(done, Err(RecordingError::Interrupted)), "{done:?}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "only what was there");
    };
    interrupted(merge(&recording, &into).map(|()| 0));
    interrupted(cut(&recording, &Filter::default(), &into));
    let options = import::Options { progress: Arc::clone(&progress), ..Default::default() };
    interrupted(import::import(&input, &options, &into).map(|(_, imported)| imported.records));
    assert_eq!(Stats::of(&recording, &Filter::default(), None).total.calls, 0);

    stop.store(false, Ordering::Relaxed);
    progress.begin("importing", 0);
    import::import(&input, &options, &into).unwrap();
    let (phase, done, total) = progress.now();
    let length = std::fs::metadata(&input).unwrap().len();
    assert_eq!((phase, done, total), ("importing", length, length));
}

#[test]
fn what_killed_imports_have_left_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let [input, into] = ["strace.txt", "out.trace"].map(|name| place.path().join(name));
    std::fs::write(&input, "1 1.5 unlink(\"/a\") = 0 <0.1>\n").unwrap();
    let directory = |name: &str| {
        let path = place.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("1.trace"), "part").unwrap();
        path
    };
    let abandoned = directory(".out.trace.parts-1");
    let others =
        [".out.trace.parts-notes", ".other.trace.parts-1", "out.trace.parts-1"].map(directory);
    let used = directory(".out.trace.parts-2");
    let lock = std::fs::File::open(&used).unwrap();
    lock.try_lock().unwrap();
    let target = directory("target");
    let link = place.path().join(".out.trace.parts-3");
    std::os::unix::fs::symlink(&target, &link).unwrap();

    import::import(&input, &import::Options::default(), &into).unwrap();
    assert!(!abandoned.exists() && into.is_file());
    for path in others.iter().chain([&used, &target, &link]) {
        assert!(path.join("1.trace").exists(), "{}", path.display());
    }
    // Also if the result is there already, which is refused.
    drop(lock);
    let refused = import::import(&input, &import::Options::default(), &into).unwrap_err();
    assert!(refused.to_string().contains("exists"), "{refused}");
    assert!(!used.exists());
}
