//! The door under unmodified programs: our own, in C and Fortran, with and without it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

mod door;
mod failures;
mod lost;
mod programs;
mod symbols;
