//! For code that runs inside the processes of other programs: clock, limits, locks, messages, and
//! atomic replacement of files.
//!
//! A library that is loaded into a program must neither end nor slow down that program: a message
//! must not raise `SIGPIPE` ([`say`], [`StartupStderr`]), a file must not reach `RLIMIT_FSIZE`
//! ([`limits`]), and a lock should cost nothing while the process has one thread ([`lock`]).
//! [`clock`] reads the time cheaply, [`Origin`] names a process, [`part_file`] gives a file its
//! name when it is complete, and [`reopen`] opens a file again only if it is still the same inode.
//!
//! The crate stands alone because its users have nothing else in common: the interception
//! (`striate-stack`), the trace format (`striate-trace`), commands that write files, and the MPI-IO
//! library, which needs the lock and the messages but no stack.

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
