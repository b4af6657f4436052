//! Creates a partitioned dataset: selects targets, divides variables, names and creates the files.
//!
//! The master is written under a temporary name, and lists the partitions before they are created,
//! so that a later writer or `nc rm` can remove what a killed one has left. [`super::publish`]
//! gives the master its name.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_comm::{Comm, alone};
use striate_file::{File, Hints, Mode, StorageTarget};

use super::arrangement::in_order_of_file;
use super::file_names::{file_name, listed, part_name, resolved, unpublished};
use super::groups::Groups;
use super::headers::{self, MasterReference, PartitionSize, PartitionTable};
use super::scheme::PartitionScheme;
use super::target_selection::{CandidateTargets, SelectedTargets};
use super::{OpenPartition, PartitionStats, Partitioned, ownership, publish};
use crate::file_state::{FileState, RecordInfo, agree_among};
use crate::format::{Alignment, Format, Header};
use crate::{ArrayError, Dataset, Definition, OpenMode, Options, netcdf4};

/// The result of a definition.
#[derive(Debug)]
pub(crate) enum Created {
    Partitioned(Box<Dataset>),
    /// No variable is divided.
    Plain(Box<FileState>),
}

/// Begins a dataset that may be partitioned, under a temporary name. Collective.
pub(crate) fn begin(
    comm: &Arc<dyn Comm>,
    name: PathBuf,
    format: Format,
    options: &Options,
) -> Result<Definition, ArrayError> {
    let path = unpublished(&name);
    let ready =
        if comm.rank() == 0 { remove_leftovers(&name, &path, options.exclusive) } else { Ok(()) };
    agree_among(comm.as_ref(), ready)?;
    let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
    let file = File::open(comm, &path, mode, &options.hints)?;
    let mut state = FileState::new(file, path, Header::new(format), options, OpenMode::ReadWrite)?;
    state.publish_as = Some(name);
    Ok(Definition::new(state, None, options.clone(), None))
}

/// Removes the files of a writer that was killed. Called on one rank.
fn remove_leftovers(name: &Path, unpublished: &Path, exclusive: bool) -> Result<(), ArrayError> {
    if exclusive && File::exists(name)? {
        return Err(ArrayError::Exists { what: "file", name: name.display().to_string() });
    }
    publish::remove_unpublished(unpublished)
}

/// A new dataset id: 32 hexadecimal digits.
fn random_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mixed = (std::process::id(), now.unwrap_or_default());
    // Every `RandomState` has random keys.
    let half = || RandomState::new().hash_one(mixed);
    format!("{:016x}{:016x}", half(), half())
}

/// Broadcasts a text of rank 0. Collective.
pub(super) fn broadcast_text(
    comm: &dyn Comm,
    text: impl FnOnce() -> Result<String, ArrayError>,
) -> Result<String, ArrayError> {
    let text = if comm.rank() == 0 { text() } else { Ok(String::new()) };
    let mut bytes = agree_among(comm, text)?.into_bytes();
    comm.broadcast(0, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Ends the definition of a new dataset: creates its partitions, if a variable is divided.
/// Collective.
pub(crate) fn create(state: FileState, options: &Options) -> Result<Created, ArrayError> {
    match plan(&state, options) {
        Ok(Some(planned)) => {
            create_files(state, options, planned).map(|data| Created::Partitioned(data.into()))
        }
        Ok(None) => Ok(Created::Plain(state.into())),
        Err(error) => {
            // All ranks have the error, and only an empty file was created.
            let FileState { comm, file, path, .. } = state;
            let _ = file.close();
            if comm.rank() == 0 {
                let _ = File::delete(&path);
            }
            Err(error)
        }
    }
}

/// The files to be created.
struct CreationPlan {
    scheme: PartitionScheme,
    table: PartitionTable,
    name: PathBuf,
    /// Inode and birth time of the master.
    file_identity: Option<String>,
    targets: Vec<StorageTarget>,
}

/// Selects targets, divides the variables, and names the files. Collective.
fn plan(state: &FileState, options: &Options) -> Result<Option<CreationPlan>, ArrayError> {
    let comm = Arc::clone(&state.comm);
    let name = state.publish_as.clone().unwrap_or_else(|| state.path.clone());
    let candidates = CandidateTargets::of_rank_0(comm.as_ref(), &name, options)?;
    if state.header.format.is_hdf5() {
        agree_among(comm.as_ref(), netcdf4::check_layouts(&state.header, options))?;
    }
    let settings = &options.partitioning;
    let scheme = |count: u64| {
        let scheme = PartitionScheme::new(&state.header, settings, settings.count.unwrap_or(count));
        agree_among(comm.as_ref(), scheme)
    };
    // The targets are not probed for a dataset without divided variables.
    if scheme(candidates.max_partitions())?.is_none() {
        return Ok(None);
    }
    let SelectedTargets { targets, count, probe } = candidates.select(&comm, options)?;
    let Some(scheme) = scheme(count)? else { return Ok(None) };
    let named = broadcast_text(comm.as_ref(), || {
        let id = random_id();
        // The temporary file becomes the master when it is published.
        let file_identity = ownership::file_identity(&state.path).unwrap_or_default();
        let mut lines = vec![file_identity, id.clone()];
        for k in 0..scheme.count {
            let target = &targets[k % targets.len().max(1)];
            lines.push(listed(&name, &target.path(&part_name(&name, k, &id)))?);
        }
        Ok(lines.join("\n"))
    })?;
    let mut lines = named.lines().map(str::to_owned);
    let file_identity = lines.next().filter(|file_identity| !file_identity.is_empty());
    let table = PartitionTable {
        id: lines.next().unwrap_or_default(),
        generation: 1,
        master: file_name(&name),
        files: lines.collect(),
        sizes: vec![PartitionSize::default(); scheme.count],
        probe,
    };
    Ok(Some(CreationPlan { scheme, table, name, file_identity, targets }))
}

/// Creates the files of a new dataset. Collective.
fn create_files(
    mut state: FileState,
    options: &Options,
    planned: CreationPlan,
) -> Result<Dataset, ArrayError> {
    let CreationPlan { scheme, table, name, file_identity, targets } = planned;
    let comm = Arc::clone(&state.comm);
    let groups = Groups { ranks: comm.size(), partitions: scheme.count };
    let group = group_of(comm.as_ref(), groups)?;
    let files: Vec<PathBuf> = table.files.iter().map(|file| resolved(&name, file)).collect();
    let master_reference = |file: &PathBuf| {
        Some(MasterReference {
            master: ownership::reference_to_master(&name, file),
            file: file_identity.clone(),
        })
    };
    let mut partitioned = Partitioned {
        logical: state.header.clone(),
        master: state.header.clone(),
        master_references: files.iter().map(master_reference).collect(),
        stale_coordinates: true,
        files,
        filled: state.filled.clone(),
        scheme,
        table,
        foreign: false,
        record_info: RecordInfo::default(),
        indices: Vec::new(),
        rank: comm.rank(),
        groups,
        group,
        own: Vec::new(),
        independent: std::collections::BTreeMap::new(),
        deferred: super::PieceLog::default(),
        decided: Vec::new(),
        commits: Vec::new(),
        changes: 0,
        shared_places: Vec::new(),
        has_unshared_places: false,
        infos: Vec::new(),
        costs: PartitionStats::default(),
    };
    partitioned.commits = vec![0; partitioned.files.len()];
    partitioned.places_are_committed();
    // The master lists the partitions before they are created, so that they can be found after a
    // kill.
    let created = if state.header.format.is_hdf5() {
        partitioned.define_master(&mut state, options).and_then(|()| {
            let hints = state.file.hints().clone();
            let created = partitioned.create_own(options, &hints, &targets);
            state.agree(created)
        })
    } else {
        partitioned.create_classic(&mut state, options, &targets)
    };
    if let Err(error) = created {
        // All ranks have the error; the files are removed as far as possible.
        let path = state.path.clone();
        let closed = state.file.close().map_err(ArrayError::from);
        let _ = partitioned.abort(comm.as_ref(), closed, Some(&path));
        return Err(error);
    }
    partitioned.update_logical(&state.header);
    partitioned.update_derived();
    Ok(Dataset::with(state, options.clone(), Some(Box::new(partitioned))))
}

/// The communicator of this rank's group, if the group has several ranks. Collective.
pub(super) fn group_of(
    comm: &dyn Comm,
    groups: Groups,
) -> Result<Option<Arc<dyn Comm>>, ArrayError> {
    if groups.are_single() {
        return Ok(None);
    }
    let rank = comm.rank();
    Ok(comm.split(Some(groups.of_rank(rank) as u64), rank as u64)?)
}

impl Partitioned {
    /// Creates classic files. Collective.
    fn create_classic(
        &mut self,
        state: &mut FileState,
        options: &Options,
        targets: &[StorageTarget],
    ) -> Result<(), ArrayError> {
        self.arrange_master(state, None)?;
        state.on_rank_0(FileState::write_header)?;
        let hints = state.file.hints().clone();
        let created = self.create_own(options, &hints, targets);
        state.agree(created)?;
        self.share_sizes(Arc::clone(&state.comm).as_ref())?;
        self.arrange_master(state, None)?;
        state.write_definition(None)
    }

    /// Applies the definitions to the master, a netCDF-4 file. Collective.
    pub(super) fn define_master(
        &self,
        state: &mut FileState,
        options: &Options,
    ) -> Result<(), ArrayError> {
        let header = headers::master(&self.logical, &self.scheme, &self.table);
        state.header = state.agree(header)?;
        self.mask_filled(state);
        netcdf4::define(state, options)
    }

    /// The communicator with which a partition of this rank's group is opened. A rank that is a
    /// group by itself has one for each partition, since its partitions are accessed by threads at
    /// the same time.
    pub(super) fn comm_of_partition(&self) -> Arc<dyn Comm> {
        self.group.as_ref().map_or_else(alone, Arc::clone)
    }

    /// The master that partition `k` refers to. An existing partition keeps its reference:
    /// redefining a copy of a master does not make the copy the owner.
    fn master_reference(&self, k: usize) -> Option<MasterReference> {
        if let Some(master_reference) = self.master_references.get(k) {
            return master_reference.clone();
        }
        let part = self.own.iter().find(|part| part.index == k)?;
        headers::partition_identity(&part.data.state.header)?.master_reference
    }

    /// Sets the header of the master, derived from the definitions. Collective.
    pub(super) fn arrange_master(
        &self,
        state: &mut FileState,
        before: Option<&Header>,
    ) -> Result<(), ArrayError> {
        let arranged =
            headers::master(&self.logical, &self.scheme, &self.table).and_then(|mut it| {
                it.arrange(&state.alignment, before)?;
                Ok(it)
            });
        state.header = state.agree(arranged)?;
        self.mask_filled(state);
        Ok(())
    }

    /// Copies the offsets of variables in the master to the logical header.
    pub(super) fn update_logical(&mut self, master: &Header) {
        let each = self.logical.variables.iter_mut().zip(&master.variables);
        for ((variable, own), division) in each.zip(&self.scheme.variables) {
            if division.is_some() {
                (variable.begin, variable.stated_size) = (0, 0);
            } else {
                (variable.begin, variable.stated_size) = (own.begin, own.stated_size);
                variable.storage.clone_from(&own.storage);
            }
        }
    }

    /// The header of a partition with its layout.
    pub(super) fn partition_header(
        &self,
        k: usize,
        alignment: &Alignment,
        before: Option<&Header>,
    ) -> Result<Header, ArrayError> {
        let mut identity = self.table.identity_of(k, self.master_reference(k));
        identity.size = PartitionSize::default();
        if self.logical.format.is_hdf5() {
            let header = headers::partition(&self.logical, &self.scheme, k, &identity)?;
            return Ok(match before {
                Some(before) => in_order_of_file(header, before),
                None => header,
            });
        }
        loop {
            let mut header = headers::partition(&self.logical, &self.scheme, k, &identity)?;
            header.arrange(alignment, before)?;
            // The size is part of the header, and a larger number may need a larger type: it never
            // decreases.
            let size = headers::size_of(&header).unwrap_or(identity.size);
            if size == identity.size {
                return Ok(header);
            }
            identity.size = size;
        }
    }

    /// Creates the partitions of this rank's group. Collective in the group.
    fn create_own(
        &mut self,
        options: &Options,
        hints: &Hints,
        targets: &[StorageTarget],
    ) -> Result<(), ArrayError> {
        let own = self.groups.partitions_of(self.groups.of_rank(self.rank));
        let mode = Mode::CREATE | Mode::EXCLUSIVE | Mode::READ | Mode::WRITE;
        for k in own {
            let path = self.files[k].clone();
            let hints = targets[k % targets.len().max(1)].hints(hints);
            let file = File::open(&self.comm_of_partition(), &path, mode, &hints)?;
            let options = Options { hints, ..options.clone() };
            let empty = Header::new(self.logical.format);
            let state = FileState::new(file, path, empty, &options, OpenMode::ReadWrite)?;
            self.own.push(OpenPartition::new(k, Dataset::new(state, options)));
            let Some(OpenPartition { data, .. }) = self.own.last() else { continue };
            let header = self.partition_header(k, &data.state.alignment, None);
            let header = data.state.agree(header)?;
            let filled = self.filled_in(k);
            if let Some(OpenPartition { data, .. }) = self.own.last_mut() {
                data.state.header = header;
                data.state.filled = filled;
                if data.state.header.format.is_hdf5() {
                    netcdf4::define(&mut data.state, &data.options)?;
                } else {
                    data.state.write_definition(None)?;
                }
                data.state.update_record_info();
            }
        }
        Ok(())
    }

    /// Makes the sizes of all partitions known to all ranks. Collective.
    pub(super) fn share_sizes(&mut self, comm: &dyn Comm) -> Result<(), ArrayError> {
        let mut own = Vec::new();
        if self.is_first() {
            for part in &self.own {
                let size = headers::size_of(&part.data.state.header).unwrap_or_default();
                let PartitionSize { fixed_end, record_size } = size;
                own.extend(
                    [part.index as u64, fixed_end, record_size]
                        .iter()
                        .flat_map(|n| n.to_le_bytes()),
                );
            }
        }
        let all = comm.allgather(&own)?.concat();
        let (words, _) = all.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
        for &[k, fixed_end, record_size] in words.as_chunks::<3>().0 {
            if let Some(size) = self.table.sizes.get_mut(k as usize) {
                *size = PartitionSize { fixed_end, record_size };
            }
        }
        Ok(())
    }
}
