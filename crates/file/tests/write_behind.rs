//! Write-behind and barrier elision: files and results are the same as without.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{Direction, File, FileError, Hints, Memory, Method, Mode};
use support::Watchdog;

const NEW: Mode = Mode::READ.union(Mode::WRITE).union(Mode::CREATE);

/// Bytes of the file that the random calls are about.
const LEN: usize = 1 << 20;

fn run(ranks: usize, body: impl Fn(&Arc<dyn Comm>) -> Result<(), FileError> + Sync) {
    let _watchdog = Watchdog::new(Duration::from_secs(120), "a test of write-behind");
    Threads::new(ranks).try_run(|comm| body(&comm)).unwrap();
}

fn open(comm: &Arc<dyn Comm>, path: &Path, hints: &str) -> Result<File, FileError> {
    File::open(comm, path, NEW, &hints.parse()?)
}

/// Numbers that all ranks draw alike.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Where each rank writes in a call: disjoint ranges, some of them empty.
fn ranges(draw: &mut Draw, ranks: usize) -> Vec<(usize, usize)> {
    let most = [64, 5000, 16 << 10, 40_000][draw.below(4)];
    let start = draw.below(LEN - ranks * most);
    let mut all: Vec<_> = (0..ranks)
        .map(|i| (start + i * most, if draw.below(8) == 0 { 0 } else { 1 + draw.below(most) }))
        .collect();
    let turned = draw.below(ranks);
    all.rotate_left(turned);
    all
}

/// Sleeps at random, so that ranks get ahead of each other.
fn dawdle(draw: &mut Draw, rank: usize, ranks: usize) {
    if draw.below(6) == 0 && draw.below(ranks) == rank {
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Closes a file, which must have these bytes then.
fn close_and_compare(file: File, path: &Path, model: &[u8], seed: u64) -> Result<(), FileError> {
    let comm = Arc::clone(file.comm());
    file.close()?;
    let found = std::fs::read(path).unwrap();
    assert_eq!(found.len(), model.len(), "seed {seed}");
    assert!(found == model, "seed {seed}: the file");
    comm.barrier()?;
    Ok(())
}

fn random_calls(seed: u64, ranks: usize, hints: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(ranks, |comm| {
        let rank = comm.rank();
        let mut draw = Draw(seed);
        let mut model = vec![0; LEN];
        let mut end = 0;
        let mut file = open(comm, &path, hints)?;
        for call in 0..400 {
            let parts = ranges(&mut draw, ranks);
            let byte = |rank: usize, i: usize| (call * 31 + rank * 7 + i) as u8;
            for (of, &(start, len)) in parts.iter().enumerate() {
                model[start..start + len]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, b)| *b = byte(of, i));
                end = if len > 0 { end.max(start + len) } else { end };
            }
            let (start, len) = parts[rank];
            // Now and then a rank's memory has gaps.
            let (gaps, who) = (draw.below(40) == 0, draw.below(ranks));
            if gaps && who == rank && len > 0 {
                let spread: Vec<u8> = (0..2 * len).map(|i| byte(rank, i / 2)).collect();
                let every_other = Datatype::resized(&Datatype::bytes(1)?, 0, 2)?;
                file.write_at_all(
                    start as u64,
                    Memory::new(&spread, 0, len as u64, &every_other)?,
                )?;
            } else {
                let mine: Vec<u8> = (0..len).map(|i| byte(rank, i)).collect();
                file.write_at_all(start as u64, &mine)?;
            }
            // What a rank wrote it sees, and after all have written all do.
            match draw.below(60) {
                0 => {
                    // No rank is ahead while the others read.
                    comm.barrier()?;
                    let mut back = vec![0; len];
                    file.read_at(start as u64, &mut back)?;
                    assert!(
                        back == model[start..start + len],
                        "seed {seed}, call {call}: its own bytes"
                    );
                    comm.barrier()?;
                }
                1 => {
                    let mut back = vec![0; end];
                    assert_eq!(
                        file.read_at_all(0, &mut back)?,
                        end as u64,
                        "seed {seed}, call {call}"
                    );
                    assert!(back == model[..end], "seed {seed}, call {call}: all bytes");
                }
                2 => file.sync()?,
                3 => {
                    end = end.min(LEN / 2 + draw.below(LEN / 2));
                    model[end..].fill(0);
                    file.set_size(end as u64)?;
                }
                4 => {
                    comm.barrier()?;
                    assert_eq!(file.size()?, end as u64, "seed {seed}, call {call}");
                    comm.barrier()?;
                }
                _ => {}
            }
            dawdle(&mut draw, rank, ranks);
        }
        close_and_compare(file, &path, &model[..end], seed)
    });
}

#[test]
fn later_calls_win_however_late_a_rank_is() {
    for seed in 0..12 {
        random_calls(seed, 2 + seed as usize % 4, "");
        random_calls(seed, 3, "striate_write_behind=enable");
    }
    random_calls(99, 3, "striate_write_behind=disable");
}

/// Ranks that write independently, at disjoint ranges or one after the other; a read sees what was
/// written before.
fn random_calls_alone(seed: u64, ranks: usize, hints: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(ranks, |comm| {
        let rank = comm.rank();
        let mut draw = Draw(seed);
        let mut model = vec![0; LEN];
        let mut end = 0;
        let mut file = open(comm, &path, hints)?;
        for call in 0..1500 {
            let parts = ranges(&mut draw, ranks);
            let byte = |rank: usize, i: usize| (call * 31 + rank * 7 + i) as u8;
            let mut put = |of: usize, start: usize, len: usize| {
                let bytes: Vec<u8> = (0..len).map(|i| byte(of, i)).collect();
                model[start..start + len].copy_from_slice(&bytes);
                end = if len > 0 { end.max(start + len) } else { end };
                bytes
            };
            if draw.below(5) > 0 {
                // All at once, at disjoint ranges.
                for (of, &(start, len)) in parts.iter().enumerate() {
                    let bytes = put(of, start, len);
                    if of == rank {
                        file.write_at(start as u64, &bytes)?;
                    }
                }
            } else {
                // One, and then another over a part of it.
                let ((start, len), who) = (parts[0], draw.below(ranks));
                for (of, len) in [(who, len), ((who + 1) % ranks, len / 2)] {
                    let bytes = put(of, start, len);
                    comm.barrier()?;
                    if of == rank {
                        file.write_at(start as u64, &bytes)?;
                    }
                }
            }
            // Calls of the others must not come before this one's.
            comm.barrier()?;
            match draw.below(40) {
                0 => {
                    let (start, len) = parts[(rank + 1) % ranks];
                    let mut back = vec![0; len];
                    file.read_at(start as u64, &mut back)?;
                    assert!(back == model[start..start + len], "seed {seed}, call {call}");
                    comm.barrier()?;
                }
                1 => {
                    assert_eq!(file.size()?, end as u64, "seed {seed}, call {call}");
                    comm.barrier()?;
                }
                2 => file.sync()?,
                3 => {
                    let (start, len) = parts[rank];
                    let bytes: Vec<u8> = (0..len).map(|i| byte(rank + 1, i)).collect();
                    for (of, &(start, len)) in parts.iter().enumerate() {
                        let bytes: Vec<u8> = (0..len).map(|i| byte(of + 1, i)).collect();
                        model[start..start + len].copy_from_slice(&bytes);
                        end = if len > 0 { end.max(start + len) } else { end };
                    }
                    file.write_at_all(start as u64, &bytes)?;
                }
                _ => {}
            }
        }
        close_and_compare(file, &path, &model[..end], seed)
    });
}

#[test]
fn independent_writes_are_seen_by_all_ranks() {
    for seed in 0..6 {
        random_calls_alone(seed, 2 + seed as usize % 3, "");
    }
    random_calls_alone(7, 3, "striate_write_behind=enable");
    random_calls_alone(8, 3, "striate_write_behind=disable");
}

/// Writes blocks in turn.
fn write_in_turn(file: &mut File, calls: usize, block: usize) -> Result<(), FileError> {
    let (rank, ranks) = (file.comm().rank(), file.comm().size());
    for call in 0..calls {
        let at = (call * ranks + rank) * block;
        let mine: Vec<u8> = (at..at + block).map(|i| (i / 7) as u8).collect();
        file.write_at_all(at as u64, &mine)?;
    }
    Ok(())
}

fn is_in_turn(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(i, byte)| *byte == (i / 7) as u8)
}

/// Four ranks write small blocks in turn, by `write`; some of them by a method that has them wait
/// for more.
fn small_writes(write: impl Fn(&mut File, u64, &Vec<u8>) -> Result<u64, FileError> + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(4, |comm| {
        // Without the hint, and without barriers, it depends on how busy the machine is.
        let mut file = open(comm, &path, "striate_write_behind=enable")?;
        for call in 0..1000 {
            let at = (call * 4 + comm.rank()) * 4096;
            let mine: Vec<u8> = (at..at + 4096).map(|i| (i / 7) as u8).collect();
            write(&mut file, at as u64, &mine)?;
            if call % 8 == 7 {
                comm.barrier()?;
            }
        }
        let all = file.stats_of_all()?;
        let requests: u64 = all.iter().map(|stats| stats.operations).sum();
        let bytes: u64 = all.iter().map(|stats| stats.accessed).sum();
        // How many windows are written before they are whole depends on it all the same.
        assert!(requests < 3000, "{requests} requests");
        assert_eq!(bytes, 16_384_000);
        assert!(file.usage().calls(Method::TwoPhase) > 500);
        file.close()
    });
    assert!(is_in_turn(&std::fs::read(&path).unwrap()));
}

#[test]
fn small_writes_become_few_requests() {
    small_writes(|file, at, mine| file.write_at_all(at, mine));
}

#[test]
fn small_independent_writes_become_few_requests() {
    small_writes(|file, at, mine| file.write_at(at, mine));
}

#[test]
fn buffered_writes_are_flushed_after_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let mut file = open(comm, &path, "striate_write_behind=enable")?;
        write_in_turn(&mut file, 5, 100)?;
        comm.barrier()?;
        let start = Instant::now();
        while std::fs::read(&path).unwrap().len() < 1500 {
            assert!(start.elapsed() < Duration::from_secs(120), "it still waits");
            std::thread::sleep(Duration::from_millis(5));
        }
        comm.barrier()?;
        assert!(is_in_turn(&std::fs::read(&path).unwrap()));
        file.close()
    });
}

#[test]
fn a_second_handle_sees_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(2, |comm| {
        let alone = striate_comm::alone();
        let mut file = open(comm, &path, "striate_write_behind=enable")?;
        write_in_turn(&mut file, 3, 100)?;
        comm.barrier()?;
        let mut other = File::open(&alone, &path, Mode::READ, &Hints::default())?;
        let mut back = vec![0; 600];
        assert_eq!(other.read_at(0, &mut back)?, 600);
        assert!(is_in_turn(&back));
        comm.barrier()?;
        // And from then on at once.
        let mine = [comm.rank() as u8; 100];
        for call in 0..20 {
            file.write_at_all(600 + call * 200 + 100 * comm.rank() as u64, &mine)?;
        }
        comm.barrier()?;
        assert_eq!(other.size()?, 4600);
        other.close()?;
        file.close()
    });
}

#[test]
fn a_file_that_is_dropped_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(2, |comm| {
        let mut file = open(comm, &path, "striate_write_behind=enable")?;
        write_in_turn(&mut file, 40, 100)?;
        comm.barrier()?;
        drop(file);
        comm.barrier()?;
        assert_eq!(std::fs::read(&path).unwrap().len(), 8000);
        Ok(())
    });
    assert!(is_in_turn(&std::fs::read(&path).unwrap()));
}

#[test]
fn a_rank_that_declines_stops_no_other_rank() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let rank = comm.rank();
        let mut file = open(comm, &path, "")?;
        let (mut back, mut refused) = ([0; 10], 0);
        for direction in [Direction::Write, Direction::Read, Direction::Write] {
            for call in 0..100 {
                let at = (call * 3 + rank as u64) * 10;
                if rank == 1 && call % 23 == 22 {
                    let wrong =
                        FileError::Argument { call: "a test", reason: "it is wrong".into() };
                    let error = file.decline_access(direction, wrong).to_string();
                    assert!(error.contains("it is wrong"), "{error}");
                    continue;
                }
                // In a call with a rendezvous, all ranks have the error.
                let done = if direction.is_write() {
                    file.write_at_all(at, &[rank as u8; 10])
                } else {
                    file.read_at_all(at, &mut back)
                };
                refused += u64::from(done.is_err());
                assert!(done.is_ok() || call % 23 == 22, "call {call}: {done:?}");
            }
        }
        assert!(refused < 4, "most of these calls skip the rendezvous");
        file.close()
    });
}
