//! Bytes of a file as its netCDF header.
#![no_main]

#[path = "../bodies/array.rs"]
mod array;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| array::netcdf_header(bytes));
