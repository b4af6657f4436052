//! The door for all programs: a directory is mounted a second time, and what programs do below that point passes
//! through a stack of stages on its way to the directory (\[SCHMIDTKE\]: FUSE).
//!
//! Unlike the preload door it also serves programs that are linked statically, or make system calls by hand, and
//! all of them see each other's data at once, because they share one stack.
//!
//! [`Mounted`] is a mount. Other processes find its record ([`Listed`]), by which they wait for its end. `door` has what all requests share and how a node leads to its file, `nodes`
//! the files that the kernel knows of, `handle` what programs have open, `requests` what the kernel asks. `remote` shows
//! files of I/O servers the same way.

mod caller;
mod change;
mod check;
mod door;
mod error;
mod guard;
mod handle;
mod identity;
mod listing;
mod mount_id;
mod mounted;
mod mounts;
mod naming;
mod nodes;
mod note;
mod opening;
mod private;
mod record;
mod remote;
mod requests;
mod settling;
mod starting;
mod system;
mod transfer;
mod watcher;
mod xattr;

pub use self::check::check_places;
pub use self::error::MountError;
pub use self::guard::{lift_guard, make_writable};
pub use self::mounted::{How, Mounted, Options, ServerOptions, Unmounter};
pub use self::mounts::{Found, absolute, found_at};
pub use self::note::FoundNote;
pub use self::record::{Ended, Listed, Record, State};
pub use self::settling::{Settling, unmount};
