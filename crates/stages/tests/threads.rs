//! Threads of a program use files through a stack at the same time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use striate_stack::Placed;
use support::door::Door;
use support::plain::System;
use support::{bytes, stack, stage};

const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
const THREADS: u64 = 4;
const ROUNDS: u64 = 300;
const RECORD: usize = 40;

fn record(thread: u64, round: u64) -> Vec<u8> {
    bytes(thread * 1000 + round, RECORD)
}

/// Runs threads; meanwhile another does what disturbs stages.
fn together(door: &Door, fds: &[RawFd], shares: bool, act: impl Fn(u64) + Sync) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| {
            for n in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                door.settle();
                let _ = door.stat("a");
                // One after the other in the midst of it, and all at once later.
                if let (true, Some(fd)) = (shares && n % 5 == 4, fds.get(n / 5)) {
                    door.share(*fd);
                }
                if shares && n % 20 == 19 {
                    door.before_fork();
                }
                std::thread::yield_now();
            }
        });
        let act = &act;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || act(thread))).collect();
        let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        disturbing.join().unwrap();
        assert!(ended.iter().all(Result::is_ok));
    });
}

fn stacks() -> Vec<Vec<Placed>> {
    vec![
        vec![stage("write-back", "block = 100\nmemory = 1000")],
        vec![
            stage("read-ahead", "window = 500\nadapt = false"),
            stage("write-back", "block = 1000"),
        ],
        vec![
            stage("write-back", "block = 64\nmemory = 500"),
            stage("read-ahead", "window = 300"),
            stage("align", "stripe = 48"),
        ],
    ]
}

fn each(shares: bool, test: impl Fn(&Door, bool)) {
    for stages in stacks() {
        let root = tempfile::tempdir().unwrap();
        test(&Door::new(root.path(), stack(root.path(), stages)), shares);
    }
}

/// Threads write places of their own by one open file or one each, and read them.
fn places(door: &Door, shares: bool) {
    let one = door.open("a", NEW, 0o600).unwrap();
    let own: Vec<_> = (0..THREADS).map(|_| door.open("a", libc::O_RDWR, 0).unwrap()).collect();
    let fds: Vec<_> = own.iter().copied().chain([one]).collect();
    together(door, &fds, shares, |thread| {
        for round in 0..ROUNDS {
            let fd = if round % 3 == 0 { one } else { own[thread as usize] };
            let at = (round * THREADS + thread) as i64 * RECORD as i64;
            assert_eq!(door.write(fd, &[record(thread, round)], Some(at)), Ok(RECORD as u64));
            let other = if round % 2 == 0 { one } else { own[thread as usize] };
            let mut parts = [vec![0; RECORD]];
            assert_eq!(door.read(other, &mut parts, Some(at)), Ok(RECORD as u64));
            assert_eq!(parts[0], record(thread, round));
        }
    });
    for fd in &fds {
        assert_eq!(door.close(*fd), Ok(0));
    }
    let rounds = (0..ROUNDS).flat_map(|round| (0..THREADS).map(move |thread| (thread, round)));
    let expected: Vec<u8> = rounds.flat_map(|(thread, round)| record(thread, round)).collect();
    assert_eq!(std::fs::read(door.root().join("a")).unwrap(), expected);
}

/// Threads write at the position of one open file, or at the end: no record is lost or torn.
fn records(door: &Door, shares: bool) {
    for append in [0, libc::O_APPEND] {
        let one = door.open("a", NEW | append, 0o600).unwrap();
        together(door, &[one], shares, |thread| {
            for round in 0..ROUNDS {
                let written = door.write(one, &[record(thread, round)], None);
                assert_eq!(written, Ok(RECORD as u64));
            }
        });
        let end = THREADS * ROUNDS * RECORD as u64;
        assert_eq!(door.seek(one, 0, libc::SEEK_CUR), Ok(end));
        assert_eq!(door.close(one), Ok(0));
        let stored = std::fs::read(door.root().join("a")).unwrap();
        let mut found: Vec<_> = stored.chunks(RECORD).map(<[u8]>::to_vec).collect();
        let all =
            (0..THREADS).flat_map(|thread| (0..ROUNDS).map(move |round| record(thread, round)));
        let mut expected: Vec<_> = all.collect();
        found.sort();
        expected.sort();
        assert!(found == expected, "records differ");
    }
}

/// Threads make, write, read and remove files of their own.
fn files(door: &Door, shares: bool) {
    together(door, &[], shares, |thread| {
        for round in 0..ROUNDS / 4 {
            let name = format!("{thread}-{}", round % 3);
            let fd = door.open(&name, NEW, 0o600).unwrap();
            for n in 0..20 {
                assert_eq!(door.write(fd, &[record(thread, n)], None), Ok(RECORD as u64));
            }
            assert_eq!(door.fstat(fd).map(|stat| stat.0), Ok(20 * RECORD as u64));
            let mut parts = [vec![0; RECORD]];
            for n in 0..20 {
                let at = Some(n as i64 * RECORD as i64);
                assert_eq!(door.read(fd, &mut parts, at), Ok(RECORD as u64));
                assert_eq!(parts[0], record(thread, n));
            }
            assert_eq!(door.close(fd), Ok(0));
            assert_eq!(std::fs::read(door.root().join(&name)).unwrap().len(), 20 * RECORD);
            assert_eq!(door.unlink(&name), Ok(0));
        }
    });
}

#[test]
fn threads_write_and_read_places_of_their_own() {
    each(false, places);
    each(true, places);
}

#[test]
fn threads_share_a_position() {
    each(false, records);
}

#[test]
fn threads_share_a_position_that_is_given_back() {
    each(true, records);
}

#[test]
fn threads_have_files_of_their_own() {
    each(false, files);
    each(true, files);
}
