//! Bytes of a file as the output of strace.
#![no_main]

#[path = "../bodies/recording.rs"]
mod recording;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let directory = std::env::temp_dir().join(format!("striate-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a place for what is imported");
    recording::strace(bytes, &directory);
});
