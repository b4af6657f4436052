//! Files that are striped over I/O servers.
//!
//! A [`Client`] is a file system on servers: it makes, finds, lists and removes files, asks servers
//! about themselves, and holds locks. A file is named by a [`RemoteUrl`]. Its layout comes from the
//! metadata server once; from then on the client talks to the I/O servers directly, over
//! connections that all files of a client share and that outlive each of them (the pool).
//!
//! What the network loses is asked for again ([`ClientOptions`] says how often and for how long),
//! if asking twice does no harm. What remains is an error that names the server.

mod attempts;
mod client;
mod error;
mod feed;
mod file;
mod files;
mod link;
mod lock;
mod maintenance;
mod options;
mod pieces;
mod pool;
mod server_info;
#[cfg(test)]
mod tests;
mod transfer;
mod unsynced;
mod url;

pub use client::Client;
pub use error::{CallError, ServerError};
pub use file::{RemoteFile, RemoteOptions};
pub use files::Layout;
pub use lock::RemoteLock;
#[cfg(feature = "s3")]
pub(crate) use options::patience_from_environment;
pub use options::{ClientOptions, OptionsError};
pub use server_info::{ServerInfo, ServerSpace};
pub use striate_wire::{FileInfo, Frames, HandshakeError, Traffic, WireError};
pub use url::{DEFAULT_PORT, RemoteUrl, UrlError};
