//! For tests of doors: programs that know nothing of Striate, run without it and by way of a door,
//! in a directory of the same name. Their output and their files must be alike.
//!
//! [`actor`] is a program that does what its seed says and prints every answer it gets, [`scripts`]
//! use programs of other projects, [`STACKS`] are the stacks that must be transparent, [`kills`]
//! kills a command before each of its system calls, and [`build_library`] builds the library that
//! is loaded into programs.
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
