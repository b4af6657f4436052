//! What has to be right before something is mounted.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::MountError;

/// The source and the point, from the root on.
pub(crate) fn places(source: &Path, point: &Path) -> Result<(PathBuf, PathBuf), MountError> {
    let source_error = |error| MountError::Source { path: source.to_path_buf(), error };
    let point_error = |error| MountError::Point { path: point.to_path_buf(), error };
    let real_source = source.canonicalize().map_err(source_error)?;
    take_dead_away(point);
    let real_point = point.canonicalize().map_err(point_error)?;
    if !real_source.is_dir() {
        return Err(source_error(io::ErrorKind::NotADirectory.into()));
    }
    if real_source.starts_with(&real_point) || real_point.starts_with(&real_source) {
        return Err(MountError::Within { source_path: real_source, point: real_point });
    }
    let point = self::point(point)?;
    real_source.read_dir().map_err(source_error)?;
    Ok((real_source, point))
}

/// The point, from the root on.
pub(crate) fn point(point: &Path) -> Result<PathBuf, MountError> {
    let point_error = |error| MountError::Point { path: point.to_path_buf(), error };
    take_dead_away(point);
    let real = point.canonicalize().map_err(point_error)?;
    if !real.is_dir() {
        return Err(point_error(io::ErrorKind::NotADirectory.into()));
    }
    let mut entries = real.read_dir().map_err(point_error)?;
    if entries.next().is_some() {
        return Err(MountError::NotEmpty { path: real });
    }
    Ok(real)
}

/// Takes away what was mounted here by one of us who was killed together with the process that looks after the mount.
fn take_dead_away(point: &Path) {
    let is_dead = |error: io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
    if !std::fs::metadata(point).is_err_and(is_dead) {
        return;
    }
    // What it is called cannot be asked of itself, but of the directory it is in.
    let Ok(point) = std::path::absolute(point) else { return };
    let parent = point.parent().and_then(|parent| parent.canonicalize().ok());
    let (Some(parent), Some(name)) = (parent, point.file_name()) else { return };
    let point = parent.join(name);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_ours = mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(&escaped(&point)) && words.next() == Some("fuse.striate")
    });
    if is_ours {
        // If it fails, the one who wants to mount is told why.
        let _ = crate::system::unmount(&point, true);
    }
}

/// A path as the kernel lists it.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for character in path.to_string_lossy().chars() {
        match character {
            ' ' => text.push_str("\\040"),
            '\t' => text.push_str("\\011"),
            '\n' => text.push_str("\\012"),
            '\\' => text.push_str("\\134"),
            other => text.push(other),
        }
    }
    text
}

/// FUSE is there, and may be used.
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
            places(&path(source), &path(point)).unwrap_err().to_string()
        };
        assert!(places(&path("source"), &path("point")).is_ok());
        assert!(refused("missing", "point").contains("missing"));
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
