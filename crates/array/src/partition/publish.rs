//! Publication of a new dataset, and removal of the one that it replaces.
//!
//! A master is renamed to its final name when all files that it lists are durable, so that the name
//! always belongs to a complete dataset: the old one, then the new one. The partitions of the old
//! dataset are deleted afterwards, if they are its own ([`super::ownership`]).

use std::io::{self, Read as _};
use std::path::Path;

use striate_file::File;
use striate_hdf5::SIGNATURE;

use super::dataset_files::{DatasetFiles, DatasetKind, in_the_way};
use super::file_names::is_remote;
use crate::file_state::{Durability, FileState};
use crate::{ArrayError, Dataset};

/// The dataset that is replaced when a file gets its name, if it has partitions. Called on one
/// rank.
pub(crate) fn replaced(path: &Path) -> Option<DatasetFiles> {
    let is_partitioned =
        |files: &DatasetFiles| matches!(files.kind, DatasetKind::Partitioned { .. });
    DatasetFiles::of(path).ok().filter(is_partitioned)
}

/// Deletes the partitions of a dataset whose master was replaced. Errors are ignored.
pub(crate) fn delete(old: Option<&DatasetFiles>) {
    for part in old.into_iter().flat_map(DatasetFiles::own) {
        // Another process may have deleted it already.
        let _ = part.delete();
    }
}

/// Removes the files of a writer that was killed before it published its dataset. Called on one
/// rank.
pub(super) fn remove_unpublished(path: &Path) -> Result<(), ArrayError> {
    if is_remote(path) {
        if File::exists(path)? {
            delete(replaced(path).as_ref());
            File::delete(path)?;
        }
        return Ok(());
    }
    let in_the_way = |why: String| in_the_way("create", path, &why);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(in_the_way(error.to_string())),
        Ok(known) if !known.is_file() => return Err(in_the_way("it is not a regular file".into())),
        Ok(_) => {}
    }
    let mut magic = [0; SIGNATURE.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut magic));
    // A writer that was killed right after creating the file leaves it empty, or with a hole.
    let read = read.map_err(|error| in_the_way(error.to_string()))?;
    let is_classic = [b"cdf", b"CDF", &[0; 3]].contains(&&[magic[0], magic[1], magic[2]]);
    if read >= 3 && !is_classic && magic != SIGNATURE {
        return Err(in_the_way("it is not a dataset".into()));
    }
    delete(replaced(path).as_ref());
    Ok(File::delete(path)?)
}

impl Dataset {
    /// Finishes the files, partitions first; a new dataset is published. Collective.
    pub(crate) fn finish(&mut self, durability: Durability) -> Result<(), ArrayError> {
        let durability =
            if self.state.publish_as.is_some() { Durability::Durable } else { durability };
        self.copy_coordinates()?;
        if self.has_netcdf4_partitions() {
            self.commit_partitioned(durability)?;
            return self.publish();
        }
        if let Some(partitioned) = &mut self.partitioned {
            let mut own = Ok(());
            if durability == Durability::Durable {
                // Independent writes of this rank.
                for part in partitioned.independent.values_mut() {
                    own = own.and(part.data.state.file.sync().map_err(ArrayError::from));
                }
            }
            // No rank finishes a file that another one still writes.
            self.state.agree(own)?;
            let finished = partitioned.for_each_own(|part| part.state.finish(durability));
            self.state.agree(finished)?;
        }
        self.state.finish(durability)?;
        self.publish()
    }

    /// Writes the number of records to the headers, partitions first. Collective.
    pub(crate) fn state_records(&mut self) -> Result<(), ArrayError> {
        let FileState { unfinished, stated_records, header, .. } = &self.state;
        if let Some(partitioned) = &mut self.partitioned
            && !unfinished
            && header.records != *stated_records
        {
            let stated = partitioned.for_each_own(|part| part.state.state_records());
            self.state.agree(stated)?;
        }
        self.state.state_records()
    }

    /// Whether its files can hold `records` records.
    pub(crate) fn can_hold(&self, records: u64) -> bool {
        self.state.header.end_of(records).is_some()
            && self.partitioned.as_ref().is_none_or(|partitioned| partitioned.can_hold(records))
    }

    /// Renames the finished file to its final name, if it has a temporary one. Collective.
    fn publish(&mut self) -> Result<(), ArrayError> {
        let Some(name) = self.state.publish_as.clone() else { return Ok(()) };
        self.state.on_rank_0(|state| {
            let old = replaced(&name);
            File::rename(&state.path, &name)?;
            delete(old.as_ref());
            Ok(())
        })?;
        self.state.path = name;
        self.state.publish_as = None;
        Ok(())
    }
}
