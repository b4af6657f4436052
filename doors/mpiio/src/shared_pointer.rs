//! The pointer that all ranks share.

use std::ffi::c_int;

use striate_file::Seek;

use crate::constants::{self as mpi, MPI_Offset};
use crate::errors::{Failure, Outcome};
use crate::open::Open;

/// `MPI_File_seek_shared`. Collective.
pub(crate) fn seek(open: &mut Open, offset: MPI_Offset, whence: c_int) -> Outcome {
    let to = open.not_sequential().and_then(|()| open.no_split()).and_then(|()| match whence {
        mpi::SEEK_SET => match u64::try_from(offset) {
            Ok(offset) => Ok(Seek::Start(offset)),
            Err(_) => Err(Failure::new(mpi::ERR_ARG, "the position is negative")),
        },
        mpi::SEEK_CUR => Ok(Seek::Current(offset)),
        mpi::SEEK_END => Ok(Seek::End(offset)),
        _ => Err(Failure::new(mpi::ERR_ARG, "whence is none of MPI_SEEK_SET, _CUR, _END")),
    });
    let to = open.agreed(to)?;
    Ok(open.file.seek_shared(to)?)
}

/// `MPI_File_get_position_shared`.
pub(crate) fn position(open: &Open) -> Outcome<MPI_Offset> {
    open.not_sequential()?;
    Ok(open.file.position_shared()? as MPI_Offset)
}
