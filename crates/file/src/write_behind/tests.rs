//! What waits, and what becomes of it.

use striate_store::{ErrorKind, FaultPlan, PosixOptions};

use super::shm_slots::WINDOW;
use super::*;

fn behind(options: &PosixOptions) -> (tempfile::TempDir, Arc<WriteBehind>) {
    let (directory, [only]) = ranks_behind(options);
    (directory, only)
}

/// As many ranks of a file as are asked for.
fn ranks_behind<const RANKS: usize>(
    options: &PosixOptions,
) -> (tempfile::TempDir, [Arc<WriteBehind>; RANKS]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [9; 10]).unwrap();
    let file = Arc::new(PosixFile::open(&path, options).unwrap());
    let (books, spare) = memory_for(RANKS);
    let memory = striate_comm::alone().node_memory_with_spare(books, spare).unwrap().unwrap();
    let ranks = std::array::from_fn(|rank| {
        Arc::new(WriteBehind::new(Arc::clone(&file), memory.clone(), 0, rank, RANKS).unwrap())
    });
    (directory, ranks)
}

#[test]
fn what_is_asked_for_is_written_before() {
    let (directory, behind) = behind(&PosixOptions::read_write());
    let path = directory.path().join("file");
    assert!(behind.is_ready() && WriteBehind::is_for(3));
    assert!(!WriteBehind::is_for(0) && !WriteBehind::is_for(SMALL + 1));
    assert!(behind.put(WINDOW - 2, b"abc").unwrap());
    assert!(behind.put(4, b"xy").unwrap());
    let mut back = [0; 8];
    assert_eq!(behind.read_at(0, &mut back).unwrap(), 8);
    assert_eq!(&back, &[9, 9, 9, 9, b'x', b'y', 9, 9]);
    assert_eq!(behind.len().unwrap(), WINDOW + 1);
    behind.retire();
    assert!(!behind.is_ready() && !behind.put(0, b"no").unwrap());
    behind.end().unwrap();
    assert_eq!(&std::fs::read(&path).unwrap()[WINDOW as usize - 2..], b"abc");
    let stats = behind.stats();
    assert_eq!((stats.operations, stats.accessed), (3, 5));
}

#[test]
fn what_waits_makes_the_file_longer() {
    let (_directory, behind) = behind(&PosixOptions::read_write());
    let mut back = [7; 4];
    assert!(behind.is_ready() && behind.put(3 * WINDOW, b"end").unwrap());
    assert_eq!(behind.read_at(8, &mut back).unwrap(), 4);
    assert_eq!(back, [9, 9, 0, 0]);
    assert!(behind.put(6 * WINDOW, b"end").unwrap());
    assert_eq!(behind.read_at(4 * WINDOW, &mut back).unwrap(), 4);
    assert_eq!(back, [0; 4]);
    assert_eq!(behind.read_at(6 * WINDOW + 1, &mut back).unwrap(), 2);
}

#[test]
fn scattered_bytes_are_given_up_for_a_while() {
    let (_directory, behind) = behind(&PosixOptions::read_write());
    let mut refused = 0;
    for i in 0..1000 {
        if behind.is_ready() {
            assert!(behind.put(i * 7919 * 4096, b"z").unwrap());
        } else {
            refused += 1;
        }
    }
    assert!(refused >= PENALTY.start, "{refused}");
    behind.end().unwrap();
}

#[test]
fn an_error_is_told_once_by_writes_and_until_all_know_by_others() {
    let (_directory, behind) = behind(&PosixOptions::read_only());
    assert!(behind.put(0, b"abc").unwrap());
    behind.settle_all();
    assert_eq!(behind.put(0, b"abc").unwrap_err().kind(), ErrorKind::Denied);
    // The program may try again, and is told again if that fails.
    assert!(behind.put(0, b"abc").unwrap());
    behind.settle_all();
    assert_eq!(behind.put(0, b"abc").unwrap_err().kind(), ErrorKind::Denied);
    for _ in 0..2 {
        assert_eq!(behind.sync().unwrap_err().kind(), ErrorKind::Denied);
    }
    behind.forget_failure();
    assert!(behind.put(0, b"abc").unwrap());
    assert_eq!(behind.end().unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(behind.file.len().unwrap(), 10);
}

#[test]
fn after_a_disk_was_full_writes_go_on() {
    let plan: FaultPlan = "out-of-space@1:write".parse().unwrap();
    let options = PosixOptions { faults: Some(Arc::new(plan)), ..PosixOptions::read_write() };
    let (directory, behind) = behind(&options);
    assert!(behind.put(0, b"lost").unwrap());
    behind.settle_all();
    assert_eq!(behind.put(0, b"told").unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert!(behind.put(0, b"kept").unwrap());
    assert!(behind.sync().is_err(), "what is lost is told before anybody relies on it");
    behind.forget_failure();
    behind.sync().unwrap();
    behind.end().unwrap();
    assert_eq!(&std::fs::read(directory.path().join("file")).unwrap()[..4], b"kept");
}

#[test]
fn writers_take_turns_and_wait_for_nobody_who_is_gone() {
    let (_directory, behind) = behind(&PosixOptions::read_write());
    let len = 64 << 10;
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    behind.one_by_one(len, || done.fetch_add(1, Ordering::SeqCst));
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 800);
    let writer = &behind.shared.head().writer.0;
    assert_eq!(writer.load(Ordering::SeqCst), 0);
    // Killed while it wrote.
    writer.store(77 << 8 | 9, Ordering::SeqCst);
    assert_eq!(behind.one_by_one(len, || 5), 5);
    assert_eq!(writer.load(Ordering::SeqCst), 0, "its place was taken, and left");
}

#[test]
fn who_is_ahead_waits_before_a_window_is_written_that_is_not_whole() {
    let (_directory, behind) = behind(&PosixOptions::read_write());
    // A byte of as many windows as there is room for.
    let mut next = 0;
    while let SlotEntry::Copy(index, _) = behind.enter(next, 0..1, false) {
        behind.leave(index);
        next += 1;
    }
    assert!(next > 1 && matches!(behind.enter(next, 0..1, false), SlotEntry::Busy));
    // One that is whole is written at once.
    let SlotEntry::Copy(index, _) = behind.enter(1, 1..WINDOW as u32, false) else {
        panic!("there is room in a window that is there");
    };
    // Without a thread, who completes it does.
    behind.leave(index);
    assert_eq!(behind.stats().operations, 1);
    assert!(matches!(behind.enter(next, 0..1, false), SlotEntry::Copy(..)));
    // Who has waited may have the one that was not used for the longest time.
    let SlotEntry::Write(claimed) = behind.enter(next + 1, 0..1, true) else {
        panic!("there is something to write");
    };
    assert_eq!(claimed.window, 0);
    behind.write_out(&claimed);
    assert!(matches!(behind.enter(next + 1, 0..1, false), SlotEntry::Copy(..)));
}

#[test]
fn only_who_has_slept_has_waited_for_long() {
    let (_directory, behind) = behind(&PosixOptions::read_write());
    let sleepers = || behind.shared.head().sleepers.load(Ordering::SeqCst);
    let mut wait = Wait::new(&behind);
    // On a busy machine the first yield may already take longer than all of them are meant to, since the core
    // was another's; however long that was, it was no sleep.
    while wait.seen.is_none() {
        assert_eq!(sleepers(), 0, "it only lets others run");
        wait.let_run();
    }
    assert!(wait.is_long() && !wait.has_slept);
    assert_eq!(sleepers(), 1, "it is one of them before it looks for the last time");
    wait.let_run();
    assert!(wait.has_slept);
    drop(wait);
    assert_eq!(sleepers(), 0);
}

#[test]
fn who_is_ahead_knows_that_others_will_come() {
    let (_directory, [early, late]) = ranks_behind(&PosixOptions::read_write());
    let comm = striate_comm::alone();
    let is_free = || (early.nobody_is_late(), late.nobody_is_late());
    assert_eq!(is_free(), (true, true), "in calls of a rank alone");
    drop(early.announce(comm.as_ref(), 1, 0..4096).unwrap());
    let second = early.announce(comm.as_ref(), 2, 8192..12288).unwrap();
    let first = late.announce(comm.as_ref(), 1, 4096..8192).unwrap();
    assert_eq!(is_free(), (false, true), "the last one waits for nobody");
    drop(first);
    assert_eq!(is_free(), (true, true), "in the same call nobody is late");
    drop(second);
    assert_eq!(is_free(), (true, true));
}

#[test]
fn a_rank_waits_before_it_is_too_far_ahead() {
    let (_directory, [early, late]) = ranks_behind(&PosixOptions::read_write());
    let comm = striate_comm::alone();
    let made = AtomicU64::new(0);
    let block = |call: u64| call * 4096..(call + 1) * 4096;
    let mut ahead = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for call in 1..=1000 {
                drop(early.announce(comm.as_ref(), call, block(call)).unwrap());
                made.store(call, Ordering::SeqCst);
            }
        });
        // Nothing fails in here, since the other would wait for ever.
        while made.load(Ordering::SeqCst) < 224 {
            std::thread::yield_now();
        }
        for call in 1..=1000 {
            if call % 50 == 1 {
                // For what must not come.
                std::thread::sleep(Duration::from_millis(5));
            }
            // The block of its last call, which the other has not come to yet, or has done with.
            ahead.push(made.load(Ordering::SeqCst).saturating_sub(call - 1));
            drop(late.announce(comm.as_ref(), call, block(call - 1)).unwrap());
        }
    });
    // 14 windows hold 224 blocks of either rank; so many are the most that it may be ahead, and it gets there.
    assert_eq!(ahead.iter().max(), Some(&224), "{ahead:?}");
}
