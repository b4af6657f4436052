//! What goes wrong, by name: below the loops of a file, and around a store.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_datatype::Datatype;
use striate_store::posix::{Intervention, SystemCall, SystemFaults};
use striate_store::{
    ErrorKind, FaultPlan, Faulty, LockKind, MemoryPlacement, MemoryStore, Operation, Placement,
    PosixFile, PosixOptions, Region, Store, TypedRequest, Uring,
};
use tempfile::TempDir;

fn file_with(plan: &str, options: &PosixOptions) -> (TempDir, PathBuf, PosixFile) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let plan: FaultPlan = plan.parse().unwrap();
    let options = PosixOptions { faults: Some(Arc::new(plan)), ..options.clone() };
    let file = PosixFile::open(&path, &options).unwrap();
    (directory, path, file)
}

fn regions(n: usize, len: usize, stride: u64) -> Vec<Region> {
    (0..n).map(|i| Region { memory: i * len, offset: i as u64 * stride, len }).collect()
}

const BOTH: [Uring; 2] = [Uring::Never, Uring::Always];

#[test]
fn short_and_interrupted_transfers_are_continued() {
    for uring in BOTH {
        let plan = "interrupted@1,short-write@1+,short-read@2+,interrupted@4:read";
        let options = PosixOptions { uring, ..PosixOptions::create() };
        let (_directory, path, file) = file_with(plan, &options);
        let content: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        file.write_at(3, &content).unwrap();
        file.write_list(&regions(20, 500, 600), &content).unwrap();
        let mut expected = vec![0; 3];
        expected.extend_from_slice(&content);
        expected.resize(11_900, 0);
        for region in regions(20, 500, 600) {
            expected[region.offset as usize..][..500]
                .copy_from_slice(&content[region.memory..][..500]);
        }
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        let mut back = vec![0; expected.len() + 10];
        assert_eq!(file.read_at(0, &mut back).unwrap(), expected.len());
        assert_eq!(back[..expected.len()], expected);
        let mut back = vec![0; 10_000];
        assert_eq!(file.read_list(&regions(20, 500, 600), &mut back).unwrap(), 10_000);
        assert_eq!(back, content);
    }
}

#[test]
fn the_systems_errors_are_reported_with_their_place() {
    for uring in BOTH {
        let options = PosixOptions { uring, ..PosixOptions::create() };
        let (_directory, path, file) =
            file_with("out-of-space@2:write,error@3:write,error@1:read,error@1:sync", &options);
        file.write_at(0, b"fine").unwrap();
        let error = file.write_at(4096, &[1; 100]).unwrap_err();
        assert!(error.is_out_of_space());
        assert_eq!(
            error.to_string(),
            format!(
                "cannot write 100 bytes at offset 4096 of {}: No space left on device (os error 28)",
                path.display()
            )
        );
        let error = file.write_list(&regions(4, 10, 100), &[0; 40]).unwrap_err();
        assert_eq!((error.kind(), error.range()), (ErrorKind::Io, Some(0..10)));
        let error = file.read_list(&regions(4, 10, 100), &mut [0; 40]).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, Operation::Read));
        let error = file.sync().unwrap_err();
        assert_eq!(error.operation(), Operation::Sync);
        file.sync().unwrap();
    }
}

#[test]
fn a_torn_write_leaves_a_prefix() {
    let (_directory, path, file) = file_with("torn-write@1", &PosixOptions::create());
    assert_eq!(file.write_at(0, b"abcdefgh").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(std::fs::read(&path).unwrap(), b"abcd");
    file.write_at(0, b"abcdefgh").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"abcdefgh");
}

#[test]
fn a_full_device() {
    for uring in BOTH {
        let options = PosixOptions { uring, ..PosixOptions::read_write() };
        let Ok(file) = PosixFile::open("/dev/full", &options) else {
            eprintln!("skipped: no /dev/full");
            return;
        };
        assert!(file.write_at(0, b"x").unwrap_err().is_out_of_space());
        let error = file.write_list(&regions(3, 1, 10), b"abc").unwrap_err();
        assert!(error.is_out_of_space(), "{error}");
    }
}

#[test]
fn a_system_without_rings() {
    let options = PosixOptions { uring: Uring::Always, ..PosixOptions::create() };
    let (_directory, path, file) = file_with("error@1+:open", &options);
    assert!(!file.uses_uring());
    file.write_list(&regions(3, 1, 2), b"abc").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"a\0b\0c");
}

#[derive(Debug)]
struct NoReservations;

impl SystemFaults for NoReservations {
    fn before(&self, call: SystemCall, _: u64, _: usize) -> Intervention {
        // EOPNOTSUPP
        if call == SystemCall::Allocate { Intervention::Fail(95) } else { Intervention::Proceed }
    }
}

#[test]
fn a_file_system_without_reservations() {
    let directory = tempfile::tempdir().unwrap();
    let options = PosixOptions { faults: Some(Arc::new(NoReservations)), ..PosixOptions::create() };
    let path = directory.path().join("object");
    let file = PosixFile::open(&path, &options).unwrap();
    file.write_at(0, b"abc").unwrap();
    file.preallocate(200_000).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len(), &bytes[..3]), (200_000, &b"abc"[..]));
    assert!(bytes[3..].iter().all(|&byte| byte == 0));
    file.preallocate(10).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
}

#[test]
fn files_opened_for_one_direction() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    std::fs::write(&path, b"content").unwrap();
    let file = PosixFile::open(&path, &PosixOptions::read_only()).unwrap();
    let denied =
        |error: striate_store::StoreError| assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    denied(file.write_at(0, b"x").unwrap_err());
    denied(file.write_list(&regions(2, 1, 4), b"ab").unwrap_err());
    denied(file.set_len(0).unwrap_err());
    denied(file.preallocate(100).unwrap_err());
    denied(file.lock(0..1, LockKind::Exclusive).map(|_| ()).unwrap_err());
    drop(file.lock(0..1, LockKind::Shared).unwrap());
    file.sync().unwrap();
    let write_only = PosixOptions { read: false, ..PosixOptions::read_write() };
    let file = PosixFile::open(&path, &write_only).unwrap();
    denied(file.read_at(0, &mut [0; 2]).unwrap_err());
    file.write_at(0, b"C").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"Content");
}

#[test]
fn opening_fails_clearly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none");
    let error = PosixFile::open(&path, &PosixOptions::read_only()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().starts_with(&format!("cannot open {}: No such file", path.display()))
    );
    let exclusive = PosixOptions { exclusive: true, ..PosixOptions::create() };
    PosixFile::open(&path, &exclusive).unwrap().write_at(0, b"abc").unwrap();
    assert_eq!(PosixFile::open(&path, &exclusive).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let truncate = PosixOptions { truncate: true, ..PosixOptions::read_write() };
    assert_eq!(PosixFile::open(&path, &truncate).unwrap().len().unwrap(), 0);
    let direct = PosixOptions { direct: true, ..PosixOptions::read_only() };
    if let Err(error) = PosixFile::open("/proc/self/status", &direct) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("O_DIRECT"), "{error}");
    }
}

#[test]
fn a_wait_for_a_lock_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let limit = Duration::from_millis(50);
    let options = PosixOptions { lock_limit: limit, ..PosixOptions::create() };
    let (one, two) =
        (PosixFile::open(&path, &options).unwrap(), PosixFile::open(&path, &options).unwrap());
    let held = one.lock(0..10, LockKind::Exclusive).unwrap();
    for other in [&one, &two] {
        let begin = Instant::now();
        let error = other.lock(5..6, LockKind::Shared).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begin.elapsed() >= limit);
        assert!(error.to_string().contains("lock 1 byte at offset 5 of"), "{error}");
    }
    drop(held);
    drop(two.lock(5..6, LockKind::Shared).unwrap());
}

fn faulty(plan: &str) -> (MemoryStore, Faulty<MemoryStore>) {
    let store = MemoryStore::new("memory");
    (store.clone(), Faulty::new(store, plan.parse::<FaultPlan>().unwrap()))
}

fn content(store: &MemoryStore) -> Vec<u8> {
    let mut all = vec![0; store.len().unwrap() as usize];
    store.read_at(0, &mut all).unwrap();
    all
}

#[test]
fn faults_around_a_store_hit_their_operation() {
    let (store, faulty) = faulty("error@2:write,out-of-space@3:write,error@1:lock,error@1:len");
    faulty.write_at(0, b"aa").unwrap();
    assert_eq!(faulty.write_at(0, b"bb").unwrap_err().kind(), ErrorKind::Io);
    assert!(faulty.write_list(&regions(2, 1, 1), b"cc").unwrap_err().is_out_of_space());
    assert_eq!(content(&store), b"aa");
    faulty.write_at(0, b"dd").unwrap();
    assert!(faulty.lock(0..1, LockKind::Shared).is_err());
    assert!(faulty.lock(0..1, LockKind::Shared).is_ok());
    assert_eq!(faulty.len().unwrap_err().operation(), Operation::Len);
    assert_eq!(faulty.len().unwrap(), 2);
}

#[test]
fn torn_writes_of_all_forms() {
    let (store, faulty) = faulty("torn-write@1+");
    assert!(faulty.write_at(0, b"abcd").is_err());
    assert_eq!(content(&store), b"ab");
    store.set_len(0).unwrap();
    assert!(faulty.write_list(&regions(3, 2, 4), b"abcdef").is_err());
    assert_eq!(content(&store), b"ab\0\0c");
    store.set_len(0).unwrap();
    let request = TypedRequest {
        file: Placement {
            displacement: 0,
            datatype: Datatype::vector(4, 1, 2, &Datatype::bytes(1).unwrap()).unwrap(),
            start: 0,
            len: 4,
        },
        memory: MemoryPlacement::contiguous(0, 4),
    };
    assert!(faulty.write_typed(&request, b"abcd").is_err());
    assert_eq!(content(&store), b"a\0b");
}

#[test]
fn delays_delay() {
    let (_, faulty) = faulty("delay=30ms@1");
    let begin = Instant::now();
    faulty.sync().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(30));
}
