//! Bytes from the wire as all that comes over a connection.
#![no_main]

#[path = "../bodies/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::stream(bytes));
