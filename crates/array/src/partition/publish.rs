//! How the files of a dataset become one, and cease to be.
//!
//! A master gets its name when everything it lists is durable, so that there is always one whole dataset
//! of that name: the old one, then the new one. Partitions of the old one go afterwards, and only those
//! that are its own: names alone prove nothing.

use std::path::{Path, PathBuf};

use striate_comm::alone;
use striate_file::{File, Hints, Method, MethodChoice, Mode};

use super::headers::{files_of, part_ties};
use super::names::resolved;
use crate::format::Header;
use crate::state::{State, read_header};
use crate::{ArrayError, Dataset};

/// Partitions of a dataset that goes away.
#[derive(Clone, Debug)]
pub(crate) struct Old {
    id: String,
    files: Vec<PathBuf>,
}

/// The header of a file, finished or not, and its length, if it can be had.
pub(super) fn header_of(path: &Path) -> Option<(Option<Header>, u64)> {
    let hints = Hints { method: MethodChoice::Fixed(Method::Posix), ..Hints::default() };
    let mut file = File::open(&alone(), path, Mode::READ, &hints).ok()?;
    let len = file.size().ok()?;
    Some((read_header(&mut file, true).ok(), len))
}

/// The partitions that the file at `path` lists, if it is a master. One rank calls it.
pub(crate) fn old_partitions(path: &Path) -> Option<Old> {
    let header = header_of(path)?.0?;
    let (id, names) = files_of(&header)?;
    let files = names.iter().map(|name| resolved(path, name)).collect();
    Some(Old { id, files })
}

/// Deletes partitions: those that say that they are of that dataset, and those whose writer did not come
/// to say anything. What cannot be deleted is left.
pub(crate) fn delete(old: Option<Old>) {
    let Some(Old { id, files }) = old else { return };
    for file in files {
        let is_its_own = match header_of(&file) {
            Some((Some(header), _)) => part_ties(&header).is_some_and(|ties| ties.id == id),
            Some((None, len)) => {
                let name = file.to_string_lossy();
                let begin = id.get(..8);
                len == 0 && begin.is_some_and(|id| name.contains(&format!("-{id}.nc")))
            }
            None => false,
        };
        if is_its_own {
            // Somebody else may have been faster.
            let _ = File::delete(&file);
        }
    }
}

impl Dataset {
    /// Makes the files whole ones, partitions first; a new dataset gets its name. Collective.
    pub(crate) fn finish(&mut self, durable: bool) -> Result<(), ArrayError> {
        let durable = durable || self.state.publish.is_some();
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
            let old = old_partitions(&name);
            File::rename(&state.path, &name)?;
            delete(old);
            Ok(())
        })?;
        self.state.path = name;
        self.state.publish = None;
        Ok(())
    }
}
