//! For tests of doors: programs that know nothing of Striate, run without it and by way of a door, in a directory of
//! the same name. What they tell and what they leave must be alike.
//!
//! There is an [`actor`], which does what its seed says and tells every answer it gets, and there are
//! [`scripts`] that use other people's programs. [`STACKS`] are the stacks that must not be noticed.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "it is a part of tests, which may panic"
)]

pub mod actor;
mod image;
pub mod kills;
mod library;
pub mod scripts;
mod stacks;
mod timed;

use std::time::Duration;

pub use self::image::Image;
pub use self::library::{TestedLibrary, build_library};
pub use self::stacks::{STACKS, Stack};
pub use self::timed::{Ended, run};

/// Longer than anything here takes on a slow machine.
pub const LONGEST: Duration = Duration::from_secs(120);
