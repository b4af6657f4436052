//! Link info message: whether the order of links is tracked, and where dense links are.

use crate::Result;
use crate::cursor::Cursor;
use crate::model::Address;

/// Where the links of a new group are, if not in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkInfo {
    pub(crate) order_tracked: bool,
    /// A fractal heap of link messages.
    pub(crate) heap: Option<Address>,
    /// A version-2 B-tree with hashes of names.
    pub(crate) name_index: Option<Address>,
}

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<LinkInfo> {
    cursor.version(0..=0)?;
    let flags = cursor.u8()?;
    if flags & 1 != 0 {
        cursor.skip(8)?;
    }
    let (heap, name_index) = (cursor.address()?, cursor.address()?);
    Ok(LinkInfo { order_tracked: flags & 1 != 0, heap, name_index })
}
