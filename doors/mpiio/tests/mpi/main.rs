//! The door under unmodified programs: our own, in C and Fortran, with and without it.

mod door;
mod failures;
#[path = "../../../../crates/comm/tests/job/mod.rs"]
mod job;
mod programs;
mod symbols;
