//! Analysis of recordings: a model, advice, and both as a page, as text and as JSON.
//!
//! [`report`] goes once over a [`Recording`](striate_recording::Recording) in bounded memory and
//! makes a [`Model`], which is also the machine-readable form. [`advice`] applies its rules to it.
//! [`page::render`] makes one self-contained page of a model, [`text::render`] the same for
//! terminals; [`compare`] compares two.
//!
//! The effect of a stack can be measured ([`what_if`]); the caller provides the replay.

pub mod advice;
mod aggregate;
pub mod compare;
pub mod darshan;
pub mod datasets;
mod distinct;
mod durations;
mod formatting;
pub mod model;
pub mod mpi_io;
pub mod page;
pub mod summary;
pub mod table;
pub mod text;
pub mod what_if;

pub use self::advice::Finding;
pub use self::aggregate::{Options, report, report_with};
pub use self::durations::Durations;
pub use self::model::Model;
