//! Names and numbers of the calls that programs make on files.
//!
//! A [`Function`] is a function of the C library, a [`Kind`] groups functions that do the same, and
//! a [`LayerFunction`](layer::LayerFunction) is a function of a library above POSIX (MPI-IO). Their
//! numbers are part of the formats of traces and counters; [`layer`] also has the C interface by
//! which the MPI-IO library reports its calls. The crate depends on nothing, so that readers of
//! traces and the MPI-IO library use these names without linking the interception.

mod detail;
mod function;
mod kind;
pub mod layer;

pub use self::detail::Detail;
pub use self::function::Function;
pub use self::kind::{Kind, Kinds};
