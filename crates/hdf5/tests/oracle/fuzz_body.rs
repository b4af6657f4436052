//! The fuzz target of files without a fuzzer: the same assertions on a fixed sequence of mutants of
//! files that the HDF5 library makes, with checksums ignored and with checksums verified.

#[path = "../../../../fuzz/bodies/hdf5.rs"]
mod bodies;

use std::fs;

use striate_fuzzing::{Mutations, drive_from};
use striate_hdf5::checksum;

use crate::tools;

/// How many mutants there are; `STRIATE_CASES` says another number.
const MUTANTS: usize = 4000;

#[test]
fn no_bytes_upset_reading() {
    let directory = tempfile::tempdir().unwrap();
    let making = tools::script("seeds.py");
    tools::run(tools::python(), &[tools::text(&making), tools::text(directory.path())]);
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let seeds: Vec<Vec<u8>> = names.iter().map(|name| fs::read(name).unwrap()).collect();
    assert!(seeds.len() >= 15, "{}", seeds.len());
    // Numbers of 2, 4 and 8 bytes: those that mean something, and those just beside.
    let words: Vec<Vec<u8>> =
        [0_u64, 1, 2, 0x7F, 0xFF, 0x100, 0xFFFF, 0xFFFF_FFFF, u64::MAX >> 1, u64::MAX]
            .iter()
            .flat_map(|number| [2, 4, 8].map(|width| number.to_le_bytes()[..width].to_vec()))
            .collect();
    let mutations = Mutations { words: &words, word_align: 2, ..Mutations::default() };
    let cases = std::env::var("STRIATE_CASES").ok().and_then(|cases| cases.parse().ok());
    let mutants = cases.unwrap_or(MUTANTS);
    for ignored in [true, false] {
        checksum::ignore_in_this_thread(ignored);
        drive_from(&seeds, 0x5EED_0028, mutants, &mutations, bodies::hdf5_file);
    }
}
