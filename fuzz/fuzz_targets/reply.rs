//! Bytes from the wire as a reply or a failure.
#![no_main]

#[path = "../wire_bodies.rs"]
mod wire_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire_bodies::reply(bytes));
