//! Files on RADOS, the object store of Ceph: `rados://pool/namespace/name`.
//!
//! A file is a head object with attributes, one object for each strip that was written, and an
//! entry in the catalogue object of its namespace ([`RadosNamespace`]). [`RadosFile`] is the store:
//! regions become compound operations on strips, several of which are under way at a time. The
//! engine replicates; nothing of our own servers is involved.
//!
//! librados is opened at run time (`library`), so that nothing needs Ceph to build. All requests
//! have the time limit `STRIATE_PATIENCE`.

mod attributes;
mod catalogue;
mod clear;
mod error;
mod file;
mod head;
mod library;
mod lock;
mod namespace;
mod operations;
mod options;
mod transfer;
mod url;

pub use catalogue::RadosFileInfo;
pub use error::RadosError;
pub use file::RadosFile;
pub use library::{RadosSpace, library_version, use_configuration};
pub use namespace::{RadosCreation, RadosNamespace};
pub use options::RadosOptions;
pub use url::{RadosUrl, RadosUrlError};
