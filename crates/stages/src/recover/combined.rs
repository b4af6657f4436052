//! Recovery of logs and containers of `combine`.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps};

use super::{Fate, Recovered, RecoveryMode, Report, walk};
use crate::combine::{Container, ContainerEntry, is_called_so};
use crate::dentry::Directory;
use crate::trust;

/// Looks for logs without a writer.
pub(super) fn recover_in(
    root: &Path,
    below: bool,
    unpack: bool,
    wanted: RecoveryMode,
    report: &mut Report,
) {
    let mut visit = |directory: &Path, report: &mut Report| {
        let Ok(list) = std::fs::read_dir(directory) else { return };
        let mut paths: Vec<_> = list.filter_map(Result::ok).map(|entry| entry.path()).collect();
        paths.retain(|path| path.file_name().is_some_and(is_called_so));
        paths.sort();
        for path in paths {
            if let Err(error) = recover_log(&path, unpack, wanted, report) {
                report.unreadable.push((path, error));
            }
        }
    };
    if below {
        walk(root, report, &mut visit);
    } else if root.is_dir() {
        visit(root, report);
    }
}

pub(super) fn recover_log(
    path: &Path,
    unpack: bool,
    wanted: RecoveryMode,
    report: &mut Report,
) -> io::Result<()> {
    // A planted log would make the caller write with its rights.
    let begun = trust::open_file(path, OFlags::RDONLY)?;
    if begun.metadata()?.len() == 0 {
        // The process ended when it had just begun.
        let lock = FlockOperation::NonBlockingLockExclusive;
        if wanted == RecoveryMode::Finish && rustix::fs::flock(&begun, lock).is_ok() {
            std::fs::remove_file(path)?;
        }
        return Ok(());
    }
    let container = Container::open(path)?;
    if container.is_sealed() {
        return Ok(());
    }
    if !container.claim() {
        report.in_use.push(path.to_path_buf());
        return Ok(());
    }
    // Of several entries for a file the last counts.
    let entries = container.entries(true)?;
    let mut last: HashMap<PathBuf, usize> = HashMap::new();
    for (place, entry) in entries.iter().enumerate() {
        last.insert(entry.path(), place);
    }
    let source = match wanted {
        RecoveryMode::Finish if !unpack => container.seal()?,
        _ => path.to_path_buf(),
    };
    let mut directories: Vec<PathBuf> = Vec::new();
    let mut last_directory = None;
    let mut failed = false;
    for (place, entry) in entries.iter().enumerate() {
        let destination = entry.path();
        let counts = entry.is_file() && last.get(&destination) == Some(&place);
        let fate = match wanted {
            _ if !counts => continue,
            RecoveryMode::List => Fate::Found,
            RecoveryMode::Finish if !unpack => Fate::Finished,
            RecoveryMode::Finish => match write_home(&container, entry, &mut last_directory) {
                Ok(()) => Fate::Finished,
                Err(error) => Fate::Failed(error),
            },
        };
        if let Fate::Finished = fate {
            directories.push(entry.directory.clone());
        }
        failed |= matches!(fate, Fate::Failed(_));
        let length = entry.length() as u64;
        let source = source.clone();
        report.files.push(Recovered { destination, source, length, closed: true, fate });
    }
    if wanted == RecoveryMode::List || !unpack {
        return Ok(());
    }
    directories.sort();
    directories.dedup();
    for directory in directories {
        trust::open_unlinked(&directory)?.sync()?;
    }
    if !failed {
        return container.remove();
    }
    // What is done is not done again: another process may change it until then.
    for (place, entry) in entries.iter().enumerate() {
        let file = report.files.iter().rev().find(|file| file.destination == entry.path());
        let kept = file.is_some_and(|file| matches!(file.fate, Fate::Failed(_)));
        if !kept || last.get(&entry.path()) != Some(&place) {
            container.kill(entry)?;
        }
    }
    Ok(())
}

/// Makes a file of an entry in the directory that the entry names. That path had no links in it
/// when it was written down: if it has one now, it was replaced. `last` is the directory of the
/// last one: many are in one.
fn write_home(
    container: &Container,
    entry: &ContainerEntry,
    last: &mut Option<Directory>,
) -> io::Result<()> {
    let directory = match last.take() {
        Some(directory) if directory.path() == entry.directory => directory,
        _ => trust::open_unlinked(&entry.directory)?,
    };
    write(container, entry, last.insert(directory), entry.mode)
}

/// Makes a file of an entry in a directory, durable and at once.
fn write(
    container: &Container,
    entry: &ContainerEntry,
    directory: &Directory,
    mode: u32,
) -> io::Result<()> {
    let name = CString::new(entry.name.clone())?;
    if name.is_empty() || name.as_bytes().contains(&b'/') || name.as_c_str() == c".." {
        return Err(io::Error::other("the log names no file"));
    }
    let bytes = container.read(entry)?;
    // After the log, whose name is unique: what an interrupted recovery of it left is replaced by
    // the next.
    let log = container.path().file_name().unwrap_or_default().as_bytes();
    let new = CString::new([b".striate-recover-", log].concat())?;
    let remove = || rustix::fs::unlinkat(directory, &new, AtFlags::empty());
    let _ = remove();
    let made = (|| {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &new, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(&bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        let time = Timespec { tv_sec: entry.modified.0, tv_nsec: entry.modified.1.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::futimens(&file, &times)?;
        file.sync_all()?;
        Ok(rustix::fs::renameat(directory, &new, directory, &name)?)
    })();
    if made.is_err() {
        let _ = remove();
    }
    made
}

/// Makes real files of what is in containers, and removes those. `container` is one of them, or a
/// directory with some, which are then taken in the order in which they were written. With `into`,
/// files go below that directory, under their whole paths, and the containers stay: then they may
/// be another user's. Files of other users' containers do not go anywhere else.
pub fn unpack(container: &Path, into: Option<&Path>, wanted: RecoveryMode) -> io::Result<Report> {
    let mut report = Report::default();
    let mut containers = Vec::new();
    let open = |path: &Path| match (into, wanted) {
        (None, RecoveryMode::Finish) => Container::open(path),
        _ => Container::open_foreign(path),
    };
    if container.is_dir() {
        for entry in std::fs::read_dir(container)? {
            let path = entry?.path();
            if path.file_name().is_some_and(is_called_so) {
                match open(&path) {
                    Ok(container) => containers.push(container),
                    Err(error) => report.unreadable.push((path, error)),
                }
            }
        }
    } else {
        containers.push(open(container)?);
    }
    let mut entries = Vec::new();
    for (place, container) in containers.iter().enumerate() {
        if container.claim() {
            let found = container.entries(true)?;
            entries.extend(found.into_iter().map(|entry| (place, entry)));
        } else {
            report.in_use.push(container.path().to_path_buf());
        }
    }
    // Of several entries for a file the latest counts.
    entries.sort_by_key(|(_, entry)| entry.time());
    let mut latest: HashMap<PathBuf, usize> = HashMap::new();
    for (at, (_, entry)) in entries.iter().enumerate() {
        latest.insert(entry.path(), at);
    }
    for (at, (place, entry)) in entries.iter().enumerate() {
        let path = entry.path();
        if !entry.is_file() || latest.get(&path) != Some(&at) {
            continue;
        }
        let destination = into.map_or_else(|| path.clone(), |into| below(into, &path));
        let container = &containers[*place];
        let fate = match wanted {
            RecoveryMode::List => Fate::Found,
            RecoveryMode::Finish => {
                let written = match into {
                    // Not with permissions that make others run it as the caller.
                    Some(into) => directory_below(into, &entry.directory).and_then(|directory| {
                        write(container, entry, &directory, entry.mode & 0o777)?;
                        Ok(directory.sync()?)
                    }),
                    None => trust::open_unlinked(&entry.directory).and_then(|directory| {
                        write(container, entry, &directory, entry.mode)?;
                        Ok(directory.sync()?)
                    }),
                };
                written.map_or_else(Fate::Failed, |()| Fate::Finished)
            }
        };
        let source = container.path().to_path_buf();
        let length = entry.length() as u64;
        report.files.push(Recovered { destination, source, length, closed: true, fate });
    }
    if wanted == RecoveryMode::Finish && into.is_none() && report.failures() == 0 {
        for container in containers {
            if !report.in_use.iter().any(|path| path == container.path()) {
                container.remove()?;
            }
        }
    }
    Ok(report)
}

/// Makes and opens a directory below another, which no link leads out of.
fn directory_below(into: &Path, path: &Path) -> io::Result<Directory> {
    std::fs::create_dir_all(into)?;
    let parts: Vec<CString> = normal(path).map(CString::new).collect::<Result<_, _>>()?;
    let parts: Vec<_> = parts.iter().map(CString::as_c_str).collect();
    trust::make_below(into, &parts)
}

/// The parts of a path that are names.
fn normal(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(part.as_bytes()),
        _ => None,
    })
}

/// A path below a directory, without what would lead out of it.
fn below(into: &Path, path: &Path) -> PathBuf {
    let mut result = into.to_path_buf();
    result.extend(normal(path).map(OsStr::from_bytes));
    result
}
