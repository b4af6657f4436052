//! Locks among processes: the test starts itself several times.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use striate_store::{LockKind, PosixFile, PosixOptions, Store};

const PATH: &str = "STRIATE_STORE_TEST_COUNTER";
const PROCESSES: u64 = 4;
const ROUNDS: u64 = 3000;

/// What each process does: adds to a counter of two halves that must always agree.
fn count(path: &std::ffi::OsStr) {
    let file = PosixFile::open(path, &PosixOptions::read_write()).unwrap();
    for _ in 0..ROUNDS {
        let lock = file.lock(0..16, LockKind::Exclusive).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 16);
        let half = |n: usize| u64::from_le_bytes(bytes[n..n + 8].try_into().unwrap());
        assert_eq!(half(0), half(8));
        let next = (half(0) + 1).to_le_bytes();
        file.write_at(0, &next).unwrap();
        std::thread::yield_now();
        file.write_at(8, &next).unwrap();
        drop(lock);
    }
}

#[test]
fn locked_updates_of_several_processes_lose_nothing() {
    if let Some(path) = std::env::var_os(PATH) {
        return count(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("counter");
    std::fs::write(&path, [0; 16]).unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "locked_updates_of_several_processes_lose_nothing"])
            .env(PATH, &path)
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let bytes = std::fs::read(&path).unwrap();
    let total = PROCESSES * ROUNDS;
    assert_eq!(bytes, [total.to_le_bytes(), total.to_le_bytes()].concat());
}

#[test]
fn a_process_that_ends_lets_go_of_its_locks() {
    const HOLD: &str = "STRIATE_STORE_TEST_HOLD";
    if let Some(path) = std::env::var_os(HOLD) {
        let file = PosixFile::open(path, &PosixOptions::read_write()).unwrap();
        std::mem::forget(file.lock(0..8, LockKind::Exclusive).unwrap());
        std::process::exit(0);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    std::fs::write(&path, [0; 8]).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_ends_lets_go_of_its_locks"])
        .env(HOLD, &path)
        .status()
        .unwrap();
    assert!(status.success());
    let file = PosixFile::open(&path, &PosixOptions::read_write()).unwrap();
    drop(file.lock(0..8, LockKind::Exclusive).unwrap());
}
