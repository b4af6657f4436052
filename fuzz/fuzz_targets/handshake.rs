//! Bytes from the wire as one side of a handshake.
#![no_main]

#[path = "../bodies/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::handshake(bytes));
