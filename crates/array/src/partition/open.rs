//! Opens a dataset: recognises masters and sub-files by their headers, and opens and checks their
//! partitions.
//!
//! Every partition is compared with the table of the master (id, generation, sizes, shapes,
//! records, length). A mismatch is an error that names the partition, unless
//! `nc_partitions_partial` allows it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_comm::Comm;
use striate_file::File;

use super::arrangement::arrange_variables;
use super::commit::{self, DecidedCommit};
use super::create::group_of;
use super::file_names::{file_name, resolved};
use super::groups::Groups;
use super::headers::{self, PartitionIdentity};
use super::subfiles;
use super::{OpenPartition, PartitionStats, Partitioned, Partitioning};
use crate::file_state::{FileState, RecordInfo, agree_among};
use crate::format::Header;
use crate::header_reading::{FileDefinitions, UnfinishedFile, read_definitions_with, read_header};
use crate::netcdf4::Superblock;
use crate::{ArrayError, Dataset, OpenMode, Options};

/// The dataset of an opened file. Collective.
pub(crate) fn open(mut state: FileState, options: &Options) -> Result<Dataset, ArrayError> {
    let fault = |reason| ArrayError::Partition { file: state.path.display().to_string(), reason };
    // All ranks have the same header, and so the same result.
    let name = file_name(&state.path);
    let found = headers::logical_of(&state.header, &name).map_err(fault)?;
    let foreign = found.is_none();
    let found = match found {
        None => subfiles::logical_of(&state.header, &name).map_err(fault)?,
        own => own,
    };
    let Some((logical, scheme, table)) = found else {
        let identity = headers::partition_identity(&state.header);
        if let Some(identity) = identity.filter(|_| state.mode.is_writable()) {
            return Err(fault(format!(
                "it is a part of '{}', which is opened for writing as a whole",
                identity.master
            )));
        }
        return Ok(Dataset::new(state, options.clone()));
    };
    if foreign && state.mode.is_writable() {
        return Err(fault("it has sub-files of PnetCDF, which can be read only".into()));
    }
    let comm = Arc::clone(&state.comm);
    let partitioning = Partitioning::of_rank_0(comm.as_ref(), &options.partitioning)?;
    let options = Options { partitioning, ..options.clone() };
    let groups = Groups { ranks: comm.size(), partitions: scheme.count };
    if state.header.format.is_hdf5() {
        // The master has no variables by which it would have the lengths of all dimensions.
        let dimensions = (0..).zip(&logical.dimensions);
        let lengths = dimensions.filter(|(_, it)| it.is_unlimited()).map(|(id, it)| (id, it.len));
        let lengths: Vec<(u32, u64)> = lengths.collect();
        if state.mode.is_writable() {
            state.grow_to(&lengths)?;
        }
        for (id, len) in lengths {
            state.header.dimensions[id as usize].len = len;
        }
    }
    let mut partitioned = Partitioned {
        filled: vec![false; logical.variables.len()],
        master: state.header.clone(),
        files: table.files.iter().map(|file| resolved(&state.path, file)).collect(),
        logical,
        scheme,
        table,
        foreign,
        record_info: RecordInfo::default(),
        indices: Vec::new(),
        rank: comm.rank(),
        groups,
        group: group_of(comm.as_ref(), groups)?,
        own: Vec::new(),
        independent: BTreeMap::new(),
        deferred: super::PieceLog::default(),
        decided: DecidedCommit::all_of(&state.header),
        commits: Vec::new(),
        changes: 0,
        shared_places: Vec::new(),
        has_unshared_places: false,
        infos: Vec::new(),
        master_references: Vec::new(),
        stale_coordinates: false,
        costs: PartitionStats::default(),
    };
    partitioned.commits = vec![0; partitioned.files.len()];
    partitioned.places_are_committed();
    partitioned.update_derived();
    let problems = partitioned.open_own(&state, &options);
    partitioned.share_problems(comm.as_ref(), &problems)?;
    if foreign {
        let (records, fewer) = partitioned.count_records(comm.as_ref(), state.header.records)?;
        partitioned.share_problems(comm.as_ref(), &fewer)?;
        partitioned.share_sizes(comm.as_ref())?;
        partitioned.update_derived();
        state.header.records = records;
    }
    let problem = partitioned.infos.iter().find_map(|info| Some((info, info.missing.clone()?)));
    if let Some((info, reason)) = problem
        && !options.partitioning.partial
    {
        let file = info.file.display().to_string();
        return Err(ArrayError::Partition { file, reason });
    }
    partitioned.set_records(state.header.records);
    partitioned.filled.clone_from(&state.filled);
    Ok(Dataset::with(state, options, Some(Box::new(partitioned))))
}

impl Partitioned {
    /// Opens the partitions of this rank's group; returns the problems of those that cannot be
    /// used. Collective in the group.
    fn open_own(&mut self, master: &FileState, options: &Options) -> Vec<(usize, String)> {
        let mut problems = Vec::new();
        for k in self.groups.partitions_of(self.groups.of_rank(self.rank)) {
            match self.open_partition(k, master, options) {
                Ok(data) => self.own.push(OpenPartition::new(k, data)),
                Err(reason) => problems.push((k, reason)),
            }
        }
        problems
    }

    fn open_partition(
        &self,
        k: usize,
        master: &FileState,
        options: &Options,
    ) -> Result<Dataset, String> {
        let path: PathBuf = self.files[k].clone();
        let comm = self.comm_of_partition();
        let hints = master.file.hints();
        let file = File::open(&comm, &path, master.mode.file_mode(), hints)
            .map_err(|error| without_path(&path, &error))?;
        let options = Options { hints: hints.clone(), ..options.clone() };
        let checked = if self.foreign {
            self.checked_subfile(k, file, &path, master, &options)
        } else {
            self.checked(k, file, &path, master, &options)
        };
        checked.map_err(|error| match error {
            ArrayError::Partition { reason, .. } => reason,
            other => without_path(&path, &other),
        })
    }

    /// An opened partition, after checking it against the master. Collective in the group.
    fn checked(
        &self,
        k: usize,
        mut file: File,
        path: &Path,
        master: &FileState,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        if self.logical.format.is_hdf5() {
            return self.checked_netcdf4(k, file, path, master, options);
        }
        let mut header = read_header(&mut file, UnfinishedFile::Refuse)?;
        let (file_len, records) = (file.size(), master.header.records);
        let mut state = FileState::new(file, path.into(), header.clone(), options, master.mode)?;
        let fault = |reason: String| {
            Err(ArrayError::Partition { file: path.display().to_string(), reason })
        };
        let table = &self.table;
        let identity = table.identity_of(k, None);
        let expected = headers::partition(&self.logical, &self.scheme, k, &identity)?;
        header.records = records;
        let checked = match self.check_identity(k, &header) {
            Err(reason) => fault(reason),
            Ok(own)
                if own.size != table.sizes[k] || headers::size_of(&header) != Some(own.size) =>
            {
                fault("its sizes are not those that the master states".into())
            }
            Ok(_) if !same_shape(&header, &expected) => {
                fault("its variables are not those that the master states".into())
            }
            Ok(_) if state.header.records < records => fault(format!(
                "it has {} records, the master states {records}",
                state.header.records
            )),
            Ok(_) => check_length(path, file_len, header.end(), |len, end| {
                format!("it has {len} bytes of {end}")
            }),
        };
        state.agree(checked)?;
        state.stated_records = state.header.records;
        state.header.records = records;
        Ok(Dataset::new(state, options.clone()))
    }

    /// The same for a netCDF-4 file. Collective in the group.
    fn checked_netcdf4(
        &self,
        k: usize,
        mut file: File,
        path: &Path,
        master: &FileState,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let is_writable = master.mode.is_writable();
        let superblock = commit::complete_commit(&mut file, &self.decided, k, is_writable)?;
        let state = read_netcdf4(file, path, options, master.mode, superblock.as_ref())?;
        let comm = Arc::clone(&state.comm);
        let arranged = self.arranged(k, &self.logical, state, is_writable);
        Ok(Dataset::new(agree_among(comm.as_ref(), arranged)?, options.clone()))
    }

    /// An opened netCDF-4 partition, with its variables in the order in which requests count them.
    /// Its unlimited dimensions must be as long as those in `logical` at least.
    pub(super) fn arranged(
        &self,
        k: usize,
        logical: &Header,
        mut state: FileState,
        is_writable: bool,
    ) -> Result<FileState, ArrayError> {
        let file = state.path.display().to_string();
        let fault = |reason: String| Err(ArrayError::Partition { file: file.clone(), reason });
        let identity = self.table.identity_of(k, None);
        let expected = headers::partition(logical, &self.scheme, k, &identity)?;
        if let Err(reason) = self.check_identity(k, &state.header) {
            return fault(reason);
        }
        if !arrange_variables(&mut state, &expected) {
            return fault("its variables are not those that the master states".into());
        }
        match state.netcdf4.as_ref().and_then(|netcdf4| netcdf4.refusal(0)) {
            Some(reason) if is_writable => fault(format!("it can only be read: {reason}")),
            _ => Ok(state),
        }
    }

    /// What a partition says of itself, if it is the one that the master lists; the error is a
    /// reason.
    fn check_identity(&self, k: usize, header: &Header) -> Result<PartitionIdentity, String> {
        let table = &self.table;
        match headers::partition_identity(header) {
            None => Err("it is no partition".into()),
            Some(own) if own.id != table.id => {
                Err(format!("it is of another dataset, {}, not of {}", own.id, table.id))
            }
            Some(own) if own.index != k as u64 => {
                Err(format!("it is partition {}, not {k}", own.index))
            }
            Some(own) if own.generation != table.generation => Err(format!(
                "it is of generation {}, the master of {}",
                own.generation, table.generation
            )),
            Some(own) => Ok(own),
        }
    }

    /// Makes the problems of partitions known to all ranks. Collective.
    fn share_problems(
        &mut self,
        comm: &dyn Comm,
        problems: &[(usize, String)],
    ) -> Result<(), ArrayError> {
        let line = |(k, reason): &(usize, String)| format!("{k}\t{}", reason.replace('\n', " "));
        let own: Vec<String> = problems.iter().map(line).collect();
        for text in comm.allgather(own.join("\n").as_bytes())? {
            for line in String::from_utf8_lossy(&text).lines() {
                let Some((k, reason)) = line.split_once('\t') else { continue };
                let info = k.parse().ok().and_then(|k: usize| self.infos.get_mut(k));
                if let Some(info) = info {
                    // In a group each rank has an error; the first one is the most specific.
                    info.missing.get_or_insert_with(|| reason.to_owned());
                }
            }
        }
        let missing = |part: &OpenPartition| self.infos[part.index].missing.is_some();
        self.own.retain(|part| !missing(part));
        Ok(())
    }
}

/// The state of a netCDF-4 file that is a partition, with a superblock in the place of its own if
/// rank 0 has one. Collective.
pub(super) fn read_netcdf4(
    mut file: File,
    path: &Path,
    options: &Options,
    mode: OpenMode,
    superblock: Option<&Superblock>,
) -> Result<FileState, ArrayError> {
    let mut definitions = read_definitions_with(&mut file, UnfinishedFile::Refuse, superblock)?;
    let header = definitions.take_header();
    let mut state = FileState::new(file, path.into(), header, options, mode)?;
    match definitions {
        FileDefinitions::Netcdf4(opened) => opened.install(&mut state, options)?,
        FileDefinitions::Classic(_) => {
            let file = path.display().to_string();
            let reason = "it is a classic file, the master is netCDF-4".into();
            return Err(ArrayError::Partition { file, reason });
        }
    }
    Ok(state)
}

/// An error if a file of `len` bytes does not reach `end`, where its data ends; `too_short` is the
/// reason.
pub(super) fn check_length(
    path: &Path,
    len: Result<u64, striate_file::FileError>,
    end: Option<u64>,
    too_short: impl FnOnce(u64, u64) -> String,
) -> Result<(), ArrayError> {
    let reason = match (len?, end) {
        (len, Some(end)) if len >= end => return Ok(()),
        (len, Some(end)) => too_short(len, end),
        (_, None) => "it ends beyond what a file can hold".into(),
    };
    Err(ArrayError::Partition { file: path.display().to_string(), reason })
}

/// Whether two headers have the same variables, with the same types and shapes.
pub(super) fn same_shape(own: &Header, expected: &Header) -> bool {
    own.format == expected.format
        && own.variables.len() == expected.variables.len()
        && own.variables.iter().zip(&expected.variables).all(|(one, other)| {
            one.name == other.name
                && one.external == other.external
                && own.is_record(one) == expected.is_record(other)
                && own.shape(one) == expected.shape(other)
        })
}

/// The text of an error, without the name of the file at its start.
fn without_path(path: &Path, error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let name = path.display().to_string();
    match text.strip_prefix(&name) {
        Some(rest) => rest.trim_start_matches(&[':', ' '][..]).to_owned(),
        None => text,
    }
}
