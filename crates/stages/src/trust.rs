//! The check of directories and files that a process acts upon: no other user can have put them
//! there.
//!
//! Journals of path-rewrite and logs of combine make a process write files. Another user who could
//! plant one would write with the rights of the process that finishes it. So they are trusted only
//! if they belong to the effective user of the process (recovery by the superuser does not trust
//! files of users), and if no other user can write to them. A directory is trusted if, in addition,
//! no other user can replace it: every directory of its path belongs to this user or to the
//! superuser, and either is not writable by others or has the sticky bit and the entry that is
//! followed belongs to one of the two.
//!
//! Files are checked by the descriptor that is read afterwards ([`check_file`]); directories by
//! their path ([`check_directory`]), which no other user can change once it has passed.

use std::collections::VecDeque;
use std::ffi::{CStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use striate_stack::descriptors::high;
use thiserror::Error;

use crate::dentry::Directory;

/// How many links of links are followed.
const MOST_LINKS: usize = 40;

/// Permissions to write that others than the owner have.
const WRITE_OF_OTHERS: u32 = 0o022;
/// All permissions that others than the owner have.
const ALL_OF_OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// A file or directory that is not trusted.
#[derive(Debug, Error)]
#[error("{} {reason}", .path.display())]
pub(crate) struct UntrustedPath {
    path: PathBuf,
    reason: Reason,
}

/// Why.
#[derive(Debug, Error)]
enum Reason {
    #[error(
        "belongs to user {owner}, not to the caller (user {caller}): its contents are not trusted"
    )]
    Owner { owner: u32, caller: u32 },
    #[error(
        "belongs to user {owner}, neither to the caller (user {caller}) nor to root: paths below it are not trusted"
    )]
    Way { owner: u32, caller: u32 },
    #[error(
        "can be written by others than its owner (mode {mode:o}): its contents are not trusted"
    )]
    Writable { mode: u32 },
    #[error("is accessible to others than its owner (mode {mode:o}); it must have mode 700")]
    Wide { mode: u32 },
    #[error("is a symbolic link: it is not followed")]
    Link,
    #[error("is not a directory")]
    NotDirectory,
    #[error("is not a regular file")]
    NotRegular,
    #[error("has {0} names: another one may belong to another user")]
    Names(u64),
    #[error("is reached by too many symbolic links")]
    Loop,
    #[error("cannot be examined: {0}")]
    System(Errno),
}

impl UntrustedPath {
    fn new(path: &Path, reason: Reason) -> Self {
        Self { path: path.to_path_buf(), reason }
    }

    /// Whether there is just nothing.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.reason, Reason::System(Errno::NOENT))
    }

    /// What it is, and why, for a caller that prints the path itself.
    pub(crate) fn into_parts(self) -> (PathBuf, std::io::Error) {
        (self.path.clone(), self.into())
    }

    /// The error of the system that comes closest.
    pub(crate) fn errno(&self) -> Errno {
        match self.reason {
            Reason::System(error) => error,
            _ => Errno::PERM,
        }
    }
}

impl From<UntrustedPath> for std::io::Error {
    fn from(distrust: UntrustedPath) -> Self {
        match distrust.reason {
            Reason::System(error) => error.into(),
            // The caller prints which file it is about.
            reason => Self::new(std::io::ErrorKind::PermissionDenied, reason),
        }
    }
}

/// The user that a process writes for.
fn caller() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// Checks the way to a directory, and that it is the caller's alone to write to. Returns its path
/// without links.
pub(crate) fn check_directory(path: &Path) -> Result<PathBuf, UntrustedPath> {
    let resolved = check_way(path)?;
    let stat = look(&resolved)?;
    let (owner, caller, mode) = (stat.st_uid, caller(), permissions(&stat));
    if owner != caller {
        return Err(UntrustedPath::new(&resolved, Reason::Owner { owner, caller }));
    }
    if mode & WRITE_OF_OTHERS != 0 {
        return Err(UntrustedPath::new(&resolved, Reason::Writable { mode }));
    }
    Ok(resolved)
}

/// Checks a directory in one that has passed [`check_directory`]: it is not a link, and no other
/// user can look into it.
pub(crate) fn check_private(path: &Path) -> Result<(), UntrustedPath> {
    let stat = look(path)?;
    let (owner, caller, mode) = (stat.st_uid, caller(), permissions(&stat));
    let reason = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Reason::Link,
        FileType::Directory if owner != caller => Reason::Owner { owner, caller },
        FileType::Directory if mode & ALL_OF_OTHERS != 0 => Reason::Wide { mode },
        FileType::Directory => return Ok(()),
        _ => Reason::NotDirectory,
    };
    Err(UntrustedPath::new(path, reason))
}

/// Checks an open file: a regular one with one name, owned by the caller, that no other user can
/// write to.
pub(crate) fn check_file(file: impl AsFd, path: &Path) -> Result<(), UntrustedPath> {
    let stat = check_regular(file, path)?;
    let (owner, caller, mode) = (stat.st_uid, caller(), permissions(&stat));
    if owner != caller {
        return Err(UntrustedPath::new(path, Reason::Owner { owner, caller }));
    }
    if mode & WRITE_OF_OTHERS != 0 {
        return Err(UntrustedPath::new(path, Reason::Writable { mode }));
    }
    Ok(())
}

/// Checks that an open file is a regular one with one name at most.
pub(crate) fn check_regular(file: impl AsFd, path: &Path) -> Result<Stat, UntrustedPath> {
    let stat =
        rustix::fs::fstat(file).map_err(|error| UntrustedPath::new(path, Reason::System(error)))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(UntrustedPath::new(path, Reason::NotRegular));
    }
    if stat.st_nlink > 1 {
        return Err(UntrustedPath::new(path, Reason::Names(stat.st_nlink)));
    }
    Ok(stat)
}

/// The error for a file of the wrong owner.
pub(crate) fn of_another(path: &Path, owner: u32) -> UntrustedPath {
    UntrustedPath::new(path, Reason::Owner { owner, caller: caller() })
}

/// Opens a file without following a link or blocking, and checks it.
pub(crate) fn open_file(path: &Path, flags: OFlags) -> std::io::Result<std::fs::File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(UntrustedPath::new(path, Reason::Link).into()),
        opened => high(opened?),
    };
    check_file(&opened, path)?;
    Ok(opened.into())
}

fn look(path: &Path) -> Result<Stat, UntrustedPath> {
    rustix::fs::lstat(path).map_err(|error| UntrustedPath::new(path, Reason::System(error)))
}

/// Follows a path from the root on, and checks that no other user can change where it leads.
fn check_way(path: &Path) -> Result<PathBuf, UntrustedPath> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        parts.collect()
    };
    let caller = caller();
    let mut left: VecDeque<OsString> = parts(path).into();
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let parent = look(&resolved)?;
        let (owner, mode) = (parent.st_uid, permissions(&parent));
        if owner != caller && owner != 0 {
            return Err(UntrustedPath::new(&resolved, Reason::Way { owner, caller }));
        }
        let is_shared = mode & WRITE_OF_OTHERS != 0;
        if is_shared && mode & STICKY == 0 {
            return Err(UntrustedPath::new(&resolved, Reason::Writable { mode }));
        }
        let next = resolved.join(name);
        let found = look(&next)?;
        let owner = found.st_uid;
        if is_shared && owner != caller && owner != 0 {
            return Err(UntrustedPath::new(&next, Reason::Way { owner, caller }));
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => resolved = next,
            FileType::Symlink => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(UntrustedPath::new(&next, Reason::Loop));
                }
                let link = rustix::fs::readlink(&next, Vec::new())
                    .map_err(|error| UntrustedPath::new(&next, Reason::System(error)))?;
                let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
                if link.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                for part in parts(&link).into_iter().rev() {
                    left.push_front(part);
                }
            }
            _ => return Err(UntrustedPath::new(&next, Reason::NotDirectory)),
        }
    }
    Ok(resolved)
}

/// Opens a directory by a path that had no links in it when it was written down. If it has one now,
/// it leads elsewhere.
pub(crate) fn open_unlinked(path: &Path) -> Result<Directory, std::io::Error> {
    let directory = Directory::open_by(path)?;
    if directory.path() == path {
        Ok(directory)
    } else {
        let leads = format!("{} leads to {} now", path.display(), directory.path().display());
        Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, leads))
    }
}

/// Makes and opens directories below one, none of them by a link.
pub(crate) fn make_below(root: &Path, parts: &[&CStr]) -> std::io::Result<Directory> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = high(rustix::fs::open(root, flags, Mode::empty())?);
    let usual = Mode::from_raw_mode(0o777);
    for part in parts {
        match rustix::fs::mkdirat(&directory, *part, usual) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = flags | OFlags::NOFOLLOW;
        directory = high(rustix::fs::openat(&directory, *part, flags, Mode::empty())?);
    }
    Ok(Directory::new(directory)?)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn refused<T: std::fmt::Debug>(outcome: Result<T, UntrustedPath>, reason: &str) {
        let told = outcome.unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_replace_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        set_mode(&inner, 0o755);
        assert_eq!(check_directory(&inner).unwrap(), inner);
        symlink("a/b", root.join("link")).unwrap();
        assert_eq!(check_directory(&root.join("link/../b")).unwrap(), inner);
        for mode in [0o777, 0o775, 0o1777] {
            set_mode(&inner, mode);
            refused(check_directory(&inner), "can be written by others");
        }
        set_mode(&inner, 0o700);
        set_mode(&root.join("a"), 0o777);
        refused(check_directory(&inner), "a can be written by others than its owner (mode 777)");
        // As /tmp.
        set_mode(&root.join("a"), 0o1777);
        assert_eq!(check_directory(&inner).unwrap(), inner);
        std::fs::write(root.join("file"), b"").unwrap();
        refused(check_directory(&root.join("file/x")), "is not a directory");
        assert!(check_directory(&root.join("none")).unwrap_err().is_absent());
        symlink("loop", root.join("loop")).unwrap();
        refused(check_directory(&root.join("loop/x")), "too many symbolic links");
    }

    #[test]
    fn a_private_directory_is_nobody_elses_to_look_into() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        set_mode(&inner, 0o750);
        refused(check_private(&inner), "is accessible to others than its owner (mode 750)");
        set_mode(&inner, 0o700);
        check_private(&inner).unwrap();
        symlink("inner", root.path().join("link")).unwrap();
        refused(check_private(&root.path().join("link")), "is a symbolic link");
        std::fs::write(root.path().join("file"), b"").unwrap();
        refused(check_private(&root.path().join("file")), "is not a directory");
    }

    #[test]
    fn a_file_is_believed_that_nobody_else_can_write_to() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let open = |path: &Path| open_file(path, OFlags::RDONLY).map(|_| ());
        let refused = |path: &Path, reason: &str| {
            let told = open(path).unwrap_err().to_string();
            assert!(told.contains(reason), "{told}");
        };
        std::fs::write(&path, b"").unwrap();
        set_mode(&path, 0o644);
        open(&path).unwrap();
        set_mode(&path, 0o664);
        refused(&path, "can be written by others than its owner (mode 664)");
        set_mode(&path, 0o600);
        symlink("file", root.path().join("link")).unwrap();
        refused(&root.path().join("link"), "is a symbolic link");
        refused(root.path(), "is not a regular file");
        let pipe = root.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        refused(&pipe, "is not a regular file");
        std::fs::hard_link(&path, root.path().join("other")).unwrap();
        refused(&path, "has 2 names");
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(root.path().join("other")).unwrap();
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            refused(&path, "belongs to user 65534, not to the caller (user 0)");
            std::os::unix::fs::chown(root.path(), Some(65_534), None).unwrap();
            let told = check_directory(root.path()).unwrap_err().to_string();
            assert!(told.contains("belongs to user 65534"), "{told}");
            let told = check_directory(&root.path().join("below")).unwrap_err().to_string();
            assert!(told.contains("neither to the caller"), "{told}");
        }
    }
}
