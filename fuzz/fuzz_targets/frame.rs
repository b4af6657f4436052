//! Bytes from the wire as the header of a frame.
#![no_main]

#[path = "../wire_bodies.rs"]
mod wire_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire_bodies::frame(bytes));
