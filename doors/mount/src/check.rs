//! Checks of source and mount point before something is mounted.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::MountError;
use crate::mount_table;

/// The source and the point of a mount, from the root on, if they can be that. A dead mount of ours
/// at the point is taken away.
pub fn check_places(source: &Path, point: &Path) -> Result<(PathBuf, PathBuf), MountError> {
    let real_source = self::source(source)?;
    take_dead_away(point)?;
    let point_error = |error| MountError::Point { path: point.to_path_buf(), error };
    let real_point = point.canonicalize().map_err(point_error)?;
    if real_source.starts_with(&real_point) || real_point.starts_with(&real_source) {
        return Err(MountError::Within { source_path: real_source, point: real_point });
    }
    Ok((real_source, self::point(point)?))
}

/// The source, from the root on.
pub(crate) fn source(source: &Path) -> Result<PathBuf, MountError> {
    let source_error = |error| MountError::Source { path: source.to_path_buf(), error };
    let real = source.canonicalize().map_err(source_error)?;
    if !real.is_dir() {
        return Err(source_error(io::ErrorKind::NotADirectory.into()));
    }
    real.read_dir().map_err(source_error)?;
    Ok(real)
}

/// The point, from the root on.
pub(crate) fn point(point: &Path) -> Result<PathBuf, MountError> {
    let point_error = |error| MountError::Point { path: point.to_path_buf(), error };
    take_dead_away(point)?;
    let real = point.canonicalize().map_err(point_error)?;
    if !real.is_dir() {
        return Err(point_error(io::ErrorKind::NotADirectory.into()));
    }
    if let Some(found) = mount_table::found_at(&real).filter(mount_table::MountEntry::is_ours) {
        return Err(MountError::AlreadyMounted { path: real, shown: found.shown().to_owned() });
    }
    let mut entries = real.read_dir().map_err(point_error)?;
    if let Some(entry) = entries.next() {
        let entry = entry.map(|entry| entry.file_name()).unwrap_or_default();
        return Err(MountError::NotEmpty { path: real, entry });
    }
    Ok(real)
}

/// Unmounts a dead mount of ours: one whose process was killed together with its watcher.
fn take_dead_away(point: &Path) -> Result<(), MountError> {
    let is_dead = || {
        let dead = |error: io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
        std::fs::metadata(point).is_err_and(dead)
    };
    if !is_dead() {
        return Ok(());
    }
    let path = mount_table::absolute(point);
    let found = mount_table::found_at(&path);
    if found.as_ref().is_some_and(mount_table::MountEntry::is_ours) {
        // If it fails, the error below says so.
        let _ = crate::mount_syscalls::unmount(&path, true);
    }
    if !is_dead() {
        return Ok(());
    }
    let kind = found.map_or_else(|| "of an unknown type".to_owned(), |found| found.kind);
    Err(MountError::Dead { path, kind })
}

/// FUSE is available, and may be used.
pub(crate) fn fuse() -> Result<(), MountError> {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    opened.map(drop).map_err(MountError::NoFuse)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn wrong_places_are_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for directory in ["source/below", "point", "full/below"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path("file"), "").unwrap();
        std::os::unix::fs::symlink("source/below", path("link")).unwrap();
        let refused = |source: &str, point: &str| {
            check_places(&path(source), &path(point)).unwrap_err().to_string()
        };
        assert!(check_places(&path("source"), &path("point")).is_ok());
        assert!(
            refused("missing", "point")
                .ends_with("missing as the source: there is no such directory")
        );
        assert!(refused("file", "point").contains("not a directory"));
        assert!(refused("source", "file").contains("not a directory"));
        assert!(refused("source", "nowhere").contains("nowhere"));
        assert!(refused("source", "full").contains("not empty"));
        for (source, point) in
            [("source", "source/below"), ("source", "link"), ("source/below", "source")]
        {
            assert!(refused(source, point).contains("within the other"), "{source} {point}");
        }
        assert!(refused("source", "source").contains("within the other"));
    }
}
