//! [`write_whole`]: writes a file that gets its name when it is complete.
//!
//! Until then it is a [`PartFile`]: the file that had the name before stays as it is if the command
//! fails, is killed, or the disk is full. The next command that writes this name removes the parts
//! of processes that are gone.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use striate_process::part_file::{Existing, PartFile, remove_parts};

/// Writes a file; it replaces what has its name when all of it is on the disk. What is not a
/// regular file (a pipe, a device) is written as it is, and so is a file in a directory where none
/// can be made.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // A link stays one.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let there = fs::metadata(&path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return in_place(&path, write);
    }
    remove_parts(&path);
    let part = match PartFile::create(&path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && there.is_some() => {
            return in_place(&path, write);
        }
        part => part?,
    };
    buffered(part.file(), write)?;
    if let Some(there) = there {
        part.file().set_permissions(fs::Permissions::from_mode(there.mode() & 0o7777))?;
    }
    part.finish(&path, Existing::Replace)
}

fn in_place(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    buffered(&File::create(path)?, write)
}

fn buffered(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(256 << 10, file);
    write(&mut file)?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let list = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(&vec![1; 1 << 20])?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(
            (fs::read(&path).unwrap(), names(place.path())),
            (b"old".to_vec(), vec!["out".into()])
        );
        write_whole(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    }

    #[test]
    fn parts_that_were_left_are_removed_and_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let left = place.path().join(".out.part-0123456789abcdef");
        let other = place.path().join(".out.part-notes");
        for file in [&left, &other] {
            fs::write(file, "x").unwrap();
        }
        let used = PartFile::create(&path).unwrap();
        write_whole(&path, |file| file.write_all(b"whole")).unwrap();
        assert!(!left.exists() && other.exists() && used.path().exists());
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let place = tempfile::tempdir().unwrap();
        let [target, link] = ["target", "link"].map(|name| place.path().join(name));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_whole(&link, |file| file.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        write_whole(Path::new("/dev/null"), |file| file.write_all(b"gone")).unwrap();
    }
}
