//! I/O servers: striped objects that understand structure, and their metadata.

pub mod catalog;
