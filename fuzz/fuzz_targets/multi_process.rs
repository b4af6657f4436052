//! Bytes of a file as traces of several processes.
#![no_main]

#[path = "../bodies/recording.rs"]
mod recording;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recording::multi_process(bytes));
