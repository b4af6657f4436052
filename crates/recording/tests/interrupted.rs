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
