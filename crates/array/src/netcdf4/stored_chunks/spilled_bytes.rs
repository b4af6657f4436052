//! Bytes of one rank that wait in the file until all ranks meet: in space that the rank takes alone
//! ([`striate_hdf5::write::Arenas`]).

use super::super::hdf5_error;
use super::blocks::write_blocks;
use crate::ArrayError;
use crate::file_state::FileState;

/// Sets where the rank takes space, if it has not taken any since all ranks met.
pub(super) fn place_arenas(state: &mut FileState) -> Result<(), ArrayError> {
    let (rank, ranks) = (state.comm.rank() as u64, state.comm.size() as u64);
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(()) };
    if !netcdf4.deferred.has_arenas() {
        let arenas = netcdf4.plan.arenas(netcdf4.arena_bytes(), ranks);
        let arenas = arenas.map_err(|error| hdf5_error(&state.file, error))?;
        netcdf4.deferred.space.place(arenas, rank);
        for (address, bytes) in netcdf4.plan.free_share(rank, ranks) {
            netcdf4.deferred.space.free(address, bytes);
        }
    }
    Ok(())
}

/// Writes bytes to the rank's arenas; returns addresses and lengths. Independent.
pub(crate) fn spill_bytes(
    state: &mut FileState,
    bytes: &[u8],
) -> Result<Vec<(u64, u64)>, ArrayError> {
    place_arenas(state)?;
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(Vec::new()) };
    let most = netcdf4.arena_bytes() as usize;
    let mut extents: Vec<(u64, u64)> = Vec::new();
    let mut written = Ok(());
    for block in bytes.chunks(most) {
        match netcdf4.deferred.space.take(1, block.len() as u64) {
            // No block is larger than an arena.
            Ok(address) => extents.push((address.unwrap_or_default(), block.len() as u64)),
            Err(error) => {
                written = Err(hdf5_error(&state.file, error));
                break;
            }
        }
    }
    if written.is_ok() {
        let blocks = extents.iter().zip(bytes.chunks(most));
        let blocks = blocks.map(|(&(address, _), block)| (address, block)).collect();
        written = write_blocks(state, blocks);
    }
    match written {
        Ok(()) => Ok(extents),
        Err(error) => {
            free_spilled(state, extents);
            Err(error)
        }
    }
}

/// Reads what [`spill_bytes`] wrote.
pub(crate) fn read_spilled(
    state: &mut FileState,
    extents: &[(u64, u64)],
) -> Result<Vec<u8>, ArrayError> {
    let mut bytes = Vec::new();
    for &(address, len) in extents {
        let at = bytes.len();
        bytes.resize(at + len as usize, 0);
        let got = state.file.read_at(address, &mut bytes[at..])?;
        if got < len {
            let what = "independent writes that wait in the file".into();
            let reason = format!("{} ends before address {address} + {len}", state.file.name());
            return Err(ArrayError::Definition { what, reason });
        }
    }
    Ok(bytes)
}

/// Gives back space of [`spill_bytes`].
pub(crate) fn free_spilled(state: &mut FileState, extents: impl IntoIterator<Item = (u64, u64)>) {
    if let Some(netcdf4) = &mut state.netcdf4 {
        for (address, len) in extents {
            netcdf4.deferred.space.free(address, len);
        }
    }
}
