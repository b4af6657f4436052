//! [`UnfinishedFile`]: a file that is called `.NAME.part-…` until it is whole, local, on servers or
//! in a pool.
//!
//! All commands that write a file by a copy use it, so that one rule holds: what has the name is
//! whole, and a part is locked as long as its process lives. A local part is a [`PartFile`]; a part
//! on servers is locked at [`IN_USE`]. [`remove_stale`] removes the parts of processes that are
//! gone, and is called before a file of the same name is written; `striate fsck --repair` does so
//! for all names on servers.
//!
//! The caller creates the file, laid out as it wants, under the name [`UnfinishedFile::part`], and
//! claims it then.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use striate_process::part_file::{
    Existing, PartFile, is_part, part_name, part_path, part_prefix, remove_parts_of,
};
use striate_store::rados::{RadosNamespace, RadosUrl};
use striate_store::remote::{Client, FileInfo, RemoteLock, RemoteUrl};
use striate_store::s3::{S3Error, S3Url};
use striate_store::{Cause, ErrorKind, LockKind, Operation, StoreError};

use crate::fs::{Location, path};

/// The range of a part on servers that is locked while a process writes it: no data is there, so
/// that it does not meet locks of data.
pub(crate) const IN_USE: Range<u64> = i64::MAX as u64 - 1..i64::MAX as u64;

/// A file that has another name until it is whole.
#[derive(Debug)]
pub(crate) struct UnfinishedFile {
    names: Names,
    claim: Mutex<Claim>,
}

#[derive(Debug)]
enum Names {
    Local {
        part: PathBuf,
        name: PathBuf,
    },
    Remote {
        part: RemoteUrl,
        name: RemoteUrl,
    },
    /// An object is written as a whole and has no part: creating one is refused.
    Object(S3Url),
    /// Parts in pools are not locked, so they are never taken for those of a process that is gone.
    Pool {
        part: RadosUrl,
        name: RadosUrl,
    },
}

/// What says to other processes that the part is in use.
#[derive(Debug)]
enum Claim {
    None,
    Local(PartFile),
    Remote { _lock: RemoteLock },
}

impl UnfinishedFile {
    /// The file of this name, and a name for its part. Nothing is created.
    pub(crate) fn new(name: &Location) -> Self {
        let names = match name {
            Location::Local(name) => Names::Local { part: part_path(name), name: name.clone() },
            Location::Remote(url) => {
                let (directory, last) = split(&url.path);
                let part = part_name(OsStr::new(last));
                let path = format!("{directory}{}", part.to_string_lossy());
                Names::Remote { part: RemoteUrl { path, ..url.clone() }, name: url.clone() }
            }
            Location::Object(url) => Names::Object(url.clone()),
            Location::Pool(url) => {
                let (directory, last) = split(&url.name);
                let part = part_name(OsStr::new(last));
                let part = url.with_name(format!("{directory}{}", part.to_string_lossy()));
                Names::Pool { part, name: url.clone() }
            }
        };
        Self { names, claim: Mutex::new(Claim::None) }
    }

    /// The name until it is whole.
    pub(crate) fn part(&self) -> Location {
        match &self.names {
            Names::Local { part, .. } => Location::Local(part.clone()),
            Names::Remote { part, .. } => Location::Remote(part.clone()),
            Names::Object(url) => Location::Object(url.clone()),
            Names::Pool { part, .. } => Location::Pool(part.clone()),
        }
    }

    fn claimed(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says to other processes that the part, which was just created, is in use.
    pub(crate) fn claim(&self) -> Result<(), StoreError> {
        match &self.names {
            Names::Local { part, .. } => {
                let failed =
                    |error| StoreError::system(Operation::Lock, part.display().to_string(), error);
                let adopted = PartFile::adopt(part).map_err(failed)?;
                // Another process may have removed it before it was claimed.
                let adopted = adopted.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
                *self.claimed() = Claim::Local(adopted);
            }
            Names::Remote { part, .. } => {
                let client = Client::shared(part)?;
                let file = client.lookup(path(part))?;
                self.claim_on_servers(&client, &file);
            }
            Names::Object(_) | Names::Pool { .. } => {}
        }
        Ok(())
    }

    /// [`claim`](Self::claim) of a part on servers that is known. Without the lock the copy goes on
    /// all the same.
    pub(crate) fn claim_on_servers(&self, client: &Client, file: &FileInfo) {
        if let Ok(lock) = client.lock(file, IN_USE, LockKind::Exclusive, Duration::ZERO) {
            *self.claimed() = Claim::Remote { _lock: lock };
        }
    }

    /// Gives the file, which is claimed and of which all data is durable, its name.
    pub(crate) fn finish(&self, existing: Existing) -> Result<(), StoreError> {
        match &self.names {
            Names::Remote { part, name } => {
                let replace = existing == Existing::Replace;
                Client::shared(part)?.rename(path(part), path(name), replace)
            }
            Names::Pool { part, name } => {
                let replace = existing == Existing::Replace;
                RadosNamespace::open(part)?.rename(&part.name, &name.name, replace)
            }
            Names::Local { part, name } => {
                let claim = std::mem::replace(&mut *self.claimed(), Claim::None);
                let finished = match claim {
                    Claim::Local(file) => file.finish(name, existing),
                    _ => Err(io::ErrorKind::NotFound.into()),
                };
                let what = || format!("{} to {}", part.display(), name.display());
                finished.map_err(|error| StoreError::system(Operation::Rename, what(), error))
            }
            Names::Object(url) => Err(read_only(url)),
        }
    }

    /// Removes what there is of it.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        match &self.names {
            Names::Remote { part, .. } => Client::shared(part)?.remove(path(part)),
            Names::Object(_) => Ok(()),
            Names::Pool { part, .. } => RadosNamespace::open(part)?.remove(&part.name),
            Names::Local { part, .. } => {
                *self.claimed() = Claim::None;
                let removed = std::fs::remove_file(part).or_else(|error| match error.kind() {
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

/// Why an object cannot be created in place.
pub(crate) fn read_only(url: &S3Url) -> StoreError {
    StoreError::new(Operation::Open, url.to_string(), Cause::Objects(S3Error::ReadOnly))
}

/// Removes the parts of files of these names that processes have left which are gone. What cannot
/// be removed is left.
pub(crate) fn remove_stale<'n>(names: impl IntoIterator<Item = &'n Location>) {
    let mut local: Vec<&Path> = Vec::new();
    // By the directory, with the server that is asked.
    let mut remote: BTreeMap<String, (&RemoteUrl, String, BTreeSet<String>)> = BTreeMap::new();
    for name in names {
        match name {
            Location::Local(name) => local.push(name),
            Location::Object(_) | Location::Pool(_) => {}
            Location::Remote(url) => {
                let (directory, last) = split(path(url));
                let key = RemoteUrl { path: format!("/{directory}"), ..url.clone() }.to_string();
                let (_, _, prefixes) = remote
                    .entry(key)
                    .or_insert_with(|| (url, directory.to_owned(), BTreeSet::new()));
                prefixes.insert(part_prefix(OsStr::new(last)).to_string_lossy().into_owned());
            }
        }
    }
    remove_parts_of(local);
    for (url, directory, prefixes) in remote.into_values() {
        // If the servers do not answer, the copy says so.
        let Ok(client) = Client::shared(url) else { continue };
        let Ok(files) = client.list(&format!("{directory}.")) else { continue };
        for file in files {
            let name = file.path.strip_prefix(&directory).unwrap_or(&file.path);
            let of_these = |prefix: &String| is_part(OsStr::new(name), OsStr::new(prefix));
            if prefixes.iter().any(of_these) {
                remove_unused(&client, &file);
            }
        }
    }
}

/// Removes a part on servers, unless a process writes it.
fn remove_unused(client: &Client, file: &FileInfo) {
    let lock = client.lock(file, IN_USE, LockKind::Exclusive, Duration::ZERO);
    if lock.is_ok() {
        let _ = client.remove(&file.path);
    }
}

/// Whether a process writes a part on servers.
pub(crate) fn is_in_use(client: &Client, file: &FileInfo) -> bool {
    let lock = client.lock(file, IN_USE, LockKind::Exclusive, Duration::ZERO);
    lock.is_err_and(|error| error.kind() == ErrorKind::TimedOut)
}

/// The directory of a path on servers, with its slash, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use striate_server::Embedded;
    use striate_store::remote::{RemoteFile, RemoteOptions};

    use super::*;

    #[test]
    fn parts_are_what_a_check_knows_as_such() {
        for name in ["/d/a", "d/.x", "ä.part-", "striate://h/run/a", "striate://h/a"] {
            let name = Location::new(name.into()).unwrap();
            let part = UnfinishedFile::new(&name).part().to_string();
            assert!(striate_server::check::is_unfinished_copy(&part), "{part}");
        }
    }

    #[test]
    fn a_local_file_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("a");
        let place = Location::Local(name.clone());
        let begin = || {
            let file = UnfinishedFile::new(&place);
            let Location::Local(part) = file.part() else { panic!("{file:?}") };
            fs::write(part, b"abc").unwrap();
            file.claim().unwrap();
            file
        };
        let file = begin();
        assert!(!name.exists());
        remove_stale([&place]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        file.discard().unwrap();
        file.discard().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let file = begin();
        let Location::Local(part) = UnfinishedFile::new(&place).part() else { panic!("{place}") };
        fs::write(part, b"left").unwrap();
        remove_stale([&place]);
        file.finish(Existing::Refuse).unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"abc");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn parts_on_servers_go_unless_they_are_in_use() {
        let servers = Embedded::start(2).unwrap();
        let place = Location::new(format!("{}/run/a", servers.url()).into()).unwrap();
        let other = Location::new(format!("{}/run/b", servers.url()).into()).unwrap();
        let create = |name: &Location| {
            let file = UnfinishedFile::new(name);
            let Location::Remote(url) = file.part() else { panic!("{file:?}") };
            let options = RemoteOptions { create: true, ..RemoteOptions::default() };
            drop(RemoteFile::open(&url, &options).unwrap());
            file
        };
        let (used, _left, _of_other) = (create(&place), create(&place), create(&other));
        used.claim().unwrap();
        remove_stale([&place]);
        let client = match &place {
            Location::Remote(url) => Client::shared(url).unwrap(),
            _ => panic!("{place}"),
        };
        assert_eq!(client.list("").unwrap().len(), 2);
        used.finish(Existing::Refuse).unwrap();
        remove_stale([&place, &other]);
        let names: Vec<_> = client.list("").unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(names, ["run/a"]);
    }
}
