//! The methods of \[CHING\], one file each.
//!
//! An independent method has a `read`, which returns the bytes of the access before the end of the
//! file, and a `write`. Collective two-phase has a folder of its own.

pub(crate) mod datatype;
pub(crate) mod list;
pub(crate) mod posix;
pub(crate) mod sieve;
pub(crate) mod two_phase;
