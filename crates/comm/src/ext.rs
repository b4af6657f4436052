//! [`CommExt`]: calls that are made of those of [`Comm`]; and agreement on errors.

use crate::comm::{Comm, Reduction};
use crate::error::CommError;

/// Typed calls for single numbers.
pub trait CommExt: Comm {
    /// Combines one value of each rank. Collective.
    fn reduce_u64(&self, with: Reduction, value: u64) -> Result<u64, CommError> {
        let mut values = [value];
        self.allreduce_u64(with, &mut values)?;
        Ok(values[0])
    }

    /// Gives every rank the numbers of all, in order of rank. Collective.
    fn allgather_u64(&self, value: u64) -> Result<Vec<u64>, CommError> {
        let all = self.allgather(&value.to_le_bytes())?;
        all.iter()
            .map(|bytes| {
                let bytes = bytes.as_slice().try_into().map_err(|_| CommError::Mismatch {
                    call: "allgather_u64",
                    detail: format!("a number of {} bytes", bytes.len()),
                })?;
                Ok(u64::from_le_bytes(bytes))
            })
            .collect()
    }

    /// Gives every rank the number of `root`. Collective.
    fn broadcast_u64(&self, root: usize, value: u64) -> Result<u64, CommError> {
        let mut bytes = value.to_le_bytes().to_vec();
        self.broadcast(root, &mut bytes)?;
        let bytes = bytes.as_slice().try_into().map_err(|_| CommError::Mismatch {
            call: "broadcast_u64",
            detail: format!("a number of {} bytes", bytes.len()),
        })?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl<C: Comm + ?Sized> CommExt for C {}

/// The bytes of the lowest rank that has any, and which rank that is. Collective.
///
/// If no rank has any, it costs one reduction of one number.
pub fn first_of(
    comm: &dyn Comm,
    mine: Option<Vec<u8>>,
) -> Result<Option<(usize, Vec<u8>)>, CommError> {
    let rank = if mine.is_some() { comm.rank() as u64 } else { u64::MAX };
    let first = comm.reduce_u64(Reduction::Min, rank)?;
    if first == u64::MAX {
        return Ok(None);
    }
    let mut bytes = mine.unwrap_or_default();
    comm.broadcast(first as usize, &mut bytes)?;
    Ok(Some((first as usize, bytes)))
}

/// Makes an error of one rank an error of all. Collective.
///
/// If a rank has an error, all ranks return [`CommError::RankFailed`] with the lowest such rank and
/// its reason; otherwise each returns its own value. Without errors it costs one reduction of one
/// number.
pub fn agree<T>(comm: &dyn Comm, local: Result<T, String>) -> Result<T, CommError> {
    let (value, reason) = match local {
        Ok(value) => (Some(value), None),
        Err(reason) => (None, Some(reason.into_bytes())),
    };
    match (first_of(comm, reason)?, value) {
        (None, Some(value)) => Ok(value),
        (first, _) => {
            // A rank without a value has a reason, so there is a first one.
            let (rank, reason) = first.unwrap_or_default();
            Err(CommError::RankFailed { rank, reason: String::from_utf8_lossy(&reason).into() })
        }
    }
}
