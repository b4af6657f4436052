//! The HDF5 file format: bytes to structures and back.
//!
//! The crate is pure: it has no ranks, no threads, no files and no policy. What is read comes
//! through a trait that gives bytes at offsets; what is written is an image that the caller places.
//! Nothing that is read is trusted: depth, counts and allocations are bounded, checksums are
//! verified, and what cannot be represented is named in an error.
//!
//! [`model`] has the structures, in the words of the format's specification, for reading and
//! writing alike. [`File`] reads: it opens a [`Source`], walks groups, gives attributes and
//! datasets as plain data, lists chunks and reads elements. [`filter`] decodes and encodes chunks.
//! [`netcdf`] shows a file as a netCDF program sees it, and [`mod@write`] makes netCDF-4 files.

#![forbid(unsafe_code)]

mod attributes;
mod blocks;
mod btree;
mod caches;
pub mod checksum;
mod chunk_index;
pub mod chunk_shape;
mod cursor;
mod data;
mod dataset;
pub mod error;
mod file;
pub mod filter;
mod group;
mod heap;
mod message;
pub mod model;
pub mod netcdf;
mod object_header;
mod shared;
mod source;
mod superblock;
mod used_space;
pub mod value;
mod walk;
pub mod write;

pub use dataset::Dataset;
pub use error::{Error, Reason, Result, Structure};
pub use file::File;
pub use source::Source;
pub use superblock::{SIGNATURE, closed_superblock};
pub use used_space::UsedSpace;
pub use value::Value;
