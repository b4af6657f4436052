//! Free space: a command refuses to write what does not fit, before the first byte.

use std::path::Path;

use striate_comm::{Comm, CommExt, Reduction};
use striate_datatype::Bytes;

use crate::CommandError;

/// Bytes that this user can still write to the file system of a directory, if it says.
pub(crate) fn free_space(directory: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses `needed` bytes in a directory that has not so many left.
pub(crate) fn check(
    what: &str,
    needed: u64,
    directory: &Path,
    hint: &str,
) -> Result<(), CommandError> {
    match free_space(directory) {
        Some(free) if free < needed => {
            Err(refused(what, needed, free, &directory.display().to_string(), hint))
        }
        // A directory that does not exist is an error of the write.
        _ => Ok(()),
    }
}

/// What this rank found, unless another found that there is not enough space. Collective.
pub(crate) fn agreed(comm: &dyn Comm, found: Result<(), CommandError>) -> Result<(), CommandError> {
    match (comm.reduce_u64(Reduction::Max, u64::from(found.is_err()))?, found) {
        (0, found) | (_, found @ Err(_)) => found,
        _ => Err(CommandError::failed("cannot begin", "another rank has not enough space", "")),
    }
}

/// What is said when there is not enough space.
pub(crate) fn refused(what: &str, needed: u64, free: u64, place: &str, hint: &str) -> CommandError {
    CommandError::failed(
        format!("{what} needs {} in {place}", Bytes(needed)),
        format!("{} are free there", Bytes(free)),
        hint,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let directory = std::env::temp_dir();
        assert!(free_space(&directory).is_some_and(|free| free > 0));
        check("nothing", 0, &directory, "").unwrap();
        let error = check("the file", u64::MAX, &directory, "use less").unwrap_err().to_string();
        assert!(error.starts_with("the file needs 16 EiB in "), "{error}");
        check("the file", u64::MAX, Path::new("/no/such/directory"), "").unwrap();
    }
}
