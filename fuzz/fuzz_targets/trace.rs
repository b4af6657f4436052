//! Bytes of a file as a trace.
#![no_main]

#[path = "../stack_bodies.rs"]
mod stack_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stack_bodies::trace(bytes));
