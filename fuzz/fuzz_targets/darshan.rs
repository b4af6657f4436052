//! Bytes of a file as a Darshan log.
#![no_main]

#[path = "../recording_bodies.rs"]
mod recording_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let directory = std::env::temp_dir().join(format!("striate-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a place for what is imported");
    recording_bodies::darshan(bytes, &directory);
});
