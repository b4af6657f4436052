//! Stored bytes of a chunk, with a filter pipeline.
#![no_main]

#[path = "../bodies/hdf5_filter.rs"]
mod hdf5_filter;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdf5_filter::hdf5_filter(bytes));
