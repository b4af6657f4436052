//! [`Target`]: the name of a copy, and the one that it has until it is whole.
//!
//! A copy that is partitioned sees to that by itself.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use striate_array::DatasetFiles;
use striate_comm::{Comm, agree};
use striate_file::File;
use striate_store::remote::Client;
use striate_store::{Operation, StoreError};

use crate::CommandError;
use crate::fs::Place;
use crate::nc::interrupt::Leaves;
use crate::nc::place;

/// Bytes of a name that are kept in the other name, which must not become too long.
const KEPT: usize = 200;

/// The name of a copy, and the one that it has until it is whole. What is done with them is done by
/// rank 0; all calls are collective.
#[derive(Debug)]
pub(super) struct Target {
    name: Place,
    path: PathBuf,
    /// `None` if the copy sees to its name by itself.
    part: Option<PathBuf>,
    replace: bool,
    /// What is replaced, as rank 0 finds it.
    old: Option<DatasetFiles>,
}

impl Target {
    /// Refuses a name that is taken, unless it may be replaced.
    pub(super) fn new(
        comm: &dyn Comm,
        path: &Path,
        replace: bool,
        partitioned: bool,
    ) -> Result<Self, CommandError> {
        let name = place(path)?;
        // All ranks of a job find the name taken, or none does.
        let mut taken = vec![u8::from(comm.rank() == 0 && !replace && exists(&name))];
        comm.broadcast(0, &mut taken)?;
        if taken == [1] {
            return Err(CommandError::failed(
                format!("cannot copy to {name}"),
                "it exists",
                "--force replaces it",
            ));
        }
        let mut random = RandomState::new().hash_one(std::process::id()).to_le_bytes().to_vec();
        comm.broadcast(0, &mut random)?;
        let random = random.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let text = path.to_string_lossy();
        let (directory, last) = text.split_at(text.rfind('/').map_or(0, |at| at + 1));
        if last.is_empty() || path.is_dir() {
            return Err(CommandError::usage(
                format!("{name} is a directory"),
                "give the copy a name",
            ));
        }
        let mut end = last.len().min(KEPT);
        while !last.is_char_boundary(end) {
            end -= 1;
        }
        let part = format!("{directory}.{}.part-{random:016x}", &last[..end]).into();
        let part = (!partitioned).then_some(part);
        let old = if comm.rank() == 0 { DatasetFiles::of(path).ok() } else { None };
        Ok(Self { name, path: path.into(), part, replace, old })
    }

    /// The name that the copy is to be created by.
    pub(super) fn part(&self) -> &Path {
        self.part.as_ref().unwrap_or(&self.path)
    }

    /// What is left if the command ends before the copy is whole.
    pub(super) fn leaves(&self) -> Leaves {
        let name = self.path.display().to_string();
        match &self.part {
            Some(part) => Leaves::Copy { part: part.clone(), name },
            None => Leaves::Dataset { unpublished: format!("{name}.unpublished").into(), name },
        }
    }

    /// Whether nothing has that name.
    pub(super) const fn is_new(&self) -> bool {
        self.part.is_some() || !self.replace
    }

    /// Gives the whole copy its name, and removes the partitions of what had it before.
    pub(super) fn finish(&self, comm: &dyn Comm) -> Result<(), CommandError> {
        let renamed = match &self.part {
            Some(part) if comm.rank() == 0 => {
                self.rename(part).inspect_err(|_| drop(File::delete(part)))
            }
            _ => Ok(()),
        };
        if let (Ok(()), Some(old)) = (&renamed, self.old_partitions()) {
            // The copy is there; what is left of the old one harms nobody.
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
    pub(super) fn discard(&self, comm: &dyn Comm) {
        if let (Some(part), 0) = (&self.part, comm.rank()) {
            let _ = File::delete(part);
        }
    }

    fn rename(&self, part: &Path) -> Result<(), StoreError> {
        match &self.name {
            Place::Remote(url) => {
                let client = Client::shared(url)?;
                let path = |path: &str| path.trim_start_matches('/').to_owned();
                let text = part.to_string_lossy();
                let part = text.parse::<striate_store::remote::RemoteUrl>();
                let part = part.map_or_else(|_| text.into_owned(), |url| url.path);
                client.rename(&path(&part), &path(&url.path), self.replace)
            }
            Place::Local(name) => {
                let renamed =
                    if self.replace { std::fs::rename(part, name) } else { rename_new(part, name) };
                let what = || format!("{} to {}", part.display(), name.display());
                renamed.map_err(|error| StoreError::system(Operation::Rename, what(), error))
            }
        }
    }
}

/// Renames, but replaces nothing that came there meanwhile.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not know how to; the name was free a moment ago.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => std::fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

fn exists(name: &Place) -> bool {
    match name {
        Place::Local(path) => path.symlink_metadata().is_ok(),
        Place::Remote(url) => {
            let path = url.path.trim_start_matches('/');
            // If the servers cannot be asked, making the copy will tell why.
            Client::shared(url).and_then(|client| client.lookup(path)).is_ok()
        }
    }
}
