//! The fuzz targets of recordings without a fuzzer: the same assertions on a fixed sequence of
//! inputs.
//!
//! Inputs are the committed seeds and mutants of them. Inputs that once failed are kept among the
//! seeds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/bodies/recording.rs"]
mod bodies;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_fuzzing::{Mutations, Seeds, assert_committed, drive, write_seeds};
use striate_testing::darshan_log::{self, Order, Packed};
use striate_trace::{
    Call, Damage, Detail, Function, Header, MultiProcessWriter, Origin, Part, PreopenedFile,
    Record, Subject, TracedFile,
};

const MUTANTS: usize = 1500;

#[test]
fn no_bytes_upset_a_file_of_several_traces() {
    drive_target("multi_process", 0x5EED_0081, |bytes, _| bodies::multi_process(bytes));
}

#[test]
fn no_bytes_upset_an_import_of_strace() {
    drive_target("strace", 0x5EED_0082, bodies::strace);
}

#[test]
fn no_bytes_upset_an_import_of_dxt() {
    drive_target("dxt", 0x5EED_0083, bodies::dxt);
}

#[test]
fn no_bytes_upset_a_reader_of_darshan_logs() {
    drive_target("darshan", 0x5EED_0084, bodies::darshan);
}

/// The seed is also a witness that files of several traces are written as they were.
#[test]
fn the_seed_is_as_committed() {
    assert_committed("multi_process", &made_seeds());
}

/// After seeds were added: `cargo test -p striate-recording --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    write_seeds("multi_process", &made_seeds());
    let mut logs = Seeds::new();
    // Those that are not packed let a fuzzer reach all records.
    for (minor, order, packed) in [
        (0, Order::Little, Packed::Not),
        (10, Order::Big, Packed::Not),
        (21, Order::Little, Packed::Zlib),
        (21, Order::Little, Packed::Bzip2),
        (41, Order::Little, Packed::Not),
    ] {
        let name = format!("{minor}-{order:?}-{packed:?}").to_lowercase();
        let log = darshan_log::example(minor, order, packed);
        logs.insert(name, log.bytes());
    }
    write_seeds("darshan", &logs);
}

fn made_seeds() -> Seeds {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("seed");
    let mut writer = MultiProcessWriter::create(&path).unwrap();
    for process in [7, 8] {
        let origin = Origin { process, parent: 1, rank: Some(process), ..Origin::default() };
        let header = Header { origin, clock: 1000, began: 2000, ..Header::default() };
        let file = |number| {
            let path = PathBuf::from(format!("/data/{number}"));
            TracedFile { opener: process, number, path, flags: libc::O_RDWR }
        };
        let (position, size, descriptors) = (Some(5), None, vec![3, 4]);
        let preopened = [PreopenedFile { file: file(1), position, size, descriptors }];
        let zero = (process == 8).then_some(-5);
        writer
            .begin(&Part { header: &header, source: "a.trace", zero, preopened: &preopened })
            .unwrap();
        for n in 0..10_u64 {
            let file = Arc::new(file(n % 3));
            let call = match n {
                9 => {
                    let of = Subject::Name(Path::new("/data").into());
                    Call::Notice { of, detail: Detail::numbers(&[4, 3]) }
                }
                _ => Call::Write {
                    file,
                    placed: true,
                    offset: Some(n),
                    length: 1,
                    flags: 0,
                    parts: 1,
                },
            };
            let (function, outcome) = (Function::Pwrite, Ok(1));
            let (thread, start) = (process, 1000 + n * 10);
            let record =
                Record { function, thread, start, duration: 5, outcome, known: true, call };
            writer.write((n % 2) as u16, &record).unwrap();
        }
        if process == 7 {
            writer.set_damage(Damage { offset: 99, reason: "it ends within a block".into() });
        }
    }
    writer.finish().unwrap();
    Seeds::from([("two_processes".into(), fs::read(path).unwrap())])
}

fn drive_target(target: &str, seed: u64, body: impl Fn(&[u8], &Path)) {
    let place = tempfile::tempdir().unwrap();
    // What separates the words of text, and numbers that are not text.
    let bytes = b"\n\"\\<>()[]{},=-?09 \x00\x80\xFF";
    let mutations = Mutations { bytes, ..Mutations::default() };
    drive(target, seed, MUTANTS, &mutations, |bytes| body(bytes, place.path()));
}
