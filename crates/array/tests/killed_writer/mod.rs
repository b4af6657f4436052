//! Tests that kill a writer: the writer is this test program in another process, which logs durably
//! what was acknowledged.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An element of a dataset: every value can be computed.
pub(crate) fn value(dataset: u64, variable: u64, row: u64, column: u64) -> i16 {
    let mixed = (dataset * 31 + variable) * 1_000_003 + row * 8191 + column;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as i16 + 1
}

/// The log of a dataset, on rank 0.
pub(crate) fn open_log(path: &Path, rank: usize) -> Option<File> {
    let open = || OpenOptions::new().create(true).append(true).open(path.with_extension("log"));
    (rank == 0).then(|| open().unwrap())
}

/// Appends a line, durably.
pub(crate) fn append_line(log: &mut Option<File>, line: &str) {
    if let Some(log) = log {
        log.write_all(format!("{line}\n").as_bytes()).unwrap();
        log.sync_data().unwrap();
    }
}

/// The complete lines of the log of a dataset.
pub(crate) fn complete_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path.with_extension("log")).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(str::to_owned).collect()
}

/// Starts this program as a writer: the test of that name, with these environment variables.
pub(crate) fn start_writer(test: &str, variables: &[(&str, &OsStr)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a pseudorandom time, then kills the writer by SIGKILL.
pub(crate) fn kill_after(writer: &mut Child, longest: Duration, state: &mut u32) {
    *state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
    std::thread::sleep(longest * (*state >> 16) / (1 << 16));
    writer.kill().unwrap();
    let status = writer.wait().unwrap();
    assert!(status.code().is_none(), "the writer ended before it was killed: {status}");
}
