//! Memory is bounded by the buffers, not by the request: 64 ranks, a hundred million runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Memory, Mode, View};
use striate_store::NullStore;
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
fn a_hundred_million_runs() {
    let Ok(part) = std::env::var(PART) else { return };
    let _watchdog = Watchdog::new(Duration::from_secs(240), &part);
    let per_node = if part == "one-node" { RANKS } else { RANKS / 4 };
    let nodes: Vec<usize> = (0..RANKS).map(|rank| rank / per_node).collect();
    // Four windows for each node, twice (messages under way), and what ranks copy through.
    let window = 1 << 20;
    let hints: Hints = format!("striate_method=two-phase;cb_buffer_size={window}").parse().unwrap();
    let buffers = (RANKS / per_node) as u64 * 4 * window;

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
