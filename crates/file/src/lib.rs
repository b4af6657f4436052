//! Parallel files: many ranks open one file together, see it through views, and access it by one of
//! five methods.
//!
//! [`File`] is a store, a [`View`] and [`Hints`]. A call is turned into an *access* (which bytes of
//! memory meet which bytes of the file, as descriptions) and carried out by a method, one file each
//! under `method/`. What a call costs is counted where it happens: at the store.
//!
//! The semantics are those of MPI-IO; `file.rs` states them.

mod access;
mod auto;
mod collective;
mod cost;
mod error;
mod file;
mod hints;
mod memory;
mod method;
mod mode;
mod request;
mod stats;
mod view;

pub use cost::CostModel;
pub use error::FileError;
pub use file::File;
pub use hints::{DomainChoice, Exchange, Hints, MethodChoice, Switch};
pub use memory::{Memory, MemoryMut};
pub use mode::Mode;
pub use request::Request;
pub use stats::{CallReport, Stats};
pub use striate_layout::characteristics::Method;
pub use view::View;
