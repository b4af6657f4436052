//! What code needs that runs inside of processes of other programs, and of files that it writes there.
//!
//! Code of a library that is loaded into a program must neither end that program nor slow it down: a message must not raise
//! `SIGPIPE` ([`say`], [`StartupStderr`]), a file must not reach a limit ([`limits`]), and a lock should cost nothing while there is
//! one thread ([`lock`]). [`clock`] reads the time cheaply, [`Origin`] says which process this is, [`part_file`] gives a
//! file its name when it is whole, and [`reopen`] opens a file again only if it is still the same one.
//!
//! Its users are the interception (`striate-stack`), what it writes down (`striate-trace`) and the MPI-IO library, which
//! have nothing else in common.

pub mod clock;
pub mod limits;
pub mod lock;
pub mod origin;
pub mod part_file;
pub mod reopen;
pub mod single_thread;
mod standard_error;
mod startup_stderr;

pub use self::origin::{Origin, RUN_DIRECTORY, building_for};
pub use self::standard_error::say;
pub use self::startup_stderr::StartupStderr;
