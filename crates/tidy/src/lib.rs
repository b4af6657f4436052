//! Checks over the sources of the workspace that neither the compiler nor clippy makes.
//!
//! Each module is one check as a pure function from texts to findings; `tests/workspace.rs` applies
//! them to the tree. A finding is a sentence that says what to change. [`Workspace`] reads the tree
//! and the manifests, by `cargo metadata`.
//!
//! The scanner of type names works on lines, not on syntax: sources are formatted by rustfmt, so
//! that a definition begins its line.

pub mod documents;
pub mod drawing;
pub mod packages;
pub mod type_names;
pub mod width;
mod workspace;

pub use workspace::{Package, Source, Workspace};
