//! Files of `path-rewrite` that did not get to their destination.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::{Fate, Recovered, Report, Wanted};
use crate::place::Directory;
use crate::stages::path_rewrite::journal::{DATA, JOURNAL, Journal, MOVES, SESSION};
use crate::stages::path_rewrite::moving::{self, commit, give_up, prepare};

/// Looks for what is beneath a fast place.
pub(super) fn recover_in(place: &Path, wanted: Wanted, report: &mut Report) {
    let directory = place.join(MOVES);
    let list = match std::fs::read_dir(&directory) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return report.unreadable.push((directory, error)),
    };
    let mut names: Vec<String> = list
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    for name in &names {
        if let Some(session) = name.strip_suffix(&format!(".{SESSION}")) {
            recover_session(&directory, session, &names, wanted, report);
        }
    }
    if wanted == Wanted::Finish {
        // Only if nobody needs it any more.
        let _ = std::fs::remove_dir(&directory);
    }
}

fn recover_session(
    directory: &Path,
    session: &str,
    names: &[String],
    wanted: Wanted,
    report: &mut Report,
) {
    let path = directory.join(format!("{session}.{SESSION}"));
    let lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) => return report.unreadable.push((path, error)),
    };
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return report.in_use.push(path);
    }
    recover_files(directory, session, names, wanted, report);
    // Said, not left to the close: a process that was copied just now may still have the descriptor.
    let _ = rustix::fs::flock(&lock, FlockOperation::Unlock);
}

fn recover_files(
    directory: &Path,
    session: &str,
    names: &[String],
    wanted: Wanted,
    report: &mut Report,
) {
    let before = report.failures();
    let mut directories = BTreeSet::new();
    for name in names {
        let ours = name.strip_prefix(session).is_some_and(|rest| rest.starts_with('-'));
        let Some(base) = name.strip_suffix(&format!(".{JOURNAL}")).filter(|_| ours) else {
            continue;
        };
        let journal = directory.join(name);
        let data = directory.join(format!("{base}.{DATA}"));
        match recover_file(&journal, &data, wanted) {
            Ok(Some(file)) => {
                directories.extend(file.destination.parent().map(Path::to_path_buf));
                report.files.push(file);
            }
            Ok(None) => {}
            Err(error) => report.unreadable.push((journal, error)),
        }
    }
    if wanted == Wanted::List {
        return;
    }
    remove_copies(session, &directories);
    if report.failures() == before {
        for name in names {
            // Files without a name: the program had removed them.
            if name.strip_prefix(session).is_some_and(|rest| rest.starts_with('-')) {
                let _ = std::fs::remove_file(directory.join(name));
            }
        }
        let _ = std::fs::remove_file(directory.join(format!("{session}.{SESSION}")));
    }
}

/// Removes copies that were not finished.
fn remove_copies(session: &str, directories: &BTreeSet<PathBuf>) {
    // The process is the last but one part of the name.
    let Some(process) = session.rsplit('-').nth(1) else { return };
    let prefix = format!("{}{process}-", moving::PREFIX);
    for directory in directories {
        let Ok(list) = std::fs::read_dir(directory) else { continue };
        for entry in list.filter_map(Result::ok) {
            if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn recover_file(journal: &Path, data: &Path, wanted: Wanted) -> io::Result<Option<Recovered>> {
    let noted = Journal::parse(&std::fs::read_to_string(journal)?)
        .ok_or_else(|| io::Error::other("the journal is damaged"))?;
    let length = match std::fs::metadata(data) {
        Ok(found) => found.len(),
        // It was moved, or not yet made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if wanted == Wanted::Finish {
                std::fs::remove_file(journal)?;
            }
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let destination = destination(&noted, data);
    let fate = match (wanted, &destination) {
        (Wanted::List, _) => Fate::Found,
        (Wanted::Finish, Ok(destination)) => match finish(data, destination) {
            Ok(()) => {
                std::fs::remove_file(journal)?;
                Fate::Finished
            }
            Err(error) => Fate::Failed(error),
        },
        (Wanted::Finish, Err(())) => Fate::Failed(io::Error::other(
            "something else is there now; the file is left where it is",
        )),
    };
    let destination = destination.unwrap_or(noted.destination);
    let source = data.to_path_buf();
    Ok(Some(Recovered { destination, source, length, closed: noted.closed, fate }))
}

/// Where a file belongs: where its placeholder is, or where it was moved to already, or where nothing is. It is
/// an error if somebody has put something else there.
fn destination(noted: &Journal, data: &Path) -> Result<PathBuf, ()> {
    let places: Vec<&PathBuf> =
        [Some(&noted.destination), noted.maybe.as_ref()].into_iter().flatten().collect();
    let found = |path: &Path| std::fs::symlink_metadata(path);
    for path in &places {
        if found(path).is_ok_and(|found| (found.dev(), found.ino()) == noted.placeholder) {
            return Ok((*path).clone());
        }
    }
    // The process ended after the copy had got its name.
    for path in &places {
        if is_copy(data, path).unwrap_or(false) {
            return Ok((*path).clone());
        }
    }
    let free =
        |path: &&&PathBuf| found(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    places.iter().find(free).map(|path| (*path).clone()).ok_or(())
}

fn finish(data: &Path, destination: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (destination.parent(), destination.file_name()) else {
        return Err(io::Error::other("not the path of a file"));
    };
    let directory = Directory::open(parent)?;
    let name = std::ffi::CString::new(name.as_bytes())?;
    let ready = prepare(data, &directory)?;
    commit(&ready, data, &directory, &name).inspect_err(|_| give_up(&ready, &directory))?;
    Ok(())
}

/// Whether a file is a copy of the data: the same bytes from the same time.
fn is_copy(data: &Path, path: &Path) -> io::Result<bool> {
    let (left, right) = (std::fs::metadata(data)?, std::fs::symlink_metadata(path)?);
    let time = |found: &std::fs::Metadata| (found.mtime(), found.mtime_nsec());
    if !right.is_file() || left.len() != right.len() || time(&left) != time(&right) {
        return Ok(false);
    }
    let [mut left, mut right] = [data, path].map(|path| File::open(path).map(BufReader::new));
    let (Ok(left), Ok(right)) = (&mut left, &mut right) else { return Ok(false) };
    loop {
        let (a, b) = (left.fill_buf()?, right.fill_buf()?);
        let count = a.len().min(b.len());
        if count == 0 || a[..count] != b[..count] {
            return Ok(a.is_empty() && b.is_empty());
        }
        left.consume(count);
        right.consume(count);
    }
}
