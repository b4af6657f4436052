//! A program that is killed loses at most what it had not synced.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::door::Door;
use support::plain::System;
use support::{bytes, stack, stage};

const RECORD: usize = 50;

/// The program, in a process of its own: writes records for ever, and says how many it has synced.
#[test]
fn the_program() {
    let Ok(root) = std::env::var("STRIATE_KILLED_IN") else { return };
    let root = Path::new(&root);
    let door = Door::new(root, stack(root, vec![stage("write-back", "block = 4096")]));
    let fd = door.open("a", libc::O_RDWR | libc::O_CREAT, 0o600).unwrap();
    for n in 0_u64.. {
        door.write(fd, &[bytes(n, RECORD)], None).unwrap();
        if n % 17 == 0 {
            door.sync(fd, true).unwrap();
            // In a line of its own, which the test harness does not take for itself.
            writeln!(std::io::stderr(), "synced {}", n + 1).unwrap();
        }
    }
}

#[test]
fn what_was_synced_survives() {
    for round in 0..8_u64 {
        let root = tempfile::tempdir().unwrap();
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args(["the_program", "--exact", "--nocapture"])
            .env("STRIATE_KILLED_IN", root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let mut synced = 0;
        let mut told = lines.map_while(Result::ok).filter_map(|line| {
            line.strip_prefix("synced ").map(|count| count.parse::<u64>().unwrap())
        });
        for count in told.by_ref().take(1 + 3 * round as usize) {
            synced = count;
        }
        std::thread::sleep(Duration::from_micros(137 * round));
        program.kill().unwrap();
        program.wait().unwrap();
        // What it said before it was killed counts too.
        synced = told.last().unwrap_or(synced);
        let stored = std::fs::read(root.path().join("a")).unwrap();
        assert!(
            synced > 0 && stored.len() >= synced as usize * RECORD,
            "{} of {synced}",
            stored.len()
        );
        for (n, record) in (0..).zip(stored.chunks(RECORD)) {
            assert_eq!(record, &bytes(n, RECORD)[..record.len()], "record {n}");
        }
    }
}
