//! [`StoreFiles`]: files by their names, on a store.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use striate_store::remote::{Client, RemoteFile, RemoteOptions, RemoteUrl};
use striate_store::{ErrorKind, MemoryStore, PosixFile, PosixOptions, Store, StoreError};

use super::root::Root;
use crate::error::ReplayError;
use crate::options::StoreAt;

/// See the module.
#[derive(Debug)]
pub(super) enum StoreFiles {
    Memory(Mutex<HashMap<PathBuf, Arc<MemoryStore>>>),
    Directory(PathBuf),
    Servers(Client, RemoteUrl),
}

/// What a store says, as an error number.
pub(super) type ErrnoResult<T> = Result<T, i32>;

impl StoreFiles {
    pub(super) fn new(at: &StoreAt) -> Result<Self, ReplayError> {
        Ok(match at {
            StoreAt::Memory => Self::Memory(Mutex::default()),
            StoreAt::Directory(path) => {
                std::fs::create_dir_all(path).map_err(|error| ReplayError::make(path, error))?;
                Self::Directory(path.clone())
            }
            StoreAt::Servers(url) => Self::Servers(Client::shared(url)?, url.clone()),
        })
    }

    fn memory(
        files: &Mutex<HashMap<PathBuf, Arc<MemoryStore>>>,
    ) -> MutexGuard<'_, HashMap<PathBuf, Arc<MemoryStore>>> {
        files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The URL of a recorded path.
    fn url(base: &RemoteUrl, path: &Path) -> RemoteUrl {
        let (path, before) = (Root::relative(path), base.path.trim_end_matches('/'));
        let path = path.to_string_lossy();
        let path = if before.is_empty() { path.into_owned() } else { format!("{before}/{path}") };
        RemoteUrl { path, ..base.clone() }
    }

    /// Opens a file, and makes it if asked to.
    pub(super) fn open(
        &self,
        path: &Path,
        creates: bool,
        exclusive: bool,
    ) -> ErrnoResult<Arc<dyn Store>> {
        match self {
            Self::Memory(files) => {
                let mut files = Self::memory(files);
                match files.get(path) {
                    Some(_) if creates && exclusive => Err(libc::EEXIST),
                    Some(file) => Ok(Arc::clone(file) as Arc<dyn Store>),
                    None if creates => {
                        let file = Arc::new(MemoryStore::new(path.to_string_lossy()));
                        files.insert(path.to_path_buf(), Arc::clone(&file));
                        Ok(file)
                    }
                    None => Err(libc::ENOENT),
                }
            }
            Self::Directory(directory) => {
                let here = directory.join(Root::relative(path));
                if let Some(parent) = here.parent().filter(|_| creates) {
                    std::fs::create_dir_all(parent).map_err(|error| number(&error))?;
                }
                let exclusive = creates && exclusive;
                let options =
                    PosixOptions { create: creates, exclusive, ..PosixOptions::read_write() };
                Ok(Arc::new(PosixFile::open(here, &options).map_err(|error| errno(&error))?))
            }
            Self::Servers(client, base) => {
                let options =
                    RemoteOptions { create: creates, exclusive, ..RemoteOptions::default() };
                let opened = RemoteFile::open_with(client, &Self::url(base, path), &options);
                Ok(Arc::new(opened.map_err(|error| errno(&error))?))
            }
        }
    }

    /// Removes a file.
    pub(super) fn remove(&self, path: &Path) -> ErrnoResult<()> {
        match self {
            Self::Memory(files) => match Self::memory(files).remove(path) {
                Some(_) => Ok(()),
                None => Err(libc::ENOENT),
            },
            Self::Directory(directory) => {
                std::fs::remove_file(directory.join(Root::relative(path)))
                    .map_err(|error| number(&error))
            }
            Self::Servers(client, base) => {
                client.remove(&Self::url(base, path).path).map_err(|error| errno(&error))
            }
        }
    }

    /// Renames a file; an existing file of that name is replaced.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> ErrnoResult<()> {
        match self {
            Self::Memory(files) => {
                let mut files = Self::memory(files);
                let file = files.remove(from).ok_or(libc::ENOENT)?;
                files.insert(to.to_path_buf(), file);
                Ok(())
            }
            Self::Directory(directory) => {
                let [from, to] = [from, to].map(|path| directory.join(Root::relative(path)));
                if let Some(parent) = to.parent() {
                    std::fs::create_dir_all(parent).map_err(|error| number(&error))?;
                }
                std::fs::rename(from, to).map_err(|error| number(&error))
            }
            Self::Servers(client, base) => {
                let [from, to] = [from, to].map(|path| Self::url(base, path).path);
                client.rename(&from, &to, true).map_err(|error| errno(&error))
            }
        }
    }

    /// Where files are that stay.
    pub(super) fn kept(&self) -> Option<PathBuf> {
        match self {
            Self::Directory(path) => Some(path.clone()),
            Self::Servers(_, url) => Some(url.to_string().into()),
            Self::Memory(_) => None,
        }
    }
}

fn number(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// An error of a store as one of the kernel's.
pub(super) fn errno(error: &StoreError) -> i32 {
    match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::Denied => libc::EACCES,
        ErrorKind::OutOfSpace => libc::ENOSPC,
        ErrorKind::Malformed => libc::EINVAL,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        _ => libc::EIO,
    }
}
