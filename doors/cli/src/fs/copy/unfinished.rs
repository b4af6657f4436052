//! [`Unfinished`]: a copy that has another name until it is whole.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use striate_store::remote::{Client, Layout, RemoteFile, RemoteLock, RemoteOptions};
use striate_store::{ErrorKind, LockKind, Operation, PosixFile, PosixOptions, Store, StoreError};

use super::left::Left;
use super::place::Place;
use crate::CommandError;
use crate::fs::path;

/// Bytes of a name that are kept in the other name, which must not become too long.
const KEPT: usize = 200;

/// The range of a copy that is locked while somebody is at it.
pub(crate) const IN_USE: Range<u64> = 0..1;

/// A copy that has another name until it is whole.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) store: Box<dyn Store>,
    names: Names,
}

#[derive(Debug)]
enum Names {
    Local {
        part: PathBuf,
        name: PathBuf,
    },
    Remote {
        client: Client,
        part: String,
        name: String,
        /// Says to a check that somebody is at it. Without it the copy goes on all the same.
        _in_use: Option<RemoteLock>,
    },
}

impl Unfinished {
    /// Begins a copy; whatever becomes of that, `left` knows what may be there.
    pub(super) fn create(place: &Place, layout: Layout, left: &Left) -> Result<Self, CommandError> {
        match place {
            Place::Local(name) => {
                let directory = match name.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                fs::create_dir_all(directory)
                    .map_err(|source| CommandError::Write { path: directory.into(), source })?;
                let last = name.file_name().unwrap_or_default().to_string_lossy();
                let part = directory.join(part_of(&last));
                let options = PosixOptions { exclusive: true, ..PosixOptions::create() };
                let store = Box::new(PosixFile::open(&part, &options)?);
                left.add(&part.display().to_string());
                Ok(Self { store, names: Names::Local { part, name: name.clone() } })
            }
            Place::Remote(url) => {
                let client = Client::shared(url)?;
                let name = path(url).to_owned();
                let (directory, last) = name.split_at(name.rfind('/').map_or(0, |at| at + 1));
                let part = format!("{directory}{}", part_of(last));
                let options = RemoteOptions { create: true, exclusive: true, layout };
                let url = client.url(&part);
                left.add(&url.to_string());
                let file = RemoteFile::open_with(&client, &url, &options).inspect_err(|_| {
                    // It may have its name and not all of its objects.
                    if is_gone(&client, &part) {
                        left.remove(&url.to_string());
                    }
                })?;
                let lock = client.lock(file.info(), IN_USE, LockKind::Exclusive, Duration::ZERO);
                let names = Names::Remote { client, part, name, _in_use: lock.ok() };
                Ok(Self { store: Box::new(file), names })
            }
        }
    }

    /// Makes the copy durable and gives it its name.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        self.store.sync()?;
        match &self.names {
            Names::Remote { client, part, name, .. } => client.rename(part, name, true),
            Names::Local { part, name } => {
                let rename = || {
                    fs::rename(part, name)?;
                    let directory = name.parent().filter(|parent| !parent.as_os_str().is_empty());
                    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
                };
                let what = || format!("{} to {}", part.display(), name.display());
                rename().map_err(|error| StoreError::system(Operation::Rename, what(), error))
            }
        }
    }

    /// Its name until it is whole.
    pub(super) fn part(&self) -> String {
        match &self.names {
            Names::Local { part, .. } => part.display().to_string(),
            Names::Remote { client, part, .. } => client.url(part).to_string(),
        }
    }

    /// Removes what there is of the copy.
    pub(super) fn discard(&self) -> Result<(), StoreError> {
        match &self.names {
            Names::Remote { client, part, .. } => client.remove(part),
            Names::Local { part, .. } => {
                let removed = fs::remove_file(part).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                });
                removed.map_err(|error| {
                    StoreError::system(Operation::Remove, part.display().to_string(), error)
                })
            }
        }
    }
}

/// Whether there is no file of this name, as far as the metadata server answers.
fn is_gone(client: &Client, path: &str) -> bool {
    client.lookup(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// A name beside `name` that nobody has; [`is_unfinished_copy`](striate_server::check::is_unfinished_copy) knows it.
fn part_of(name: &str) -> String {
    let mut end = name.len().min(KEPT);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!(".{}.part-{:016x}", &name[..end], RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_differ_and_are_short() {
        assert!(part_of("a").starts_with(".a.part-"));
        for name in ["a", ".x", "ä.part-"] {
            assert!(striate_server::check::is_unfinished_copy(&part_of(name)), "{name}");
        }
        assert_ne!(part_of("a"), part_of("a"));
        assert!(part_of(&"ä".repeat(300)).len() < 255);
    }

    #[test]
    fn a_local_copy_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("new/a");
        let (place, left) = (Place::Local(name.clone()), Left::default());
        let copy = Unfinished::create(&place, Layout::default(), &left).unwrap();
        copy.store.write_at(0, b"abc").unwrap();
        assert!(!name.exists());
        copy.discard().unwrap();
        copy.discard().unwrap();
        let copy = Unfinished::create(&place, Layout::default(), &left).unwrap();
        copy.store.write_at(0, b"abc").unwrap();
        copy.finish().unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"abc");
        assert_eq!(fs::read_dir(directory.path().join("new")).unwrap().count(), 1);
    }
}
