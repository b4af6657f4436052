//! Tests of write-behind on one node, without a file above it.

use striate_store::{ErrorKind, FaultPlan, PosixOptions};

use super::*;

fn one_rank(options: &PosixOptions) -> (tempfile::TempDir, Arc<WriteBehind>) {
    let (directory, [only]) = ranks_of_a_file(options);
    (directory, only)
}

/// As many ranks of a file as are asked for.
fn ranks_of_a_file<const RANKS: usize>(
    options: &PosixOptions,
) -> (tempfile::TempDir, [Arc<WriteBehind>; RANKS]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [9; 10]).unwrap();
    let file = Arc::new(PosixFile::open(&path, options).unwrap());
    let SlotMemory { table, windows } = SlotMemory::of(RANKS);
    let memory = striate_comm::alone().node_memory_with_spare(table, windows).unwrap().unwrap();
    let ranks = std::array::from_fn(|rank| {
        Arc::new(
            WriteBehind::new(Arc::clone(&file), memory.section(0, table), rank, RANKS).unwrap(),
        )
    });
    (directory, ranks)
}

#[test]
fn what_a_request_touches_is_written_before() {
    let (directory, store) = one_rank(&PosixOptions::read_write());
    let path = directory.path().join("file");
    assert!(store.is_ready() && WriteBehind::accepts(3));
    assert!(!WriteBehind::accepts(0) && !WriteBehind::accepts(SMALL + 1));
    assert!(store.buffer(WINDOW - 2, b"abc").unwrap());
    assert!(store.buffer(4, b"xy").unwrap());
    let mut back = [0; 8];
    assert_eq!(store.read_at(0, &mut back).unwrap(), 8);
    assert_eq!(&back, &[9, 9, 9, 9, b'x', b'y', 9, 9]);
    assert_eq!(store.len().unwrap(), WINDOW + 1);
    store.disable();
    assert!(!store.is_ready() && !store.buffer(0, b"no").unwrap());
    store.end().unwrap();
    assert_eq!(&std::fs::read(&path).unwrap()[WINDOW as usize - 2..], b"abc");
    let stats = store.stats();
    assert_eq!((stats.operations, stats.accessed), (3, 5));
}

#[test]
fn what_waits_makes_the_file_longer() {
    let (_directory, store) = one_rank(&PosixOptions::read_write());
    let mut back = [7; 4];
    assert!(store.is_ready() && store.buffer(3 * WINDOW, b"end").unwrap());
    assert_eq!(store.read_at(8, &mut back).unwrap(), 4);
    assert_eq!(back, [9, 9, 0, 0]);
    assert!(store.buffer(6 * WINDOW, b"end").unwrap());
    assert_eq!(store.read_at(4 * WINDOW, &mut back).unwrap(), 4);
    assert_eq!(back, [0; 4]);
    assert_eq!(store.read_at(6 * WINDOW + 1, &mut back).unwrap(), 2);
}

#[test]
fn scattered_writes_do_not_wait_for_a_while() {
    let (_directory, store) = one_rank(&PosixOptions::read_write());
    let mut refused = 0;
    for i in 0..1000 {
        if store.is_ready() {
            assert!(store.buffer(i * 7919 * 4096, b"z").unwrap());
        } else {
            refused += 1;
        }
    }
    assert!(refused >= PENALTY.start, "{refused}");
    store.end().unwrap();
}

#[test]
fn an_error_is_returned_once_by_writes_and_until_all_ranks_know_by_sync() {
    let (_directory, store) = one_rank(&PosixOptions::read_only());
    assert!(store.buffer(0, b"abc").unwrap());
    store.flush();
    assert_eq!(store.buffer(0, b"abc").unwrap_err().kind(), ErrorKind::Denied);
    // The program may try again, and gets another error if that fails.
    assert!(store.buffer(0, b"abc").unwrap());
    store.flush();
    assert_eq!(store.buffer(0, b"abc").unwrap_err().kind(), ErrorKind::Denied);
    for _ in 0..2 {
        assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::Denied);
    }
    store.clear_failure();
    assert!(store.buffer(0, b"abc").unwrap());
    assert_eq!(store.end().unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(store.file.len().unwrap(), 10);
}

#[test]
fn writes_go_on_after_the_disk_was_full() {
    let plan: FaultPlan = "out-of-space@1:write".parse().unwrap();
    let options = PosixOptions { faults: Some(Arc::new(plan)), ..PosixOptions::read_write() };
    let (directory, store) = one_rank(&options);
    assert!(store.buffer(0, b"lost").unwrap());
    store.flush();
    assert_eq!(store.buffer(0, b"fail").unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert!(store.buffer(0, b"kept").unwrap());
    assert!(store.sync().is_err(), "the loss is reported before the program relies on the data");
    store.clear_failure();
    store.sync().unwrap();
    store.end().unwrap();
    assert_eq!(&std::fs::read(directory.path().join("file")).unwrap()[..4], b"kept");
}

#[test]
fn writers_take_turns_and_do_not_wait_for_a_dead_one() {
    let (_directory, store) = one_rank(&PosixOptions::read_write());
    let len = 64 << 10;
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    store.write_in_turn(len, || done.fetch_add(1, Ordering::SeqCst));
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 800);
    let writer = &store.shared.header().writer.0;
    assert_eq!(writer.load(Ordering::SeqCst), 0);
    // Killed while it wrote.
    writer.store(77 << 8 | 9, Ordering::SeqCst);
    assert_eq!(store.write_in_turn(len, || 5), 5);
    assert_eq!(writer.load(Ordering::SeqCst), 0, "its turn was taken, and given back");
}

#[test]
fn a_rank_ahead_waits_before_a_window_is_written_that_is_not_full() {
    let (_directory, store) = one_rank(&PosixOptions::read_write());
    // A byte of as many windows as there are slots.
    let mut next = 0;
    while let SlotEntry::Copy { index, .. } = store.enter(next, 0..1, false) {
        store.leave(index);
        next += 1;
    }
    assert!(next > 1 && matches!(store.enter(next, 0..1, false), SlotEntry::Busy));
    // One that is full is written at once.
    let SlotEntry::Copy { index, .. } = store.enter(1, 1..WINDOW as u32, false) else {
        panic!("the window has a slot already");
    };
    // Without a thread, the rank that fills it writes it.
    store.leave(index);
    assert_eq!(store.stats().operations, 1);
    assert!(matches!(store.enter(next, 0..1, false), SlotEntry::Copy { .. }));
    // A request that has waited may have the slot that was not used for the longest time.
    let SlotEntry::Write(claimed) = store.enter(next + 1, 0..1, true) else {
        panic!("a slot can be written");
    };
    assert_eq!(claimed.window, 0);
    store.write_slot(&claimed);
    assert!(matches!(store.enter(next + 1, 0..1, false), SlotEntry::Copy { .. }));
}

#[test]
fn a_rank_ahead_knows_that_others_will_come() {
    let (_directory, [early, late]) = ranks_of_a_file(&PosixOptions::read_write());
    let comm = striate_comm::alone();
    let is_free = || (early.no_rank_is_late(), late.no_rank_is_late());
    assert_eq!(is_free(), (true, true), "in calls of one rank");
    drop(early.announce(comm.as_ref(), 1, 0..4096).unwrap());
    let second = early.announce(comm.as_ref(), 2, 8192..12288).unwrap();
    let first = late.announce(comm.as_ref(), 1, 4096..8192).unwrap();
    assert_eq!(is_free(), (false, true), "the last one has no rank to wait for");
    drop(first);
    assert_eq!(is_free(), (true, true), "in the same call no rank is late");
    drop(second);
    assert_eq!(is_free(), (true, true));
}

#[test]
fn a_rank_waits_before_it_is_too_far_ahead() {
    let (_directory, [early, late]) = ranks_of_a_file(&PosixOptions::read_write());
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
        // Nothing fails in here, or the other thread would wait for ever.
        while made.load(Ordering::SeqCst) < 224 {
            std::thread::yield_now();
        }
        for call in 1..=1000 {
            if call % 50 == 1 {
                // Time for calls that must not happen.
                std::thread::sleep(Duration::from_millis(5));
            }
            // The block of its last call, which the other rank has not come to yet, or has
            // finished.
            ahead.push(made.load(Ordering::SeqCst).saturating_sub(call - 1));
            drop(late.announce(comm.as_ref(), call, block(call - 1)).unwrap());
        }
    });
    // 14 windows hold 224 blocks of either rank; so many calls it may be ahead, and it gets there.
    assert_eq!(ahead.iter().max(), Some(&224), "{ahead:?}");
}
