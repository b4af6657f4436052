//! Fill value messages: versions 1 to 3, and the one of old files.

use crate::Result;
use crate::cursor::Cursor;
use crate::model::{AllocationTime, Fill, FillTime, FillValue};

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    let version = cursor.version(1..=3)?;
    let (allocation, time, undefined, has_value);
    if version < 3 {
        (allocation, time) = (cursor.u8()?, cursor.u8()?);
        let defined = cursor.u8()? != 0;
        undefined = !defined;
        has_value = version == 1 || defined;
    } else {
        let flags = cursor.u8()?;
        (allocation, time) = (flags & 3, flags >> 2 & 3);
        (undefined, has_value) = (flags & 0x10 != 0, flags & 0x20 != 0);
    }
    let allocation = match allocation {
        0 => AllocationTime::Unspecified,
        1 => AllocationTime::Early,
        2 => AllocationTime::Late,
        3 => AllocationTime::Incremental,
        _ => return Err(cursor.invalid("unknown time of allocation")),
    };
    let time = match time {
        0 => FillTime::OnAllocation,
        1 => FillTime::Never,
        2 => FillTime::IfSet,
        _ => return Err(cursor.invalid("unknown time of filling")),
    };
    let value = if undefined {
        Fill::Undefined
    } else if has_value {
        sized(cursor)?
    } else {
        Fill::Default
    };
    Ok(FillValue { allocation, time, value })
}

/// The message of files before HDF5 1.6.
pub(crate) fn decode_old(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    Ok(FillValue { value: sized(cursor)?, ..FillValue::default() })
}

fn sized(cursor: &mut Cursor<'_>) -> Result<Fill> {
    let size = cursor.u32()?;
    if size == 0 {
        return Ok(Fill::Default);
    }
    Ok(Fill::Value(cursor.take(size as usize)?.to_vec()))
}
