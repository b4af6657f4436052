//! Random operations on one file, through several descriptors and mappings, compared with a model
//! in memory.
//!
//! Each stack has a mount; what works on it is another process, since a process that waits for its
//! own mount while its memory is locked waits for ever. `STRIATE_FSX_SECONDS=600` goes on for so
//! long under all stacks together; `STRIATE_FSX_SEED=17` starts with that seed, which a failure
//! tells.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod random_file;
#[path = "support/servers.rs"]
mod servers;
mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use random_file::Tester;
use servers::ServerMount;
use striate_unmodified::{STACKS, Stack};
use support::Mount;

/// Operations of one sequence.
const STEPS: u32 = 400;
/// Sequences of each stack, if no time is given.
const ROUNDS: u64 = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What the other process does.
#[test]
#[ignore = "it is started by the others, with a place to work in"]
fn tester() {
    let Ok(path) = std::env::var("STRIATE_FSX_FILE") else { return };
    let (seed, until) = (number("STRIATE_FSX_SEED").unwrap(), number("STRIATE_FSX_UNTIL").unwrap());
    let until = Duration::from_secs(until);
    let start = Instant::now();
    for round in 0.. {
        if if until.is_zero() { round >= ROUNDS } else { start.elapsed() >= until } {
            break;
        }
        let seed = seed + round;
        println!("seed {seed}");
        Tester::new(path.as_ref(), seed).run(STEPS);
    }
}

fn try_stack(name: &str, seconds: u64) {
    let mut mount = Mount::under(Stack::named(name));
    try_file(name, &mount.point("work/file"), seconds);
    mount.end();
}

fn try_file(name: &str, file: &Path, seconds: u64) {
    let first = name.bytes().fold(7_u64, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte));
    let seed = number("STRIATE_FSX_SEED").unwrap_or(first * 1_000_000);
    let output = Command::new("timeout")
        .args(["-s", "KILL", &(seconds * 2 + 120).to_string()])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tester", "--nocapture"])
        .env("STRIATE_FSX_FILE", file)
        .env("STRIATE_FSX_SEED", seed.to_string())
        .env("STRIATE_FSX_UNTIL", seconds.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    let last: Vec<_> = told.lines().rev().take(12).collect();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    assert!(output.status.success(), "{name}: {}\n{last}\n{why}", output.status);
    let rounds = told.lines().filter(|line| line.starts_with("seed ")).count();
    assert!(rounds > 0);
    let steps = rounds * STEPS as usize;
    println!("{name}: {steps} operations in {rounds} sequences from seed {seed} on");
}

/// The same on a mount of servers.
#[test]
fn random_operations_on_servers_agree_with_the_model() {
    let seconds = number("STRIATE_FSX_SECONDS").unwrap_or(0);
    let only = std::env::var("STRIATE_STACKS").ok();
    if only.is_none_or(|only| only.split(';').any(|one| one == "servers")) {
        let mut mount = ServerMount::new();
        try_file("servers", &mount.point("file"), seconds);
        mount.end().unwrap();
    }
}

#[test]
fn random_operations_agree_with_the_model() {
    let seconds = number("STRIATE_FSX_SECONDS").unwrap_or(0);
    let only = std::env::var("STRIATE_STACKS").ok();
    let names: Vec<_> = STACKS
        .iter()
        .map(|stack| stack.name)
        .filter(|name| only.as_ref().is_none_or(|only| only.split(';').any(|one| one == *name)))
        .collect();
    for name in &names {
        try_stack(name, seconds / names.len() as u64);
    }
}

/// The model itself is right: a file system that is known to be good agrees with it.
#[test]
fn the_model_agrees_with_the_source() {
    let place = tempfile::tempdir().unwrap();
    for seed in 0..8 {
        Tester::new(&place.path().join("file"), seed).run(STEPS);
    }
}
