//! Bytes from the wire as one side of a handshake.
#![no_main]

#[path = "../wire_bodies.rs"]
mod wire_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire_bodies::handshake(bytes));
