//! The fuzz targets of recordings without a fuzzer: the same assertions on a fixed sequence of inputs.
//!
//! Inputs are the committed seeds with a few things changed. Inputs that once failed are kept among the seeds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/recording_bodies.rs"]
mod recording_bodies;
#[path = "../../darshan/tests/writer/mod.rs"]
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_trace::{
    Call, Damage, Detail, Function, Header, Held, Origin, Part, Record, SeveralWriter, Subject,
    TracedFile,
};

use self::writer::{Order, Packed};

const MUTANTS: usize = 1500;

#[test]
fn no_bytes_upset_a_file_of_several_traces() {
    run_all("several", 0x5EED_0081, |bytes, _| recording_bodies::several(bytes));
}

#[test]
fn no_bytes_upset_an_import_of_strace() {
    run_all("strace", 0x5EED_0082, recording_bodies::strace);
}

#[test]
fn no_bytes_upset_an_import_of_dxt() {
    run_all("dxt", 0x5EED_0083, recording_bodies::dxt);
}

#[test]
fn no_bytes_upset_a_reader_of_darshan_logs() {
    run_all("darshan", 0x5EED_0084, recording_bodies::darshan);
}

/// The seed is also a witness that files of several traces are written as they were.
#[test]
fn the_seed_is_as_committed() {
    assert_eq!(fs::read(directory("several").join("two_processes")).unwrap(), made_seed());
}

/// After seeds were added: `cargo test -p striate-recording --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    fs::create_dir_all(directory("several")).unwrap();
    fs::write(directory("several").join("two_processes"), made_seed()).unwrap();
    fs::create_dir_all(directory("darshan")).unwrap();
    // Those that are not packed let a fuzzer reach all records.
    for (minor, order, packed) in [
        (0, Order::Little, Packed::Not),
        (10, Order::Big, Packed::Not),
        (21, Order::Little, Packed::Zlib),
        (21, Order::Little, Packed::Bzip2),
        (41, Order::Little, Packed::Not),
    ] {
        let name = format!("{minor}-{order:?}-{packed:?}").to_lowercase();
        let log = writer::example(minor, order, packed);
        fs::write(directory("darshan").join(name), log.bytes()).unwrap();
    }
}

fn made_seed() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("seed");
    let mut writer = SeveralWriter::create(&path).unwrap();
    for process in [7, 8] {
        let origin = Origin { process, parent: 1, rank: Some(process), ..Origin::default() };
        let header = Header { origin, clock: 1000, began: 2000, ..Header::default() };
        let file = |number| {
            let path = PathBuf::from(format!("/data/{number}"));
            TracedFile { opener: process, number, path, flags: libc::O_RDWR }
        };
        let (position, size, descriptors) = (Some(5), None, vec![3, 4]);
        let held = [Held { file: file(1), position, size, descriptors }];
        let zero = (process == 8).then_some(-5);
        writer.begin(&Part { header: &header, source: "a.trace", zero, held: &held }).unwrap();
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
    fs::read(path).unwrap()
}

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

/// The committed inputs, in an order that does not depend on the file system.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory(target)).expect("the seeds are committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn run_all(target: &str, seed: u64, body: impl Fn(&[u8], &Path)) {
    let place = tempfile::tempdir().unwrap();
    let seeds = seeds(target);
    for seed in &seeds {
        run(seed, place.path(), &body);
    }
    let mut random = Random(seed);
    for _ in 0..MUTANTS {
        run(&random.mutant(&seeds), place.path(), &body);
    }
}

/// Runs the body; a failure shows the input.
fn run(bytes: &[u8], place: &Path, body: impl Fn(&[u8], &Path)) {
    struct Shown<'a>(&'a [u8]);
    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("input: b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let shown = Shown(bytes);
    body(shown.0, place);
}

/// Marsaglia's xorshift: the same sequence everywhere and always.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }

    /// A byte that often stands between things.
    fn byte(&mut self) -> u8 {
        let telling = *b"\n\"\\<>()[]{},=-?09 \x00\x80\xFF";
        *telling.get(self.below(30)).unwrap_or(&((self.next() >> 24) as u8))
    }

    /// One of the seeds with up to five changes.
    fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(5) {
            let at = self.below(bytes.len() + 1);
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 | 2 if at < bytes.len() => bytes[at] = self.byte(),
                3 => bytes.truncate(at),
                4 => bytes.insert(at, self.byte()),
                5 => {
                    let end = (at + self.below(40)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    let until = (from + self.below(300)).min(other.len());
                    let part = other[from..until].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    }
}
