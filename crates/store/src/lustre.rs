//! Striping of files on Lustre, set and read through the file system's own interface.
//!
//! [`StripeRequest`] says what is wanted, [`LustreLayout`] is what a file has, [`StripingReport`]
//! compares the two. The calls are behind [`LayoutControl`], so that everything above them is
//! tested without a Lustre; [`PosixFile`](crate::PosixFile) makes them when it opens a file. On
//! other file systems none of them is made, except the one that finds out which file system it is.
//!
//! # Which interface
//!
//! A file is created without a layout (`O_LOV_DELAY_CREATE`), and given one before it is written:
//!
//! * **Set by `ioctl(LL_IOC_LOV_SETSTRIPE)`**, which is what `llapi_file_create` does. It needs no
//!   privilege and says so if there is a layout already. The extended attribute `lustre.lov` can be
//!   set as well, but up to release 2.16 a start at OST 0 is taken for "any" there (LU-13062), and
//!   a layout that already exists stays, without an error; `trusted.lov` is for administrators.
//! * **Read from `lustre.lov`**, which needs no privilege either, and says how long a layout is:
//!   `ioctl(LL_IOC_LOV_GETSTRIPE)` must be given that. It does not say where the file was asked to
//!   start, but its objects show where it does.
//! * **Storage targets are counted by `ioctl(LL_IOC_GETOBDCOUNT)`** on a directory.
//!
//! The flag has this value since release 2.6; older clients stripe the file when it is created, and
//! that is reported. A file without a layout cannot be written, so one that has none after all, as
//! where an administrator restricts striping and the call does nothing, is opened once more to be
//! given the default.
//!
//! # Composite layouts
//!
//! A directory may have a composite default (PFL): other stripes for other parts of a file. Such a
//! directory was set up on purpose, and stays in effect unless
//! [`StripeRequest::over_composite`] says otherwise. For the purposes of alignment, a composite
//! file is striped as its last component is, where most bytes of a large file lie.

mod control;
mod decode;
mod layout;
mod open;
mod report;
mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

pub use crate::file_system::FileSystem;
pub use control::{Creation, LayoutControl, SystemLayouts};
pub use decode::LayoutError;
pub use layout::{
    ByteOrder, Component, Composite, LayoutForm, LustreLayout, ObjectId, PlainLayout, PoolName,
    StripeObject, Striping,
};
pub(crate) use open::{Opened, open};
pub use report::StripingReport;
pub use request::{StripeCount, StripeRequest};

/// How many storage targets (OSTs) the file system of a directory has; `None` if it is not Lustre.
///
/// Targets have the numbers below that. One that was taken out of service keeps its number.
pub fn targets(directory: &Path) -> io::Result<Option<u32>> {
    targets_by(&SystemLayouts, directory)
}

fn targets_by(control: &dyn LayoutControl, directory: &Path) -> io::Result<Option<u32>> {
    if control.file_system(directory)?.is_lustre() {
        control.targets(directory).map(Some)
    } else {
        Ok(None)
    }
}
