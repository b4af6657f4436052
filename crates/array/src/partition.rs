//! [`Partitioned`]: partitioned datasets \[SON\], one dataset to the program and on storage a
//! *master* file and partition files.
//!
//! ```text
//! targets     ──► SelectedTargets those that the probe found fast               target_selection.rs
//! definitions ──► PartitionScheme variables and their divided dimensions        scheme.rs
//!             ──► headers         of the master and of each partition, and back headers.rs
//! slab        ──► Hyperslab       the part of an access in each partition       selection.rs
//!             ──► Request         to a delegate in the group of the partition   request.rs
//! collective  ──► ExchangePlan    rounds, and what moves in each                exchange_plan.rs
//!             ──► RoundMessage    the messages of a round                       round_messages.rs
//! independent ──► handles         of a rank's own                               independent.rs
//!             ──► deferred_pieces what waits for the next collective call      deferred_pieces.rs
//! either      ──► PartitionPiece  bytes of hyperslabs, read and written         partition_io.rs
//! sync        ──► coordinates     copied from the master into the partitions    coordinates.rs
//! first sync  ──► publish         the master is renamed when all is durable     publish.rs
//! netCDF-4    ──► commit          all files change as one                       commit.rs
//!             ──► arrangement     the order in a file, and in requests          arrangement.rs
//!             ──► stored_storage  how divided variables are stored              stored_storage.rs
//!             ──► SharedPlacements what came into being since the last commit   shared_placements.rs
//! a name      ──► DatasetFiles    all files, removed and renamed as one         dataset_files.rs
//!             ──► OwnershipClaim  the master that a partition belongs to        ownership.rs
//! sub-files of PnetCDF, read-only                                               subfiles.rs
//! ```
//!
//! All files are valid netCDF files of the same format, classic or netCDF-4. A partition is a plain
//! [`Dataset`] of the ranks of its group, so that all code for datasets applies to partitions; only
//! its number of records is set from here.

mod arrangement;
mod commit;
mod coordinates;
pub(crate) mod create;
mod dataset_files;
mod deferred_pieces;
mod exchange;
mod exchange_plan;
mod file_names;
mod groups;
mod headers;
mod independent;
pub(crate) mod open;
mod ownership;
mod partition_io;
mod partitioning;
mod piece_bytes;
pub(crate) mod publish;
pub(crate) mod redefine;
mod rename;
mod request;
mod round_messages;
mod scheme;
mod selection;
mod shared_placements;
mod stored_storage;
mod subfiles;
mod target_selection;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_comm::Comm;
use striate_file::{File, Stats};

pub(crate) use create::Created;
pub(crate) use headers::is_reserved;
pub(crate) use request::{MappedRequest, RequestQueue};
pub(crate) use scheme::PAR_DIM_ID;
pub(crate) use selection::Hyperslab;

pub use dataset_files::{DatasetFiles, DatasetKind, Ownership, PartitionFile};
pub use partitioning::Partitioning;
pub use rename::IfExists;

use crate::file_state::{RecordInfo, agree_among};
use crate::format::Header;
use crate::netcdf4::PreparedCommit;
use crate::{ArrayError, Dataset};
use commit::DecidedCommit;
use deferred_pieces::PieceLog;
use groups::Groups;
use headers::{MasterReference, PartitionSize, PartitionTable};
use scheme::PartitionScheme;
use shared_placements::{KnownPlacements, SharedPlacements};

/// One partition of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Its file: a path, or a URL.
    pub file: PathBuf,
    /// The variables of which it contains a part.
    pub variables: Vec<PartitionRange>,
    /// End of its fixed variables, in bytes.
    pub fixed_end: u64,
    /// Bytes of one record.
    pub record_size: u64,
    /// Why it cannot be used, in a dataset that was opened with `nc_partitions_partial`.
    pub missing: Option<String>,
}

/// The part of a variable that a partition contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRange {
    /// Index of the variable in the dataset.
    pub variable: usize,
    /// Position of the divided dimension in the variable's list of dimensions.
    pub dimension: usize,
    /// The indices along that dimension.
    pub indices: Range<u64>,
}

/// Statistics of the exchange between a rank and the partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartitionStats {
    /// Bytes sent to and received from other ranks.
    pub exchanged_bytes: u64,
    /// Rounds of the exchange.
    pub rounds: u64,
    /// Seconds of packing, sending and receiving.
    pub exchange_seconds: f64,
    /// Seconds of writing to and reading from partitions.
    pub io_seconds: f64,
}

/// A partition that is assigned to this rank's group.
#[derive(Debug)]
pub(crate) struct OpenPartition {
    pub(crate) index: usize,
    pub(crate) data: Dataset,
    /// A commit that lacks its superblock, while all files are committed.
    prepared: Option<PreparedCommit>,
}

impl OpenPartition {
    const fn new(index: usize, data: Dataset) -> Self {
        Self { index, data, prepared: None }
    }
}

/// A partition that a rank accesses by itself.
#[derive(Debug)]
pub(crate) struct IndependentHandle {
    pub(crate) data: Dataset,
    /// The state of the partition that it knows ([`Partitioned::state_of`]).
    state: u64,
    /// What it knows of later places, in a partition of another group.
    known: KnownPlacements,
}

/// The state of a partitioned dataset in addition to that of its master.
#[derive(Debug)]
pub(crate) struct Partitioned {
    /// The definitions that the program sees.
    pub(crate) logical: Header,
    /// The master's own header, while the dataset is in define mode.
    pub(crate) master: Header,
    pub(crate) scheme: PartitionScheme,
    pub(crate) table: PartitionTable,
    /// Whether its files are sub-files of PnetCDF, which have no table.
    pub(crate) foreign: bool,
    /// The partitions' files.
    pub(crate) files: Vec<PathBuf>,
    /// Fill mode of each variable.
    pub(crate) filled: Vec<bool>,
    pub(crate) record_info: RecordInfo,
    /// For each variable, its index in each partition that contains some of it.
    pub(crate) indices: Vec<Vec<usize>>,
    /// This rank.
    pub(crate) rank: usize,
    pub(crate) groups: Groups,
    /// The communicator of this rank's group, if the group has several ranks.
    pub(crate) group: Option<Arc<dyn Comm>>,
    /// The open partitions of this rank's group.
    pub(crate) own: Vec<OpenPartition>,
    /// Handles of partitions for independent access by this rank.
    pub(crate) independent: BTreeMap<usize, IndependentHandle>,
    /// Independent writes to chunks of netCDF-4 partitions that all ranks carry out together.
    deferred: PieceLog,
    /// Commits of netCDF-4 partitions that the master has decided, as they were when the dataset
    /// was opened.
    decided: Vec<DecidedCommit>,
    /// How often the state of each netCDF-4 partition was committed.
    commits: Vec<u64>,
    /// How often the state of the own netCDF-4 partitions has changed.
    changes: u64,
    /// For each partition, where elements are that came into being since the last commit.
    shared_places: Vec<SharedPlacements>,
    /// Whether elements of netCDF-4 partitions may have got places that only their groups know.
    has_unshared_places: bool,
    pub(crate) infos: Vec<PartitionInfo>,
    /// Whether coordinate variables may have changed since they were copied to the partitions, as
    /// far as this rank knows.
    pub(crate) stale_coordinates: bool,
    /// For a new dataset, the master that each partition refers to; empty otherwise.
    pub(crate) master_references: Vec<Option<MasterReference>>,
    pub(crate) costs: PartitionStats,
}

impl Partitioned {
    /// Whether a variable is divided.
    pub(crate) fn divides(&self, variable: usize) -> bool {
        self.scheme.variables.get(variable).is_some_and(Option::is_some)
    }

    pub(crate) fn set_records(&mut self, records: u64) {
        self.stale_coordinates |= records != self.logical.records;
        self.logical.records = records;
        let opened = self.independent.values_mut().map(|handle| &mut handle.data);
        for part in self.own.iter_mut().map(|part| &mut part.data).chain(opened) {
            part.state.header.records = records;
        }
    }

    /// Updates what follows from the definitions; called when they are complete.
    fn update_derived(&mut self) {
        let record = |index: usize| self.logical.is_record(&self.logical.variables[index]);
        let count = self.logical.variables.len();
        self.record_info = RecordInfo {
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
        let sizes = self.table.sizes.iter();
        let known = std::mem::take(&mut self.infos);
        self.infos = self
            .files
            .iter()
            .zip(sizes)
            .enumerate()
            .map(|(k, (file, &PartitionSize { fixed_end, record_size }))| PartitionInfo {
                file: file.clone(),
                variables: self
                    .scheme
                    .part(k)
                    .map(|(variable, division, indices)| PartitionRange {
                        variable,
                        dimension: division.dimension,
                        indices: indices.clone(),
                    })
                    .collect(),
                fixed_end,
                record_size,
                missing: known.get(k).and_then(|info| info.missing.clone()),
            })
            .collect();
    }

    /// The fill modes of a partition's variables.
    fn filled_in(&self, k: usize) -> Vec<bool> {
        let members = self.scheme.members(&self.logical, k);
        // Copies of coordinate variables are filled in the master.
        members.iter().map(|member| !member.is_copy && self.filled[member.variable]).collect()
    }

    /// Whether this rank is the first of its group.
    fn is_first(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.rank() == 0)
    }

    /// An error if a partition is missing; `what` needs all of them.
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
        let independent = self.independent.values().map(|handle| &handle.data);
        let own = self.own.iter().map(|part| &part.data).chain(independent);
        own.map(|data| data.state.file.stats()).sum()
    }

    /// Closes the partitions. Collective in the group.
    pub(crate) fn close(self) -> Result<(), ArrayError> {
        let independent = self.independent.into_values().map(|handle| handle.data);
        let own = self.own.into_iter().map(|part| part.data).chain(independent);
        own.map(|data| data.state.file.close().map_err(ArrayError::from)).fold(Ok(()), Result::and)
    }

    /// Closes the partitions, and deletes a new dataset: its partitions and the master at `delete`.
    /// Collective.
    pub(crate) fn abort(
        self,
        comm: &dyn Comm,
        closed: Result<(), ArrayError>,
        delete: Option<&Path>,
    ) -> Result<(), ArrayError> {
        let own: Vec<PathBuf> = match delete {
            // Including partitions that were created but could not be opened.
            Some(_) if self.is_first() => {
                self.files[self.groups.partitions_of(self.groups.of_rank(self.rank))].to_vec()
            }
            _ => Vec::new(),
        };
        let first = self.groups.partitions_of(self.groups.of_rank(self.rank)).start;
        let id = self.table.id.clone();
        let mut done = closed.and(self.close());
        if let Some(master) = delete {
            let claim = ownership::OwnershipClaim::new(master, &id, true);
            for (k, file) in (first..).zip(&own) {
                let verdict = claim.judge(k, file);
                if let (Ownership::Own, Some(verified)) = (verdict.ownership, verdict.file) {
                    done = done.and(verified.delete().map(drop));
                }
            }
        }
        // The master lists the partitions, so it is deleted last: no partition is left without a
        // list.
        agree_among(comm, done)?;
        let master = match delete {
            Some(path) if comm.rank() == 0 => File::delete(path).map_err(ArrayError::from),
            _ => Ok(()),
        };
        agree_among(comm, master)
    }
}

impl Partitioning {
    /// The settings of rank 0. Collective.
    pub(crate) fn of_rank_0(comm: &dyn Comm, own: &Self) -> Result<Self, ArrayError> {
        if comm.size() == 1 {
            return Ok(own.clone());
        }
        let mut lines = own.to_lines().into_bytes();
        comm.broadcast(0, &mut lines)?;
        Ok(Self::from_lines(&String::from_utf8_lossy(&lines))?)
    }
}
