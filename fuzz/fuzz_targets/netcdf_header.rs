//! Bytes of a file as its netCDF header.
#![no_main]

#[path = "../array_bodies.rs"]
mod array_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| array_bodies::netcdf_header(bytes));
