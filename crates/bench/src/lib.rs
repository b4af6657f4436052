//! Workloads and their measurement.
//!
//! Whatever is compared is measured in one run, round by round in turn, so that the noise of a
//! shared machine affects all sides alike; a result is a median with its interval, never a best.

pub mod array;
mod collective;
mod cost;
pub mod insitu;
pub mod io;
#[cfg(feature = "mpi")]
pub mod mpiio;
pub mod pack;
pub mod peer;
pub mod workload;
