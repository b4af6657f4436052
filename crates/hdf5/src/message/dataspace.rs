//! Dataspace message, versions 1 and 2.

use crate::cursor::Cursor;
use crate::model::{Dataspace, Dimension};
use crate::{Reason, Result};

/// The most dimensions that the HDF5 library allows.
const HIGHEST_RANK: u8 = 32;

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Dataspace> {
    let version = cursor.version(1..=2)?;
    let rank = cursor.u8()?;
    if rank > HIGHEST_RANK {
        let (found, limit) = (u64::from(rank), u64::from(HIGHEST_RANK));
        return Err(cursor.error(Reason::Limit { what: "dimensions", found, limit }));
    }
    let flags = cursor.u8()?;
    let kind = cursor.u8()?;
    if version == 1 {
        cursor.skip(4)?;
    } else {
        match (kind, rank) {
            (2, _) => return Ok(Dataspace::Null),
            (0, 0) | (1, _) => {}
            _ => return Err(cursor.invalid("a scalar with dimensions, or an unknown kind")),
        }
    }
    // Up to HDF5 1.6 there was no other way to say it.
    if rank == 0 {
        return Ok(Dataspace::Scalar);
    }
    let mut dimensions = Vec::with_capacity(usize::from(rank));
    for _ in 0..rank {
        dimensions.push(Dimension::fixed(cursor.length()?));
    }
    if flags & 1 != 0 {
        for dimension in &mut dimensions {
            dimension.maximum = cursor.maximum()?;
            if dimension.maximum.is_some_and(|maximum| maximum < dimension.size) {
                return Err(cursor.invalid("a dimension is longer than its maximum"));
            }
        }
    }
    Ok(Dataspace::Simple(dimensions))
}
