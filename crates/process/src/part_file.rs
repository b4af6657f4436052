//! [`PartFile`]: a file that is called `.NAME.part-…`, in the directory of its name, until it is
//! whole.
//!
//! The file that has the name stays as it is if the process fails, is killed, or the disk is full.
//! A part is locked as long as its process lives, and [`remove_parts`] removes parts that are not:
//! those of processes that were killed. The lock is on the last byte that a file can have, so that
//! it does not conflict with locks of data, also where the file system (NFS) turns all kinds of
//! locks into one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Bytes of the name that the name of the part repeats: names of files are limited.
const REPEATED: usize = 200;

/// Hexadecimal digits at the end of the name of a part.
const DIGITS: usize = 16;

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and that is an error.
    Refuse,
}

/// A file that is not whole yet. Dropping it before [`finish`](PartFile::finish) removes it.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    file: File,
    finished: bool,
}

impl PartFile {
    /// A new part of a file of this name, to be written.
    pub fn create(name: &Path) -> io::Result<Self> {
        loop {
            let path = part_path(name);
            let file = File::options().write(true).create_new(true).open(&path)?;
            if let Some(part) = Self::locked(path, file)? {
                return Ok(part);
            }
        }
    }

    /// Locks a part that was just created by other means under a name of [`part_path`]. `None` if
    /// another process has removed it before it was locked.
    pub fn adopt(path: &Path) -> io::Result<Option<Self>> {
        match File::options().write(true).open(path) {
            Ok(file) => Self::locked(path.to_path_buf(), file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn locked(path: PathBuf, file: File) -> io::Result<Option<Self>> {
        let part = Self { path, file, finished: false };
        match lock(&part.file) {
            // A process that removes parts has the lock, and removes this one.
            PartLock::Taken => Ok(None),
            // Where locks are not known, no process removes parts.
            PartLock::Acquired | PartLock::Unknown => {
                Ok((part.file.metadata()?.nlink() > 0).then_some(part))
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its path, as long as it is a part.
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

/// What came of an attempt to lock a part.
enum PartLock {
    Acquired,
    Taken,
    /// The file system has no locks.
    Unknown,
}

/// Locks a part, without waiting; the lock ends with the open file.
fn lock(file: &File) -> PartLock {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = libc::F_WRLCK as libc::c_short;
    record.l_whence = libc::SEEK_SET as libc::c_short;
    record.l_start = libc::off_t::MAX - 1;
    record.l_len = 1;
    // SAFETY: the descriptor is open, and the call reads the record, which lives longer than it.
    let set = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const record) };
    if set == 0 {
        return PartLock::Acquired;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => PartLock::Taken,
        _ => PartLock::Unknown,
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

/// A path for the part of a file of this name, in the same directory; no file has it.
pub fn part_path(name: &Path) -> PathBuf {
    directory(name).join(part_name(name.file_name().unwrap_or_default()))
}

/// A name for the part of a file of this name; no file has it.
pub fn part_name(name: &OsStr) -> OsString {
    let number = RandomState::new().hash_one(std::process::id());
    let mut part = part_prefix(name);
    part.push(format!("{number:0DIGITS$x}"));
    part
}

/// How the names of all parts of a file begin.
pub fn part_prefix(name: &OsStr) -> OsString {
    let mut end = name.len().min(REPEATED);
    // A name that is text stays text.
    while name.to_str().is_some_and(|text| !text.is_char_boundary(end)) {
        end -= 1;
    }
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(&name.as_bytes()[..end]));
    prefix.push(".part-");
    prefix
}

/// Whether a name is one of a part whose names begin so.
pub fn is_part(name: &OsStr, prefix: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(prefix.as_bytes());
    rest.is_some_and(|rest| rest.len() == DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

/// Removes the parts of a file that processes have left which were killed.
pub fn remove_parts(name: &Path) {
    remove_parts_of([name]);
}

/// [`remove_parts`] of several files; each of their directories is read once.
pub fn remove_parts_of<'n>(names: impl IntoIterator<Item = &'n Path>) {
    let mut prefixes: BTreeMap<&Path, BTreeSet<OsString>> = BTreeMap::new();
    for name in names {
        let prefix = part_prefix(name.file_name().unwrap_or_default());
        prefixes.entry(directory(name)).or_default().insert(prefix);
    }
    for (directory, prefixes) in prefixes {
        let Ok(list) = fs::read_dir(directory) else { continue };
        for entry in list.filter_map(Result::ok) {
            let name = entry.file_name();
            let Some(len) = name.len().checked_sub(DIGITS) else { continue };
            let prefix = OsStr::from_bytes(&name.as_bytes()[..len]);
            if prefixes.contains(prefix)
                && is_part(&name, prefix)
                && entry.file_type().is_ok_and(|kind| kind.is_file())
            {
                remove_unlocked(&entry.path());
            }
        }
    }
}

/// Removes a part, unless a process has locked it. It is locked until it is removed: a process that
/// has just created it finds out.
fn remove_unlocked(path: &Path) {
    let Ok(part) = File::options().write(true).open(path) else { return };
    if matches!(lock(&part), PartLock::Acquired) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_short_and_differ() {
        let name = OsStr::new("a");
        assert_ne!(part_name(name), part_name(name));
        assert!(is_part(&part_name(name), &part_prefix(name)));
        assert!(!is_part(OsStr::new(".a.part-notes"), &part_prefix(name)));
        let long = OsString::from("ä".repeat(150));
        assert!(part_name(&long).len() < 255 && part_name(&long).to_str().is_some());
        let bytes = OsStr::from_bytes(b"\xff\xfe");
        assert!(is_part(&part_name(bytes), &part_prefix(bytes)));
    }

    #[test]
    fn parts_of_other_processes_go_and_those_in_use_stay() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("out");
        let left = part_path(&name);
        fs::write(&left, "x").unwrap();
        let of_other = part_path(&directory.path().join("other"));
        fs::write(&of_other, "x").unwrap();
        let created = PartFile::create(&name).unwrap();
        let adopted = part_path(&name);
        fs::write(&adopted, "y").unwrap();
        let adopted = PartFile::adopt(&adopted).unwrap().unwrap();
        remove_parts(&name);
        assert!(!left.exists() && of_other.exists());
        assert!(created.path().exists() && adopted.path().exists());
        assert!(PartFile::adopt(&left).unwrap().is_none());
        adopted.finish(&name, Existing::Refuse).unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"y");
        assert!(created.finish(&name, Existing::Refuse).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
