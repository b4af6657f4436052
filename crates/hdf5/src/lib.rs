//! The HDF5 file format: bytes to structures and back.
//!
//! The crate is pure: it has no ranks, no threads, no files and no policy. What is read comes
//! through a trait that gives bytes at offsets; what is written is an image that the caller places.
//! Nothing that is read is trusted: depth, counts and allocations are bounded, checksums are
//! verified, and what cannot be represented is named in an error.
//!
//! [`model`] has the structures, in the words of the format's specification, for reading and
//! writing alike.

#![forbid(unsafe_code)]

pub mod chunk_shape;
pub mod error;
pub mod filter;
pub mod model;

pub use error::{Error, Reason, Result, Structure};
