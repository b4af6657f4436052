//! Bytes from the wire as all that comes over a connection.
#![no_main]

#[path = "../wire_bodies.rs"]
mod wire_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire_bodies::stream(bytes));
