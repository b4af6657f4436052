//! What the wrappers count, record and slow down.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use striate_datatype::Datatype;
use striate_store::trace::RequestForm;
use striate_store::{
    Counted, ErrorKind, LockKind, MemoryPlacement, MemoryStore, Operation, Placement, Region,
    Store, Throttled, Traced, TypedRequest,
};

fn every_other(len: u64) -> TypedRequest {
    let byte = Datatype::bytes(1).unwrap();
    let datatype = Datatype::resized(&byte, 0, 2).unwrap();
    TypedRequest {
        file: Placement { displacement: 0, datatype, start: 0, len },
        memory: MemoryPlacement::contiguous(0, len),
    }
}

fn three() -> [Region; 3] {
    [0, 1, 2].map(|n| Region { memory: n * 2, offset: n as u64 * 10, len: 2 })
}

#[test]
fn a_request_is_one_operation_whatever_its_form() {
    let store = Counted::new(MemoryStore::new("memory"));
    store.write_at(0, b"0123456789").unwrap();
    let before = store.counts();
    store.write_list(&three(), b"abcdef").unwrap();
    store.write_typed(&every_other(5000), &[1; 5000]).unwrap();
    store.read_typed(&every_other(5000), &mut [0; 5000]).unwrap();
    store.read_at(9_990, &mut [0; 100]).unwrap();
    assert!(store.read_at(u64::MAX, &mut [0; 1]).is_err());
    store.sync().unwrap();
    drop(store.lock(0..1, LockKind::Shared).unwrap());
    let counts = store.counts() - before;
    assert_eq!((counts.write.operations, counts.write.bytes), (2, 5006));
    assert_eq!((counts.write.lists, counts.write.typed, counts.write.regions), (1, 1, 3));
    assert_eq!((counts.read.operations, counts.read.failed), (3, 1));
    assert_eq!(counts.read.bytes, 5000 + 9);
    assert_eq!((counts.locks, counts.syncs, counts.others), (1, 1, 0));
}

#[test]
fn a_typed_request_becomes_few_lists() {
    // Expanded by the file below, counted by what the expansion asks for.
    let store = Counted::new(MemoryStore::new("memory"));
    striate_store::expand::write_typed(&store, &every_other(5000), &[1; 5000]).unwrap();
    let counts = store.counts().write;
    assert_eq!((counts.operations, counts.regions), (5, 5000));
}

#[test]
fn a_trace_says_what_happened() {
    let store = Traced::new(MemoryStore::new("memory"), 100);
    store.write_at(5, b"abc").unwrap();
    store.write_list(&three(), b"abcdef").unwrap();
    store.read_typed(&every_other(4), &mut [0; 4]).unwrap();
    assert!(store.set_len(u64::MAX).is_err());
    let (events, lost) = store.take();
    assert_eq!(lost, 0);
    let facts: Vec<_> =
        events.iter().map(|e| (e.operation, e.form, e.offset, e.len, e.outcome)).collect();
    assert_eq!(
        facts,
        [
            (Operation::Write, RequestForm::Contiguous, 5, 3, Ok(3)),
            (Operation::Write, RequestForm::List(3), 0, 6, Ok(6)),
            (Operation::Read, RequestForm::Typed, 0, 4, Ok(4)),
            (Operation::SetLen, RequestForm::Contiguous, 0, u64::MAX, Err(ErrorKind::Malformed)),
        ]
    );
    assert!(events.is_sorted_by_key(|event| event.start));
    assert!(store.take().0.is_empty());
}

#[test]
fn a_trace_is_bounded_or_goes_to_a_callback() {
    let store = Traced::new(MemoryStore::new("memory"), 2);
    for offset in 0..5 {
        store.write_at(offset, b"a").unwrap();
    }
    let (events, lost) = store.take();
    assert_eq!((events.len(), lost, events[0].offset), (2, 3, 3));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let store = Traced::with_callback(MemoryStore::new("memory"), move |event| {
        sink.lock().unwrap().push(event.operation);
    });
    store.sync().unwrap();
    store.len().unwrap();
    assert_eq!(*seen.lock().unwrap(), [Operation::Sync, Operation::Len]);
}

#[test]
fn a_throttled_store_takes_its_time() {
    let latency = Duration::from_millis(5);
    let store = Throttled::new(MemoryStore::new("memory"), latency, Some(1 << 20));
    let begin = Instant::now();
    let bytes = vec![1; 1 << 15];
    store.write_at(0, &bytes).unwrap();
    assert!(begin.elapsed() >= latency + Duration::from_millis(31));
    let begin = Instant::now();
    // The link is shared.
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (store, bytes) = (&store, &bytes);
            scope.spawn(move || store.write_at(n << 15, bytes).unwrap());
        }
    });
    assert!(begin.elapsed() >= Duration::from_millis(62));
}
