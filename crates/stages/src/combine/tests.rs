//! Tests: logs are read as they were written, up to where they are truncated.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::container::Container;
use super::entry::{FIRST, LogRecord, NameState};
use super::log::{AppendError, Log};
use crate::dentry::Directory;

fn entry<'a>(name: &'a str, data: &'a [u8], time: u64) -> LogRecord<'a> {
    LogRecord {
        said: NameState::File,
        directory: b"/some/where",
        name: name.as_bytes(),
        mode: 0o640,
        modified: (12, 34),
        replaces: 0,
        time,
        data,
    }
}

fn log(place: &tempfile::TempDir, capacity: u64) -> Log {
    Log::create(Directory::open(place.path()).unwrap(), capacity, None).unwrap()
}

fn names(container: &Container) -> Vec<String> {
    let entries = container.entries(true).unwrap();
    entries.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap()).collect()
}

#[test]
fn entries_are_found_again_mapped_or_written() {
    for mapped in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let mut log = log(&place, 1 << 22);
        assert!(log.is_mapped() || !mapped);
        if !mapped {
            log.do_not_map();
        }
        let data: Vec<u8> = (0..100_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let a = log.append(&entry("a", &data, 1)).unwrap();
        let b = log.append(&entry("b", b"", 2)).unwrap();
        let c = log.append(&LogRecord { replaces: a.entry, ..entry("c", &data[..7], 3) }).unwrap();
        let d = log.append(&entry("d", &data[..9], 4)).unwrap();
        log.kill(d).unwrap();
        assert_eq!(*log.bytes(a).unwrap(), data[..]);
        let container = Container::open(&log.path()).unwrap();
        assert!(!container.claim() && !container.is_sealed());
        assert_eq!(names(&container), ["b", "c"]);
        let found = container.entries(true).unwrap();
        assert_eq!((found[0].at, found[1].at), (b, c));
        assert_eq!(container.read(&found[1]).unwrap(), data[..7]);
        assert_eq!((found[0].mode, found[0].modified), (0o640, (12, 34)));
        assert_eq!(found[0].path(), std::path::Path::new("/some/where/b"));
        // After it has started again, nothing of that counts.
        log.reset().unwrap();
        log.append(&entry("e", &data[..3], 5)).unwrap();
        assert_eq!(names(&Container::open(&log.path()).unwrap()), ["e"]);
        let sealed = log.seal().unwrap();
        let container = Container::open(&sealed).unwrap();
        assert!(container.is_sealed() && container.claim());
        assert_eq!(names(&container), ["e"]);
        container.remove().unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_log_has_an_end() {
    let place = tempfile::tempdir().unwrap();
    let mut log = log(&place, 1 << 20);
    let data = vec![1; 300_000];
    for name in ["a", "b", "c"] {
        log.append(&entry(name, &data, 1)).unwrap();
    }
    assert_eq!(log.append(&entry("d", &data, 1)), Err(AppendError::Full));
    log.append(&entry("e", b"small", 1)).unwrap();
    assert_eq!(names(&Container::open(&log.path()).unwrap()), ["a", "b", "c", "e"]);
    log.unlink().unwrap();
}

#[test]
fn torn_and_strange_logs_are_read_as_far_as_they_go() {
    let place = tempfile::tempdir().unwrap();
    let mut log = log(&place, 1 << 20);
    let mut ends = vec![FIRST];
    for (name, length) in [("a", 10), ("b", 500), ("c", 77)] {
        let data: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let entry = entry(name, &data, 1);
        log.append(&entry).unwrap();
        ends.push(ends[ends.len() - 1] + entry.length());
    }
    let bytes = std::fs::read(log.path()).unwrap();
    let path = place.path().join("copy");
    for length in (FIRST..ends[3] + 8).step_by(3) {
        std::fs::write(&path, &bytes[..length as usize]).unwrap();
        let whole = ends[1..].iter().filter(|end| **end <= length).count();
        let container = Container::open(&path).unwrap();
        assert_eq!(names(&container), ["a", "b", "c"][..whole], "{length}");
    }
    // A byte that is another one: the entry it is in does not count, nor what comes after it.
    for at in FIRST..ends[3] {
        std::fs::write(&path, &bytes).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[bytes[at as usize] ^ 0x55], at).unwrap();
        let whole = ends[1..].iter().filter(|end| **end <= at).count();
        let found = names(&Container::open(&path).unwrap());
        let padding = found.len() == 3;
        assert!(padding || found == ["a", "b", "c"][..whole], "{at}: {found:?}");
    }
    for length in [0, 7, 8, 40, 4095] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let container = Container::open(&path);
        assert!(length >= 40 || container.is_err());
        assert!(container.map_or(true, |container| names(&container).is_empty()));
    }
    std::fs::write(
        &path,
        b"STRCOMB1\xff\xff\xff\xff and more, so that it is long enough for a header",
    )
    .unwrap();
    assert!(Container::open(&path).unwrap_err().to_string().contains("version"));
    let directory = Arc::clone(log.directory());
    assert_eq!(directory.path(), place.path().canonicalize().unwrap());
}
