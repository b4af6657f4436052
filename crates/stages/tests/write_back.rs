//! The requests that write-back forwards, counted; and its errors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::fd::RawFd;
use std::sync::atomic::Ordering::Relaxed;

use striate_stack::Kind::{self, Read, Write};
use striate_stack::Stack;
use support::counting::Counting;
use support::door::Door;
use support::plain::System;
use support::{bytes, stack, stage};
use tempfile::TempDir;

const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

struct WriteBackSetup {
    _root: TempDir,
    door: Door,
    counting: Counting,
}

impl WriteBackSetup {
    fn new(options: &str) -> Self {
        Self::by(options, |stack| stack)
    }

    fn by(options: &str, change: impl FnOnce(Stack) -> Stack) -> Self {
        let (root, counting) = (tempfile::tempdir().unwrap(), Counting::default());
        let stages = vec![stage("write-back", options), counting.placed()];
        let door = Door::new(root.path(), change(stack(root.path(), stages)));
        Self { _root: root, door, counting }
    }

    fn open(&self, name: &str, flags: i32) -> RawFd {
        let fd = self.door.open(name, flags, 0o600).unwrap();
        self.counting.seen();
        fd
    }

    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<u64, i32> {
        self.door.write(fd, &[bytes.to_vec()], None)
    }

    fn write_at(&self, fd: RawFd, at: i64, bytes: &[u8]) -> Result<u64, i32> {
        self.door.write(fd, &[bytes.to_vec()], Some(at))
    }

    fn stored(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.door.root().join(name)).unwrap()
    }
}

#[test]
fn a_sequential_stream_becomes_aligned_blocks() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    for n in 0..100 {
        assert_eq!(setup.write(fd, &bytes(n, 33)), Ok(33));
    }
    let blocks: Vec<_> = (0..3).map(|n| (Write, n * 1000, 1000)).collect();
    assert_eq!(setup.counting.transfers(), blocks);
    assert_eq!(setup.door.close(fd), Ok(0));
    assert_eq!(setup.counting.transfers(), [(Write, 3000, 300)]);
    let all: Vec<u8> = (0..100).flat_map(|n| bytes(n, 33)).collect();
    assert_eq!(setup.stored("a"), all);
}

#[test]
fn a_stream_that_starts_anywhere_is_aligned_after_its_first_block() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    setup.door.seek(fd, 300, libc::SEEK_SET).unwrap();
    (0..20).for_each(|n| assert_eq!(setup.write(fd, &bytes(n, 100)), Ok(100)));
    assert_eq!(setup.counting.transfers(), [(Write, 300, 700), (Write, 1000, 1000)]);
    setup.door.close(fd).unwrap();
    assert_eq!(setup.counting.transfers(), [(Write, 2000, 300)]);
}

#[test]
fn any_order_becomes_whole_blocks() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    // 37 has no factor in common with 100: all places, far from each other, with overlaps.
    for n in 0..100 {
        setup.write_at(fd, n * 37 % 100 * 20, &bytes(0, 30)).unwrap();
    }
    setup.door.sync(fd, true).unwrap();
    let written = setup.counting.transfers();
    assert_eq!(written, [(Write, 0, 1000), (Write, 1000, 1000), (Write, 2000, 10)]);
}

#[test]
fn gaps_stay_gaps() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    for at in [500, 100, 130] {
        setup.write_at(fd, at, &bytes(0, 30)).unwrap();
    }
    assert_eq!(setup.door.fstat(fd).map(|stat| stat.0), Ok(530));
    assert_eq!(setup.counting.transfers(), [(Write, 100, 60), (Write, 500, 30)]);
}

#[test]
fn reads_come_from_the_buffer() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    setup.write(fd, &bytes(7, 500)).unwrap();
    let mut parts = [vec![0; 100], vec![0; 50]];
    assert_eq!(setup.door.read(fd, &mut parts, Some(200)), Ok(150));
    assert_eq!(parts.concat(), bytes(7, 500)[200..350]);
    assert_eq!(setup.counting.transfers(), []);
    // What reaches beyond it asks the file for the rest.
    assert_eq!(setup.door.read(fd, &mut parts, Some(400)), Ok(100));
    assert_eq!(setup.counting.transfers(), [(Read, 400, 150)]);
    // Another open file of it sees the same.
    let other = setup.open("a", libc::O_RDONLY);
    assert_eq!(setup.door.read(other, &mut parts, Some(0)), Ok(150));
    assert_eq!(setup.counting.transfers(), []);
}

#[test]
fn large_writes_go_straight_through() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    setup.write_at(fd, 5000, &bytes(1, 10)).unwrap();
    setup.write_at(fd, 500, &bytes(2, 10)).unwrap();
    setup.write_at(fd, 0, &bytes(3, 1000)).unwrap();
    // What it overlaps went first; what is elsewhere stays.
    assert_eq!(setup.counting.transfers(), [(Write, 500, 10), (Write, 0, 1000)]);
    setup.door.close(fd).unwrap();
    assert_eq!(setup.counting.transfers(), [(Write, 5000, 10)]);
    assert_eq!(setup.stored("a")[..1000], bytes(3, 1000));
}

#[test]
fn what_has_to_be_on_storage_is_not_held() {
    let setup = WriteBackSetup::new("block = 1000");
    for flags in [libc::O_SYNC, libc::O_DSYNC] {
        let fd = setup.open("a", NEW | flags);
        setup.write(fd, b"now").unwrap();
        assert_eq!(setup.counting.transfers(), [(Write, 0, 3)]);
    }
}

#[test]
fn a_memory_limit_evicts_what_was_written_longest_ago() {
    let setup = WriteBackSetup::new("block = 1000\nmemory = 3000");
    let files: Vec<_> = ["a", "b", "c", "d"].map(|name| setup.open(name, NEW)).into();
    for fd in &files[..3] {
        setup.write(*fd, &bytes(1, 900)).unwrap();
    }
    assert_eq!(setup.counting.transfers(), []);
    setup.write(files[0], &bytes(2, 50)).unwrap();
    setup.write(files[3], &bytes(1, 900)).unwrap();
    assert_eq!(setup.counting.transfers(), [(Write, 0, 900)]);
    assert_eq!(setup.stored("b"), bytes(1, 900));
    // Many open files of which each holds little never take more than the limit.
    let many: Vec<_> = (0..50).map(|n| setup.open(&format!("m{n}"), NEW)).collect();
    for round in 0..20 {
        for fd in &many {
            assert_eq!(setup.write(*fd, &bytes(round, 40)), Ok(40));
        }
    }
    let written: u64 = setup.counting.transfers().iter().map(|transfer| transfer.2).sum();
    assert!(written >= 50 * 800 - 3000, "{written}");
    for (n, fd) in many.into_iter().enumerate() {
        setup.door.close(fd).unwrap();
        let all: Vec<u8> = (0..20).flat_map(|round| bytes(round, 40)).collect();
        assert_eq!(setup.stored(&format!("m{n}")), all);
    }
}

#[test]
fn seeks_and_positions_need_no_system_call() {
    let setup = WriteBackSetup::new("");
    let fd = setup.open("a", NEW);
    setup.write(fd, &bytes(1, 100)).unwrap();
    setup.counting.seen();
    for (offset, whence, at) in
        [(0, libc::SEEK_CUR, 100), (30, libc::SEEK_SET, 30), (-5, libc::SEEK_CUR, 25)]
    {
        assert_eq!(setup.door.seek(fd, offset, whence), Ok(at));
    }
    assert_eq!(setup.counting.seen(), []);
    assert_eq!(setup.door.seek(fd, -10, libc::SEEK_END), Ok(90));
    let kinds: Vec<_> = setup.counting.seen().into_iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [Kind::Stat]);
}

#[test]
fn appended_bytes_do_not_overwrite_those_of_others() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("log", libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND);
    setup.write(fd, b"mine\n").unwrap();
    std::fs::write(setup.door.root().join("log"), b"theirs\n").unwrap();
    setup.write(fd, b"mine too\n").unwrap();
    setup.door.close(fd).unwrap();
    assert_eq!(setup.stored("log"), b"theirs\nmine\nmine too\n");
}

#[test]
fn late_times_still_have_the_right_size() {
    let setup = WriteBackSetup::new("late_times = true");
    let fd = setup.open("a", NEW);
    setup.write(fd, &bytes(1, 100)).unwrap();
    let sizes = [setup.door.fstat(fd), setup.door.stat("a"), setup.door.statx("a")];
    assert_eq!(sizes.map(|stat| stat.unwrap().0), [100; 3]);
    assert_eq!(setup.counting.transfers(), []);
}

#[test]
fn an_error_comes_with_the_next_write_and_nothing_is_lost() {
    let setup = WriteBackSetup::new("block = 100");
    let fd = setup.open("a", NEW);
    setup.counting.failing.store(libc::ENOSPC, Relaxed);
    // The write that fills the block was taken; the next is told.
    assert_eq!(setup.write(fd, &bytes(1, 60)), Ok(60));
    assert_eq!(setup.write(fd, &bytes(2, 60)), Ok(60));
    assert_eq!(setup.write(fd, &bytes(3, 60)), Err(libc::ENOSPC));
    assert_eq!(setup.door.sync(fd, false), Err(libc::ENOSPC));
    assert_eq!(setup.door.seek(fd, 0, libc::SEEK_CUR), Ok(120));
    // It is still there to be read, and is written when there is room again.
    let mut parts = [vec![0; 120]];
    assert_eq!(setup.door.read(fd, &mut parts, Some(0)), Ok(120));
    assert_eq!(parts[0], [bytes(1, 60), bytes(2, 60)].concat());
    setup.counting.failing.store(0, Relaxed);
    assert_eq!(setup.write(fd, &bytes(3, 60)), Ok(60));
    assert_eq!(setup.door.close(fd), Ok(0));
    assert_eq!(setup.stored("a"), [bytes(1, 60), bytes(2, 60), bytes(3, 60)].concat());
}

#[test]
fn an_error_at_close_is_told_by_close() {
    let setup = WriteBackSetup::new("");
    let fd = setup.open("a", NEW);
    setup.write(fd, b"gone").unwrap();
    setup.counting.failing.store(libc::EIO, Relaxed);
    assert_eq!(setup.door.close(fd), Err(libc::EIO));
    setup.counting.failing.store(0, Relaxed);
    // The descriptor is closed, and what was lost does not come back.
    let fd = setup.open("a", libc::O_RDWR);
    assert_eq!(setup.door.fstat(fd).map(|stat| stat.0), Ok(0));
    assert_eq!(setup.door.close(fd), Ok(0));
    assert_eq!(setup.stored("a"), b"");
}

#[test]
fn an_error_of_an_eviction_stays_with_its_file() {
    let setup = WriteBackSetup::new("block = 100\nmemory = 300");
    let a = setup.open("a", NEW);
    let b = setup.open("b", NEW);
    setup.write(a, &bytes(1, 90)).unwrap();
    setup.counting.failing.store(libc::EDQUOT, Relaxed);
    for at in [0, 200, 400] {
        let _ = setup.write_at(b, at, &bytes(2, 90));
    }
    setup.counting.failing.store(0, Relaxed);
    for fd in [a, b] {
        assert_eq!(setup.door.close(fd), Ok(0));
    }
    assert_eq!(setup.stored("a"), bytes(1, 90));
}

#[test]
fn short_writes_are_continued() {
    let setup = WriteBackSetup::new("block = 1000");
    let fd = setup.open("a", NEW);
    setup.counting.most.store(70, Relaxed);
    for at in [300, 0, 100] {
        setup.write_at(fd, at, &bytes(at as u64, 100)).unwrap();
    }
    setup.door.close(fd).unwrap();
    let all = [bytes(0, 100), bytes(100, 100), vec![0; 100], bytes(300, 100)].concat();
    assert_eq!(setup.stored("a"), all);
}

#[test]
fn a_mapping_sees_all_that_is_written_by_any_open_file() {
    let setup = WriteBackSetup::new("");
    let fd = setup.open("a", NEW);
    setup.write(fd, b"before").unwrap();
    let file = setup.door.file(fd).unwrap();
    let action = striate_stack::Action::Map { file: &file, offset: 0, length: 6, writable: false };
    let function = striate_stack::Function::Mmap;
    setup.door.stack.call(&mut striate_stack::Op::on(&file, function, action)).unwrap();
    setup.door.share(fd);
    assert_eq!(setup.stored("a"), b"before");
    setup.door.close(fd).unwrap();
    drop(file);
    // The mapping outlives the descriptor.
    let again = setup.open("a", libc::O_RDWR);
    setup.write(again, b"behind").unwrap();
    assert_eq!(setup.stored("a"), b"behind");
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let setup = WriteBackSetup::new("");
    let fd = setup.open("a", NEW);
    setup.write(fd, b"held").unwrap();
    let file = setup.door.file(fd).unwrap();
    for place in [std::ptr::null_mut(), std::ptr::without_provenance_mut(usize::MAX - 100)] {
        // SAFETY: it is not; the kernel finds that out.
        let memory = || unsafe { striate_stack::Memory::from_raw(place, 64) };
        let write =
            striate_stack::Action::Write { file: &file, memory: memory(), at: None, flags: 0 };
        let read =
            striate_stack::Action::Read { file: &file, memory: memory(), at: Some(0), flags: 0 };
        for action in [write, read] {
            let mut op = striate_stack::Op::on(&file, striate_stack::Function::Write, action);
            assert_eq!(setup.door.stack.call(&mut op), Err(rustix::io::Errno::FAULT));
        }
    }
}

/// Writes of an odd length: the door catches up after others.
const ODD: usize = 125;

#[test]
fn where_the_answer_comes_first_a_full_block_is_written_after_it() {
    let setup = WriteBackSetup::by("block = 1000", Stack::answering_first);
    let fd = setup.open("a", NEW);
    let fill = |blocks: std::ops::Range<u64>| {
        for n in blocks.start * 8..blocks.end * 8 {
            assert_eq!(setup.write(fd, &bytes(n, ODD)), Ok(ODD as u64));
        }
    };
    let file = setup.door.file(fd).unwrap();
    fill(0..1);
    assert_eq!(setup.counting.transfers(), []);
    setup.door.stack.catch_up(&file);
    assert_eq!(setup.counting.transfers(), [(Write, 0, 1000)]);
    setup.door.stack.catch_up(&file);
    assert_eq!(setup.counting.transfers(), []);
    // The write that fills the next block writes the one before, if that is still deferred.
    fill(1..3);
    assert_eq!(setup.counting.transfers(), [(Write, 1000, 1000)]);
    // What is put aside is read, and is part of the size.
    assert_eq!(setup.door.seek(fd, 0, libc::SEEK_END), Ok(3000));
    assert_eq!(setup.counting.transfers(), [(Write, 2000, 1000)]);
    fill(3..4);
    assert_eq!(setup.door.close(fd), Ok(0));
    let expected: Vec<u8> = (0..32).flat_map(|n| bytes(n, ODD)).collect();
    assert_eq!(setup.stored("a"), expected);
}

#[test]
fn what_was_put_aside_and_cannot_be_written_stays() {
    let setup = WriteBackSetup::by("block = 1000", Stack::answering_first);
    let fd = setup.open("a", NEW);
    let file = setup.door.file(fd).unwrap();
    for n in 0..8 {
        assert_eq!(setup.write(fd, &bytes(n, ODD)), Ok(ODD as u64));
    }
    setup.counting.failing.store(libc::ENOSPC, Relaxed);
    setup.door.stack.catch_up(&file);
    // It continues what is put aside, of which nothing is known yet; or finds the error.
    let _ = setup.write(fd, &bytes(8, ODD));
    assert_eq!(setup.door.sync(fd, false), Err(libc::ENOSPC));
    setup.counting.failing.store(0, Relaxed);
    assert_eq!(setup.door.sync(fd, false), Ok(0));
    let expected: Vec<u8> = (0..9).flat_map(|n| bytes(n, ODD)).collect();
    assert_eq!(setup.stored("a")[..1000], expected[..1000]);
    assert_eq!(setup.door.close(fd), Ok(0));
    assert_eq!(setup.stored("a"), expected);
}

/// One writes a stream, another writes what is put aside, and a third reads what is there already.
#[test]
fn what_is_put_aside_is_written_by_whoever_has_time() {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    const BLOCKS: u64 = 300;
    let setup = WriteBackSetup::by("block = 1000", Stack::answering_first);
    let fd = setup.open("a", NEW);
    let file = setup.door.file(fd).unwrap();
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let expected: Vec<u8> = (0..8 * BLOCKS).flat_map(|n| bytes(n, ODD)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                setup.door.stack.catch_up(&file);
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let end = written.load(Relaxed);
                let from = end.saturating_sub(1500);
                let mut room = [vec![0; (end - from) as usize]];
                let count = setup.door.read(fd, &mut room, Some(from as i64)).unwrap();
                assert_eq!(count, end - from);
                assert_eq!(room[0], expected[from as usize..end as usize]);
            }
        });
        for n in 0..8 * BLOCKS {
            setup.write_at(fd, (n as usize * ODD) as i64, &bytes(n, ODD)).unwrap();
            written.store((n + 1) * ODD as u64, Relaxed);
        }
        over.store(true, Relaxed);
    });
    assert_eq!(setup.door.close(fd), Ok(0));
    assert!(setup.stored("a") == expected);
}
