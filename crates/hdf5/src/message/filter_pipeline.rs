//! Filter pipeline message, versions 1 and 2.

use crate::cursor::{Cursor, until_zero};
use crate::model::{Filter, Name};
use crate::{Reason, Result};

/// Filters below this number have no name in version 2.
const FIRST_REGISTERED: u16 = 256;
/// The most filters that the HDF5 library allows: a filter mask has as many bits.
const MOST: u8 = 32;

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Vec<Filter>> {
    let version = cursor.version(1..=2)?;
    let count = cursor.u8()?;
    if count > MOST {
        let (found, limit) = (u64::from(count), u64::from(MOST));
        return Err(cursor.error(Reason::Limit { what: "filters", found, limit }));
    }
    if version == 1 {
        cursor.skip(6)?;
    }
    (0..count).map(|_| filter(cursor, version)).collect()
}

fn filter(cursor: &mut Cursor<'_>, version: u8) -> Result<Filter> {
    let id = cursor.u16()?;
    let named = version == 1 || id >= FIRST_REGISTERED;
    let name_length = if named { usize::from(cursor.u16()?) } else { 0 };
    let optional = cursor.u16()? & 1 != 0;
    let count = cursor.u16()?;
    let stored = if version == 1 { name_length.next_multiple_of(8) } else { name_length };
    let name = Name::from(until_zero(cursor.take(stored)?));
    let parameters = (0..count).map(|_| cursor.u32()).collect::<Result<_>>()?;
    if version == 1 && count % 2 == 1 {
        cursor.skip(4)?;
    }
    Ok(Filter { id, name, optional, parameters })
}
