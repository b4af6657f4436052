//! Many threads on one object.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Opener, Random};
use crate::store::{LockKind, Region, Store};

const THREADS: usize = 4;

/// Each thread writes every fourth piece, by all forms, in an order of its own; half of them share
/// a handle.
pub(super) fn disjoint_writers(open: &Opener) {
    const PIECE: usize = 1000;
    const PIECES: usize = 240;
    let shared = open();
    thread::scope(|scope| {
        for rank in 0..THREADS {
            let store = if rank % 2 == 0 { Arc::clone(&shared) } else { open() };
            scope.spawn(move || {
                let mut mine: Vec<_> = (0..PIECES).filter(|n| n % THREADS == rank).collect();
                let mut random = Random::new(rank as u64);
                for n in (1..mine.len()).rev() {
                    mine.swap(n, random.below(n + 1));
                }
                for pieces in mine.chunks_mut(6) {
                    let bytes = [rank as u8 + 1; PIECE];
                    if random.below(2) == 0 {
                        for piece in pieces {
                            store.write_at((*piece * PIECE) as u64, &bytes).expect("write");
                        }
                    } else {
                        pieces.sort_unstable();
                        let region = |n: &usize| Region {
                            memory: 0,
                            offset: (n * PIECE) as u64,
                            len: PIECE,
                        };
                        let regions: Vec<_> = pieces.iter().map(region).collect();
                        store.write_list(&regions, &bytes).expect("list");
                    }
                }
            });
        }
    });
    let mut all = vec![0; PIECE * PIECES + 1];
    assert_eq!(shared.read_at(0, &mut all).expect("read"), PIECE * PIECES);
    for (n, piece) in all.chunks_exact(PIECE).enumerate() {
        assert!(piece.iter().all(|&byte| byte as usize == n % THREADS + 1), "piece {n}");
    }
}

/// Byte by byte in one block, round after round, while the object grows.
pub(super) fn neighbours_in_a_block(open: &Opener) {
    const ROUNDS: usize = 60;
    const WIDTH: usize = 37;
    thread::scope(|scope| {
        for rank in 0..THREADS {
            let store = open();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let offset = (round * THREADS + rank) * WIDTH;
                    store.write_at(offset as u64, &[rank as u8 + 1; WIDTH]).expect("write");
                }
            });
        }
    });
    let mut all = vec![0; ROUNDS * THREADS * WIDTH + 1];
    let store = open();
    assert_eq!(store.read_at(0, &mut all).expect("read"), all.len() - 1);
    for (n, piece) in all.chunks_exact(WIDTH).enumerate() {
        assert!(piece.iter().all(|&byte| byte as usize == n % THREADS + 1), "piece {n}");
    }
}

/// Whether a lock is granted soon, or late if that is `expected`: a busy machine is no reason to
/// fail. It is given back, and waited for, in any case.
fn is_free(
    store: &dyn Store,
    range: std::ops::Range<u64>,
    kind: LockKind,
    expected: bool,
    meanwhile: impl FnOnce(),
) -> bool {
    let granted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let lock = store.lock(range, kind).expect("lock");
            granted.store(true, Ordering::SeqCst);
            drop(lock);
        });
        for _ in 0..if expected { 40_000 } else { 200 } {
            if granted.load(Ordering::SeqCst) {
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        let free = granted.load(Ordering::SeqCst);
        meanwhile();
        free
    })
}

pub(super) fn locks_exclude(open: &Opener) {
    use LockKind::{Exclusive, Shared};
    let (one, two) = (open(), open());
    // Against another handle, and against another thread with the same one.
    for other in [&two, &one] {
        for (held, asked, shares) in [
            (Exclusive, Exclusive, false),
            (Exclusive, Shared, false),
            (Shared, Exclusive, false),
            (Shared, Shared, true),
        ] {
            let lock = one.lock(100..200, held).expect("lock");
            let free = is_free(other.as_ref(), 150..160, asked, shares, || drop(lock));
            assert_eq!(free, shares, "{asked:?} while {held:?} is held");
            let lock = one.lock(100..200, held).expect("lock");
            assert!(is_free(other.as_ref(), 200..300, asked, true, || {}), "neighbours are free");
            drop(lock);
        }
    }
    // A user that shares a range keeps it when another user of the same handle releases it.
    let first = one.lock(0..100, Shared).expect("lock");
    let second = one.lock(50..150, Shared).expect("lock");
    drop(first);
    assert!(is_free(two.as_ref(), 0..50, Exclusive, true, || {}));
    assert!(!is_free(two.as_ref(), 60..61, Exclusive, false, || drop(second)));
}

/// Read, add one, write: nothing is lost under an exclusive lock.
pub(super) fn locks_protect_a_counter(open: &Opener) {
    const ROUNDS: u64 = 50;
    let shared = open();
    shared.write_at(0, &0u64.to_le_bytes()).expect("write");
    thread::scope(|scope| {
        for rank in 0..THREADS {
            let store = if rank % 2 == 0 { Arc::clone(&shared) } else { open() };
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let lock = store.lock(0..8, LockKind::Exclusive).expect("lock");
                    let mut bytes = [0; 8];
                    assert_eq!(store.read_at(0, &mut bytes).expect("read"), 8);
                    let next = u64::from_le_bytes(bytes) + 1;
                    store.write_at(0, &next.to_le_bytes()).expect("write");
                    drop(lock);
                }
            });
        }
    });
    let mut bytes = [0; 8];
    shared.read_at(0, &mut bytes).expect("read");
    assert_eq!(u64::from_le_bytes(bytes), ROUNDS * THREADS as u64);
}
