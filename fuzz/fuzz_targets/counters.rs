//! Bytes of a file as counters.
#![no_main]

#[path = "../stack_bodies.rs"]
mod stack_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stack_bodies::counters(bytes));
