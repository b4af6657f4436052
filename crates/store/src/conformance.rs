//! The conformance suite that every store passes: the contract of [`Store`], checked against a
//! plain vector.
//!
//! A test provides a way to make new objects ([`Subject`]) and calls [`check`]. Everything is drawn
//! from fixed seeds; a failure says which step of which seed.
#![allow(clippy::missing_panics_doc, reason = "it panics where the store breaks its contract")]

mod close_to_open;
mod concurrent;
mod random;

use std::sync::Arc;

use striate_datatype::Datatype;

use crate::error::ErrorKind;
use crate::placement::MAX_LEN;
use crate::store::{LockKind, MemoryPlacement, Placement, Region, Store, TypedRequest};
pub use close_to_open::CloseToOpen;
pub use random::Random;

/// Opens one more handle of an object.
pub type Opener = Box<dyn Fn() -> Arc<dyn Store> + Send + Sync>;

/// Makes fresh, empty objects of the store that is checked.
pub trait Subject {
    /// A new object.
    fn fresh(&self) -> Opener;
}

impl<F: Fn() -> Opener> Subject for F {
    fn fresh(&self) -> Opener {
        self()
    }
}

/// Checks the whole contract.
pub fn check(subject: &dyn Subject) {
    ends_and_gaps(subject.fresh()().as_ref());
    nothing_at_all(subject.fresh()().as_ref());
    lengths(subject.fresh()().as_ref());
    malformed(subject.fresh()().as_ref());
    unusual_types(subject.fresh()().as_ref());
    for seed in 1..=4 {
        random::requests(&subject.fresh(), seed);
    }
    concurrent::disjoint_writers(&subject.fresh());
    concurrent::neighbours_in_a_block(&subject.fresh());
    if subject.fresh()().capabilities().locks {
        concurrent::locks_exclude(&subject.fresh());
        concurrent::locks_protect_a_counter(&subject.fresh());
        empty_locks(subject.fresh()().as_ref());
    }
}

fn ends_and_gaps(store: &dyn Store) {
    assert_eq!(store.len().expect("len"), 0);
    let mut buffer = [9; 8];
    assert_eq!(store.read_at(0, &mut buffer).expect("read of an empty object"), 0);
    store.write_at(5, b"abc").expect("write");
    assert_eq!(store.len().expect("len"), 8);
    assert_eq!(store.read_at(0, &mut buffer).expect("read"), 8);
    assert_eq!(&buffer, b"\0\0\0\0\0abc");
    buffer.fill(9);
    assert_eq!(store.read_at(6, &mut buffer).expect("read across the end"), 2);
    assert_eq!(&buffer, b"bc\x09\x09\x09\x09\x09\x09", "what lies after the end stays");
    assert_eq!(store.read_at(8, &mut buffer).expect("read at the end"), 0);
    assert_eq!(store.read_at(1 << 40, &mut buffer).expect("read far after the end"), 0);
    let last = MAX_LEN - buffer.len() as u64;
    assert_eq!(store.read_at(last, &mut buffer).expect("read at the last offset"), 0);
    let far = 5 << 20;
    store.write_at(far, b"z").expect("write after a gap");
    let mut gap = vec![7; 100_000];
    assert_eq!(store.read_at(far - 99_999, &mut gap).expect("read"), gap.len());
    assert!(gap[..99_999].iter().all(|&byte| byte == 0), "gaps read as zeros");
    assert_eq!(gap[99_999], b'z');

    let regions = [
        Region { memory: 4, offset: 6, len: 2 },
        Region { memory: 0, offset: far - 1, len: 4 },
        Region { memory: 6, offset: far + 10, len: 2 },
    ];
    let mut memory = [9; 8];
    assert_eq!(store.read_list(&regions, &mut memory).expect("list across the end"), 4);
    assert_eq!(&memory, b"\0z\x09\x09bc\x09\x09");
    store.sync().expect("sync");
}

fn nothing_at_all(store: &dyn Store) {
    store.write_at(100, &[]).expect("empty write");
    store.write_list(&[], &[]).expect("empty list");
    store.write_list(&[Region { memory: 3, offset: 100, len: 0 }], b"abc").expect("empty region");
    let request = TypedRequest {
        file: Placement::contiguous(100, 0),
        memory: MemoryPlacement::contiguous(0, 0),
    };
    store.write_typed(&request, &[]).expect("empty typed write");
    assert_eq!(store.len().expect("len"), 0, "no bytes extend nothing");
    assert_eq!(store.read_at(0, &mut []).expect("empty read"), 0);
    assert_eq!(store.read_list(&[], &mut []).expect("empty list"), 0);
    assert_eq!(store.read_typed(&request, &mut []).expect("empty typed read"), 0);
}

fn lengths(store: &dyn Store) {
    let content: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8 + 1).collect();
    store.write_at(0, &content).expect("write");
    store.set_len(5_001).expect("cut");
    assert_eq!(store.len().expect("len"), 5_001);
    store.set_len(12_000).expect("extend");
    let mut back = vec![9; 13_000];
    assert_eq!(store.read_at(0, &mut back).expect("read"), 12_000);
    assert_eq!(back[..5_001], content[..5_001]);
    assert!(back[5_001..12_000].iter().all(|&byte| byte == 0), "what was cut is gone");
    store.preallocate(3_000).expect("reserve inside");
    assert_eq!(store.len().expect("len"), 12_000, "a reservation does not cut");
    store.preallocate(200_000).expect("reserve");
    assert_eq!(store.len().expect("len"), 200_000);
    assert_eq!(store.read_at(0, &mut back[..5_001]).expect("read"), 5_001);
    assert_eq!(back[..5_001], content[..5_001], "a reservation keeps the content");
    store.preallocate(0).expect("reserve nothing");
    store.set_len(0).expect("cut to nothing");
    assert_eq!(store.len().expect("len"), 0);
}

fn malformed(store: &dyn Store) {
    store.write_at(0, b"0123456789").expect("write");
    let refused = |result: Result<(), crate::StoreError>, what: &str| {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{what}: {error}");
        assert_eq!(error.object(), store.name());
    };
    let good = Region { memory: 0, offset: 0, len: 2 };
    let bad = [
        Region { memory: 3, offset: 4, len: 2 },
        Region { memory: usize::MAX, offset: 4, len: 2 },
        Region { memory: 0, offset: MAX_LEN - 1, len: 2 },
        Region { memory: 0, offset: u64::MAX, len: 1 },
    ];
    let mut memory = *b"abcd";
    for region in bad {
        refused(store.write_list(&[good, region], &memory), "a list write");
        refused(store.read_list(&[good, region], &mut memory).map(|_| ()), "a list read");
    }
    refused(store.write_at(MAX_LEN - 3, &memory), "a write beyond");
    refused(store.write_at(u64::MAX, &memory), "a write beyond");
    refused(store.read_at(MAX_LEN - 3, &mut memory).map(|_| ()), "a read beyond");
    refused(store.set_len(MAX_LEN + 1), "a length beyond");
    refused(store.preallocate(u64::MAX), "a reservation beyond");
    let byte = Datatype::bytes(1).expect("type");
    let before = Datatype::hindexed(&[(1, 1), (1, -1)], &byte).expect("type");
    let wide = Datatype::hindexed(&[(1, 0), (1, 1 << 62)], &byte).expect("type");
    let file = |displacement, datatype: &Datatype, len| Placement {
        displacement,
        datatype: datatype.clone(),
        start: 0,
        len,
    };
    let four = MemoryPlacement::contiguous(0, 4);
    let bad = [
        (file(0, &before, 2), four.clone()),
        (file(3 << 61, &wide, 2), four.clone()),
        (file(0, &byte, 5), four.clone()),
        (file(0, &byte, u64::MAX), four.clone()),
        (file(0, &Datatype::bytes(0).expect("type"), 1), four.clone()),
        (file(0, &byte, 4), MemoryPlacement::contiguous(1, 4)),
        (file(0, &byte, 2), MemoryPlacement { datatype: before, ..four.clone() }),
        (file(0, &byte, 4), MemoryPlacement { start: 1, ..four }),
    ];
    for (file, placement) in bad {
        let request = TypedRequest { file, memory: placement };
        refused(store.write_typed(&request, &memory), "a typed write");
        refused(store.read_typed(&request, &mut memory).map(|_| ()), "a typed read");
    }
    if store.capabilities().locks {
        let lock = |range| store.lock(range, LockKind::Exclusive).map(|_| ());
        refused(lock(0..u64::MAX), "a lock beyond");
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        refused(lock(5..4), "a backward lock");
    }
    assert_eq!(&memory, b"abcd", "refused reads touch no memory");
    let mut back = [0; 11];
    assert_eq!(store.read_at(0, &mut back).expect("read"), 10);
    assert_eq!(&back[..10], b"0123456789", "refused writes touch nothing");
}

/// Types that descend, overlap in what they read, or reach below their origin.
fn unusual_types(store: &dyn Store) {
    let content: Vec<u8> = (0..5000u32).map(|n| (n % 253) as u8).collect();
    store.write_at(0, &content).expect("write");
    let pair = Datatype::bytes(2).expect("type");
    // 3000 pairs, from the end of the object to its start and beyond its end.
    let backward = Datatype::hvector(3000, 1, -2, &pair).expect("type");
    let request = TypedRequest {
        file: Placement { displacement: 5998, datatype: backward, start: 1, len: 5999 },
        memory: MemoryPlacement::contiguous(0, 5999),
    };
    let mut memory = vec![255; 5999];
    assert_eq!(store.read_typed(&request, &mut memory).expect("backward read"), 5000);
    let place = |position: usize| 5998 - position / 2 * 2 + position % 2;
    for (index, &byte) in memory.iter().enumerate() {
        let expected = content.get(place(index + 1)).copied().unwrap_or(255);
        assert_eq!(byte, expected, "byte {index}");
    }
    let same = Datatype::hvector(3, 1, 1, &pair).expect("type");
    let request = TypedRequest {
        file: Placement { displacement: 10, datatype: same, start: 0, len: 6 },
        memory: MemoryPlacement::contiguous(0, 6),
    };
    assert_eq!(store.read_typed(&request, &mut memory).expect("overlapping read"), 6);
    assert_eq!(memory[..6], [10, 11, 11, 12, 12, 13]);
    let below = Datatype::hindexed(&[(1, -4), (1, 4)], &pair).expect("type");
    let request = TypedRequest {
        file: Placement { displacement: 100, datatype: below.clone(), start: 0, len: 4 },
        memory: MemoryPlacement { origin: 4, datatype: below, count: 1, start: 0 },
    };
    store.write_typed(&request, b"ab......cd").expect("write below the origin");
    let mut back = [0; 10];
    store.read_at(96, &mut back).expect("read");
    assert_eq!((&back[..2], back[2], &back[8..]), (&b"ab"[..], content[98], &b"cd"[..]));
}

fn empty_locks(store: &dyn Store) {
    let _one = store.lock(5..5, LockKind::Exclusive).expect("an empty lock");
    let _two = store.lock(5..5, LockKind::Exclusive).expect("excludes no other lock");
}
