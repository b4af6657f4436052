//! The fuzz target of netCDF headers without a fuzzer: the same assertions on a fixed sequence of
//! inputs.
//!
//! Inputs are the committed seeds with a few things changed. Inputs that once failed are kept among
//! the seeds. Coverage-guided runs of the same body are described in CONTRIBUTING.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/array_bodies.rs"]
mod array_bodies;
mod headers;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use headers::{attribute, dimension, sample, variable};
use striate_array::format::{Alignment, Format, Header, Type};

const MUTANTS: usize = 10_000;

#[test]
fn no_bytes_upset_a_header() {
    let seeds: Vec<Vec<u8>> = seeds().into_values().collect();
    for seed in &seeds {
        run(seed);
    }
    let mut random = Random(0x5EED_0021);
    for _ in 0..MUTANTS {
        run(&random.mutant(&seeds));
    }
}

/// The seeds are also a witness that headers are encoded as they were.
#[test]
fn the_seeds_are_as_committed() {
    let committed = seeds();
    for (name, bytes) in made_seeds() {
        assert_eq!(committed.get(&name), Some(&bytes), "{name}");
    }
}

/// After seeds were added: `cargo test -p striate-array --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    fs::create_dir_all(directory()).unwrap();
    for (name, bytes) in made_seeds() {
        fs::write(directory().join(name), bytes).unwrap();
    }
}

/// Runs the body; a failure shows the input.
fn run(bytes: &[u8]) {
    struct Shown<'a>(&'a [u8]);
    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("input: b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let shown = Shown(bytes);
    array_bodies::netcdf_header(shown.0);
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/netcdf_header")
}

/// The committed inputs, in an order that does not depend on the file system.
fn seeds() -> BTreeMap<String, Vec<u8>> {
    let seeds: BTreeMap<_, _> = fs::read_dir(directory())
        .expect("the seeds are committed")
        .map(|entry| {
            let path = entry.expect("the directory can be listed").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_default(), fs::read(path).expect("a seed can be read"))
        })
        .collect();
    assert!(!seeds.is_empty(), "no seeds");
    seeds
}

fn file_of(header: &Header) -> Vec<u8> {
    let mut bytes = header.encode();
    bytes.resize(header.end().unwrap_or_default() as usize, 0);
    bytes
}

/// The seeds that follow from what headers can say.
fn made_seeds() -> BTreeMap<String, Vec<u8>> {
    let mut made = BTreeMap::new();
    for format in [Format::Cdf1, Format::Cdf2, Format::Cdf5] {
        let mut add =
            |name: &str, bytes| made.insert(format!("{name}_{}", format.version()), bytes);
        add("empty", Header::new(format).encode());
        let header = sample(format);
        add("sample", file_of(&header));
        let mut unfinished = header.encode();
        unfinished[..4].copy_from_slice(&format.unfinished_magic());
        add("unfinished", unfinished);
        add("streaming", Header { records: Header::STREAMING, ..header.clone() }.encode());
        add("all_types", file_of(&all_types(format)));
        let mut far = header.clone();
        let alignment = Alignment { header: 4096, fixed: 512, fixed_from: 1, record: 4096 };
        far.arrange(&alignment, None).unwrap();
        add("aligned", far.encode());
        let mut overlapping = header;
        overlapping.variables[2].begin = overlapping.variables[1].begin;
        add("overlapping", overlapping.encode());
    }
    made.insert("hdf5".into(), b"\x89HDF\r\n\x1a\n\0\0\0\0".to_vec());
    made
}

/// A variable and an attribute of every type.
fn all_types(format: Format) -> Header {
    let mut header = Header { dimensions: vec![dimension("x", 3)], ..Header::new(format) };
    for external in Type::ALL.into_iter().filter(|external| external.is_in(format)) {
        let values = striate_array::Values::from_bytes(external, &[1; 24]);
        header.attributes.push(attribute(external.name(), values));
        header.variables.push(variable(external.name(), external, &[0]));
    }
    header.arrange(&Alignment::default(), None).unwrap();
    header
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

    fn of<'a>(&mut self, items: &'a [Vec<u8>]) -> &'a [u8] {
        &items[self.below(items.len())]
    }

    /// A byte that is often where a number or a length ends.
    fn byte(&mut self) -> u8 {
        let telling = [0, 1, 4, 0x7F, 0x80, 0xFF];
        *telling.get(self.below(12)).unwrap_or(&((self.next() >> 24) as u8))
    }

    /// One of the seeds with up to four changes.
    fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.of(seeds).to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(8) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 | 2 if at < bytes.len() => bytes[at] = self.byte(),
                3 => bytes.truncate(at),
                // Headers consist of words.
                4 => {
                    let word = [0, 0, 0, self.byte()];
                    bytes.splice(at / 4 * 4..at / 4 * 4, word);
                }
                5 => {
                    let word = [self.byte(); 8];
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&word[..end - at]);
                }
                6 => {
                    let end = (at + self.below(12)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let other = self.of(seeds);
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        bytes
    }
}
