//! Traces of older versions are read, and what they do not say is not made up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use striate_recording::{Filter, Recording, Stats, cut, line, merge};
use striate_trace::Call;

/// A trace of version 1, which was recorded when it was the only one: 2 of 17 calls failed in a way
/// that was recorded.
const FIRST: &[u8] = include_bytes!("data/version-1.trace");

/// Of these it was only recorded that they were about to be made.
const UNTOLD: [&str; 6] = ["mmap", "access", "chmod", "readlink", "opendir", "other"];

fn check(recording: &Recording) {
    assert!(recording.complaints().is_empty(), "{:?}", recording.complaints());
    let mut unknown = 0;
    for (_, record) in recording.in_order() {
        let name = record.function.name();
        let untold = UNTOLD.contains(&name);
        assert_eq!(record.known, !untold, "{name}");
        assert_eq!(line::outcome(&record) == "?", untold, "{name}");
        assert!(!matches!(record.call, Call::Stat { mode: Some(_), .. }));
        unknown += u64::from(untold);
    }
    let stats = Stats::of(recording, &Filter::default(), None);
    assert_eq!((stats.total.unknown, unknown), (7, 7));
    assert_eq!(stats.total.errors, 2, "a stat and an unlink");
    let opendir = stats.functions["opendir"];
    assert_eq!((opendir.calls, opendir.errors, opendir.unknown), (2, 0, 2));
    assert_eq!((stats.total.bytes_read, stats.total.bytes_written), (4, 10));
}

#[test]
fn results_that_were_not_recorded_are_unknown() {
    let first = Recording::in_memory(Path::new("old.trace"), FIRST.to_vec()).unwrap();
    assert_eq!(FIRST[8], 1);
    check(&first);
    let place = tempfile::tempdir().unwrap();
    // Blocks that are copied stay what they are, and records that are written again do, too.
    let [merged, again] = ["merged.trace", "cut.trace"].map(|name| place.path().join(name));
    merge(&first, &merged).unwrap();
    cut(&first, &Filter::default(), &again).unwrap();
    for path in [&merged, &again] {
        assert_eq!(std::fs::read(path).unwrap()[8], 6);
        check(&Recording::open(path).unwrap());
    }
}

#[test]
fn wherever_it_is_cut_off_it_is_read_up_to_there() {
    let whole = Recording::in_memory(Path::new("old.trace"), FIRST.to_vec()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("new.trace");
    cut(&whole, &Filter::default(), &path).unwrap();
    for bytes in [FIRST.to_vec(), std::fs::read(&path).unwrap()] {
        for length in 0..bytes.len() {
            let part = bytes[..length].to_vec();
            let Ok(part) = Recording::in_memory(Path::new("part.trace"), part) else { continue };
            assert!(part.in_order().count() <= whole.in_order().count());
        }
    }
    let mut newer = FIRST.to_vec();
    newer[8] = 7;
    let refused = Recording::in_memory(Path::new("new.trace"), newer).unwrap_err();
    assert!(refused.to_string().contains("version 7"), "{refused}");
}
