//! Bytes of a file as a trace.
#![no_main]

#[path = "../bodies/stack.rs"]
mod stack;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stack::trace(bytes));
