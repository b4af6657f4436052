//! Bytes as CDL.
#![no_main]

#[path = "../bodies/cdl.rs"]
mod cdl;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cdl::cdl_text(bytes));
