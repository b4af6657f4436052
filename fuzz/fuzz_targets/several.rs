//! Bytes of a file as traces of several processes.
#![no_main]

#[path = "../recording_bodies.rs"]
mod recording_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recording_bodies::several(bytes));
