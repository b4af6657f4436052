//! The mount door: a directory is mounted a second time, and operations below the mount point pass
//! through a stack of stages on their way to the directory (\[SCHMIDTKE\]: FUSE).
//!
//! Unlike the preload door it serves programs that are linked statically or make system calls
//! themselves as well, and all of them see each other's data at once, because they share one stack.
//!
//! [`Mounted`] is a mount. Its record ([`FoundRecord`]) is for other processes, which can wait for
//! its end. A mount shows a `backend`: a source directory below stages (`source_fs`), or a
//! directory of I/O servers (`server_fs`). `requests` turns requests of the kernel into calls of
//! the backend.

mod backend;
mod check;
mod error;
mod guard;
mod mount_id;
mod mount_record;
mod mount_syscalls;
mod mount_table;
mod mounted;
mod private_mount;
mod request_buffer;
mod requests;
mod server_fs;
mod settling;
mod settling_note;
mod source_fs;
mod sync;
mod watcher;

pub use self::check::check_places;
pub use self::error::MountError;
pub use self::guard::{lift_guard, make_writable};
pub use self::mount_record::{Ended, FoundRecord, Record, State};
pub use self::mount_table::{MountEntry, absolute, found_at};
pub use self::mounted::{Mounted, Options, ServerOptions, UnmountKind, Unmounter};
pub use self::settling::{Settling, unmount};
pub use self::settling_note::FoundNote;
