//! Pure arithmetic of parallel I/O.
//!
//! Functions on numbers and descriptions: no I/O, no threads, nothing that depends on a machine.
//! They compute which server or aggregator is responsible for which bytes, and what an access
//! method will read, send and request, at a cost that does not grow with the number of bytes or
//! regions.

pub mod characteristics;
pub mod file_domain;
pub mod striping;
pub mod targets;
