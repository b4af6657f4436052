//! The mounts of this process's namespace, as the kernel lists them.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The type of mounts of ours.
pub(crate) const OURS: &str = "fuse.striate";

/// A mount at a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The type of the file system.
    pub kind: String,
    /// What is mounted, by the name that it was mounted under.
    pub source: String,
    /// The user who mounted it, if it is served by a process.
    pub user: Option<u32>,
}

impl MountEntry {
    /// Whether it is one of ours.
    pub fn is_ours(&self) -> bool {
        self.kind == OURS
    }

    /// What it shows.
    pub fn shown(&self) -> &str {
        self.source.strip_prefix("striate:").unwrap_or(&self.source)
    }
}

/// The mount at a mount point, the topmost of several.
pub fn found_at(point: &Path) -> Option<MountEntry> {
    let list = std::fs::read("/proc/self/mountinfo").ok()?;
    topmost(&list, point)
}

fn topmost(list: &[u8], point: &Path) -> Option<MountEntry> {
    let line = |line: &[u8]| -> Option<MountEntry> {
        let mut words = line.split(|byte| *byte == b' ');
        let place = unescaped(words.nth(4)?);
        if place != point {
            return None;
        }
        let mut words = words.skip_while(|word| *word != b"-").skip(1);
        let text = |word: &[u8]| unescaped(word).to_string_lossy().into_owned();
        let (kind, source) = (text(words.next()?), text(words.next()?));
        let options = text(words.next().unwrap_or_default());
        let user = options.split(',').find_map(|option| option.strip_prefix("user_id="));
        Some(MountEntry { kind, source, user: user.and_then(|user| user.parse().ok()) })
    };
    list.split(|byte| *byte == b'\n').filter_map(line).next_back()
}

/// A path from the root on, without asking what is at it: a mount without a server does not answer.
pub fn absolute(point: &Path) -> PathBuf {
    let absolute = std::path::absolute(point).unwrap_or_else(|_| point.to_path_buf());
    if let Ok(real) = std::fs::canonicalize(&absolute) {
        return real;
    }
    let parent = absolute.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, absolute.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

/// A path for the kernel.
pub(crate) fn text(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// A path as it is, of one as the kernel lists it.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'\\').then(|| after.get(..3)).flatten();
        let octal = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_mount_is_found_under_its_name() {
        let list = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 0:50 / /a\\040b rw,nosuid shared:3 - fuse.sshfs host: rw,user_id=7,group_id=7\n\
            31 30 0:51 / /a\\040b rw - fuse.striate striate:/x\\134y rw,user_id=0,group_id=0\n";
        let found = topmost(list, Path::new("/a b")).unwrap();
        assert!(found.is_ours());
        assert_eq!((found.shown(), found.user), ("/x\\y", Some(0)));
        assert_eq!(topmost(list, Path::new("/")).unwrap().user, None);
        assert_eq!(topmost(list, Path::new("/a")), None);
    }
}
