//! Fuzz bodies without a fuzzer: committed seeds and a fixed sequence of mutants, for a stable
//! compiler.
//!
//! A fuzz body is a plain function of bytes that asserts what holds of every input. The targets in
//! `fuzz/` give it to libFuzzer; the tests of a crate give it to [`drive`], which runs it on the
//! committed seeds of its target and on mutants of them. The sequence of mutants depends on a
//! number that the test chooses and on nothing else, so a failure repeats. An input that once
//! failed is kept among the seeds.

mod mutation;
mod random;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub use mutation::Mutations;
pub use random::Random;

/// Inputs of a target by the names of their files.
pub type Seeds = BTreeMap<String, Vec<u8>>;

/// The directory of a target's seeds.
pub fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

/// The committed seeds of a target, of which there must be some.
///
/// # Panics
///
/// If they cannot be read.
pub fn seeds(target: &str) -> Seeds {
    let entries = fs::read_dir(directory(target)).expect("the seeds are committed");
    let seeds: Seeds = entries
        .map(|entry| {
            let path = entry.expect("the directory can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, fs::read(path).expect("a seed can be read"))
        })
        .collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

/// Each of these inputs is a committed seed, byte for byte: a witness that a format has not
/// changed.
///
/// # Panics
///
/// If one is not.
pub fn assert_committed(target: &str, made: &Seeds) {
    let committed = seeds(target);
    for (name, bytes) in made {
        assert_eq!(committed.get(name), Some(bytes), "{target}/{name}");
    }
}

/// Writes seeds to the directory of a target, for tests that are run by hand after a format has
/// grown.
///
/// # Panics
///
/// If a file cannot be written.
pub fn write_seeds(target: &str, made: &Seeds) {
    let directory = directory(target);
    fs::create_dir_all(&directory).expect("the directory can be made");
    for (name, bytes) in made {
        fs::write(directory.join(name), bytes).expect("a seed can be written");
    }
}

/// Runs a body on the seeds of a target, then on so many mutants of them. `seed` is that of the
/// mutants.
pub fn drive(
    target: &str,
    seed: u64,
    mutants: usize,
    mutations: &Mutations<'_>,
    body: impl Fn(&[u8]),
) {
    let seeds: Vec<Vec<u8>> = seeds(target).into_values().collect();
    drive_from(&seeds, seed, mutants, mutations, body);
}

/// The same from seeds that the caller has.
pub fn drive_from(
    seeds: &[Vec<u8>],
    seed: u64,
    mutants: usize,
    mutations: &Mutations<'_>,
    body: impl Fn(&[u8]),
) {
    for seed in seeds {
        run(seed, &body);
    }
    let mut random = Random::new(seed);
    for _ in 0..mutants {
        run(&mutations.mutant(&mut random, seeds), &body);
    }
}

/// Runs a body on one input, which standard error shows if the body panics.
pub fn run(bytes: &[u8], body: impl Fn(&[u8])) {
    let shown = ShownOnPanic(bytes);
    body(shown.0);
}

/// Prints an input if it is dropped by a panic.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("input: b\"{}\"", self.0.escape_ascii());
        }
    }
}
