//! The fuzz targets of traces and counters without a fuzzer: the same assertions on a fixed
//! sequence of inputs.
//!
//! Inputs are the committed seeds and mutants of them. Inputs that once failed are kept among the
//! seeds. Coverage-guided runs of the same bodies are described in CONTRIBUTING.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/bodies/stack.rs"]
mod bodies;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_fuzzing::{Mutations, Seeds, assert_committed, drive, write_seeds};
use striate_trace::layer::LayerFunction;
use striate_trace::{
    Call, Detail, Function, Header, LayerRecord, Origin, Record, RecordedCall, Subject, TracedEnd,
    TracedFile, Writer,
};

const MUTANTS: usize = 10_000;

#[test]
fn no_bytes_upset_a_trace() {
    drive_target("trace", 0x5EED_0071, bodies::trace);
}

#[test]
fn no_bytes_upset_counters() {
    drive_target("counters", 0x5EED_0072, bodies::counters);
}

/// The seeds are also a witness that traces are written as they were.
#[test]
fn the_seeds_are_as_committed() {
    assert_committed("trace", &made_seeds());
}

/// After seeds were added: `cargo test -p striate-trace --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    write_seeds("trace", &made_seeds());
    // What a process has counted in its header and first two shards.
    let mut counters = vec![0; 4096 + 2 * 8192];
    counters[..8].copy_from_slice(b"STRCOUNT");
    counters[8] = 1;
    counters[12] = 2;
    counters[32..36].copy_from_slice(b"time");
    counters[56] = 9;
    counters[64] = 7;
    counters[84] = 5;
    counters[256..261].copy_from_slice(b"cp\0a\0");
    counters[1280..1282].copy_from_slice(b"nc");
    for (at, value) in [(640, 3), (664, 5), (4608, 2), (4992, 1), (5376, 4), (7168, 1)] {
        counters[4096 + at] = value;
        counters[4096 + 8192 + at] = value;
    }
    let header = counters[..4096].to_vec();
    let made = Seeds::from([("two_shards".into(), counters), ("header".into(), header)]);
    write_seeds("counters", &made);
}

fn drive_target(target: &str, seed: u64, body: impl Fn(&[u8])) {
    // The first bytes of records among them.
    let bytes = &[0, 1, 4, 0x7F, 0x80, 0x81, 0x82, 0x83, 0xFF];
    let mutations = Mutations { bytes, ..Mutations::default() };
    drive(target, seed, MUTANTS, &mutations, body);
}

/// The seeds that follow from what traces can say: whole files, and what is in a block.
fn made_seeds() -> Seeds {
    let mut made = Seeds::new();
    let directory = tempfile::tempdir().unwrap();
    let mut add = |name: &str, calls: Vec<RecordedCall>| {
        let path = directory.path().join(name);
        let origin =
            Origin { process: 7, parent: 1, command: vec!["cp".into()], ..Origin::default() };
        let header = Header { origin, clock: 1000, began: 2000, ..Header::default() };
        let mut writer = Writer::create(&path, &header).unwrap();
        for (n, call) in calls.into_iter().enumerate() {
            let function = Function::ALL.iter().find(|function| function.kind() == call.kind());
            let record = Record {
                function: *function.unwrap(),
                thread: 7,
                start: 1000 + n as u64 * 50,
                duration: 20 + n as u64,
                outcome: if n % 5 == 4 { Err(5) } else { Ok(512) },
                known: true,
                call,
            };
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let bytes = fs::read(&path).unwrap();
        made.insert(name.to_owned(), bytes);
    };
    add("empty", Vec::new());
    add("every_call", every_call());
    let file = || file(1);
    let write = |n: u64| Call::Write {
        file: file(),
        placed: n.is_multiple_of(3),
        offset: (n != 5).then_some(n * 512),
        length: 512 + n / 8,
        flags: 0,
        parts: 1,
    };
    add("writes", (0..20).map(write).collect());
    made.insert("layers".into(), with_layers(directory.path()));
    // As if it was in a block of layers: a path, a thread, a call at an offset.
    let layers =
        b"\x81\x04/a/b\x83\x09\x80\x29\xd0\x0f\x14\x80\x08\x00\x01\x01\x80\x01\x80\x04\x01";
    made.insert("layer_calls".into(), layers.to_vec());
    // As if it was in a block: a path, a file, a thread, a write, and one like it.
    let block = b"\x81\x04/a/b\x82\x01\x07\x00\x02\x83\x09\x80\x1f\x03\xd0\x0f\x14\x80\x08\x01\x07\x01\x01\x80\x04\x00\x01\x0e\x64\x15";
    made.insert("records".into(), block.to_vec());
    made
}

/// A trace with calls of a layer beside those that it made.
fn with_layers(directory: &Path) -> Vec<u8> {
    let path = directory.join("layers");
    let origin = Origin { process: 7, rank: Some(2), ..Origin::default() };
    let header = Header { origin, clock: 1000, began: 2000, ..Header::default() };
    let mut writer = Writer::create(&path, &header).unwrap();
    for (n, function) in (0..).zip(LayerFunction::ALL) {
        let call = Call::Read {
            file: file(1),
            placed: true,
            offset: Some(n * 64),
            length: 64,
            flags: 0,
            parts: 1,
        };
        let (function, start) = ((*function, Function::Pread), 1000 + n * 100);
        let outcome = if n % 5 == 4 { Err(5) } else { Ok(64) };
        let record = Record {
            function: function.1,
            thread: 7,
            start: start + 10,
            duration: 20,
            outcome,
            known: true,
            call,
        };
        writer.write(&record).unwrap();
        let layer = LayerRecord {
            function: function.0,
            thread: 7,
            start,
            duration: 50,
            outcome,
            path: Path::new("/data/1").into(),
            file: 1,
            offset: (n % 3 != 0).then_some(n as i64),
            length: 64,
            count: 8,
        };
        writer.write_layer(&layer).unwrap();
    }
    writer.finish().unwrap();
    fs::read(&path).unwrap()
}

fn file(number: u64) -> Arc<TracedFile> {
    let path = PathBuf::from(format!("/data/{number}"));
    Arc::new(TracedFile { opener: 7, number, path, flags: libc::O_RDWR })
}

fn every_call() -> Vec<RecordedCall> {
    let path = |text: &str| -> Arc<Path> { Path::new(text).into() };
    let end = |file| TracedEnd { file, descriptor: 4, at: Some(9) };
    vec![
        Call::Open { file: file(1), path: path("/data/1"), flags: 66, mode: 0o644, size: Some(3) },
        Call::Read { file: file(1), placed: true, offset: Some(1), length: 9, flags: 2, parts: 3 },
        Call::Write { file: file(1), placed: false, offset: None, length: 9, flags: 0, parts: 1 },
        Call::Seek { file: file(1), offset: -5, whence: 1 },
        Call::Sync { file: file(1), data_only: true },
        Call::Truncate { file: file(2), length: 70_000 },
        Call::Allocate { file: file(2), mode: 1, offset: 2, length: 3 },
        Call::Stat { of: Subject::File(file(1)), flags: 0, size: Some(5), mode: Some(0o100_644) },
        Call::Stat { of: Subject::Name(path("/data/2")), flags: 256, size: None, mode: None },
        Call::Rename { from: path("/data/1"), to: path("/data/3"), flags: 1 },
        Call::Unlink { path: path("/data/3"), flags: 0 },
        Call::MakeDirectory { path: path("/data/d"), mode: 0o755 },
        Call::ReadDirectory { path: path("/data") },
        Call::Duplicate { file: file(1), descriptor: 5 },
        Call::Control { file: file(1), descriptor: 5, command: 4, argument: 2048 },
        Call::Map { file: file(1), offset: 0, length: 4096, writable: false },
        Call::CopyRange { from: end(Some(file(1))), to: end(Some(file(2))), length: 100 },
        Call::SendFile { from: end(Some(file(1))), to: end(None), length: 100 },
        Call::Notice {
            of: Subject::Name(path("/data/2")),
            detail: Detail::numbers(&[4]).with_text(Some(path("/data/3"))),
        },
        Call::Close { file: file(1), descriptor: 5, last: true },
    ]
}
