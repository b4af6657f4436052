//! Commits: the state of the plan becomes the state of the file.
//!
//! Data are written before, by all ranks. Rank 0 writes the new metadata beside the old ones, and
//! the superblock last; every rank has computed the same steps. At each moment the file is in the
//! state of the last commit or of the one before.
//!
//! A commit of several files as one is in two parts: all files are prepared before the superblock
//! of any of them is written ([`prepare`], [`complete`]).

use striate_hdf5::write::CommitStep;

use super::hdf5_error;
use crate::ArrayError;
use crate::file_state::{Durability, FileState};

/// States that the file keeps at most while none of them is known to be on stable storage.
const MOST_STATES: usize = 4;

/// Bytes of the superblock that a commit writes.
pub(crate) const SUPERBLOCK: usize = 48;

/// A commit that lacks its superblock.
#[derive(Debug)]
pub(crate) struct PreparedCommit {
    /// `None` if nothing has changed but data in place.
    superblock: Option<Vec<u8>>,
    durability: Durability,
}

impl PreparedCommit {
    /// What is to be written at the start of the file.
    pub(crate) fn superblock(&self) -> Option<&[u8]> {
        self.superblock.as_deref()
    }
}

/// Whether the next commit has to be durable, because the space of earlier states is needed again.
pub(crate) fn is_due(state: &FileState) -> bool {
    state.netcdf4.as_ref().is_some_and(|netcdf4| netcdf4.plan.states() >= MOST_STATES)
}

/// Brings the file to the state of the plan. With [`Durability::Durable`] each state is on stable
/// storage before the next one begins. Otherwise the space of those before is not used again, since
/// one of them may be what a power cut leaves. Collective.
pub(crate) fn finish(state: &mut FileState, durability: Durability) -> Result<(), ArrayError> {
    let prepared = prepare(state, durability)?;
    complete(state, &prepared)
}

/// Writes all that a commit consists of, except for the superblock. Collective.
pub(crate) fn prepare(
    state: &mut FileState,
    durability: Durability,
) -> Result<PreparedCommit, ArrayError> {
    // No rank continues before the writes of all ranks are done.
    state.agree(Ok(()))?;
    let durability = if is_due(state) { Durability::Durable } else { durability };
    let mut prepared = PreparedCommit { superblock: None, durability };
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(prepared) };
    let commit = netcdf4.plan.commit().map_err(|error| hdf5_error(&state.file, error))?;
    for step in commit.steps {
        match step {
            // The last one; the sync that follows it is part of the completion.
            CommitStep::Write { address, bytes } if address.0 == 0 => {
                prepared.superblock = Some(bytes);
                break;
            }
            CommitStep::Write { address, bytes } => state.on_rank_0(|state| {
                state.file.write_at(address.0, bytes.as_slice())?;
                Ok(())
            })?,
            CommitStep::Extend { length } => state.on_rank_0(|state| {
                if state.file.size()? < length {
                    state.file.write_at(length - 1, &[0])?;
                }
                Ok(())
            })?,
            CommitStep::Sync => sync(state, durability)?,
        }
    }
    Ok(prepared)
}

/// Writes the superblock of a commit. Collective.
pub(crate) fn complete(state: &mut FileState, prepared: &PreparedCommit) -> Result<(), ArrayError> {
    if let Some(superblock) = &prepared.superblock {
        state.on_rank_0(|state| {
            state.file.write_at(0, superblock.as_slice())?;
            Ok(())
        })?;
        sync(state, prepared.durability)?;
    }
    if let Some(netcdf4) = &mut state.netcdf4
        && prepared.durability == Durability::Durable
    {
        netcdf4.plan.committed();
    }
    state.unfinished = false;
    Ok(())
}

fn sync(state: &mut FileState, durability: Durability) -> Result<(), ArrayError> {
    let done = match durability {
        Durability::Durable => state.file.sync(),
        Durability::Buffered => state.file.flush(),
    };
    Ok(done?)
}
