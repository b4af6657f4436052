//! The calls that programs make on files, as everything that intercepts, records, counts or repeats them names them.
//!
//! A [`Function`] is a function of the C library, a [`Kind`] what several of them have in common, and a
//! [`LayerFunction`](layer::LayerFunction) a function of a library above POSIX (MPI-IO). Their numbers are part of the
//! formats of traces and counters, and [`layer`] has what two libraries in one process tell each other. The crate depends
//! on nothing, so that the MPI-IO library and readers of traces use these names without the interception itself.

mod detail;
mod function;
mod kind;
pub mod layer;

pub use self::detail::Detail;
pub use self::function::Function;
pub use self::kind::{Kind, Kinds};
