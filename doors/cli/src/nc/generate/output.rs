//! [`Output`]: the file that is made, and the part that it is before.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use striate_process::part_file::Existing;
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace};
use striate_store::remote::{Client, RemoteFile, RemoteOptions};
use striate_store::{PosixFile, PosixOptions, Store};

use crate::CommandError;
use crate::fs::{Location, path as path_on_servers};
use crate::nc::place;
use crate::nc::signal_watch::Leftover;
use crate::unfinished::{UnfinishedFile, read_only, remove_stale};

/// A file that has another name until it is complete.
#[derive(Debug)]
pub(super) struct Output {
    name: Location,
    existing: Existing,
    file: UnfinishedFile,
}

impl Output {
    /// Refuses a name that is taken, unless it may be replaced, and removes what killed commands
    /// have left of it. Nothing is created.
    pub(super) fn new(path: &Path, existing: Existing) -> Result<Self, CommandError> {
        let name = place(path)?;
        let is_url_of_directory = |url: &str| url.is_empty() || url.ends_with('/');
        let is_directory = match &name {
            Location::Local(path) => path.file_name().is_none() || path.is_dir(),
            Location::Remote(url) => is_url_of_directory(path_on_servers(url)),
            Location::Object(url) => is_url_of_directory(&url.key),
            Location::Pool(url) => is_url_of_directory(&url.name),
        };
        if is_directory || path.as_os_str().as_bytes().ends_with(b"/") {
            let message = format!("{name} is a directory");
            return Err(CommandError::usage(message, "give the file a name"));
        }
        let exists = match &name {
            Location::Local(path) => path.symlink_metadata().is_ok(),
            // If the servers cannot be asked, creating the file fails with the reason.
            Location::Remote(url) => {
                Client::shared(url).and_then(|client| client.lookup(path_on_servers(url))).is_ok()
            }
            // Creating it is refused.
            Location::Object(_) => false,
            Location::Pool(url) => {
                RadosNamespace::open(url).and_then(|namespace| namespace.stat(&url.name)).is_ok()
            }
        };
        if exists && existing == Existing::Refuse {
            let attempted = format!("cannot make {name}");
            return Err(CommandError::failed(attempted, "it exists", "--force replaces it"));
        }
        remove_stale([&name]);
        Ok(Self { file: UnfinishedFile::new(&name), name, existing })
    }

    /// The name of the part, as a path or a URL.
    pub(super) fn part(&self) -> PathBuf {
        match self.file.part() {
            Location::Local(path) => path,
            Location::Remote(url) => url.to_string().into(),
            Location::Object(url) => url.to_string().into(),
            Location::Pool(url) => url.to_string().into(),
        }
    }

    /// What is left if the command ends before the file is complete.
    pub(super) fn leaves(&self) -> Leftover {
        Leftover::Copy { part: self.part(), name: self.name.to_string() }
    }

    /// Creates the part.
    pub(super) fn create(&self) -> Result<Box<dyn Store>, CommandError> {
        let store: Box<dyn Store> = match self.file.part() {
            Location::Local(path) => {
                let options = PosixOptions { exclusive: true, ..PosixOptions::create() };
                Box::new(PosixFile::open(path, &options)?)
            }
            Location::Remote(url) => {
                let options =
                    RemoteOptions { create: true, exclusive: true, ..RemoteOptions::default() };
                Box::new(RemoteFile::open(&url, &options)?)
            }
            Location::Object(url) => return Err(read_only(&url).into()),
            Location::Pool(url) => {
                let creation =
                    RadosCreation { create: true, exclusive: true, ..RadosCreation::default() };
                Box::new(RadosFile::open(&url, &creation)?)
            }
        };
        self.claim()?;
        Ok(store)
    }

    /// Says to other processes that the part, which was just created, is in use.
    pub(super) fn claim(&self) -> Result<(), CommandError> {
        Ok(self.file.claim()?)
    }

    /// Gives the complete file its name.
    pub(super) fn finish(&self) -> Result<(), CommandError> {
        Ok(self.file.finish(self.existing)?)
    }

    /// Removes what there is of it.
    pub(super) fn discard(&self) {
        let _ = self.file.discard();
    }
}
