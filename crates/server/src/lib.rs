//! I/O servers: striped objects, transfers that expand descriptions, and metadata.
//!
//! A [`Server`] keeps one object per file, with the strips of the file that lie on it
//! ([`objects`]), and moves bytes between objects and clients according to descriptions
//! ([`transfer`]). One server also stores the names of files ([`catalog`]) and the locks on them.
//! [`Embedded`] are servers within a program.
//!
//! Clients are not trusted: what each can make the server do, hold or wait for is limited
//! ([`settings::Limits`]).

pub mod buffers;
pub mod catalog;
pub mod check;
mod connection;
mod costs;
mod deadline;
mod directory;
mod durability;
pub mod embedded;
pub mod error;
mod locks;
mod metadata;
mod metrics;
pub mod objects;
mod offence_log;
mod registry;
mod requests;
pub mod server;
pub mod settings;
mod state;
pub mod statistics;
pub mod transfer;

pub use embedded::Embedded;
pub use error::ServerError;
pub use server::Server;
pub use settings::address::{AddressError, parse_address};
pub use settings::{DurationError, Limits, Settings, parse_duration};
pub use statistics::Statistics;
