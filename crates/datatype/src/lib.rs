//! MPI-like datatypes: concise descriptions of structured accesses.
//!
//! A [`Datatype`] describes bytes and their order as a tree of five kinds of loops over byte leaves
//! \[CHING\]. It is built with MPI's constructors, normalised as it is built, and never flattened
//! on the way to storage: a [`Cursor`] walks any part of it, [`Pieces`] walks a memory and a file
//! description in step, [`Packer`] copies between typed memory and a contiguous stream, and
//! [`Datatype::encode`] writes the few bytes that are sent to a server.
//!
//! The crate has no I/O, and no `unsafe` outside of the copy kernels.

mod array;
mod boundary;
mod construct;
mod cursor;
mod datatype;
mod element;
mod encoding;
mod error;
mod flatten;
mod node;
mod normal;
pub mod notation;
mod number;
mod pack;
mod pieces;
mod size;
mod span;
mod strips;

pub use array::{Distribution, Order};
pub use boundary::{Boundary, Point};
pub use cursor::{Cursor, Run, Window};
pub use datatype::Datatype;
pub use element::Element;
pub use encoding::DecodeError;
pub use error::{PackError, TypeError};
pub use node::{Block, Field, Loop, Node};
pub use number::{counted, counted_as, grouped};
pub use pack::{Packer, swap_copy, swap_in_place};
pub use pieces::{Piece, Pieces};
pub use size::{Bytes, SizeError, parse_size};
pub use strips::Strips;

/// Nesting depth of a description at most. Programs use fewer than ten levels; the limit bounds the
/// work and the stack that a malicious description can cause.
pub const MAX_DEPTH: u32 = 64;

/// Loops and leaves of a description at most. A long list is one loop: only structs of many
/// different parts come close.
pub const MAX_NODES: u32 = 1 << 16;
