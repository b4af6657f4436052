//! The fuzz target of netCDF headers without a fuzzer: the same assertions on a fixed sequence of
//! inputs.
//!
//! Inputs are the committed seeds and mutants of them. Inputs that once failed are kept among the
//! seeds. Coverage-guided runs of the same body are described in CONTRIBUTING.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/bodies/array.rs"]
mod bodies;
mod headers;

use headers::{attribute, dimension, sample, variable};
use striate_array::format::{Alignment, Format, Header, Type};
use striate_fuzzing::{Mutations, Seeds, assert_committed, drive, write_seeds};

const TARGET: &str = "netcdf_header";
const MUTANTS: usize = 10_000;

#[test]
fn no_bytes_upset_a_header() {
    // Headers consist of words of four bytes, and of some of eight.
    let telling = Mutations::default().bytes;
    let words: Vec<Vec<u8>> =
        telling.iter().flat_map(|&byte| [vec![0, 0, 0, byte], vec![byte; 8]]).collect();
    let mutations = Mutations { words: &words, word_align: 4, ..Mutations::default() };
    drive(TARGET, 0x5EED_0021, MUTANTS, &mutations, bodies::netcdf_header);
}

/// The seeds are also a witness that headers are encoded as they were.
#[test]
fn the_seeds_are_as_committed() {
    assert_committed(TARGET, &made_seeds());
}

/// After seeds were added: `cargo test -p striate-array --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    write_seeds(TARGET, &made_seeds());
}

fn file_of(header: &Header) -> Vec<u8> {
    let mut bytes = header.encode();
    bytes.resize(header.end().unwrap_or_default() as usize, 0);
    bytes
}

/// The seeds that follow from what headers can say.
fn made_seeds() -> Seeds {
    let mut made = Seeds::new();
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
