//! [`Dentry`]: a name in a directory, identified by the directory's inode and not by a path.
//!
//! Stages that keep files elsewhere have to know that `a/x`, `./a/x` and `link_to_a/x` are one
//! name. So a name is identified by the device and inode of its directory and its last component
//! ([`DentryKey`]).

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use striate_process::reopen::Identity;
use striate_stack::Target;
use striate_stack::descriptors::{borrow, high};

/// A name, as it is looked up: the directory it is in, and the last part.
pub(crate) type DentryKey = (Identity, Vec<u8>);

/// How many links of links are followed.
const MOST_LINKS: usize = 40;

/// What is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryType {
    /// Nothing.
    Nothing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else, or it cannot be known.
    Other,
}

/// A name in a directory that exists.
#[derive(Clone, Debug)]
pub(crate) struct Dentry {
    directory: RawFd,
    parent: CString,
    name: CString,
    stat: Stat,
}

impl Dentry {
    /// The place of a name, itself, even if it is a link; `None` if its directory does not exist,
    /// or if it cannot be that of a regular file (`x/`, `..`).
    pub(crate) fn of(target: Target<'_>) -> Option<Self> {
        Self::new(target.directory, target.path.to_bytes())
    }

    /// The places that a path leads through, before the last one, as far as they exist.
    pub(crate) fn through(target: Target<'_>) -> impl Iterator<Item = Self> {
        let path = target.path.to_bytes();
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes
            .map_while(move |(at, _)| {
                let before = path.get(..at)?;
                if before.ends_with(b"/") || before.is_empty() {
                    return Some(None);
                }
                // Up to the first that does not exist: nothing after it can exist.
                Some(Self::new(target.directory, before))
            })
            .flatten()
    }

    fn new(directory: RawFd, path: &[u8]) -> Option<Self> {
        let (parent, name) = split(path)?;
        let (parent, name) = (CString::new(parent).ok()?, CString::new(name).ok()?);
        let stat = rustix::fs::statat(borrow(directory), &parent, AtFlags::empty()).ok()?;
        Some(Self { directory, parent, name, stat })
    }

    /// How it is looked up.
    pub(crate) fn key(&self) -> DentryKey {
        (self.directory_identity(), self.name.as_bytes().to_vec())
    }

    /// The last part of the name.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Its directory.
    pub(crate) fn directory_identity(&self) -> Identity {
        (self.stat.st_dev, self.stat.st_ino)
    }

    /// What the kernel says of its directory.
    pub(crate) fn directory_stat(&self) -> &Stat {
        &self.stat
    }

    /// What the kernel has there.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(
            borrow(self.directory),
            self.path().as_c_str(),
            AtFlags::SYMLINK_NOFOLLOW,
        )
    }

    /// What sort of thing the kernel has there.
    pub(crate) fn what(&self) -> EntryType {
        match self.stat() {
            Err(Errno::NOENT) => EntryType::Nothing,
            Err(_) => EntryType::Other,
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => EntryType::File,
                FileType::Directory => EntryType::Directory,
                FileType::Symlink => EntryType::Link,
                _ => EntryType::Other,
            },
        }
    }

    /// Where it leads if it is a link, or links of links; else itself. `None` if that is nowhere.
    pub(crate) fn followed(mut self) -> Option<(Self, EntryType)> {
        for _ in 0..MOST_LINKS {
            let what = self.what();
            if what != EntryType::Link {
                return Some((self, what));
            }
            let path = self.path();
            let link =
                rustix::fs::readlinkat(borrow(self.directory), path.as_c_str(), Vec::new()).ok()?;
            let link = link.as_bytes();
            self = if link.starts_with(b"/") {
                Self::new(self.directory, link)?
            } else {
                let mut path = self.parent.as_bytes().to_vec();
                path.push(b'/');
                path.extend_from_slice(link);
                Self::new(self.directory, &path)?
            };
        }
        None
    }

    /// Whether the program may make and remove names in its directory.
    pub(crate) fn may_change(&self) -> Result<(), Errno> {
        // A directory that was removed, but is still the current one of a process.
        if self.stat.st_nlink == 0 {
            return Err(Errno::NOENT);
        }
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(borrow(self.directory), &self.parent, access, AtFlags::EACCESS)
    }

    /// Its directory, to be used later, whatever is renamed meanwhile.
    pub(crate) fn open_directory(&self) -> Result<Arc<Directory>, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(borrow(self.directory), &self.parent, flags, Mode::empty())?;
        let directory = Directory::new(opened)?;
        if directory.identity != self.directory_identity() {
            return Err(Errno::NOENT);
        }
        Ok(Arc::new(directory))
    }

    fn path(&self) -> CString {
        let mut path = self.parent.as_bytes().to_vec();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(self.name.as_bytes());
        // Both parts came from C strings.
        CString::new(path).unwrap_or_default()
    }
}

/// A directory that a stage keeps open.
#[derive(Debug)]
pub(crate) struct Directory {
    identity: Identity,
    handle: OwnedFd,
    path: PathBuf,
    /// Whether new files in it get permissions by an access-control list.
    default_permissions: bool,
}

impl Directory {
    pub(crate) fn new(opened: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&opened)?;
        let path = path_of(&opened)?;
        let list: &mut [u8] = &mut [];
        let default_permissions =
            rustix::fs::getxattr(&path, c"system.posix_acl_default", list).is_ok();
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Self { identity, handle: high(opened), path, default_permissions })
    }

    /// Opens one by its path.
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self::open_by(path)?))
    }

    /// The same, for a caller that does not share it.
    pub(crate) fn open_by(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::new(rustix::fs::open(path, flags, Mode::empty())?)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::fsync(rustix::fs::openat(&self.handle, c".", flags, Mode::empty())?)
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether new files in it get other permissions than the program says.
    pub(crate) fn has_default_permissions(&self) -> bool {
        self.default_permissions
    }

    /// Where it was when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A name in it.
    pub(crate) fn target<'a>(&self, name: &'a CStr, absolute: &'a Path) -> Target<'a> {
        Target { directory: self.handle.as_raw_fd(), path: name, absolute }
    }

    /// The path of a name in it.
    pub(crate) fn path_to(&self, name: &CStr) -> PathBuf {
        self.path.join(OsStr::from_bytes(name.to_bytes()))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// The identity of the directory that a target itself is, if it is one.
pub(crate) fn identity_of_directory(target: Target<'_>) -> Option<Identity> {
    let path = target.path;
    let stat = if path.is_empty() {
        rustix::fs::fstat(borrow(target.directory))
    } else {
        rustix::fs::statat(borrow(target.directory), path, AtFlags::empty())
    };
    let stat = stat.ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        .then_some((stat.st_dev, stat.st_ino))
}

fn path_of(descriptor: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

/// The directory and the last part of a path; `None` if the last part cannot be that of a file.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        None => (&b"."[..], path),
        Some(0) => (&b"/"[..], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
    };
    (!name.is_empty() && name != b"." && name != b"..").then_some((parent, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path, path: &str) -> Option<Dentry> {
        let text = CString::new(root.join(path).as_os_str().as_bytes()).unwrap();
        Dentry::of(Target { directory: libc::AT_FDCWD, path: &text, absolute: root })
    }

    #[test]
    fn paths_are_split_at_the_last_slash() {
        for (path, parts) in [
            ("x", Some((".", "x"))),
            ("/x", Some(("/", "x"))),
            ("a/b/x", Some(("a/b", "x"))),
            ("a/b/", None),
            ("", None),
            ("/", None),
            ("..", None),
            ("a/.", None),
        ] {
            let parts = parts.map(|(parent, name)| (parent.as_bytes(), name.as_bytes()));
            assert_eq!(split(path.as_bytes()), parts, "{path}");
        }
    }

    #[test]
    fn one_place_has_one_key_whatever_leads_there() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("short")).unwrap();
        std::os::unix::fs::symlink("b/x", root.join("a/link")).unwrap();
        std::os::unix::fs::symlink(root.join("a/link"), root.join("twice")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        let key = place(root, "a/b/x").unwrap().key();
        for other in ["short/x", "a/../a/./b/x", "a//b//x"] {
            assert_eq!(place(root, other).unwrap().key(), key, "{other}");
        }
        for link in ["twice", "a/link"] {
            let (place, what) = place(root, link).unwrap().followed().unwrap();
            assert_eq!((place.key(), what), (key.clone(), EntryType::Nothing), "{link}");
        }
        assert!(place(root, "loop").unwrap().followed().is_none());
        assert!(place(root, "nowhere/x").is_none());
        let directory = place(root, "short/x").unwrap().open_directory().unwrap();
        assert_eq!(directory.path(), root.canonicalize().unwrap().join("a/b"));
        assert_eq!(directory.identity(), key.0);
    }
}
