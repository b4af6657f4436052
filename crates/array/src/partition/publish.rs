//! How the files of a dataset become one, and cease to be.
//!
//! A master gets its name when everything it lists is durable, so that there is always one whole dataset
//! of that name: the old one, then the new one. Partitions of the old one go afterwards, and only those
//! that are its own: names alone prove nothing.

use std::io::{self, Read as _};
use std::path::Path;

use striate_file::{File, FileError};

use super::files::{DatasetFiles, DatasetKind};
use super::names::is_url;
use crate::state::State;
use crate::{ArrayError, Dataset};

/// The dataset that goes away when something else takes its name, if it has partitions. One rank calls it.
pub(crate) fn replaced(path: &Path) -> Option<DatasetFiles> {
    let partitioned = |files: &DatasetFiles| matches!(files.kind, DatasetKind::Partitioned { .. });
    DatasetFiles::of(path).ok().filter(partitioned)
}

/// Deletes the partitions of a dataset whose master is no more. What cannot be deleted is left.
pub(crate) fn delete(old: Option<&DatasetFiles>) {
    for part in old.into_iter().flat_map(DatasetFiles::own) {
        // Somebody else may have been faster.
        let _ = part.delete();
    }
}

/// Removes what a writer has left that was killed before it had published a dataset. One rank calls it.
pub(super) fn remove_unpublished(path: &Path) -> Result<(), ArrayError> {
    if path.to_str().is_some_and(is_url) {
        if File::exists(path)? {
            delete(replaced(path).as_ref());
            File::delete(path)?;
        }
        return Ok(());
    }
    let in_the_way = |why: String| {
        let reason = format!("{} is in the way: {why}", path.display());
        ArrayError::from(FileError::Argument { call: "create", reason })
    };
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(in_the_way(error.to_string())),
        Ok(known) if !known.is_file() => return Err(in_the_way("it is no regular file".into())),
        Ok(_) => {}
    }
    let mut magic = [0; 3];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut magic));
    // A writer that came no further than to the name has left it empty, or a hole.
    match read.map_err(|error| in_the_way(error.to_string()))? {
        3 if ![*b"cdf", *b"CDF", [0; 3]].contains(&magic) => {
            return Err(in_the_way("it is no dataset; what is it?".into()));
        }
        _ => {}
    }
    delete(replaced(path).as_ref());
    Ok(File::delete(path)?)
}

impl Dataset {
    /// Makes the files whole ones, partitions first; a new dataset gets its name. Collective.
    pub(crate) fn finish(&mut self, durable: bool) -> Result<(), ArrayError> {
        let durable = durable || self.state.publish.is_some();
        self.copy_coordinates()?;
        if let Some(parted) = &mut self.parted {
            let mut own = Ok(());
            if durable {
                // What this rank has written by itself.
                for part in parted.opened.values_mut() {
                    own = own.and(part.state.file.sync().map_err(ArrayError::from));
                }
            }
            // Also in the group: nobody finishes a file that another still writes.
            self.state.agree(own)?;
            let finished = parted.on_parts(|part| part.state.finish(durable));
            self.state.agree(finished)?;
        }
        self.state.finish(durable)?;
        self.publish()
    }

    /// States the records where they are stated: in partitions first. Collective.
    pub(crate) fn state_records(&mut self) -> Result<(), ArrayError> {
        let State { unfinished, stated_records, header, .. } = &self.state;
        if let Some(parted) = &mut self.parted
            && !unfinished
            && header.records != *stated_records
        {
            let stated = parted.on_parts(|part| part.state.state_records());
            self.state.agree(stated)?;
        }
        self.state.state_records()
    }

    /// Whether its files can hold so many records.
    pub(crate) fn can_hold(&self, records: u64) -> bool {
        self.state.header.end_of(records).is_some()
            && self.parted.as_ref().is_none_or(|parted| parted.can_hold(records))
    }

    /// Gives the finished file its name, if it has another so far. Collective.
    fn publish(&mut self) -> Result<(), ArrayError> {
        let Some(name) = self.state.publish.clone() else { return Ok(()) };
        self.state.on_first(|state| {
            let old = replaced(&name);
            File::rename(&state.path, &name)?;
            delete(old.as_ref());
            Ok(())
        })?;
        self.state.path = name;
        self.state.publish = None;
        Ok(())
    }
}
