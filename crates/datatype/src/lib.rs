//! Concise descriptions of structured accesses.
//!
//! A [`Datatype`] says which bytes, in which order, as a tree of five kinds of loops over byte
//! leaves \[CHING\]. It is built with the constructors MPI users know, normalised as it is built, and
//! never flattened on its way: a [`Cursor`] walks any part of it in steps, [`Pieces`] walks a memory
//! and a file description together, [`Packer`] copies between typed memory and a contiguous stream,
//! and [`Datatype::encode`] writes it in the few bytes that travel to a server.
//!
//! There is no I/O here, and no `unsafe` outside of the copy kernels.

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

/// Deepest nest of loops a description may have. Programs use fewer than ten; the limit bounds the
/// work and stack that a hostile description can ask for.
pub const MAX_DEPTH: u32 = 64;

/// Most loops and leaves a description may have. Long lists are one loop: only structs of many
/// different parts come near.
pub const MAX_NODES: u32 = 1 << 16;
