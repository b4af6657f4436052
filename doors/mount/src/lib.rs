//! The door for all programs: a directory is mounted a second time, and what programs do below that point passes
//! through a stack of stages on its way to the directory (\[SCHMIDTKE\]: FUSE).
//!
//! Unlike the preload door it also serves programs that are linked statically, or make system calls by hand, and
//! all of them see each other's data at once, because they share one stack.
//!
//! [`Mounted`] is a mount. `door` has what all requests share and how a node leads to its file, `nodes`
//! the files that the kernel knows of, `handle` what programs have open, `requests` what the kernel asks. `remote` shows
//! files of I/O servers the same way.

mod caller;
mod change;
mod check;
mod door;
mod error;
mod handle;
mod identity;
mod listing;
mod mounted;
mod naming;
mod nodes;
mod opening;
mod remote;
mod requests;
mod system;
mod transfer;
mod watcher;
mod xattr;

pub use self::error::MountError;
pub use self::mounted::{How, Mounted, Options, ServerOptions, Unmounter};
