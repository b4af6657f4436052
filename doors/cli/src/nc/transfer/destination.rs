//! [`Destination`]: the name of the dataset that is written, and the file that has this name
//! before.
//!
//! A dataset in one file is an [`UnfinishedFile`] until it is whole. One that is partitioned is
//! published by its own master (`striate_array`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use striate_array::DatasetFiles;
use striate_comm::{Comm, agree};
use striate_file::File;
use striate_process::part_file::Existing;
use striate_store::rados::RadosNamespace;
use striate_store::remote::Client;

use crate::CommandError;
use crate::fs::{Location, path as path_on_servers};
use crate::nc::place;
use crate::nc::signal_watch::Leftover;
use crate::unfinished::{UnfinishedFile, remove_stale};

/// The name of the dataset that is written. Rank 0 renames and removes; all calls are collective.
#[derive(Debug)]
pub(super) struct Destination {
    path: PathBuf,
    existing: Existing,
    /// Of a dataset in one file.
    part: Option<PartName>,
    /// The dataset that is replaced, as rank 0 finds it.
    old: Option<DatasetFiles>,
}

/// The file that the dataset is until it is whole.
#[derive(Debug)]
struct PartName {
    path: PathBuf,
    /// On rank 0.
    file: Option<UnfinishedFile>,
}

impl Destination {
    /// Refuses a name that is taken, unless it may be replaced. Removes what killed commands have
    /// left of the name.
    pub(super) fn new(
        comm: &dyn Comm,
        path: &Path,
        existing: Existing,
        partitioned: bool,
    ) -> Result<Self, CommandError> {
        let name = place(path)?;
        // All ranks of a job find the name taken, or none does.
        let is_first = comm.rank() == 0;
        let refused = existing == Existing::Refuse;
        let mut taken = vec![u8::from(is_first && refused && exists(&name))];
        comm.broadcast(0, &mut taken)?;
        if taken == [1] {
            return Err(CommandError::failed(
                format!("cannot copy to {name}"),
                "it exists",
                "--force replaces it",
            ));
        }
        let is_url_of_directory = |url: &str| url.is_empty() || url.ends_with('/');
        let is_directory = match &name {
            Location::Local(path) => path.file_name().is_none() || path.is_dir(),
            Location::Remote(url) => is_url_of_directory(path_on_servers(url)),
            Location::Object(url) => is_url_of_directory(&url.key),
            Location::Pool(url) => is_url_of_directory(&url.name),
        };
        if is_directory || path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(CommandError::usage(
                format!("{name} is a directory"),
                "give the copy a name",
            ));
        }
        let part = if partitioned { None } else { Some(PartName::new(comm, &name)?) };
        let old = if is_first { DatasetFiles::of(path).ok() } else { None };
        Ok(Self { path: path.into(), existing, part, old })
    }

    /// The name that the dataset is to be created by.
    pub(super) fn created_as(&self) -> &Path {
        self.part.as_ref().map_or(&self.path, |part| &part.path)
    }

    /// Says to other processes that the file, which was just created, is in use.
    pub(super) fn claim(&self, comm: &dyn Comm) -> Result<(), CommandError> {
        let file = self.part.as_ref().and_then(|part| part.file.as_ref());
        let claimed = file.map_or(Ok(()), UnfinishedFile::claim);
        let all = agree(comm, claimed.as_ref().map_err(ToString::to_string).copied());
        claimed?;
        Ok(all?)
    }

    /// What is left if the command ends before the copy is whole.
    pub(super) fn leaves(&self) -> Leftover {
        let name = self.path.display().to_string();
        match &self.part {
            Some(part) => Leftover::Copy { part: part.path.clone(), name },
            None => Leftover::Dataset { unpublished: format!("{name}.unpublished").into(), name },
        }
    }

    /// Whether no file has the name that the dataset is created by.
    pub(super) fn is_new(&self) -> bool {
        self.part.is_some() || self.existing == Existing::Refuse
    }

    /// Gives the whole copy its name, and removes the partitions of what had it before.
    pub(super) fn finish(&self, comm: &dyn Comm) -> Result<(), CommandError> {
        let renamed = match self.part.as_ref().and_then(|part| part.file.as_ref()) {
            Some(file) => file.finish(self.existing).inspect_err(|_| drop(file.discard())),
            None => Ok(()),
        };
        if let (Ok(()), Some(old)) = (&renamed, self.old_partitions()) {
            // The copy is there; partitions of the old one that stay do no harm.
            let _ = old.remove_partitions();
        }
        let ended = agree(comm, renamed.as_ref().map_err(ToString::to_string).copied());
        renamed?;
        Ok(ended?)
    }

    /// What was replaced, with partitions that are not those of the copy.
    fn old_partitions(&self) -> Option<DatasetFiles> {
        let mut old = self.old.clone()?;
        if old.partitions.is_empty() {
            return None;
        }
        let new = DatasetFiles::of(&self.path).ok()?;
        let still = |file: &Path| {
            let is_it = new.partitions.iter().any(|part| part.file == file);
            is_it || !File::exists(file).unwrap_or(false)
        };
        old.partitions.retain(|part| !still(&part.file));
        Some(old)
    }

    /// Removes what there is of the copy.
    pub(super) fn discard(&self) {
        if let Some(file) = self.part.as_ref().and_then(|part| part.file.as_ref()) {
            let _ = file.discard();
        }
    }
}

impl PartName {
    /// A name that all ranks know.
    fn new(comm: &dyn Comm, name: &Location) -> Result<Self, CommandError> {
        let file = (comm.rank() == 0).then(|| {
            remove_stale([name]);
            UnfinishedFile::new(name)
        });
        let mut bytes = match file.as_ref().map(UnfinishedFile::part) {
            Some(Location::Local(path)) => path.into_os_string().into_encoded_bytes(),
            Some(Location::Remote(url)) => url.to_string().into_bytes(),
            Some(Location::Object(url)) => url.to_string().into_bytes(),
            Some(Location::Pool(url)) => url.to_string().into_bytes(),
            None => Vec::new(),
        };
        comm.broadcast(0, &mut bytes)?;
        Ok(Self { path: OsStr::from_bytes(&bytes).into(), file })
    }
}

fn exists(name: &Location) -> bool {
    match name {
        Location::Local(path) => path.symlink_metadata().is_ok(),
        Location::Remote(url) => {
            // If the servers cannot be asked, creating the copy fails with the reason.
            Client::shared(url).and_then(|client| client.lookup(path_on_servers(url))).is_ok()
        }
        // Creating it is refused.
        Location::Object(_) => false,
        Location::Pool(url) => {
            RadosNamespace::open(url).and_then(|namespace| namespace.stat(&url.name)).is_ok()
        }
    }
}
