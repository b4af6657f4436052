//! Partitioned datasets \[SON\]: one dataset to the program, on storage a *master* and partition files.
//!
//! ```text
//! targets     ──► Placing     those that are fast right now                           placing.rs
//! definitions ──► Scheme      which variable is divided along what                    scheme.rs
//!             ──► headers     of the master and of each partition, and back           headers.rs
//! slab        ──► Extent      what an access has in each partition                     selection.rs
//!             ──► Request     to a delegate in the group that has the partition        request.rs, groups.rs
//!             ──► pieces      bytes as the file holds them, some at a time             exchange.rs, alone.rs
//! a sync      ──► coordinates copied from the master into the partitions              coordinates.rs
//! first sync  ──► publish     the master gets its name when everything is durable      publish.rs
//! a name      ──► files       of a dataset, removed and renamed as one thing           files.rs, rename.rs
//!             ──► Claim       whose a partition is, before anything is deleted         ownership.rs
//! sub-files of PnetCDF, to be read                                                     subfiles.rs
//! ```
//!
//! All files are valid netCDF files of the same format. A partition is a plain [`Dataset`] on the ranks of
//! its group, so that everything that works on a dataset works on a partition; its number of records is
//! what this module says.

mod alone;
mod coordinates;
pub(crate) mod create;
mod exchange;
mod files;
mod groups;
mod headers;
mod names;
pub(crate) mod open;
mod ownership;
mod parcels;
mod partitioning;
mod placing;
pub(crate) mod publish;
pub(crate) mod redefine;
mod rename;
mod request;
mod scheme;
mod selection;
mod subfiles;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_comm::Comm;
use striate_file::{File, Stats};

pub(crate) use create::Created;
pub(crate) use headers::is_reserved;
pub(crate) use request::{Queue, Wanted};
pub(crate) use scheme::PAR_DIM_ID;
pub(crate) use selection::Extent;

pub use files::{DatasetFiles, DatasetKind, Ownership, PartitionFile};
pub use partitioning::Partitioning;

use crate::format::Header;
use crate::state::{Derived, agree_on};
use crate::{ArrayError, Dataset};
use groups::Groups;
use headers::{Home, Ties};
use scheme::Scheme;

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Its file: a path, or a URL.
    pub file: PathBuf,
    /// The variables that it holds a part of: their numbers, the divided dimension's position in the
    /// variable's list, and the indices along it.
    pub variables: Vec<(usize, usize, Range<u64>)>,
    /// Where its fixed part ends, in bytes.
    pub fixed_end: u64,
    /// Bytes of one record.
    pub record_size: u64,
    /// What is wrong with it, if the dataset was opened all the same.
    pub missing: Option<String>,
}

/// What the exchange with partitions has cost a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartitionStats {
    /// Bytes sent to and received from other ranks.
    pub exchanged_bytes: u64,
    /// Rounds in which bytes moved.
    pub rounds: u64,
    /// Seconds of packing, sending and receiving.
    pub exchange_seconds: f64,
    /// Seconds of writing to and reading from partitions.
    pub io_seconds: f64,
}

/// A partition that this rank's group has.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) index: usize,
    pub(crate) data: Dataset,
}

/// What a partitioned dataset has beside its master.
#[derive(Debug)]
pub(crate) struct Parted {
    /// What the program sees.
    pub(crate) logical: Header,
    /// The master's own header, while the dataset is in define mode.
    pub(crate) master: Header,
    pub(crate) scheme: Scheme,
    pub(crate) ties: Ties,
    /// Whether its files are those of PnetCDF, which have no ties.
    pub(crate) foreign: bool,
    /// The partitions' files.
    pub(crate) files: Vec<PathBuf>,
    /// Whether data of a variable that is not written reads as fill values.
    pub(crate) filled: Vec<bool>,
    pub(crate) derived: Derived,
    /// Of each variable, which one it is in each partition that has some of it.
    pub(crate) indices: Vec<Vec<usize>>,
    /// This rank.
    pub(crate) rank: usize,
    pub(crate) groups: Groups,
    /// The ranks of this rank's group, if they are several.
    pub(crate) group: Option<Arc<dyn Comm>>,
    /// Those of this rank's group.
    pub(crate) parts: Vec<Part>,
    /// Partitions that this rank has opened by itself.
    pub(crate) opened: BTreeMap<usize, Dataset>,
    pub(crate) infos: Vec<PartitionInfo>,
    /// Whether coordinates may have changed since partitions were given copies, as far as this rank knows.
    pub(crate) stale_coordinates: bool,
    /// Which master each partition of a new dataset names; empty if they are there already.
    pub(crate) homes: Vec<Option<Home>>,
    pub(crate) costs: PartitionStats,
}

impl Parted {
    /// Whether a variable's data is in partitions.
    pub(crate) fn divides(&self, variable: usize) -> bool {
        self.scheme.variables.get(variable).is_some_and(Option::is_some)
    }

    pub(crate) fn set_records(&mut self, records: u64) {
        self.stale_coordinates |= records != self.logical.records;
        self.logical.records = records;
        let opened = self.opened.values_mut();
        for part in self.parts.iter_mut().map(|part| &mut part.data).chain(opened) {
            part.state.header.records = records;
        }
    }

    /// To be called when the definitions are complete.
    fn derive(&mut self) {
        let record = |index: usize| self.logical.is_record(&self.logical.variables[index]);
        let count = self.logical.variables.len();
        self.derived = Derived {
            record_size: None,
            has_records: (0..count).any(record),
            fills_records: (0..count).any(|index| self.filled[index] && record(index)),
        };
        let mut indices = vec![Vec::new(); count];
        for k in 0..self.scheme.count {
            for (own, member) in self.scheme.members(&self.logical, k).into_iter().enumerate() {
                if !member.is_copy {
                    indices[member.variable].push(own);
                }
            }
        }
        self.indices = indices;
        let sizes = self.ties.sizes.iter();
        let known = std::mem::take(&mut self.infos);
        self.infos = self
            .files
            .iter()
            .zip(sizes)
            .enumerate()
            .map(|(k, (file, &[fixed_end, record_size]))| PartitionInfo {
                file: file.clone(),
                variables: self
                    .scheme
                    .part(k)
                    .map(|(index, along, range)| (index, along.dimension, range.clone()))
                    .collect(),
                fixed_end,
                record_size,
                missing: known.get(k).and_then(|info| info.missing.clone()),
            })
            .collect();
    }

    /// The flags of a partition's variables.
    fn filled_in(&self, k: usize) -> Vec<bool> {
        let members = self.scheme.members(&self.logical, k);
        // What is copied from the master is filled there.
        members.iter().map(|member| !member.is_copy && self.filled[member.variable]).collect()
    }

    /// Whether this rank is the first of its group.
    fn is_first(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.rank() == 0)
    }

    /// An error if partitions are missing: what was to be done needs all.
    pub(crate) fn needs_all(&self, what: &str) -> Result<(), ArrayError> {
        match self.infos.iter().find_map(|info| Some((info, info.missing.as_ref()?))) {
            Some((info, reason)) => Err(ArrayError::Partition {
                file: info.file.display().to_string(),
                reason: format!("{what} needs it: {reason}"),
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let own = self.parts.iter().map(|part| &part.data).chain(self.opened.values());
        own.map(|data| data.state.file.stats()).sum()
    }

    /// Closes the partitions. Collective in the group.
    pub(crate) fn close(self) -> Result<(), ArrayError> {
        let own = self.parts.into_iter().map(|part| part.data).chain(self.opened.into_values());
        own.map(|data| data.state.file.close().map_err(ArrayError::from)).fold(Ok(()), Result::and)
    }

    /// Closes everything, and deletes a new dataset: its partitions and the master at that path.
    /// Collective.
    pub(crate) fn give_up(
        self,
        comm: &dyn Comm,
        closed: Result<(), ArrayError>,
        delete: Option<&Path>,
    ) -> Result<(), ArrayError> {
        let own: Vec<PathBuf> = match delete {
            // Also those that were made and could not be opened.
            Some(_) if self.is_first() => {
                self.files[self.groups.partitions_of(self.groups.of_rank(self.rank))].to_vec()
            }
            _ => Vec::new(),
        };
        let first = self.groups.partitions_of(self.groups.of_rank(self.rank)).start;
        let id = self.ties.id.clone();
        let mut done = closed.and(self.close());
        if let Some(master) = delete {
            let claim = ownership::Claim::new(master, &id, true);
            for (k, file) in (first..).zip(&own) {
                let judged = claim.judge(k, file);
                if let (Ownership::Own, Some(held)) = (judged.ownership, judged.held) {
                    done = done.and(held.delete().map(drop));
                }
            }
        }
        // The master lists the partitions: it goes last, so that none is left that nobody knows.
        agree_on(comm, done)?;
        let master = match delete {
            Some(path) if comm.rank() == 0 => File::delete(path).map_err(ArrayError::from),
            _ => Ok(()),
        };
        agree_on(comm, master)
    }
}

impl Partitioning {
    /// What rank 0 asks for. Collective.
    pub(crate) fn of_first(comm: &dyn Comm, own: &Self) -> Result<Self, ArrayError> {
        if comm.size() == 1 {
            return Ok(own.clone());
        }
        let mut lines = own.to_lines().into_bytes();
        comm.broadcast(0, &mut lines)?;
        Ok(Self::from_lines(&String::from_utf8_lossy(&lines))?)
    }
}
