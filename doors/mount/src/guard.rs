//! [`Guard`]: makes the underlying directory of a mount unwritable.
//!
//! When a mount that programs expect is missing (its serving process was killed, it was not mounted
//! after a restart), their files are created in the directory itself, and are hidden once it is
//! mounted again. A guarded directory refuses that. Where it is permitted, the directory is made
//! immutable (`chattr +i`), which also stops root; otherwise write permissions are removed, which
//! does not stop root.
//!
//! The guard is removed when the mount ends in order, and stays otherwise. The earlier state of the
//! directory is stored with the records of mounts, so that the next mount, or `striate umount`, can
//! restore it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{IFlags, Mode};
use serde::{Deserialize, Serialize};

use crate::mount_record::made_directory;

/// How a directory is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Guarded {
    /// Not even root can write to it.
    Immutable,
    /// Only root can write to it.
    Mode,
}

/// What a directory was like before.
#[derive(Debug, Serialize, Deserialize)]
struct GuardRecord {
    point: String,
    by: Guarded,
    mode: u32,
    /// The process that has to put it right.
    process: u32,
}

/// A directory that can be guarded, from before something is mounted on it: then it cannot be
/// reached by its name.
#[derive(Debug)]
pub(crate) struct Guard {
    directory: File,
    point: PathBuf,
    /// Where it is kept what the directory was like.
    kept: PathBuf,
    before: Option<GuardRecord>,
}

impl Guard {
    /// Opens a directory; one that is guarded can be mounted on again.
    pub(crate) fn open(point: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = File::options().read(true).custom_flags(flags).open(point)?;
        let about = directory.metadata()?;
        let kept = made_directory()?.join(format!("{:x}-{}.guard", about.dev(), about.ino()));
        let before = fs::read_to_string(&kept).ok().and_then(|text| toml::from_str(&text).ok());
        let guard = Self { directory, point: point.into(), kept, before };
        if let Some(GuardRecord { by: Guarded::Mode, mode, .. }) = guard.before {
            // The program that mounts for users wants to be able to write to it.
            guard.set_mode(mode)?;
        }
        Ok(guard)
    }

    /// Whether it is guarded since a mount that did not end in order.
    pub(crate) fn was_left(&self) -> bool {
        self.before.is_some()
    }

    /// Guards it.
    pub(crate) fn set(&mut self) -> io::Result<Guarded> {
        let mode = match &self.before {
            Some(before) => before.mode,
            None => self.directory.metadata()?.mode() & 0o7777,
        };
        let flags = rustix::fs::ioctl_getflags(&self.directory);
        if self.before.is_none() && flags.is_ok_and(|flags| flags.contains(IFlags::IMMUTABLE)) {
            // It was set by another program, and stays.
            return Ok(Guarded::Immutable);
        }
        let immutable = flags.and_then(|flags| {
            rustix::fs::ioctl_setflags(&self.directory, flags | IFlags::IMMUTABLE)
        });
        let by = if immutable.is_ok() { Guarded::Immutable } else { Guarded::Mode };
        let point = self.point.to_string_lossy().into_owned();
        let before = GuardRecord { point, by, mode, process: std::process::id() };
        let text = toml::to_string(&before).map_err(io::Error::other)?;
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let kept = options.open(&self.kept)?;
        kept.write_all_at(text.as_bytes(), 0)?;
        self.before = Some(before);
        if by == Guarded::Mode {
            self.set_mode(mode & !0o222)?;
        }
        Ok(by)
    }

    /// Puts it right, unless another mount guards it by now.
    pub(crate) fn lift(&self) -> io::Result<()> {
        let kept = fs::read_to_string(&self.kept).ok();
        let kept: Option<GuardRecord> = kept.and_then(|text| toml::from_str(&text).ok());
        let ours = kept.is_some_and(|before| before.process == std::process::id());
        if ours { self.release() } else { Ok(()) }
    }

    fn release(&self) -> io::Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        clear_immutable(&self.directory)?;
        self.set_mode(before.mode)?;
        fs::remove_file(&self.kept)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.directory, Mode::from_raw_mode(mode))?)
    }
}

fn clear_immutable(directory: &File) -> io::Result<()> {
    match rustix::fs::ioctl_getflags(directory) {
        Ok(flags) if flags.contains(IFlags::IMMUTABLE) => {
            Ok(rustix::fs::ioctl_setflags(directory, flags - IFlags::IMMUTABLE)?)
        }
        _ => Ok(()),
    }
}

/// Makes a directory writable for its owner, also if nothing is known of a guard (after a restart
/// of the machine).
pub fn make_writable(point: &Path) -> io::Result<()> {
    lift_guard(point)?;
    let directory = File::open(point)?;
    clear_immutable(&directory)?;
    let mode = directory.metadata()?.mode() & 0o7777;
    Ok(rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | 0o200))?)
}

/// Lifts the guard of a directory on which nothing is mounted any more. Returns whether there was
/// one.
pub fn lift_guard(point: &Path) -> io::Result<bool> {
    let guard = Guard::open(point)?;
    let left = guard.was_left();
    guard.release()?;
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_guarded_directory_is_as_before_when_the_guard_is_lifted() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let mode = || place.path().metadata().unwrap().mode() & 0o7777;
        let mut guard = Guard::open(place.path()).unwrap();
        assert!(!guard.was_left());
        let by = guard.set().unwrap();
        if by == Guarded::Immutable {
            assert!(fs::write(place.path().join("f"), "x").is_err());
        } else {
            assert_eq!(mode(), 0o550);
        }
        guard.lift().unwrap();
        fs::write(place.path().join("f"), "x").unwrap();
        assert_eq!(mode(), 0o750);
        // One that was left.
        Guard::open(place.path()).unwrap().set().unwrap();
        assert!(lift_guard(place.path()).unwrap());
        assert!(!lift_guard(place.path()).unwrap());
        fs::write(place.path().join("g"), "x").unwrap();
        assert_eq!(mode(), 0o750);
    }
}
