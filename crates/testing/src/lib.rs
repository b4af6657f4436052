//! For tests of several crates: what they start, what they compare with, and what they read.
//!
//! * `mpi_job` (with the feature `mpi`) starts ranks under `mpiexec` and waits for their end.
//! * [`CephCluster`] is a Ceph cluster in memory, on loopback.
//! * [`type_map`] has the model that datatypes are compared with, a list of byte offsets, and
//!   random descriptions.
//! * [`darshan_log`] writes Darshan logs of versions, byte orders and compressions that no
//!   installed Darshan writes.
//! * [`peak_memory`] is an allocator that knows the most bytes that were allocated at a time.
//! * [`copy_program`] copies a program so that it can be started at once.
//! * [`Moto`] is an S3 server of another project.
//! * [`splitmix`] has numbers that look random and are the same for the same seed.
//!
//! Crates use it for their tests only, so it may depend on crates that are tested with it.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "it is a part of tests, which may panic"
)]

mod ceph_cluster;
pub mod darshan_log;
mod moto;
#[cfg(feature = "mpi")]
pub mod mpi_job;
pub mod peak_memory;
mod program_copy;
pub mod splitmix;
pub mod type_map;

pub use ceph_cluster::CephCluster;
pub use moto::Moto;
pub use program_copy::copy_program;
