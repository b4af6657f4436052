//! Commits: the state of the plan becomes the state of the file.
//!
//! Data are written before, by all ranks. Rank 0 writes the new metadata beside the old ones, and
//! the superblock last; every rank has computed the same steps. At each moment the file is in the
//! state of the last commit or of the one before.

use striate_hdf5::write::CommitStep;

use super::hdf5_error;
use crate::ArrayError;
use crate::file_state::{Durability, FileState};

/// States that the file keeps at most while none of them is known to be on stable storage.
const MOST_STATES: usize = 4;

/// Brings the file to the state of the plan. With [`Durability::Durable`] each state is on stable
/// storage before the next one begins. Otherwise the space of those before is not used again, since
/// one of them may be what a power cut leaves. Collective.
pub(crate) fn finish(state: &mut FileState, durability: Durability) -> Result<(), ArrayError> {
    // No rank continues before the writes of all ranks are done.
    state.agree(Ok(()))?;
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(()) };
    let is_durable = durability == Durability::Durable || netcdf4.plan.states() >= MOST_STATES;
    let commit = netcdf4.plan.commit().map_err(|error| hdf5_error(&state.file, error))?;
    for step in commit.steps {
        match step {
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
            CommitStep::Sync if is_durable => state.file.sync()?,
            CommitStep::Sync => state.file.flush()?,
        }
    }
    if let Some(netcdf4) = &mut state.netcdf4
        && is_durable
    {
        netcdf4.plan.committed();
    }
    state.unfinished = false;
    Ok(())
}
