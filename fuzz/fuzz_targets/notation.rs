//! Text that people typed as a datatype.
#![no_main]

#[path = "../bodies/datatype.rs"]
mod datatype;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| datatype::notation(bytes));
