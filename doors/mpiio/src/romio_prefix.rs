//! ROMIO's prefixes of file names (`ufs:`, `lustre:` …), also in `ROMIO_FSTYPE_FORCE`.
//!
//! In ROMIO they choose a driver, and an open fails if that was not built in. Here all file systems
//! are accessed alike: a prefix that matches the file's file system has no effect, and with any
//! other the open fails, as with ROMIO.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::constants as mpi;
use crate::errors::{Failure, Outcome};

/// On which file systems a prefix is true.
#[derive(Clone, Copy, Debug)]
enum Availability {
    /// Of every file system.
    Always,
    /// Of those that the kernel knows by this number.
    Number(u32),
    /// It can only be accessed through its own library.
    Never,
}

const FILE_SYSTEMS: [(&str, Availability); 16] = [
    ("ufs", Availability::Always),
    ("nfs", Availability::Always),
    ("testfs", Availability::Always),
    ("xfs", Availability::Number(0x5846_5342)),
    ("panfs", Availability::Number(0xaad7_aaea)),
    ("pvfs2", Availability::Number(0x2003_0528)),
    ("pvfs", Availability::Number(0x2003_0528)),
    ("gpfs", Availability::Number(0x4750_4653)),
    ("lustre", Availability::Number(0x0bd0_0bd0)),
    ("ime", Availability::Never),
    ("daos", Availability::Never),
    ("quobyte", Availability::Never),
    ("piofs", Availability::Never),
    ("hfs", Availability::Never),
    ("sfs", Availability::Never),
    ("gridftp", Availability::Never),
];

/// The prefix of a name, and the rest of it.
fn split(name: &OsStr) -> (Option<Availability>, &OsStr) {
    let bytes = name.as_bytes();
    let found = FILE_SYSTEMS.iter().find_map(|(word, there)| {
        let (first, rest) = bytes.split_at_checked(word.len())?;
        let rest = rest.strip_prefix(b":")?;
        first.eq_ignore_ascii_case(word.as_bytes()).then_some((Some(*there), rest))
    });
    found.map_or((None, name), |(there, rest)| (there, OsStr::from_bytes(rest)))
}

/// The name without its prefix.
pub(crate) fn without_prefix(name: &OsStr) -> &OsStr {
    split(name).1
}

/// Refuses a file whose name, or whose user, says that it is on a file system that it is not on.
/// What is not at a path is on none.
pub(crate) fn check(name: &OsStr, place: &OsStr) -> Outcome {
    // Programs set it, too, so it is looked up each time.
    let forced = std::env::var_os("ROMIO_FSTYPE_FORCE").and_then(|word| split(&word).0);
    let is_url = place.as_bytes().windows(3).any(|part| part == b"://");
    let is_there = |there| match there {
        Availability::Always => true,
        Availability::Number(_) if is_url => true,
        Availability::Number(wanted) => number_of(place).is_none_or(|number| number == wanted),
        Availability::Never => false,
    };
    if [forced, split(name).0].into_iter().flatten().all(is_there) {
        return Ok(());
    }
    Err(Failure::new(mpi::ERR_IO, "the file is not on the requested file system"))
}

/// The number of the file system of a file, which need not exist. `None` if there is no such
/// directory: the open will say so.
fn number_of(place: &OsStr) -> Option<u32> {
    let directory = match Path::new(place).parent()?.as_os_str() {
        here if here.is_empty() => OsStr::new("."),
        directory => directory,
    };
    let directory = CString::new(directory.as_bytes()).ok()?;
    // SAFETY: all zeros are a value of this type.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a place that outlives the call.
    let done = unsafe { libc::statfs(directory.as_ptr(), &raw mut found) };
    (done == 0).then_some(found.f_type as u32)
}
