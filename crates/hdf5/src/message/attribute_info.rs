//! Attribute info message: where dense attributes are.

use crate::Result;
use crate::cursor::Cursor;
use crate::model::Address;

/// Where attributes are that are not in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeInfo {
    pub(crate) order_tracked: bool,
    /// A fractal heap of attribute messages.
    pub(crate) heap: Option<Address>,
    /// A version-2 B-tree with hashes of names.
    pub(crate) name_index: Option<Address>,
}

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<AttributeInfo> {
    cursor.version(0..=0)?;
    let flags = cursor.u8()?;
    if flags & 1 != 0 {
        cursor.skip(2)?;
    }
    let (heap, name_index) = (cursor.address()?, cursor.address()?);
    Ok(AttributeInfo { order_tracked: flags & 1 != 0, heap, name_index })
}
