//! Memory is bounded by the buffers, not by the request: 64 ranks, a hundred million runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Memory, MemoryMut, Mode, View};
use striate_store::store::Store;
use striate_store::{MemoryStore, NullStore};
use support::Watchdog;

const RANKS: usize = 64;
const RUNS: u64 = 100_000_000;
const BLOCK: u64 = 16;
const ALLOWED: u64 = 64 << 20;
const PART: &str = "STRIATE_MEMORY";

/// Peak resident memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

/// In a process of its own, so that nothing else is measured.
fn measure(part: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_hundred_million_runs", "--nocapture"]).env(PART, part);
    assert!(child.status().unwrap().success(), "{part}");
}

#[test]
fn ranks_that_share_memory_stay_within_their_buffers() {
    measure("one-node");
}

#[test]
fn ranks_of_four_nodes_stay_within_their_buffers() {
    measure("four-nodes");
}

#[test]
fn messages_of_ranks_that_share_no_memory_stay_within_their_buffers() {
    measure("messages");
}

#[test]
fn messages_that_all_ranks_want_stay_within_the_buffers() {
    measure("the-same-bytes");
}

#[test]
fn a_hundred_million_runs() {
    let Ok(part) = std::env::var(PART) else { return };
    let _watchdog = Watchdog::new(Duration::from_secs(240), &part);
    let per_node = if part == "one-node" { RANKS } else { RANKS / 4 };
    let nodes: Vec<usize> = (0..RANKS).map(|rank| rank / per_node).collect();
    let window = 1 << 20;
    let mut hints: Hints =
        format!("striate_method=two-phase;cb_buffer_size={window}").parse().unwrap();
    if part == "messages" || part == "the-same-bytes" {
        hints = format!("{hints};striate_exchange=messages").parse().unwrap();
    }
    // Four windows for each aggregator, or two and two under way.
    let buffers = (RANKS / per_node) as u64 * 4 * window;
    if part == "the-same-bytes" {
        return all_want_the_same(&nodes, &hints, buffers);
    }

    let count = RUNS / RANKS as u64;
    let block = Datatype::bytes(BLOCK).unwrap();
    let stride = (RANKS as u64 * BLOCK) as i64;
    let filetype = Datatype::resized(&block, 0, stride).unwrap();
    // All of a rank's runs come from the same bytes of memory.
    let memory = Datatype::hvector(count, 1, 0, &block).unwrap();

    let before = peak();
    let start = Instant::now();
    let written = Threads::on_nodes(&nodes).try_run(|comm| {
        let store = Arc::new(NullStore::new());
        let mut file = File::on_store(&comm, store, Mode::READ | Mode::WRITE, &hints)?;
        file.set_view(View::new(comm.rank() as u64 * BLOCK, &block, &filetype)?)?;
        let bytes = [comm.rank() as u8; BLOCK as usize];
        let written = file.write_at_all(0, Memory::new(&bytes, 0, 1, &memory)?)?;
        let accessed = file.stats_of_all()?.iter().map(|stats| stats.accessed).sum::<u64>();
        assert_eq!(accessed, RUNS * BLOCK);
        file.close()?;
        Ok::<_, FileError>(written)
    });
    let took = start.elapsed();
    let grown = peak() - before;
    assert_eq!(written.unwrap(), [count * BLOCK; RANKS]);
    println!(
        "{part}: {RUNS} runs in {took:.1?}, memory grew by {} MiB, buffers are {} MiB",
        grown >> 20,
        buffers >> 20
    );
    assert!(grown <= buffers + ALLOWED, "{part}: grew by {grown} bytes, buffers are {buffers}");
}

/// Every rank reads the same bytes, which the aggregators then send 63 times.
fn all_want_the_same(nodes: &[usize], hints: &Hints, buffers: u64) {
    const BYTES: usize = 48 << 20;
    let source = Arc::new(MemoryStore::new("source"));
    let chunk = vec![7; 1 << 20];
    for offset in (0..BYTES * 2).step_by(chunk.len()) {
        source.write_at(offset as u64, &chunk).unwrap();
    }
    // Each rank keeps a few of the bytes only: its memory is not what is measured.
    let word = Datatype::bytes(4096).unwrap();
    let memory = Datatype::hvector((BYTES / 4096) as u64, 1, 0, &word).unwrap();
    let every_other = Datatype::resized(&word, 0, 8192).unwrap();
    let before = peak();
    let read = Threads::on_nodes(nodes).try_run(|comm| {
        let store = Arc::clone(&source);
        let mut file = File::on_store(&comm, store, Mode::READ, hints)?;
        file.set_view(View::new(0, &word, &every_other)?)?;
        let mut bytes = [0; 4096];
        let read = file.read_at_all(0, MemoryMut::new(&mut bytes, 0, 1, &memory)?)?;
        assert_eq!(bytes, [7; 4096]);
        file.close()?;
        Ok::<_, FileError>(read)
    });
    let grown = peak() - before;
    assert_eq!(read.unwrap(), [BYTES as u64; RANKS]);
    println!("the same bytes: grew by {} MiB, buffers {} MiB", grown >> 20, buffers >> 20);
    assert!(grown <= buffers + ALLOWED, "grew by {grown} bytes, buffers are {buffers}");
}
