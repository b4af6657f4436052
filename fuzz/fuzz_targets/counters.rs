//! Bytes of a file as counters.
#![no_main]

#[path = "../bodies/stack.rs"]
mod stack;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stack::counters(bytes));
