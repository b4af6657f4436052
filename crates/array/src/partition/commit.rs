//! Commits of partitioned netCDF-4 datasets: all files get from one state to the next as one.
//!
//! Each file changes its state with its superblock. So all partitions write what is new except for
//! their superblocks; these go, with those that they replace, into an attribute of the master
//! ([`DecidedCommit`]); the commit of the master decides; then the partitions get their
//! superblocks. A writer that is killed before the decision leaves the old state in all files. If
//! it is killed later, whoever opens the dataset finds partitions with the superblocks that are to
//! be replaced: a writer replaces them, a reader uses the new ones in their place.

use std::path::Path;

use striate_comm::alone;
use striate_file::{File, Mode};

use super::dataset_files::contiguous_hints;
use super::headers::{self, COMMITS, find};
use super::partition_io::for_each_partition;
use super::{OpenPartition, Partitioned};
use crate::file_state::{Durability, FileState, agree_among};
use crate::format::{Attribute, Header, Values};
use crate::netcdf4::{self, SUPERBLOCK, Superblock};
use crate::{ArrayError, Dataset};

/// The superblock of a partition that the commit of the master has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecidedCommit {
    partition: u32,
    before: Superblock,
    after: Superblock,
}

/// Bytes of one in the attribute.
const ENCODED: usize = 4 + 2 * SUPERBLOCK;

impl DecidedCommit {
    fn encode(&self) -> Vec<u8> {
        [self.partition.to_le_bytes().as_slice(), &self.before, &self.after].concat()
    }

    fn decode(bytes: &[u8; ENCODED]) -> Option<Self> {
        let (partition, rest) = bytes.split_first_chunk()?;
        let (before, after) = rest.split_first_chunk()?;
        let partition = u32::from_le_bytes(*partition);
        Some(Self { partition, before: *before, after: *after.first_chunk()? })
    }

    /// Those of the last commit, as the header of the master has them.
    pub(super) fn all_of(master: &Header) -> Vec<Self> {
        match find(&master.attributes, COMMITS) {
            Some(Values::Char(text)) => Self::all_in(text).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Those in the text of the attribute: hexadecimal digits.
    fn all_in(text: &[u8]) -> Option<Vec<Self>> {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? * 16 + digit(*low)?) as u8);
        let bytes = text.as_chunks().0.iter().map(byte).collect::<Option<Vec<u8>>>()?;
        Some(bytes.as_chunks().0.iter().filter_map(Self::decode).collect())
    }

    /// The superblock that a partition is to have, if it has the one before. Called on one rank.
    fn missing_from(&self, file: &mut File) -> Result<Option<Superblock>, ArrayError> {
        let mut found = [0; SUPERBLOCK];
        let got = file.read_at(0, found.as_mut_slice())?;
        Ok((got == SUPERBLOCK as u64 && found == self.before).then_some(self.after))
    }
}

fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    let digit = |number: u8| char::from_digit(number.into(), 16).map_or(b'0', |digit| digit as u8);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The superblock that a partition is to have according to its master, if it has another one. It is
/// written if the file may be. Collective; only rank 0 gets it.
pub(super) fn complete_commit(
    file: &mut File,
    decided: &[DecidedCommit],
    partition: usize,
    is_writable: bool,
) -> Result<Option<Superblock>, ArrayError> {
    let Some(decided) = decided.iter().find(|one| one.partition as usize == partition) else {
        return Ok(None);
    };
    let comm = std::sync::Arc::clone(file.comm());
    let mut completed = || {
        let superblock = decided.missing_from(file)?;
        if let Some(superblock) = &superblock
            && is_writable
        {
            file.write_at(0, superblock.as_slice())?;
            file.flush()?;
        }
        Ok(superblock)
    };
    let completed = if comm.rank() == 0 { completed() } else { Ok(None) };
    let completed = agree_among(comm.as_ref(), completed)?;
    if is_writable {
        file.sync()?;
    }
    Ok(completed)
}

/// Completes the last commit of a dataset in partitions, by their numbers. Called on one rank.
pub(super) fn complete_commits<'f>(
    master: &Header,
    files: impl Iterator<Item = (usize, &'f Path)>,
) -> Result<(), ArrayError> {
    let decided = DecidedCommit::all_of(master);
    for (k, file) in files {
        if decided.iter().any(|one| one.partition as usize == k) && File::exists(file)? {
            let mode = Mode::READ | Mode::WRITE;
            let mut opened = File::open(&alone(), file, mode, &contiguous_hints())?;
            complete_commit(&mut opened, &decided, k, true)?;
            opened.close()?;
        }
    }
    Ok(())
}

impl Dataset {
    /// Whether it has partitions that are netCDF-4 files.
    pub(crate) const fn has_netcdf4_partitions(&self) -> bool {
        self.partitioned.is_some() && self.state.netcdf4.is_some()
    }

    /// Commits a partitioned netCDF-4 dataset. Collective.
    pub(crate) fn commit_partitioned(&mut self, durability: Durability) -> Result<(), ArrayError> {
        let Some(partitioned) = &mut self.partitioned else { return Ok(()) };
        let state = &mut self.state;
        let mut own = Ok(());
        if durability == Durability::Durable {
            // Independent writes of this rank.
            for handle in partitioned.independent.values_mut() {
                own = own.and(handle.data.state.file.sync().map_err(ArrayError::from));
            }
        }
        // If one file has to be on stable storage before its space is used again, all have to.
        let states = partitioned.own.iter().map(|part| &part.data.state);
        let is_due = states.chain([&*state]).any(netcdf4::is_due);
        let ((), [is_due]) = state.agree_with_max(own, [u64::from(is_due)])?;
        let durability = if is_due > 0 { Durability::Durable } else { durability };

        let prepared = partitioned.prepare_own(durability);
        let decided = prepared.and_then(|()| partitioned.decided_of_own());
        let decided = state.agree(decided)?;
        let all = state.comm.allgather(&decided.concat())?.concat();
        let mut has_changed = headers::set_lengths(&mut state.header, &partitioned.logical)?;
        if !all.is_empty() {
            has_changed = true;
            let text = hexadecimal(&all);
            let attributes = &mut state.header.attributes;
            attributes.retain(|attribute| attribute.name != COMMITS);
            attributes.push(Attribute { name: COMMITS.into(), values: Values::Char(text) });
        }
        if has_changed {
            let written = netcdf4::write_attributes(state);
            state.agree(written)?;
        }
        state.finish(durability)?;
        // A new dataset is deleted if it is aborted before it has its name.
        state.unfinished = state.publish_as.is_some();
        let completed = partitioned.complete_own();
        state.agree(completed)?;
        partitioned.committed(&all);
        Ok(())
    }
}

impl Partitioned {
    /// Prepares the commits of this rank's partitions. Collective in the group.
    fn prepare_own(&mut self, durability: Durability) -> Result<(), ArrayError> {
        let jobs = self.own.iter_mut().map(|part| (part, ())).collect();
        for_each_partition(jobs, |part, ()| {
            part.prepared = Some(netcdf4::prepare(&mut part.data.state, durability)?);
            Ok(())
        })
    }

    /// The superblocks of this rank's partitions, on the first rank of the group.
    fn decided_of_own(&mut self) -> Result<Vec<Vec<u8>>, ArrayError> {
        if !self.is_first() {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for OpenPartition { index, data, prepared } in &mut self.own {
            let superblock = prepared.as_ref().and_then(|prepared| prepared.superblock());
            let Some(&after) = superblock.and_then(|superblock| superblock.first_chunk()) else {
                continue;
            };
            let mut before = [0; SUPERBLOCK];
            data.state.file.read_at(0, before.as_mut_slice())?;
            all.push(DecidedCommit { partition: *index as u32, before, after }.encode());
        }
        Ok(all)
    }

    /// Completes the commits of this rank's partitions. Collective in the group.
    fn complete_own(&mut self) -> Result<(), ArrayError> {
        let jobs = self.own.iter_mut().map(|part| (part, ())).collect();
        for_each_partition(jobs, |part, ()| match part.prepared.take() {
            Some(prepared) => netcdf4::complete(&mut part.data.state, &prepared),
            None => Ok(()),
        })
    }

    /// Notes which partitions have a new state, of which other ranks can read now.
    fn committed(&mut self, decided: &[u8]) {
        self.changes += 1;
        self.places_are_committed();
        for one in decided.as_chunks().0.iter().filter_map(DecidedCommit::decode) {
            if let Some(commits) = self.commits.get_mut(one.partition as usize) {
                *commits += 1;
            }
        }
    }

    /// The unlimited dimensions that variables have.
    pub(crate) fn unlimited(&self) -> Vec<u32> {
        let used = |id: &u32| self.logical.variables.iter().any(|it| it.dimensions.contains(id));
        let all = (0..).zip(&self.logical.dimensions);
        let unlimited = all.filter(|(_, dimension)| dimension.is_unlimited()).map(|(id, _)| id);
        unlimited.filter(used).collect()
    }

    /// Sets the lengths of unlimited dimensions in the partitions of this rank's group. Collective
    /// in the group.
    pub(crate) fn grow_to(&mut self, lengths: &[(u32, u64)]) -> Result<(), ArrayError> {
        let is_longer = |&&(id, len): &&(u32, u64)| self.logical.dimensions[id as usize].len < len;
        let new: Vec<(u32, u64)> = lengths.iter().filter(is_longer).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.places_have_changed();
        self.stale_coordinates = true;
        for &(id, len) in &new {
            self.logical.dimensions[id as usize].len = len;
        }
        let Self { own, logical, .. } = self;
        let jobs = own.iter_mut().map(|part| (part, ())).collect();
        for_each_partition(jobs, |part, ()| {
            let state: &mut FileState = &mut part.data.state;
            let own = lengths_in(&state.header, logical, &new);
            state.grow_to(&own)
        })
    }
}

/// Lengths of dimensions of the dataset, as dimensions of a partition that has them.
pub(super) fn lengths_in(
    partition: &Header,
    logical: &Header,
    lengths: &[(u32, u64)],
) -> Vec<(u32, u64)> {
    let in_partition = |&(id, len): &(u32, u64)| {
        let whole = &logical.dimensions[id as usize];
        let path = logical.path(whole.group, &whole.name);
        let mut all = partition.dimensions.iter();
        let at = all.position(|it| partition.path(it.group, &it.name) == path)?;
        Some((at as u32, len))
    };
    lengths.iter().filter_map(in_partition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn decided_commits_come_back_from_the_attribute() {
        let one = DecidedCommit { partition: 7, before: [1; SUPERBLOCK], after: [200; SUPERBLOCK] };
        let two = DecidedCommit { partition: 70_000, ..one };
        let bytes = [one.encode(), two.encode()].concat();
        let text = hexadecimal(&bytes);
        let mut header = Header::new(Format::Netcdf4);
        assert_eq!(DecidedCommit::all_of(&header), []);
        header.attributes.push(Attribute { name: COMMITS.into(), values: Values::Char(text) });
        assert_eq!(DecidedCommit::all_of(&header), [one, two]);
        // A cut attribute has fewer, and none is garbled.
        if let Values::Char(text) = &mut header.attributes[0].values {
            text.truncate(2 * ENCODED + 50);
        }
        assert_eq!(DecidedCommit::all_of(&header), [one]);
    }
}
