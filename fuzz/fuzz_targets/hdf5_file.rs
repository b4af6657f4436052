//! Bytes as an HDF5 file.
#![no_main]

#[path = "../bodies/hdf5.rs"]
mod hdf5;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdf5::hdf5_file(bytes));
