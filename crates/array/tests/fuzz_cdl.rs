//! The fuzz target of CDL without a fuzzer: the same assertions on a fixed sequence of inputs.
//!
//! Inputs are the committed seeds and mutants of them, made of words of the language. Inputs that
//! once failed are kept among the seeds.

#[path = "../../../fuzz/bodies/cdl.rs"]
mod bodies;

use striate_fuzzing::{Mutations, drive};

const TARGET: &str = "cdl_text";
const MUTANTS: usize = 200_000;

const WORDS: [&str; 48] = [
    "netcdf",
    "types:",
    "dimensions:",
    "variables:",
    "data:",
    "group: g {",
    "UNLIMITED",
    "int ",
    "char ",
    "string ",
    "double ",
    "ubyte ",
    "enum ",
    "opaque(3) ",
    "compound c {",
    "int(*) ",
    ":a = ",
    "v:a = ",
    "v:_FillValue = ",
    "v:_ChunkSizes = ",
    "v:_Filter = ",
    "(x, t)",
    "(t)",
    "v = ",
    " ;",
    "{",
    "}",
    "{{",
    "}}",
    ", ",
    "_",
    "NaN",
    "-Infinityf",
    "NIL",
    "0x1f",
    "'a'",
    "\"text\"",
    "\"\\x41\\101\\n\"",
    "1b",
    "255ub",
    "1.5e3f",
    "99999999999999999999",
    "-1",
    "9223372036854775807",
    "\\ ",
    "//",
    "/*",
    "/g/x",
];

#[test]
fn no_bytes_upset_the_parser() {
    let words: Vec<Vec<u8>> = WORDS.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mutations = Mutations { bytes: b";{}()=,:\"'\\_0/", words: &words, word_align: 1 };
    drive(TARGET, 0x5EED_0041, MUTANTS, &mutations, bodies::cdl_text);
}
