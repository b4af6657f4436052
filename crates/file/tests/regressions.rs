//! Defects that were found once, each as small as it could be made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faulty;
mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use faulty::FaultyStore;
use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Mode, View};
use striate_store::{MemoryStore, Store};
use support::Watchdog;

const BOTH: Mode = Mode::READ.union(Mode::WRITE);

fn hints(text: &str) -> Hints {
    text.parse().unwrap()
}

fn blocks(blocks: &[(u64, i64)]) -> View {
    let byte = Datatype::bytes(1).unwrap();
    View::new(0, &byte, &Datatype::hindexed(blocks, &byte).unwrap()).unwrap()
}

fn image(object: &MemoryStore) -> Vec<u8> {
    let mut image = vec![0; object.len().unwrap() as usize];
    object.read_at(0, &mut image).unwrap();
    image
}

fn watchdog(name: &str) -> Watchdog {
    Watchdog::new(Duration::from_secs(120), name)
}

/// A ring slot that was still being written was taken for that of a later window that no rank
/// needed.
#[test]
fn a_slow_write_keeps_its_slot_while_empty_windows_pass() {
    let _watchdog = watchdog("a slow write in the ring");
    let object = MemoryStore::new("object");
    let hints = hints("striate_method=two-phase;striate_domains=even;cb_buffer_size=64");
    let written = Threads::new(2).try_run(|comm| {
        let rank = comm.rank();
        let store = FaultyStore::new(&object, if rank == 0 { "delay=30ms@1+:write" } else { "" });
        store.arm(true);
        let mut file = File::on_store(&comm, store, BOTH, &hints)?;
        // Rank 0 has the first window and writes it slowly. Rank 1 has the rest of the ring's first
        // round, then nothing for some rounds, then one more window.
        let some: &[(u64, i64)] = if rank == 0 { &[(64, 0)] } else { &[(192, 64), (64, 1280)] };
        file.set_view(blocks(some))?;
        let data = vec![rank as u8 + 1; if rank == 0 { 64 } else { 256 }];
        let mut written = 0;
        for _ in 0..5 {
            written += file.write_at_all(0, &data)?;
        }
        Ok::<_, FileError>(written)
    });
    assert_eq!(written.unwrap(), [5 * 64, 5 * 256]);
    let expected = [vec![1; 64], vec![2; 192], vec![0; 1024], vec![2; 64]].concat();
    assert_eq!(image(&object), expected);
}

/// A window that a rank wants as a whole was written without a lock, between the read and the write
/// of another rank's sieve.
#[test]
fn a_dense_sieve_waits_for_one_with_gaps() {
    let _watchdog = watchdog("two sieves");
    let object = MemoryStore::new("object");
    let written = Threads::new(2).try_run(|comm| {
        // Between reading back and writing.
        let store =
            FaultyStore::new(&object, if comm.rank() == 0 { "delay=200ms@1:write" } else { "" });
        store.arm(true);
        let mut file = File::on_store(&comm, store, BOTH, &hints("striate_method=sieve"))?;
        let mine: &[(u64, i64)] = if comm.rank() == 0 { &[(10, 0), (10, 20)] } else { &[(10, 10)] };
        file.set_view(blocks(mine))?;
        if comm.rank() == 1 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let data = vec![comm.rank() as u8 + 1; 10 * mine.len()];
        file.write_at(0, &data)
    });
    assert_eq!(written.unwrap(), [20, 10]);
    let expected = [[1; 10], [2; 10], [1; 10]].concat();
    assert_eq!(image(&object), expected);
}

/// A plain write of a thread came between the read and the write of the same rank's sieve.
#[test]
fn a_sieve_spares_what_a_request_of_the_same_rank_writes() {
    let _watchdog = watchdog("a sieve beside a request");
    let object = MemoryStore::new("object");
    let written = Threads::new(1).try_run(|comm| {
        let store = FaultyStore::new(&object, "delay=200ms@1:write");
        store.arm(true);
        let mut file = File::on_store(&comm, store, BOTH, &hints("striate_method=sieve"))?;
        file.set_view(blocks(&[(10, 0), (10, 20)]))?;
        let gaps = file.iwrite_at(0, vec![1; 20])?;
        std::thread::sleep(Duration::from_millis(50));
        file.set_view(blocks(&[(10, 10)]))?;
        file.write_at(0, &[2; 10])?;
        file.wait(gaps).1
    });
    assert_eq!(written.unwrap(), [20]);
    assert_eq!(image(&object), [[1; 10], [2; 10], [1; 10]].concat());
}

/// Waiting for an independent request carried out collective ones, and so waited for other ranks.
#[test]
fn waiting_for_an_independent_request_waits_for_no_other_rank() {
    let _watchdog = watchdog("waiting for an independent request");
    let object = MemoryStore::new("object");
    let moved = Threads::new(2).try_run(|comm| {
        let store: Arc<dyn Store> = Arc::new(object.clone());
        let mut file = File::on_store(&comm, store, BOTH, &Hints::default())?;
        let rank = comm.rank() as u64;
        let together = file.iwrite_at_all(rank, vec![7]);
        if rank == 0 {
            let alone = file.iwrite_at(10, vec![8])?;
            file.wait(alone).1?;
            comm.wait(comm.send(1, 9, vec![1])?)?;
        } else {
            comm.wait(comm.receive(0, 9, 1)?)?;
        }
        file.wait(together).1
    });
    assert_eq!(moved.unwrap(), [1, 1]);
}

/// Collective queries did not complete the nonblocking collective calls before them.
#[test]
fn stats_of_all_include_nonblocking_calls() {
    let _watchdog = watchdog("stats of all");
    let object = MemoryStore::new("object");
    let moved = Threads::new(2).try_run(|comm| {
        let store: Arc<dyn Store> = Arc::new(object.clone());
        let mut file = File::on_store(&comm, store, BOTH, &Hints::default())?;
        let request = file.iwrite_at_all(comm.rank() as u64, vec![7]);
        if comm.rank() == 0 {
            let moved = file.wait(request).1?;
            return Ok((moved, file.stats_of_all()?));
        }
        let stats = file.stats_of_all()?;
        Ok::<_, FileError>((file.wait(request).1?, stats))
    });
    for (moved, stats) in moved.unwrap() {
        assert_eq!(moved, 1);
        assert_eq!(stats.iter().map(|stats| stats.wanted).collect::<Vec<_>>(), [1, 1]);
    }
}

/// A store that panicked on the thread of a request left its waiter waiting.
#[test]
fn a_request_whose_store_panics_ends() {
    let _watchdog = watchdog("a request whose store panics");
    let object = MemoryStore::new("object");
    let ended = Threads::new(1).try_run(|comm| {
        let store = FaultyStore::panicking(&object, 1);
        let mut file = File::on_store(&comm, store.clone(), BOTH, &hints("striate_method=posix"))?;
        store.arm(true);
        let request = file.iwrite_at(0, vec![1; 100])?;
        let (buffer, done) = file.wait(request);
        assert_eq!(buffer, [1; 100]);
        Ok::<_, FileError>(done.map_err(|error| error.to_string()))
    });
    assert!(ended.unwrap()[0].as_ref().unwrap_err().contains("lost its mind"));
}

/// A rank that could not ask for the length failed alone.
#[test]
fn opening_to_append_fails_on_all_ranks_or_none() {
    let _watchdog = watchdog("opening to append");
    let object = MemoryStore::new("object");
    let opened = Threads::new(3).run(|comm| {
        let store = FaultyStore::new(&object, if comm.rank() == 1 { "error@1:len" } else { "" });
        store.arm(true);
        let opened = File::on_store(&comm, store, BOTH | Mode::APPEND, &Hints::default());
        Ok::<_, FileError>(opened.map(drop).map_err(|error| error.to_string()))
    });
    for (rank, opened) in opened.into_iter().enumerate() {
        let error = opened.unwrap().expect_err("all fail");
        assert!(rank == 1 || error.contains("rank 1"), "{rank}: {error}");
    }
}

/// A buffer that the machine does not have ended the process.
#[test]
fn buffers_beyond_memory_are_an_error_or_not_made() {
    let child = "a_collective_with_a_buffer_of_a_terabyte";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", child, "--nocapture"]).env("STRIATE_CHILD", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_collective_with_a_buffer_of_a_terabyte() {
    if std::env::var_os("STRIATE_CHILD").is_none() {
        return;
    }
    let _watchdog = watchdog("a buffer of a terabyte");
    let object = MemoryStore::new("object");
    for exchange in ["auto", "messages"] {
        let hints = hints(&format!(
            "striate_method=two-phase;cb_buffer_size=1TiB;striate_exchange={exchange};cb_nodes=2"
        ));
        let ended = Threads::new(2).run(|comm: Arc<dyn Comm>| {
            let mut file = File::on_store(&comm, Arc::new(object.clone()), BOTH, &hints)?;
            let done = file.write_at_all(10 * comm.rank() as u64, &[1; 10]);
            Ok::<_, FileError>(done.is_ok())
        });
        let ended: Vec<bool> = ended.into_iter().map(Result::unwrap).collect();
        assert_eq!(ended[0], ended[1]);
    }
}
