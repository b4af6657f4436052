//! Programs that have a file open: it is not changed below them.
//!
//! The HDF5 library locks the files that it writes; other writers are found by their open
//! descriptors, as far as this user may see them. What is on other machines is not seen.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::CommandError;
use crate::fs::Location;
use crate::nc::place;

/// Bits of the flags of an open file that say whether it may be written: any but read-only.
const ACCESS: u32 = 0o3;

/// Excludes programs that lock the file, as long as the result lives; an error if one has it open
/// for writing.
pub(super) fn exclude(path: &Path) -> Result<Option<File>, CommandError> {
    let Location::Local(path) = place(path)? else { return Ok(None) };
    let refused = |why: String| {
        let attempted = format!("cannot change {}", path.display());
        Err(CommandError::failed(attempted, why, "wait for it, or end it"))
    };
    let write = |source| CommandError::Write { path: path.clone(), source };
    let file = File::options().read(true).write(true).open(&path).map_err(write)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return refused("a program has it open and has locked it".into());
        }
        // Where locks are not known, nobody has one.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    let known = file.metadata().map_err(write)?;
    if let Some(process) = writer_of(known.dev(), known.ino()) {
        return refused(format!("process {process} has it open for writing"));
    }
    Ok(Some(file))
}

/// A process, other than this one, that has a file open for writing.
fn writer_of(device: u64, inode: u64) -> Option<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|&process| process != own).find(|process| {
        let Ok(list) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
        list.filter_map(Result::ok).any(|entry| {
            let is_it = fs::metadata(entry.path())
                .is_ok_and(|found| found.dev() == device && found.ino() == inode);
            is_it && is_for_writing(*process, &entry.file_name().to_string_lossy())
        })
    })
}

fn is_for_writing(process: u32, descriptor: &str) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")) else {
        return true;
    };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & ACCESS != 0)
}
