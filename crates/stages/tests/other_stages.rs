//! The requests that read-ahead, align and seek-free forward, counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::fd::RawFd;

use striate_stack::Kind::{Read, Write};
use support::counting::Counting;
use support::door::Door;
use support::plain::System;
use support::{bytes, stack, stage};
use tempfile::TempDir;

const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

struct StageSetup {
    root: TempDir,
    door: Door,
    counting: Counting,
}

impl StageSetup {
    fn new(name: &str, options: &str) -> Self {
        let (root, counting) = (tempfile::tempdir().unwrap(), Counting::default());
        let stages = vec![stage(name, options), counting.placed()];
        let door = Door::new(root.path(), stack(root.path(), stages));
        Self { root, door, counting }
    }

    fn file(&self, length: usize) -> RawFd {
        std::fs::write(self.root.path().join("a"), bytes(0, length)).unwrap();
        let fd = self.door.open("a", libc::O_RDWR, 0).unwrap();
        self.counting.seen();
        fd
    }

    /// Reads that much there, and checks the bytes.
    fn read(&self, fd: RawFd, at: Option<i64>, length: usize, of: &[u8]) -> u64 {
        let start =
            at.map_or_else(|| self.door.seek(fd, 0, libc::SEEK_CUR).unwrap(), |at| at as u64);
        let mut parts = [vec![0; length]];
        let count = self.door.read(fd, &mut parts, at).unwrap();
        let end = (start as usize + length).min(of.len()).max(start as usize);
        assert_eq!(
            parts[0][..count as usize],
            of[(start as usize).min(end)..end],
            "{length} at {start}"
        );
        count
    }
}

#[test]
fn sequential_reads_become_windows() {
    let setup = StageSetup::new("read-ahead", "window = 1000\nadapt = false");
    let (fd, all) = (setup.file(3000), bytes(0, 3000));
    let counts: Vec<_> = (0..31).map(|_| setup.read(fd, None, 100, &all)).collect();
    assert_eq!(counts.iter().sum::<u64>(), 3000);
    assert_eq!(
        setup.counting.transfers(),
        [
            (Read, 0, 100),
            (Read, 100, 100),
            (Read, 200, 400),
            (Read, 600, 800),
            (Read, 1400, 1000),
            (Read, 2400, 1000),
            // The end is never told from memory.
            (Read, 3000, 1000),
        ]
    );
}

#[test]
fn strided_reads_become_windows() {
    let all = bytes(0, 100_000);
    for (stride, start) in [(64, 0), (-64, 64_000)] {
        let setup = StageSetup::new("read-ahead", "window = 6400\nadapt = false");
        let fd = setup.file(100_000);
        for n in 0..1000 {
            assert_eq!(setup.read(fd, Some(start + stride * n), 8, &all), 8);
        }
        let reads = setup.counting.transfers();
        // 2 alone, then 4, 8, 16, 32, 64 and 100 at a time.
        assert_eq!(reads.len(), 2 + 5 + (1000 - 2 - 124_usize).div_ceil(100), "{reads:?}");
    }
}

#[test]
fn reads_that_do_not_follow_each_other_pass() {
    let setup = StageSetup::new("read-ahead", "adapt = false\nwaste = 10");
    let (fd, all) = (setup.file(10_000), bytes(0, 10_000));
    let places: Vec<_> = (0..50).map(|n| n * n * 3 % 9001).collect();
    for at in &places {
        assert_eq!(setup.read(fd, Some(*at), 10, &all), 10);
    }
    // To read the same place again, and to read with gaps that are too large.
    (0..10).for_each(|_| assert_eq!(setup.read(fd, Some(77), 10, &all), 10));
    (0..10).for_each(|n| assert_eq!(setup.read(fd, Some(500 * n), 10, &all), 10));
    let expected = places.into_iter().chain([77; 10]).chain((0..10).map(|n| 500 * n));
    let expected: Vec<_> = expected.map(|at| (Read, at as u64, 10)).collect();
    assert_eq!(setup.counting.transfers(), expected);
}

#[test]
fn a_change_by_any_open_file_drops_what_was_read() {
    let setup = StageSetup::new("read-ahead", "window = 1000\nadapt = false");
    let mut all = bytes(0, 2000);
    let fd = setup.file(2000);
    let other = setup.door.open("a", libc::O_RDWR, 0).unwrap();
    (0..5).for_each(|_| assert_eq!(setup.read(fd, None, 50, &all), 50));
    all[250..260].fill(b'x');
    setup.door.write(other, &[vec![b'x'; 10]], Some(250)).unwrap();
    assert_eq!(setup.read(fd, None, 50, &all), 50);
    setup.door.truncate(other, 320).unwrap();
    assert_eq!(
        (setup.read(fd, None, 50, &all[..320]), setup.read(fd, None, 50, &all[..320])),
        (20, 0)
    );
    // What others write is seen at the latest when the same place is read again.
    std::fs::write(setup.root.path().join("a"), bytes(9, 2000)).unwrap();
    assert_eq!(setup.read(fd, Some(0), 50, &bytes(9, 2000)), 50);
    assert_eq!(setup.read(fd, Some(0), 50, &bytes(9, 2000)), 50);
}

#[test]
fn windows_keep_to_the_memory_limit() {
    let setup = StageSetup::new("read-ahead", "window = 1000\nmemory = 1500\nadapt = false");
    let all = bytes(0, 30_000);
    std::fs::write(setup.root.path().join("a"), &all).unwrap();
    let files: Vec<_> = (0..4).map(|_| setup.door.open("a", libc::O_RDONLY, 0).unwrap()).collect();
    for _ in 0..50 {
        for fd in &files {
            assert_eq!(setup.read(*fd, None, 100, &all), 100);
        }
    }
    let largest = setup.counting.transfers().into_iter().map(|read| read.2).max();
    assert!(largest <= Some(1000));
    for fd in &files {
        assert_eq!(setup.door.close(*fd), Ok(0));
    }
}

#[test]
fn requests_are_cut_at_stripes() {
    let setup = StageSetup::new("align", "stripe = 1000");
    let fd = setup.file(0);
    setup.door.seek(fd, 300, libc::SEEK_SET).unwrap();
    assert_eq!(setup.door.write(fd, &[bytes(1, 3000)], None), Ok(3000));
    assert_eq!(setup.door.seek(fd, 0, libc::SEEK_CUR), Ok(3300));
    let pieces = [(Write, 300, 700), (Write, 1000, 2000), (Write, 3000, 300)];
    assert_eq!(setup.counting.transfers(), pieces);
    let mut parts = [vec![0; 700], vec![0; 2500]];
    assert_eq!(setup.door.read(fd, &mut parts, Some(900)), Ok(2400));
    let seen = setup.counting.seen();
    assert!(seen.iter().all(|seen| seen.parts == 1));
    let pieces: Vec<_> = seen.into_iter().map(|seen| (seen.at.unwrap(), seen.length)).collect();
    assert_eq!(pieces, [(900, 100), (1000, 3000)]);
    assert_eq!(parts.concat()[..2400], bytes(1, 3000)[600..]);
}

#[test]
fn appends_are_not_cut() {
    let setup = StageSetup::new("align", "stripe = 10");
    let fd = setup.door.open("a", NEW | libc::O_APPEND, 0o600).unwrap();
    setup.door.write(fd, &[bytes(1, 25)], None).unwrap();
    setup.door.write(fd, &[bytes(2, 25)], None).unwrap();
    assert_eq!(setup.door.seek(fd, 0, libc::SEEK_CUR), Ok(50));
    let lengths: Vec<_> = setup.counting.transfers().into_iter().map(|write| write.2).collect();
    assert_eq!(lengths, [25, 25]);
}

#[test]
fn a_stream_without_seeks() {
    let setup = StageSetup::new("seek-free", "i_accept_destroyed_files = true");
    let fd = setup.door.open("a", NEW, 0o600).unwrap();
    setup.counting.seen();
    // The program believes that all went where it wanted …
    assert_eq!(setup.door.write(fd, &[bytes(1, 10)], Some(500)), Ok(10));
    assert_eq!(setup.door.seek(fd, 100, libc::SEEK_SET), Ok(100));
    assert_eq!(setup.door.write(fd, &[bytes(2, 10)], None), Ok(10));
    assert_eq!(setup.door.seek(fd, 0, libc::SEEK_CUR), Ok(110));
    assert_eq!(setup.door.seek(fd, -5, libc::SEEK_END), Ok(505));
    assert_eq!(setup.door.seek(fd, -600, libc::SEEK_END), Err(libc::EINVAL));
    let kinds: Vec<_> =
        setup.counting.seen().into_iter().map(|seen| (seen.kind, seen.at)).collect();
    assert_eq!(kinds, [(Write, None), (Write, None)]);
    // … but it is one after the other.
    assert_eq!(
        std::fs::read(setup.root.path().join("a")).unwrap(),
        [bytes(1, 10), bytes(2, 10)].concat()
    );
    // Reads find as many bytes as there should be, from anywhere.
    let mut parts = [vec![0; 15]];
    assert_eq!(setup.door.read(fd, &mut parts, Some(200)), Ok(15));
    assert_eq!(parts[0], [bytes(1, 10), bytes(2, 10)].concat()[..15]);
    assert_eq!(setup.door.read(fd, &mut parts, Some(505)), Ok(5));
    assert_eq!(setup.door.read(fd, &mut parts, Some(510)), Ok(0));
}

#[test]
fn wrong_options_are_rejected() {
    for (kind, options) in [
        ("seek-free", ""),
        ("seek-free", "i_accept_destroyed_files = false"),
        ("write-back", "block = 0"),
        ("write-back", "block = \"2GiB\"\nmemory = \"4GiB\""),
        ("write-back", "memory = 1000"),
        ("write-back", "blocks = 7"),
        ("read-ahead", "window = 0"),
        ("read-ahead", "waste = 0"),
        ("read-ahead", "memory = 5"),
        ("align", "stripe = 0"),
        ("align", "stripe = 10\nlargest = 15"),
    ] {
        let text = format!("[[stage]]\nkind = \"{kind}\"\n{options}\n");
        let error = striate_stages::parse_stack(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("stage 1 ({kind}): ")), "{error}");
    }
    let text = "[[stage]]\nkind = \"seek-free\"\ni_accept_destroyed_files = true\n";
    assert!(striate_stages::parse_stack(text).unwrap().build().is_ok());
}
