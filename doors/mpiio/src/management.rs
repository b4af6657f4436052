//! Calls on files that move no data.

use std::ffi::c_int;

use crate::constants::{self as mpi, MPI_Info, MPI_Offset};
use crate::errors::{Failure, Outcome};
use crate::info;
use crate::open::Open;

fn length(size: MPI_Offset) -> Outcome<u64> {
    u64::try_from(size).map_err(|_| Failure::new(mpi::ERR_ARG, "the size is negative"))
}

fn resized(open: &mut Open, size: MPI_Offset) -> Outcome<u64> {
    let checked = open.not_sequential().and_then(|()| open.no_split()).and_then(|()| length(size));
    let len = open.agreed(checked)?;
    open.details.length = len;
    Ok(len)
}

/// `MPI_File_set_size`.
pub(crate) fn set_size(open: &mut Open, size: MPI_Offset) -> Outcome {
    let len = resized(open, size)?;
    Ok(open.file.set_size(len)?)
}

/// `MPI_File_preallocate`.
pub(crate) fn preallocate(open: &mut Open, size: MPI_Offset) -> Outcome {
    let len = resized(open, size)?;
    Ok(open.file.preallocate(len)?)
}

/// `MPI_File_get_size`.
pub(crate) fn size(open: &Open) -> Outcome<MPI_Offset> {
    Ok(open.file.size()? as MPI_Offset)
}

/// `MPI_File_seek`.
pub(crate) fn seek(open: &mut Open, offset: MPI_Offset, whence: c_int) -> Outcome {
    open.not_sequential()?;
    let before = Failure::new(mpi::ERR_ARG, "the position would lie before the start of the view");
    let position = match whence {
        mpi::SEEK_SET => u64::try_from(offset).map_err(|_| before)?,
        mpi::SEEK_CUR => open.file.position().checked_add_signed(offset).ok_or(before)?,
        mpi::SEEK_END => return Ok(open.file.seek_end(offset)?),
        _ => return Err(Failure::new(mpi::ERR_ARG, "whence is none of MPI_SEEK_SET, _CUR, _END")),
    };
    open.file.seek(position);
    Ok(())
}

/// `MPI_File_get_position`.
pub(crate) fn position(open: &Open) -> Outcome<MPI_Offset> {
    open.not_sequential()?;
    Ok(open.file.position() as MPI_Offset)
}

/// `MPI_File_set_info`.
///
/// # Safety
///
/// `raw` is as the function of MPI demands.
pub(crate) unsafe fn set_info(open: &mut Open, raw: MPI_Info) -> Outcome {
    // SAFETY: the caller's promise.
    let entries = unsafe { info::entries(raw) };
    let entries = open.agreed(entries)?;
    let hints = open.take_hints(entries);
    Ok(open.file.set_hints(hints.as_ref())?)
}

/// `MPI_File_get_info`.
pub(crate) fn get_info(open: &Open) -> Outcome<MPI_Info> {
    info::make(info::in_effect(&open.file, &open.given))
}

/// `MPI_File_set_atomicity`.
pub(crate) fn set_atomicity(open: &mut Open, atomic: c_int) -> Outcome {
    Ok(open.file.set_atomicity(atomic != 0)?)
}

/// `MPI_File_sync`.
pub(crate) fn sync(open: &mut Open) -> Outcome {
    Ok(open.file.sync()?)
}
