//! [`PartFile`]: a file under a temporary name, `.NAME.part-…` in the same directory, until it is
//! complete.
//!
//! The file that has the name stays unchanged if the process fails, is killed, or the disk is full.
//! A part file is locked while it is written; [`remove_parts`] removes those of processes that were
//! killed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

/// Bytes of a name that are kept in the other name, which must not become too long.
const KEPT: usize = 200;

/// What becomes of what has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and that is an error.
    Refuse,
}

/// A file that is not whole yet. It goes with this if it does not become so.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    file: File,
    finished: bool,
}

impl PartFile {
    /// A part of a file of this name, to be written.
    pub fn create(name: &Path) -> io::Result<Self> {
        loop {
            let number = RandomState::new().hash_one(std::process::id());
            let mut own = prefix(name);
            own.push(format!("{number:016x}"));
            let path = directory(name).join(own);
            let file = File::options().write(true).create_new(true).open(&path)?;
            let part = Self { path, file, finished: false };
            // Where locks are not supported, part files are not removed, either.
            let _ = flock(&part.file, FlockOperation::NonBlockingLockExclusive);
            // Another process may have taken it for a leftover before it was locked.
            if part.file.metadata()?.nlink() > 0 {
                return Ok(part);
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it durable and gives it its name.
    pub fn finish(mut self, name: &Path, existing: Existing) -> io::Result<()> {
        self.file.sync_all()?;
        match existing {
            Existing::Replace => fs::rename(&self.path, name)?,
            Existing::Refuse => rename_new(&self.path, name)?,
        }
        self.finished = true;
        File::open(directory(name))?.sync_all()
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Renames, but replaces nothing.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not know how to; the name was free when the part was begun.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

fn directory(name: &Path) -> &Path {
    name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How the parts of a file begin.
fn prefix(name: &Path) -> OsString {
    let name = name.file_name().unwrap_or_default().as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(&name[..name.len().min(KEPT)]));
    prefix.push(".part-");
    prefix
}

/// Removes what commands that were killed have left of a file.
pub fn remove_parts(name: &Path) {
    let prefix = prefix(name);
    let Ok(list) = fs::read_dir(directory(name)) else { return };
    for entry in list.filter_map(Result::ok) {
        let is_part = entry
            .file_name()
            .as_bytes()
            .strip_prefix(prefix.as_bytes())
            .is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit));
        if !is_part || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let locked = File::open(entry.path())
            .is_ok_and(|part| flock(&part, FlockOperation::NonBlockingLockExclusive).is_err());
        if !locked {
            let _ = fs::remove_file(entry.path());
        }
    }
}
